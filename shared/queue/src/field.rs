//! Texts that go into records, whose fields are parted by `|`.

use penstock_protocol::{Place, ThreadId};
use sha2::{Digest, Sha256};

/// An end user as a field: itself where it is short and plain, else `~` and 42 bits of its SHA-256.
///
/// Nothing reads a user back from Redis; it only has to be the same for the same user. Two users of one tenant that
/// share the bits would share a bound, nothing more.
pub(crate) fn user(user: Option<&str>) -> String {
    let Some(user) = user else { return String::new() };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'@' | b'+');
    if !user.is_empty() && user.len() <= 8 && user.bytes().all(plain) {
        return user.to_owned();
    }
    format!("~{}", hashed(&Sha256::digest(user.as_bytes()), 7))
}

/// An agent as a field: 36 bits of the SHA-256 of its name, so that a record stays short. The names are those of the
/// settings; two of a thousand would share a field with a chance of one in 130 000, and then be paused together.
pub(crate) fn agent(name: &str) -> String {
    if name.is_empty() {
        return String::new();
    }
    hashed(&Sha256::digest(name.as_bytes()), 6)
}

/// A thread as a field: 48 bits of the SHA-256 of its id, which a client may have made up. Two threads of one tenant that
/// share them would wait for each other, nothing more.
pub(crate) fn thread(thread: Option<ThreadId>) -> String {
    thread.map_or_else(String::new, |thread| hashed(&Sha256::digest(thread.0.as_bytes()), 8))
}

/// 42 bits of a body's SHA-256: tells a repeated request from another one under the same id. The row has all of it.
pub(crate) fn body_hash(hash: &[u8; 32]) -> String {
    hashed(hash, 7)
}

/// A place as a field: 13 hex digits of a moment as 9 of [`DIGITS`], and 30 bits of the sequence as 5, which sort alike.
pub(crate) fn place(text: &str) -> String {
    let part = |from: usize, to: usize| text.get(from..to).and_then(|part| u64::from_str_radix(part, 16).ok());
    match (part(0, 13), part(13, 21)) {
        (Some(moment), Some(sequence)) if text.len() == Place::BYTES => {
            digits(moment, 9) + &digits(sequence & 0x3fff_ffff, 5)
        }
        _ => text.to_owned(),
    }
}

/// The order of a task in its thread, or nothing where it is the order of its place: threads go by acceptance, which
/// priority does not change.
pub(crate) fn turn(place: &Place, accepted_ms: u64) -> String {
    let sequence = place.as_str().get(13..).unwrap_or_default();
    let turn = format!("{accepted_ms:013x}{sequence}");
    if turn == place.as_str() { String::new() } else { self::place(&turn) }
}

/// 64 digits of six bits each, in the order in which they sort as text.
const DIGITS: &[u8; 64] = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";

/// `number` in `count` digits.
fn digits(number: u64, count: u32) -> String {
    (0..count).rev().map(|at| char::from(DIGITS[usize::try_from((number >> (6 * at)) & 63).unwrap_or(0)])).collect()
}

/// The first bits of a hash, in at most ten digits.
fn hashed(hash: &[u8], count: u32) -> String {
    digits(hash.iter().take(8).fold(0, |head, byte| head << 8 | u64::from(*byte)) >> (64 - 6 * count), count)
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
        assert_eq!(user(Some("ada@x.de")), "ada@x.de");
        assert_ne!(user(Some("ada@example.org")), user(Some("bob@example.org")));
        for hostile in ["a|b", "", "#", "a\nb", "~x", "日本"] {
            let field = user(Some(hostile));
            assert!(field.starts_with('~') && field.len() == 8, "{hostile}: {field}");
        }
        assert_ne!(user(Some("")), user(None));
    }

    #[test]
    fn places_sort_as_fields_as_they_do_as_text() {
        let places = PlaceSource::new(u32::MAX, 10_000);
        let mut places: Vec<_> = [5, 4096, 1_764_000_000_000, 1_764_000_000_001, 1 << 51]
            .into_iter()
            .flat_map(|accepted_ms| [places.next(accepted_ms, 0), places.next(accepted_ms, 3)])
            .collect();
        places.sort();
        let fields: Vec<_> = places.iter().map(|place| super::place(place.as_str())).collect();
        assert!(fields.is_sorted() && fields.iter().all(|field| field.len() == 14), "{fields:?}");
        assert_eq!(DIGITS.iter().collect::<std::collections::BTreeSet<_>>().len(), 64);
        assert!(DIGITS.is_sorted() && DIGITS.iter().all(|digit| *digit < b'|'));
    }

    #[test]
    fn priority_moves_the_place_and_not_the_turn() {
        let places = PlaceSource::new(1, 10_000);
        let plain = places.next(5_000_000, 0);
        assert_eq!(turn(&plain, 5_000_000), "");
        let urgent = places.next(5_000_001, 9);
        assert!(urgent < plain);
        assert!(turn(&urgent, 5_000_001) > super::place(plain.as_str()));
    }
}
