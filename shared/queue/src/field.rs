//! Texts that go into records, whose fields are parted by `|`.

use penstock_protocol::{Place, ThreadId};
use sha2::{Digest, Sha256};

/// An end user as a field: itself where it is short and plain, else `~` and 64 bits of its SHA-256.
///
/// Nothing reads a user back from Redis; it only has to be the same for the same user. Two users of one tenant that
/// share 64 bits would share a bound, nothing more.
pub(crate) fn user(user: Option<&str>) -> String {
    let Some(user) = user else { return String::new() };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'@' | b'+');
    if !user.is_empty() && user.len() <= 17 && user.bytes().all(plain) {
        return user.to_owned();
    }
    format!("~{}", hex(&Sha256::digest(user.as_bytes())[..8]))
}

/// A thread as a field: 64 bits of the SHA-256 of its id, which a client may have made up. Two threads of one tenant that
/// share them would wait for each other, nothing more.
pub(crate) fn thread(thread: Option<ThreadId>) -> String {
    thread.map_or_else(String::new, |thread| hex(&Sha256::digest(thread.0.as_bytes())[..8]))
}

/// 64 bits of a body's SHA-256.
pub(crate) fn body_hash(hash: &[u8; 32]) -> String {
    hex(&hash[..8])
}

/// The order of a task in its thread, or nothing where it is the order of its place: threads go by acceptance, which
/// priority does not change.
pub(crate) fn turn(place: &Place, accepted_ms: u64) -> String {
    let sequence = place.as_str().get(13..).unwrap_or_default();
    let turn = format!("{accepted_ms:013x}{sequence}");
    if turn == place.as_str() { String::new() } else { turn }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use penstock_protocol::PlaceSource;

    use super::*;

    #[test]
    fn no_user_can_forge_a_field() {
        assert_eq!(user(None), "");
        assert_eq!(user(Some("ada@example.org")), "ada@example.org");
        for hostile in ["a|b", "", "#", "a\nb", "~x", "日本"] {
            let field = user(Some(hostile));
            assert!(field.starts_with('~') && field.len() == 17, "{hostile}: {field}");
        }
        assert_ne!(user(Some("")), user(None));
    }

    #[test]
    fn priority_moves_the_place_and_not_the_turn() {
        let places = PlaceSource::new(1, 10_000);
        let plain = places.next(5_000_000, 0);
        assert_eq!(turn(&plain, 5_000_000), "");
        let urgent = places.next(5_000_001, 9);
        assert!(urgent < plain);
        assert!(turn(&urgent, 5_000_001).as_str() > plain.as_str());
    }
}
