//! The breaker: a pure machine that keeps calls away from what fails, and lets one call at a time find out whether it still
//! does.
//!
//! Law 9: only failures of the other side move it; neutral reports and dropped permits free the probe's slot and nothing
//! else. Refused is a call only while the breaker is tripped and not due, or while an undecided probe lives. Time is given
//! by the caller; nothing here waits. Many calls share one through [`SharedBreaker`].
//!
//! | state | success | first token | failure | neutral, drop |
//! |---|---|---|---|---|
//! | closed | ends the run, if its call began after the run's first failure | – | run + 1; enough → tripped; the rate is judged | – |
//! | closed on trial | → closed, cool-down as at first | – | → tripped, cool-down × 2 | – |
//! | tripped | – (stale) | – | – (stale) | – |
//! | half-open, undecided probe | as first token | successes + 1; enough → closed on trial; slot free | → tripped, cool-down × 2 | slot free |
//! | half-open, decided probe | – | – | → tripped, cool-down × 2 | – |
//!
//! Reports carry the epoch of their permit; a state change begins a new epoch, and stale reports move nothing. One
//! exception: the probe that closed the breaker by its first token is judged while the breaker is on trial.

mod settings;
mod shared;
mod snapshot;
mod window;

use std::time::Duration;

use tokio::time::Instant;

pub use settings::{BreakerSettings, RateSettings};
pub use shared::{BreakerPass, SharedBreaker};
pub use snapshot::{BreakerSnapshot, BreakerState};
use window::Window;

/// The machine.
#[derive(Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: State,
    epoch: u64,
    /// Number of the next permit, never given twice.
    next_number: u64,
    /// How long the next trip holds, if it follows a failed probe or trial.
    cool_down: Duration,
    window: Window,
    forced: Option<Forced>,
    /// Whether the present trip was told by another process.
    is_heard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed {
        /// Failures in a row.
        run_count: u32,
        /// First permit given after the run's first failure.
        run_younger_from: u64,
        /// On trial: number of the probe that closed it.
        trial: Option<u64>,
    },
    Tripped {
        until: Instant,
    },
    HalfOpen {
        /// Number of the probe that has said nothing yet.
        undecided: Option<u64>,
        success_count: u32,
    },
}

/// The right to make one call. Given back by [`Breaker::finish`]; a lost one is a neutral report that never came, so hold it
/// in a [`BreakerPass`].
#[derive(Debug)]
pub struct Permit {
    epoch: u64,
    number: u64,
    is_probe: bool,
}

/// No permit: try again at `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// When the breaker is due; now, while a probe is undecided.
    pub until: Instant,
}

/// What the end of a call says about the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// It works.
    Success,
    /// It does not.
    Failure(Fault),
    /// Nothing: a rate limit, a fault of the request or our own, a cancel.
    Neutral,
}

/// What kind of failure, for the rates that are judged apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No answer in time.
    Timeout,
    /// An error, or a connection that broke.
    Error,
}

/// A state that an operator holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forced {
    /// What calls get: `true`, none passes; `false`, all pass.
    pub is_tripped: bool,
    /// When the hold ends by itself.
    pub until: Instant,
}

impl Breaker {
    /// A closed one.
    #[must_use]
    pub fn new(settings: BreakerSettings, now: Instant) -> Self {
        Self {
            state: State::closed(),
            epoch: 0,
            next_number: 0,
            cool_down: settings.cool_down,
            window: Window::new(now),
            forced: None,
            is_heard: false,
            settings,
        }
    }

    /// Asks for the right to make a call.
    ///
    /// # Errors
    /// When the call is not to be made, with the moment at which to ask again.
    pub fn acquire(&mut self, now: Instant) -> Result<Permit, Refused> {
        match self.hold(now) {
            Some(Forced { is_tripped: true, until }) => return Err(Refused { until }),
            Some(_) => return Ok(self.permit(false)),
            None => {}
        }
        if let State::Tripped { until } = self.state {
            if now < until {
                return Err(Refused { until });
            }
            self.change(State::HalfOpen { undecided: None, success_count: 0 });
        }
        match &self.state {
            State::HalfOpen { undecided: Some(_), .. } => Err(Refused { until: now }),
            State::HalfOpen { undecided: None, .. } => {
                let permit = self.permit(true);
                if let State::HalfOpen { undecided, .. } = &mut self.state {
                    *undecided = Some(permit.number);
                }
                Ok(permit)
            }
            State::Closed { .. } | State::Tripped { .. } => Ok(self.permit(false)),
        }
    }

    /// Whether a call with this permit may still be sent: asked again when it has waited.
    #[must_use]
    pub fn still(&mut self, permit: &Permit, now: Instant) -> bool {
        match self.hold(now) {
            Some(forced) => !forced.is_tripped,
            None => permit.epoch == self.epoch && !matches!(self.state, State::Tripped { .. }),
        }
    }

    /// The first token of a call's answer: decides a probe.
    pub fn first_token(&mut self, permit: &Permit) {
        if permit.epoch == self.epoch {
            self.decide(permit);
        }
    }

