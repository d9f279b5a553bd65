//! The HTTP client of deliveries: names resolve to allowed addresses only, nothing is followed, nothing is kept.

use std::net::SocketAddr;

use penstock_config::{LiveSettings, Webhook};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::TargetError;
use crate::target::may_reach;

/// Resolves names, and hands on the addresses that may be reached.
struct Guard(LiveSettings);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let settings = self.0.now();
        Box::pin(async move {
            // The client puts the port of the URL in its place.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|address| may_reach(address.ip(), &settings.webhook)).collect();
            if allowed.is_empty() {
                return Err(Box::from(TargetError::NotPublic));
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// A client under `settings` as they are now.
///
/// # Errors
/// When the system's TLS roots cannot be read.
pub(crate) fn build(live: &LiveSettings, settings: &Webhook) -> Result<reqwest::Client, reqwest::Error> {
    // An error means that another part of the process was first.
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder()
        .dns_resolver(Guard(live.clone()))
        .connect_timeout(settings.connect)
        .timeout(settings.total)
        .pool_max_idle_per_host(0)
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .user_agent(concat!("penstock/", env!("CARGO_PKG_VERSION")))
        .build()
}
