//! Waits that no vendor asked for: doubled at each try, with jitter so that calls that failed together come back apart.

use std::time::Duration;

/// Wait before the second try.
const FIRST: Duration = Duration::from_millis(250);
/// Longest wait.
const LONGEST: Duration = Duration::from_secs(8);
/// Share of a vendor's hint that is added at most: callers told the same moment should not come at the same moment.
const HINT_JITTER: f64 = 0.1;

/// The wait after try number `attempt` (from 1): between half and all of `FIRST × 2^(attempt − 1)`.
pub(crate) fn back_off(attempt: u32) -> Duration {
    let whole = FIRST.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LONGEST);
    whole.mul_f64(0.5 + 0.5 * random())
}

/// A hint with jitter, which only ever makes it longer.
pub(crate) fn jitter_up(hint: Duration) -> Duration {
    hint.mul_f64(1.0 + HINT_JITTER * random())
}

/// From 0 to 1. Without the system's randomness: no jitter, the longest wait.
fn random() -> f64 {
    getrandom::u32().map_or(1.0, |number| f64::from(number) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_doubles_within_bounds() {
        for (attempt, whole_ms) in [(1, 250), (2, 500), (3, 1_000), (6, 8_000), (60, 8_000)] {
            for _ in 0..100 {
                let ms = back_off(attempt).as_millis();
                assert!((whole_ms / 2..=whole_ms).contains(&ms), "try {attempt}: {ms} ms");
            }
        }
    }

    #[test]
    fn a_hint_is_never_undercut() {
        let hint = Duration::from_secs(2);
        for _ in 0..100 {
            let waited = jitter_up(hint);
            assert!(waited >= hint && waited <= hint.mul_f64(1.11), "{waited:?}");
        }
    }
}