    /// The end of a call.
    pub fn finish(&mut self, permit: Permit, report: Report, now: Instant) {
        let is_trials_own = matches!(self.state, State::Closed { trial: Some(probe), .. } if probe == permit.number);
        if permit.epoch != self.epoch && !is_trials_own {
            return;
        }
        match (self.state, report) {
            (State::Closed { .. }, Report::Success) => self.succeeded(&permit, now),
            (State::Closed { .. }, Report::Failure(fault)) => self.failed(fault, now),
            (State::HalfOpen { .. }, Report::Success) => self.decide(&permit),
            (State::HalfOpen { .. }, Report::Failure(_)) if permit.is_probe => self.trip_longer(now),
            (State::HalfOpen { .. }, Report::Neutral) => self.free_slot(&permit),
            (State::Closed { .. }, Report::Neutral) | (State::Tripped { .. } | State::HalfOpen { .. }, _) => {}
        }
    }

    /// Takes over a trip that another process told, until `until` at the latest bound.
    pub fn trip_until(&mut self, until: Instant, now: Instant) {
        let until = until.min(now + self.settings.cool_down_max);
        let is_longer = !matches!(self.state, State::Tripped { until: held } if held >= until);
        if is_longer && until > now {
            self.change(State::Tripped { until });
            self.is_heard = true;
        }
    }

    /// Holds a state whatever calls report, or lets go. Reports are judged on meanwhile.
    pub fn force(&mut self, forced: Option<Forced>) {
        self.forced = forced;
    }

    /// Sets the parameters. A trip under way keeps its end.
    pub fn set(&mut self, settings: BreakerSettings) {
        self.cool_down = self.cool_down.clamp(settings.cool_down, settings.cool_down_max.max(settings.cool_down));
        self.settings = settings;
    }

    /// What operators see.
    #[must_use]
    pub fn snapshot(&mut self, now: Instant) -> BreakerSnapshot {
        let forced = self.hold(now);
        BreakerSnapshot::of(self.state, self.cool_down, forced, now)
    }

    /// A trip that calls of this process found out: its number, and when it is due.
    #[must_use]
    pub fn own_trip(&self) -> Option<(u64, Instant)> {
        match self.state {
            State::Tripped { until } if !self.is_heard => Some((self.epoch, until)),
            _ => None,
        }
    }

    fn hold(&mut self, now: Instant) -> Option<Forced> {
        self.forced = self.forced.filter(|forced| now < forced.until);
        self.forced
    }

    fn permit(&mut self, is_probe: bool) -> Permit {
        let number = self.next_number;
        self.next_number += 1;
        Permit { epoch: self.epoch, number, is_probe }
    }

    fn succeeded(&mut self, permit: &Permit, now: Instant) {
        self.window.success(self.settings.rate.window, now);
        let State::Closed { run_count, run_younger_from, trial } = &mut self.state else { return };
        if trial.take().is_some() {
            self.cool_down = self.settings.cool_down;
            *run_count = 0;
        } else if permit.number >= *run_younger_from {
            *run_count = 0;
        }
    }

    fn failed(&mut self, fault: Fault, now: Instant) {
        self.window.failure(fault, self.settings.rate.window, now);
        let State::Closed { run_count, run_younger_from, trial } = &mut self.state else { return };
        if trial.is_some() {
            self.trip_longer(now);
            return;
        }
        if *run_count == 0 {
            *run_younger_from = self.next_number;
        }
        *run_count += 1;
        let is_run_over = self.settings.failures > 0 && *run_count >= self.settings.failures;
        if is_run_over || self.window.is_over(&self.settings.rate, now) {
            self.cool_down = self.settings.cool_down;
            self.trip(now);
        }
    }

    fn decide(&mut self, permit: &Permit) {
        let State::HalfOpen { undecided, success_count } = &mut self.state else { return };
        if *undecided != Some(permit.number) {
            return;
        }
        *undecided = None;
        *success_count += 1;
        if *success_count >= self.settings.successes_to_close {
            self.window.clear();
            self.change(State::Closed { run_count: 0, run_younger_from: 0, trial: Some(permit.number) });
        }
    }

    fn free_slot(&mut self, permit: &Permit) {
        if let State::HalfOpen { undecided, .. } = &mut self.state
            && *undecided == Some(permit.number)
        {
            *undecided = None;
        }
    }

    fn trip_longer(&mut self, now: Instant) {
        self.cool_down = self.cool_down.saturating_mul(2).min(self.settings.cool_down_max);
        self.trip(now);
    }

    fn trip(&mut self, now: Instant) {
        self.window.clear();
        self.change(State::Tripped { until: now + self.cool_down });
    }

    fn change(&mut self, state: State) {
        self.is_heard = false;
        self.state = state;
        self.epoch += 1;
    }
}

impl State {
    const fn closed() -> Self {
        Self::Closed { run_count: 0, run_younger_from: 0, trial: None }
    }
}

#[cfg(test)]
mod tests;
