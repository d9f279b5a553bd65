//! Which targets may be reached.
//!
//! A URL is judged when it is given, and the addresses that are connected to when it is used: names are resolved by this
//! module alone and only allowed addresses are handed on, so that a name which changes its address in between (DNS
//! rebinding) reaches nothing that a fixed address would not. No redirect is followed anywhere.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use penstock_config::Webhook;
use url::{Host, Url};

/// Longest URL that is taken.
const BYTES_MAX: usize = 2048;

/// A URL that deliveries may be sent to, as far as its text tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(Url);

/// Why a target is not reached.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not a URL of a kind that can be a target.
    #[error("a webhook is an absolute URL of at most {BYTES_MAX} bytes, without user, password and fragment")]
    NotATarget,
    /// Plain HTTP.
    #[error("a webhook begins with https:// (the setting webhook.allow_http allows http://)")]
    PlainHttp,
    /// An address that is not public.
    #[error("the webhook's address is private, loopback, link-local or reserved (webhook.allowed_networks)")]
    NotPublic,
}

impl Target {
    /// Reads a URL as far as it can be judged without settings.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let url = Url::parse(text).map_err(|_| TargetError::NotATarget)?;
        let is_http = matches!(url.scheme(), "http" | "https");
        let is_plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
        if text.len() > BYTES_MAX || url.as_str().len() > BYTES_MAX || !is_http || !is_plain || !url.has_host() {
            return Err(TargetError::NotATarget);
        }
        Ok(Self(url))
    }

    /// Judges scheme and, where the host is an address, the address. Asked when the URL is given and at each try.
    pub fn judge(&self, settings: &Webhook) -> Result<(), TargetError> {
        if self.0.scheme() != "https" && !settings.allow_http {
            return Err(TargetError::PlainHttp);
        }
        let address = match self.0.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) => return Ok(()),
            None => return Err(TargetError::NotATarget),
        };
        if may_reach(address, settings) { Ok(()) } else { Err(TargetError::NotPublic) }
    }

    /// The URL, normalised: ASCII.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Host and port: what a bound on simultaneous deliveries counts by.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", self.0.host_str().unwrap_or_default(), self.0.port_or_known_default().unwrap_or(0))
    }
}

/// Whether a connection to `address` may be opened.
#[must_use]
pub fn may_reach(address: IpAddr, settings: &Webhook) -> bool {
    let address = address.to_canonical();
    is_public(address) || settings.allowed_networks.iter().any(|network| network.contains(address))
}

/// Whether an address is one of the public internet. Everything reserved is not, whatever its purpose.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(matches!(a, 0 | 10 | 127 | 224..)
        || (a == 100 && (64..128).contains(&b))
        || (a == 169 && b == 254)
        || (a == 172 && (16..32).contains(&b))
        || (a == 192 && b == 0 && (c == 0 || c == 2))
        || (a == 192 && b == 88 && c == 99)
        || (a == 192 && b == 168)
        || (a == 198 && (18..20).contains(&b))
        || (a == 198 && b == 51 && c == 100)
        || (a == 203 && b == 0 && c == 113))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    let embedded = |at: usize| {
        let octets = address.octets();
        Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3])
    };
    match (a, b) {
        // Addresses that carry an IPv4 one: NAT64 and 6to4.
        (0x64, 0xff9b) if address.segments()[2..6] == [0; 4] => is_public_v4(embedded(12)),
        (0x2002, _) => is_public_v4(embedded(2)),
        // Protocol assignments with Teredo, documentation, and what is set aside for routers.
        (0x2001, 0..=0x1ff | 0xdb8) | (0x3fff, 0..=0xfff) => false,
        // Global unicast, and nothing else: loopback, mapped, unique local, link-local, multicast are outside of it.
        (0x2000..=0x3fff, _) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(allow_http: bool, networks: &[&str]) -> Webhook {
        let mut settings = penstock_config::load(None).unwrap().settings.webhook;
        settings.allow_http = allow_http;
        settings.allowed_networks = networks.iter().map(|network| network.parse().unwrap()).collect();
        settings
    }

    #[test]
    fn only_public_addresses_are_reached() {
        let settings = settings(false, &[]);
        for address in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "::127.0.0.1",
        ] {
            assert!(!may_reach(address.parse().unwrap(), &settings), "{address}");
        }
        for address in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8"]
        {
            assert!(may_reach(address.parse().unwrap(), &settings), "{address}");
        }
    }

    #[test]
    fn a_network_that_is_allowed_is_reached() {
        let settings = settings(true, &["127.0.0.0/8", "fd00::/8"]);
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "fd12::1"] {
            assert!(may_reach(address.parse().unwrap(), &settings), "{address}");
        }
        assert!(!may_reach("10.0.0.1".parse().unwrap(), &settings));
    }

    #[test]
    fn every_spelling_of_a_private_address_is_seen_through() {
        let settings = settings(true, &[]);
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://169.254.169.254/latest",
        ] {
            let target = Target::parse(url).unwrap();
            assert!(matches!(target.judge(&settings), Err(TargetError::NotPublic)), "{url}");
        }
        for url in ["ftp://x/", "http://", "http://a:b@example.org/", "http://example.org/#x", "/x", "javascript:1"] {
            assert!(Target::parse(url).is_err(), "{url}");
        }
        let target = Target::parse("http://Example.org/a b").unwrap();
        assert_eq!((target.as_str(), target.authority().as_str()), ("http://example.org/a%20b", "example.org:80"));
        target.judge(&settings).unwrap();
        let plain = Target::parse("http://example.org/").unwrap();
        assert!(matches!(plain.judge(&self::settings(false, &[])), Err(TargetError::PlainHttp)));
    }
}
