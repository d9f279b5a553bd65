//! The fault suite: parts die, freeze, come back empty or cannot hear each other, under load; then the laws are judged.
//!
//! In the tests each story is short. `make chaos` tells them at length (`PENSTOCK_CHAOS=long`) and prints a line a story.
//! `PENSTOCK_TEST_SEED` repeats the random moments of a run, as far as real processes let them be repeated.

mod judge;
mod load;
mod servers;
mod workers;

use std::time::Duration;

use crate::house::Plan;

/// States are waited for this long; how fast they come is measured, not judged.
const PATIENCE: Duration = Duration::from_secs(60);

/// `long` in `make chaos`, else `short`.
fn scale<T>(short: T, long: T) -> T {
    if variable("PENSTOCK_CHAOS").as_deref() == Some("long") { long } else { short }
}

#[expect(clippy::disallowed_methods, reason = "a person asks for a longer run, or for the same again")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A short lease in the short stories, that of production in the long ones.
fn plan() -> Plan {
    let plan = Plan::default().set("queue.reconcile_age_min_ms", 11_000).set("queue.reconcile_every_ms", 2000);
    if scale(false, true) {
        return plan;
    }
    let plan = plan.set("queue.lease_ms", 2000).set("queue.beat_every_ms", 500).set("mysql.timeout_ms", 1500);
    plan.set("redis.script_timeout_ms", 800)
}

/// Random moments; the seed is told, so that a story can be told again.
struct Moments(u64);

impl Moments {
    fn new(story: &str) -> Self {
        let seed = variable("PENSTOCK_TEST_SEED").and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 >> 16);
        println!("{story}: PENSTOCK_TEST_SEED={seed}");
        Self(seed | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap_or(0)
    }

    /// From `least` to `most` milliseconds.
    fn ms(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.next() % (most - least + 1))
    }
}
