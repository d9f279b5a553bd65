//! API keys: `psk_` and 32 random bytes in base64url. Shown once; only the SHA-256 is stored.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

const PREFIX: &str = "psk_";
const RANDOM_BYTES: usize = 32;
/// 32 bytes in base64 without padding.
const BODY_LENGTH: usize = 43;

/// SHA-256 of a key: the name under which a key is stored and found.
///
/// A plain hash is enough, and a lookup by it needs no constant time: the key has 256 random bits, so its hash can
/// neither be reversed by guessing nor steered byte by byte towards a stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

/// A new key, known in clear only to the command that made it.
#[derive(Debug)]
pub struct SecretKey(SecretString);

impl SecretKey {
    /// Makes a key from the system's random numbers. Errors: the system has none.
    pub fn mint() -> Result<Self, getrandom::Error> {
        let mut random = [0_u8; RANDOM_BYTES];
        getrandom::fill(&mut random)?;
        Ok(Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random)).into()))
    }

    /// The text to hand out, once.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// What is stored.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        KeyHash::digest(self.expose())
    }
}

impl KeyHash {
    /// The hash of a key that a caller sent; `None` where the text cannot be a key, so that it costs no hashing.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        let body = text.strip_prefix(PREFIX)?;
        let is_key = body.len() == BODY_LENGTH
            && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        is_key.then(|| Self::digest(text))
    }

    fn digest(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minted_key_is_found_by_its_hash_and_prints_nothing() {
        let key = SecretKey::mint().unwrap();
        assert_eq!(KeyHash::of(key.expose()), Some(key.hash()));
        assert!(!format!("{key:?}").contains(key.expose()));
        assert_ne!(key.hash(), SecretKey::mint().unwrap().hash());
    }

    #[test]
    fn what_is_not_a_key_is_not_hashed() {
        for text in ["", "psk_", "sk-123", &format!("psk_{}", "x".repeat(44)), &format!("psk_{}", "\u{e9}".repeat(43))]
        {
            assert_eq!(KeyHash::of(text), None, "{text}");
        }
    }
}
