//! How many second attempts a process makes: a share of its calls.
//!
//! Each call pays a share in, each second attempt takes a whole one out, and a trickle keeps a quiet process able to retry. A
//! fleet's second attempts are the sum of its processes' shares, so a fleet of any size adds no more than the share to a
//! provider in trouble, without asking anyone.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::settings::RetryBudgetSettings;

/// The budget of one process.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    saved: Mutex<Saved>,
}

#[derive(Debug)]
struct Saved {
    attempts: f64,
    at: Instant,
}

impl RetryBudget {
    /// A full one.
    pub(crate) fn new(settings: &RetryBudgetSettings) -> Self {
        Self { saved: Mutex::new(Saved { attempts: f64::from(settings.burst), at: Instant::now() }) }
    }

    /// A call pays its share in.
    pub(crate) fn deposit(&self, settings: &RetryBudgetSettings) {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.refill(f64::from(settings.percent) / 100.0, settings);
    }

    /// Whether a second attempt may be made; it is then taken out.
    pub(crate) fn take(&self, settings: &RetryBudgetSettings) -> bool {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.refill(0.0, settings);
        let has_one = saved.attempts >= 1.0;
        if has_one {
            saved.attempts -= 1.0;
        }
        has_one
    }
}

impl Saved {
    fn refill(&mut self, paid: f64, settings: &RetryBudgetSettings) {
        let now = Instant::now();
        let trickle = now.saturating_duration_since(self.at).as_secs_f64() * f64::from(settings.per_second);
        self.at = now;
        self.attempts = (self.attempts + trickle + paid).min(f64::from(settings.burst));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SETTINGS: RetryBudgetSettings = RetryBudgetSettings { percent: 20, per_second: 1, burst: 10 };

    fn taken(budget: &RetryBudget) -> usize {
        (0..1_000).take_while(|_| budget.take(&SETTINGS)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_storm_of_failures_adds_no_more_than_the_share() {
        let budget = RetryBudget::new(&SETTINGS);
        assert_eq!(taken(&budget), 10, "what was saved up");
        let mut retries = 0;
        for _ in 0..1_000 {
            budget.deposit(&SETTINGS);
            retries += usize::from(budget.take(&SETTINGS));
        }
        assert!((195..=200).contains(&retries), "{retries} of 1 000 calls");
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_process_can_retry_again_after_a_while() {
        let budget = RetryBudget::new(&SETTINGS);
        taken(&budget);
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(taken(&budget), 3);
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(taken(&budget), 10, "no more than the burst");
    }
}
