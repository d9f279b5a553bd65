//! The process gate of one exit: how many calls run at once, how far apart they start, and that none starts while the
//! vendor has asked for quiet. Calls that were held up by such a quiet leave spaced, so that they do not all come at once.
//!
//! Callers pass in the order in which they came. A permit is held for the whole attempt, so permits bound the connections
//! to the vendor too. Used by the call path just before an attempt.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::settings::GateSettings;

/// Longest quiet that a vendor's hint can ask for; a hint of a day must not close an exit for a day.
const PUSH_BACK_MAX: Duration = Duration::from_secs(300);

/// The gate of one exit.
#[derive(Debug)]
pub(crate) struct Gate {
    settings: GateSettings,
    permits: Arc<Semaphore>,
    /// Held by the one caller who is next to start; the others wait for it in their order.
    turn: tokio::sync::Mutex<()>,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// No start before this.
    next_start: Instant,
    /// No start before this either, moved by push-backs.
    quiet_until: Instant,
}

/// The right to run one attempt.
#[derive(Debug)]
pub(crate) struct GatePermit {
    _permit: OwnedSemaphorePermit,
}

impl Gate {
    pub(crate) fn new(settings: GateSettings) -> Self {
        let now = Instant::now();
        Self {
            settings,
            permits: Arc::new(Semaphore::new(settings.permits.clamp(1, Semaphore::MAX_PERMITS))),
            turn: tokio::sync::Mutex::new(()),
            times: Mutex::new(Times { next_start: now, quiet_until: now }),
        }
    }

    /// Waits for a permit and for the moment to start. Cancel-safe: a caller who leaves gives its place to the next.
    pub(crate) async fn enter(&self) -> GatePermit {
        loop {
            // The semaphore is never closed; an error would only mean to ask again.
            if let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await {
                self.wait_for_start().await;
                return GatePermit { _permit: permit };
            }
        }
    }

    /// Lets no call start for `wait`, or for the configured time.
    pub(crate) fn push_back(&self, wait: Option<Duration>) {
        let until = Instant::now() + wait.unwrap_or(self.push_back_time()).min(PUSH_BACK_MAX);
        let mut times = self.times();
        times.quiet_until = times.quiet_until.max(until);
    }

    /// How long a push-back lasts that names no time.
    pub(crate) fn push_back_time(&self) -> Duration {
        self.settings.push_back
    }

    async fn wait_for_start(&self) {
        let came = Instant::now();
        let _turn = self.turn.lock().await;
        // Asked again after each sleep: a push-back may have come meanwhile.
        while let Some(start) = self.start_or_wait(came) {
            sleep_until(start).await;
        }
    }

    /// Takes the start now, or says when to ask again. `came`: when the caller began to wait for it.
    fn start_or_wait(&self, came: Instant) -> Option<Instant> {
        let now = Instant::now();
        let mut times = self.times();
        let start = times.next_start.max(times.quiet_until);
        if start > now {
            return Some(start);
        }
        let was_held_up = came < times.quiet_until;
        let spacing = if was_held_up { self.settings.push_back_spacing } else { Duration::ZERO };
        times.next_start = now + self.settings.spacing.max(spacing);
        None
    }

    fn times(&self) -> std::sync::MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    fn gate(permits: usize, spacing_ms: u64) -> Arc<Gate> {
        let (spacing, push_back) = (Duration::from_millis(spacing_ms), Duration::from_secs(5));
        let push_back_spacing = Duration::from_millis(20);
        Arc::new(Gate::new(GateSettings { permits, spacing, push_back, push_back_spacing }))
    }

    /// How long one more caller waits, as far as `limit`.
    async fn waited(gate: &Gate, limit: Duration) -> Option<Duration> {
        let began = Instant::now();
        timeout(limit, gate.enter()).await.ok().map(|_permit| began.elapsed())
    }

    const LONG: Duration = Duration::from_secs(600);

    #[tokio::test(start_paused = true)]
    async fn no_more_calls_run_than_there_are_permits() {
        let gate = gate(2, 0);
        let first = gate.enter().await;
        let _second = gate.enter().await;
        assert_eq!(waited(&gate, Duration::from_secs(60)).await, None);
        drop(first);
        assert_eq!(waited(&gate, LONG).await, Some(Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn starts_are_spaced_and_in_order() {
        let gate = gate(100, 20);
        let began = Instant::now();
        let starts: Vec<_> = (0..5_u32)
            .map(|_| {
                let gate = Arc::clone(&gate);
                tokio::spawn(async move {
                    let _permit = gate.enter().await;
                    began.elapsed().as_millis()
                })
            })
            .collect();
        let mut seen = Vec::new();
        for start in starts {
            seen.push(start.await.unwrap());
        }
        // The timer wheel of tokio ticks in milliseconds and may round up by one.
        for (number, start) in seen.iter().enumerate() {
            let due = 20 * number as u128;
            assert!((due..=due + number as u128 + 1).contains(start), "{seen:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_push_back_without_a_hint_holds_for_the_configured_time() {
        let gate = gate(10, 0);
        gate.push_back(None);
        let waited = waited(&gate, LONG).await.unwrap();
        assert!((5_000..=5_002).contains(&waited.as_millis()), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_vendors_hint_wins_and_is_bounded() {
        let gate = gate(10, 0);
        gate.push_back(Some(Duration::from_secs(2)));
        gate.push_back(Some(Duration::from_secs(1)));
        let short = waited(&gate, LONG).await.unwrap();
        assert!((2_000..=2_002).contains(&short.as_millis()), "a shorter hint does not undercut: {short:?}");
        gate.push_back(Some(Duration::from_secs(86_400)));
        let long = waited(&gate, LONG).await.unwrap();
        assert!(long.as_secs() <= 300, "{long:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_push_back_reaches_callers_who_wait_already_and_they_leave_spaced() {
        let gate = gate(10, 0);
        gate.push_back(Some(Duration::from_secs(1)));
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let gate = Arc::clone(&gate);
                tokio::spawn(async move {
                    let began = Instant::now();
                    let _permit = gate.enter().await;
                    began.elapsed().as_millis()
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(500)).await;
        gate.push_back(Some(Duration::from_secs(3)));
        let mut seen = Vec::new();
        for waiter in waiting {
            seen.push(waiter.await.unwrap());
        }
        assert!(seen[0] >= 3_500 && seen[1] >= seen[0] + 20 && seen[2] >= seen[1] + 20, "{seen:?}");
        assert!(waited(&gate, LONG).await.unwrap().as_millis() <= 21, "who comes later is behind them");
        assert_eq!(waited(&gate, LONG).await, Some(Duration::ZERO), "and then nobody is spaced");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_who_leaves_gives_its_place_on() {
        let gate = gate(10, 0);
        gate.push_back(Some(Duration::from_secs(10)));
        assert_eq!(waited(&gate, Duration::from_secs(1)).await, None);
        let rest = waited(&gate, LONG).await.unwrap();
        assert!((9_000..=9_002).contains(&rest.as_millis()), "{rest:?}");
        assert_eq!(gate.permits.available_permits(), 10);
    }
}
