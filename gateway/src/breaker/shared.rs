//! One breaker for many calls, and the guard that reports for a call that said nothing.
//!
//! For exits of the gateway, and just so for tools, MCP servers and other calls that leave the process:
//! `let pass = breaker.pass()?; … ; pass.finish(Report::Success)`. A pass that is dropped, by a cancel, an early return or a
//! panic, is a neutral report: it frees a probe's slot and moves nothing else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::{Breaker, BreakerSettings, BreakerSnapshot, BreakerState, Forced, Permit, Refused, Report};

/// A breaker behind a lock that is never held across a wait.
#[derive(Debug)]
pub struct SharedBreaker {
    /// What it guards, in logs.
    name: String,
    machine: Mutex<Breaker>,
}

/// The right to make one call through a [`SharedBreaker`].
#[derive(Debug)]
pub struct BreakerPass {
    breaker: Arc<SharedBreaker>,
    /// Taken when it has been reported.
    permit: Option<Permit>,
}

impl SharedBreaker {
    /// A closed one.
    #[must_use]
    pub fn new(name: impl Into<String>, settings: BreakerSettings) -> Arc<Self> {
        Arc::new(Self { name: name.into(), machine: Mutex::new(Breaker::new(settings, Instant::now())) })
    }

    /// Asks for the right to make a call.
    ///
    /// # Errors
    /// When the call is not to be made.
    pub fn pass(self: &Arc<Self>) -> Result<BreakerPass, Refused> {
        let permit = self.with(|machine, now| machine.acquire(now))?;
        Ok(BreakerPass { breaker: Arc::clone(self), permit: Some(permit) })
    }

    /// Sets the parameters.
    pub fn set(&self, settings: BreakerSettings) {
        self.machine().set(settings);
    }

    /// Holds a state, or lets go.
    pub fn force(&self, forced: Option<Forced>) {
        self.machine().force(forced);
    }

    /// Takes over a trip that another process told.
    pub fn trip_until(&self, until: Instant) {
        self.with(|machine, now| machine.trip_until(until, now));
    }

    /// A trip that calls of this process found out: its number, and when it is due.
    #[must_use]
    pub fn own_trip(&self) -> Option<(u64, Instant)> {
        self.machine().own_trip()
    }

    /// What operators see.
    #[must_use]
    pub fn snapshot(&self) -> BreakerSnapshot {
        self.machine().snapshot(Instant::now())
    }

    /// Does something that may change the state; a change is said in one line.
    fn with<T>(&self, what: impl FnOnce(&mut Breaker, Instant) -> T) -> T {
        let now = Instant::now();
        let (done, changed) = {
            let mut machine = self.machine();
            let before = machine.snapshot(now);
            let done = what(&mut machine, now);
            let after = machine.snapshot(now);
            (done, (before.state != after.state).then_some((before, after)))
        };
        if let Some((before, after)) = changed {
            let (from, to) = (before.state.as_str(), after.state.as_str());
            match after.state {
                BreakerState::Tripped => {
                    tracing::warn!(breaker = self.name, from, to, until_ms = after.until_ms, "a breaker tripped");
                }
                _ => tracing::info!(breaker = self.name, from, to, "a breaker lets calls pass again"),
            }
        }
        done
    }

    fn machine(&self) -> MutexGuard<'_, Breaker> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BreakerPass {
    /// Whether the call may still be sent: asked again when it has waited.
    #[must_use]
    pub fn still(&self) -> bool {
        let now = Instant::now();
        self.permit.as_ref().is_some_and(|permit| self.breaker.machine().still(permit, now))
    }

    /// The first token of the answer: decides a probe.
    pub fn first_token(&self) {
        if let Some(permit) = &self.permit {
            self.breaker.with(|machine, _| machine.first_token(permit));
        }
    }

    /// The end of the call. Later reports move nothing.
    pub fn finish(&mut self, report: Report) {
        if let Some(permit) = self.permit.take() {
            self.breaker.with(|machine, now| machine.finish(permit, report, now));
        }
    }
}

impl Drop for BreakerPass {
    fn drop(&mut self) {
        self.finish(Report::Neutral);
    }
}
