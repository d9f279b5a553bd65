//! The leases that this process holds, shared between the tasks that run and the thread that beats for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use penstock_protocol::TaskKey;
use tokio::sync::watch;
use tokio::time::Instant;

/// Why a running attempt must stop before its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Its caller cancelled the task: keep the text, publish the cancel.
    Cancelled,
    /// Another worker may have it: write nothing more.
    Lost,
    /// This process ends: hand the task back.
    HandBack,
}

/// All leases of this process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leases {
    held: Arc<Mutex<HashMap<TaskKey, Held>>>,
}

#[derive(Debug)]
struct Held {
    attempt: u32,
    /// From then on it is not extended any more, whatever the attempt does.
    until: Instant,
    /// `n` of the last event written, for an adoption.
    last_n: Arc<AtomicU64>,
    stop: watch::Sender<Option<Stop>>,
}

/// One lease; given up when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    key: TaskKey,
    attempt: u32,
    last_n: Arc<AtomicU64>,
    stop: watch::Receiver<Option<Stop>>,
    leases: Leases,
}

impl Leases {
    /// Enters a lease, so that beats extend it, at most until `until`: an attempt that is stuck and holds every thread
    /// loses its task all the same.
    pub(crate) fn hold(&self, key: TaskKey, attempt: u32, until: Instant) -> Lease {
        let (stop, receiver) = watch::channel(None);
        let last_n = Arc::new(AtomicU64::new(1));
        self.lock().insert(key, Held { attempt, until, last_n: Arc::clone(&last_n), stop });
        Lease { key, attempt, last_n, stop: receiver, leases: self.clone() }
    }

    /// What a beat must extend.
    pub(crate) fn all(&self) -> Vec<(TaskKey, u32)> {
        let now = Instant::now();
        self.lock().iter().filter(|(_, held)| now < held.until).map(|(key, held)| (*key, held.attempt)).collect()
    }

    /// `n` of the last event that an attempt wrote; `None` when it does not run here.
    pub(crate) fn last_n(&self, key: TaskKey, attempt: u32) -> Option<u64> {
        let held = self.lock();
        held.get(&key).filter(|held| held.attempt == attempt).map(|held| held.last_n.load(Ordering::Relaxed))
    }

    /// Tells an attempt to stop. The first reason stands, except that a lost lease overrides every other one.
    pub(crate) fn stop(&self, key: TaskKey, attempt: u32, why: Stop) {
        if let Some(held) = self.lock().get(&key).filter(|held| held.attempt == attempt) {
            held.stop.send_if_modified(|stop| {
                let changes = stop.is_none() || (why == Stop::Lost && *stop != Some(Stop::Lost));
                if changes {
                    *stop = Some(why);
                }
                changes
            });
        }
    }

    /// Gives a lease up while something of its attempt still runs: that hears that it is lost.
    pub(crate) fn give_up(&self, key: TaskKey, attempt: u32) {
        let mut held = self.lock();
        if held.get(&key).is_some_and(|held| held.attempt == attempt) {
            held.remove(&key);
        }
    }

    /// Tells every attempt to stop.
    pub(crate) fn stop_all(&self, why: Stop) {
        for (key, attempt) in self.all() {
            self.stop(key, attempt, why);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskKey, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Waits until the attempt must stop. Cancel-safe.
    pub(crate) async fn stopped(&self) -> Stop {
        let mut stop = self.stop.clone();
        match stop.wait_for(Option::is_some).await {
            Ok(why) => why.unwrap_or(Stop::Lost),
            Err(_) => Stop::Lost,
        }
    }

    /// Waits until the task is lost to this attempt. Cancel-safe.
    pub(crate) async fn lost(&self) {
        let mut stop = self.stop.clone();
        // An error means that the lease was given up, which is a loss as well.
        let _ = stop.wait_for(|why| *why == Some(Stop::Lost)).await;
    }

    /// `n` of the last event that was written.
    pub(crate) fn last_n(&self) -> u64 {
        self.last_n.load(Ordering::Relaxed)
    }

    /// Notes the last event that was written.
    pub(crate) fn wrote(&self, n: u64) {
        self.last_n.store(n, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut held = self.leases.lock();
        if held.get(&self.key).is_some_and(|held| held.attempt == self.attempt) {
            held.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_protocol::{TaskId, TenantNo};

    use super::*;

    fn later() -> Instant {
        Instant::now() + std::time::Duration::from_secs(60)
    }

    #[tokio::test]
    async fn a_lease_is_not_kept_past_the_last_moment_of_its_attempt() {
        let (leases, key) = (Leases::default(), TaskKey::new(TenantNo(1), TaskId::mint()));
        let lease = leases.hold(key, 1, Instant::now());
        assert!(leases.all().is_empty());
        leases.give_up(key, 1);
        assert_eq!(lease.stopped().await, Stop::Lost, "what still runs of it hears so");
    }

    #[tokio::test]
    async fn a_lost_lease_overrides_a_hand_back_and_nothing_overrides_it() {
        let (leases, key) = (Leases::default(), TaskKey::new(TenantNo(1), TaskId::mint()));
        let lease = leases.hold(key, 2, later());
        leases.stop(key, 1, Stop::Cancelled);
        leases.stop(key, 2, Stop::HandBack);
        assert_eq!(lease.stopped().await, Stop::HandBack, "another attempt's word is not ours");
        leases.stop(key, 2, Stop::Lost);
        leases.stop(key, 2, Stop::Cancelled);
        assert_eq!(lease.stopped().await, Stop::Lost);
        drop(lease);
        assert!(leases.all().is_empty());
    }

    #[test]
    fn an_old_attempts_end_does_not_give_up_the_new_ones_lease() {
        let (leases, key) = (Leases::default(), TaskKey::new(TenantNo(1), TaskId::mint()));
        let old = leases.hold(key, 1, later());
        let _new = leases.hold(key, 2, later());
        drop(old);
        assert_eq!(leases.all(), [(key, 2)]);
    }
}
