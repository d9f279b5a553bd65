//! Signatures as in Standard Webhooks: `v1,` and the base64 of HMAC-SHA256 over `<id>.<timestamp>.<body>`.
//!
//! A secret is shown as `whsec_` and base64. After a rotation a delivery carries one signature for each secret in force,
//! separated by a space, so that a receiver may change over at its own time.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use penstock_store::WebhookSecrets;
use sha2_hmac::Sha256;

/// Header with the delivery's id: the same for every try, so that a receiver can tell a repeat.
pub const ID: &str = "webhook-id";
/// Header with the moment of the try, in seconds since the Unix epoch.
pub const TIMESTAMP: &str = "webhook-timestamp";
/// Header with the signatures.
pub const SIGNATURE: &str = "webhook-signature";

const PREFIX: &str = "whsec_";

/// The delivery's id as receivers see it.
#[must_use]
pub fn message_id(id: uuid::Uuid) -> String {
    format!("msg_{}", id.simple())
}

/// A secret as its owner sees it, once.
#[must_use]
pub fn shown(secret: &[u8; 32]) -> String {
    format!("{PREFIX}{}", STANDARD.encode(secret))
}

/// The value of the signature header.
#[must_use]
pub fn sign(secrets: &WebhookSecrets, id: &str, timestamp_s: u64, body: &str) -> String {
    let signed = secrets.0.iter().map(|secret| format!("v1,{}", STANDARD.encode(mac(secret, id, timestamp_s, body))));
    signed.collect::<Vec<_>>().join(" ")
}

fn mac(secret: &[u8; 32], id: &str, timestamp_s: u64, body: &str) -> Vec<u8> {
    // A key of any length is taken.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret) else { return Vec::new() };
    mac.update(format!("{id}.{timestamp_s}.").as_bytes());
    mac.update(body.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_of_the_specification() {
        // Computed with another implementation of HMAC-SHA256.
        let secret = [7; 32];
        let text = sign(&WebhookSecrets(vec![secret]), "msg_1", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(text, "v1,4tb+MnkCTqymlrGQQ6f66PPeMjMas7AHx6XI40qL5MA=");
        let both = sign(&WebhookSecrets(vec![[8; 32], secret]), "msg_1", 1_614_265_330, "{\"test\": 2432232314}");
        assert!(both.ends_with(&format!(" {text}")) && both.starts_with("v1,"), "{both}");
        assert_eq!(shown(&secret), format!("whsec_{}", STANDARD.encode(secret)));
    }
}
