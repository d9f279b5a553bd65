//! What operators see of a breaker.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{Forced, State};

/// A breaker at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerSnapshot {
    /// What calls meet.
    pub state: BreakerState,
    /// Whether an operator holds it so.
    pub is_forced: bool,
    /// Failures in a row.
    pub run_count: u32,
    /// How long the present or next trip holds, in ms.
    pub cool_down_ms: u64,
    /// Until it may be tried again, or until the operator's hold ends, in ms.
    pub until_ms: Option<u64>,
}

/// What calls meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// All pass.
    Closed,
    /// All pass, but one failure trips it again.
    OnTrial,
    /// None passes.
    Tripped,
    /// One undecided probe passes.
    HalfOpen,
}

impl BreakerState {
    /// The name in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::OnTrial => "on_trial",
            Self::Tripped => "tripped",
            Self::HalfOpen => "half_open",
        }
    }
}

impl BreakerSnapshot {
    pub(super) fn of(state: State, cool_down: Duration, forced: Option<Forced>, now: Instant) -> Self {
        let (own, run_count, until) = match state {
            State::Closed { run_count, trial: None, .. } => (BreakerState::Closed, run_count, None),
            State::Closed { run_count, .. } => (BreakerState::OnTrial, run_count, None),
            State::Tripped { until } if now < until => (BreakerState::Tripped, 0, Some(until)),
            State::Tripped { .. } | State::HalfOpen { .. } => (BreakerState::HalfOpen, 0, None),
        };
        let (state, until) = match forced {
            Some(Forced { is_tripped: true, until }) => (BreakerState::Tripped, Some(until)),
            Some(Forced { is_tripped: false, until }) => (BreakerState::Closed, Some(until)),
            None => (own, until),
        };
        Self {
            state,
            is_forced: forced.is_some(),
            run_count,
            cool_down_ms: whole_ms(cool_down),
            until_ms: until.map(|until| whole_ms(until.saturating_duration_since(now))),
        }
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
