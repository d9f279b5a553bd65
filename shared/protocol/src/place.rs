//! A task's place in its tenant's own line. It is fixed at acceptance and stored in MySQL, so a retry, a recovery and a
//! rebuild return a task to its old place.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

/// 13 hex digits of `accepted_ms − priority × head_start_ms`, then 8 hex digits of the door's accept sequence.
///
/// Places compare as text. The sequence breaks ties inside a millisecond and tells two doors' rows of one id apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Place(String);

impl Place {
    /// Length of a place in bytes.
    pub const BYTES: usize = 21;

    /// A place read back from where it was stored. Not validated: it only ever comes from MySQL or Redis.
    #[must_use]
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    /// The text that sorts.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Gives places in accept order; one per door process.
#[derive(Debug)]
pub struct PlaceSource {
    sequence: AtomicU32,
    head_start_ms: u64,
}

impl PlaceSource {
    /// Starts at a random `sequence`, so that two doors do not share numbers.
    #[must_use]
    pub fn new(sequence: u32, head_start_ms: u64) -> Self {
        Self { sequence: AtomicU32::new(sequence), head_start_ms }
    }

    /// The next place for a task accepted at `accepted_ms` with `priority` 0 (none) to 9.
    #[must_use]
    pub fn next(&self, accepted_ms: u64, priority: u8) -> Place {
        let moment = accepted_ms.saturating_sub(u64::from(priority) * self.head_start_ms);
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        Place(format!("{moment:013x}{sequence:08x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_sort_by_moment_and_priority_moves_ahead() {
        let source = PlaceSource::new(5, 10_000);
        let (early, late, urgent) = (source.next(1_000_000, 0), source.next(1_000_001, 0), source.next(1_000_001, 1));
        assert!(early < late);
        assert!(urgent < early);
        assert_eq!(early.as_str().len(), Place::BYTES);
    }
}
