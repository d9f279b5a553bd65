//! Parameters of a breaker. All of them can be changed while it lives.

use std::time::Duration;

/// Parameters of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that trip it. 0: never.
    pub failures: u32,
    /// How long the first trip holds.
    pub cool_down: Duration,
    /// Longest trip; each failed probe or trial doubles the one before.
    pub cool_down_max: Duration,
    /// Probes in a row that must succeed.
    pub successes_to_close: u32,
    /// The failure rates that trip it.
    pub rate: RateSettings,
}

/// Shares of calls over a window, judged when a failure is reported. A share of 0 is not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSettings {
    /// The window.
    pub window: Duration,
    /// Fewest calls in it that say anything.
    pub calls_min: u32,
    /// Percent of calls that failed, in whatever way.
    pub failures_percent: u32,
    /// Percent of calls that ended in [`Fault::Timeout`](super::Fault::Timeout).
    pub timeouts_percent: u32,
    /// Percent of calls that ended in [`Fault::Error`](super::Fault::Error).
    pub errors_percent: u32,
}

impl Default for BreakerSettings {
    /// 5 failures in a row, 30 s to 8 min, one probe, no rate.
    fn default() -> Self {
        Self {
            failures: 5,
            cool_down: Duration::from_secs(30),
            cool_down_max: Duration::from_secs(480),
            successes_to_close: 1,
            rate: RateSettings::default(),
        }
    }
}

impl Default for RateSettings {
    /// A window of 60 s with at least 20 calls; no share is judged.
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            calls_min: 20,
            failures_percent: 0,
            timeouts_percent: 0,
            errors_percent: 0,
        }
    }
}
