//! The wall clock, in one place, so that every use of it can be found.
//!
//! Law 11: shared state is timed by Redis `TIME`, process state by the monotonic clock. The wall clock names moments
//! for people (`accepted_at`, event timestamps) and orders places in line; no lease and no time-out reads it.

/// Milliseconds since the Unix epoch by this machine's clock; 0 if the clock stands before 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
pub fn wall_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
