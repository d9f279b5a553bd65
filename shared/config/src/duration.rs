//! `_ms` settings read as [`Duration`]s, so that nothing behind this crate converts units.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// Reads an integer of milliseconds.
pub(crate) fn ms<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_millis)
}
