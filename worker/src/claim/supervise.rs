//! Watches an agent from outside: one that does not stop when it must is dropped, and one that cannot even be dropped,
//! because it holds its thread, is declared wedged and loses its slot.
//!
//! What the old attempt writes later is refused by its fence; its end is stored and published without it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Lease, Stop};
use crate::metrics::WorkerMetrics;

/// How long an agent that was dropped may take to be gone: it is at its next await.
const DROP_MAX: Duration = Duration::from_secs(1);

/// How an agent's run came out.
pub(super) enum Supervised<T> {
    /// It ended by itself.
    Done(T),
    /// It panicked; the message is in the log.
    Panicked,
    /// It did not stop in time, and was dropped: its calls are closed.
    Dropped(Overdue),
    /// It did not stop in time, and still holds a thread.
    Wedged(Overdue, JoinHandle<T>),
}

/// Why an agent must have stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    /// It was told to.
    Stop(Stop),
    /// Its last moment has passed.
    Time,
}

/// Runs `work` on a task of its own until it ends, or must have ended `grace` ago.
pub(super) async fn supervise<T, W>(work: W, lease: &Lease, last_moment: Instant, grace: Duration) -> Supervised<T>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let mut run = tokio::spawn(work);
    let overdue = async {
        let why = tokio::select! {
            biased;
            why = lease.stopped() => Overdue::Stop(why),
            () = sleep_until(last_moment) => Overdue::Time,
        };
        sleep(grace).await;
        why
    };
    let why = tokio::select! {
        biased;
        done = &mut run => return done.map_or(Supervised::Panicked, Supervised::Done),
        why = overdue => why,
    };
    run.abort();
    match timeout(DROP_MAX, &mut run).await {
        Ok(Ok(done)) => Supervised::Done(done),
        Ok(Err(error)) if error.is_panic() => Supervised::Panicked,
        Ok(Err(_)) => Supervised::Dropped(why),
        Err(_) => Supervised::Wedged(why, run),
    }
}

/// The wedged agents of this process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wedged(Arc<AtomicUsize>);

impl Wedged {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes a wedged run. Its slot is opened again while there are at most `most` of them, else once it has ended.
    pub(super) fn take<T: Send + 'static>(
        &self,
        run: JoinHandle<T>,
        slot: OwnedSemaphorePermit,
        most: usize,
        metrics: &WorkerMetrics,
    ) {
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        metrics.wedges.inc();
        metrics.wedged.inc();
        let kept = (count > most).then_some(slot);
        let (all, metrics) = (self.clone(), metrics.clone());
        tokio::spawn(async move {
            // However it ends, nobody waits for what it says.
            drop(run.await);
            all.0.fetch_sub(1, Ordering::Relaxed);
            metrics.wedged.dec();
            drop(kept);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use penstock_protocol::{TaskId, TaskKey, TenantNo};
    use prometheus_client::registry::Registry;
    use tokio::sync::Semaphore;

    use super::super::Leases;
    use super::*;

    const GRACE: Duration = Duration::from_millis(50);

    struct Agent {
        leases: Leases,
        key: TaskKey,
        lease: Lease,
    }

    fn agent() -> Agent {
        let (leases, key) = (Leases::default(), TaskKey::new(TenantNo(1), TaskId::mint()));
        let lease = leases.hold(key, 1, later());
        Agent { leases, key, lease }
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(600)
    }

    /// Blocks its thread until told otherwise, as no agent should.
    fn blocking(is_over: &Arc<AtomicBool>) -> impl Future<Output = ()> + Send + 'static {
        let is_over = Arc::clone(is_over);
        async move {
            while !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    #[tokio::test]
    async fn an_agent_that_ends_in_time_or_panics_is_told_apart() {
        let agent = agent();
        let done = supervise(async { 7 }, &agent.lease, later(), GRACE).await;
        assert!(matches!(done, Supervised::Done(7)));
        let panicked = supervise(async { panic!("of the agent's own") }, &agent.lease, later(), GRACE).await;
        assert!(matches!(panicked, Supervised::<()>::Panicked));
    }

    #[tokio::test]
    async fn an_agent_that_waits_for_ever_is_dropped_after_a_cancel_and_after_its_last_moment() {
        struct Gone(Arc<AtomicBool>);
        impl Drop for Gone {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let agent = agent();
        let is_gone = Arc::new(AtomicBool::new(false));
        let socket = Gone(Arc::clone(&is_gone));
        agent.leases.stop(agent.key, 1, Stop::Cancelled);
        let work = async move {
            let _socket = socket;
            std::future::pending::<()>().await;
        };
        let ended = supervise(work, &agent.lease, later(), GRACE).await;
        assert!(matches!(ended, Supervised::Dropped(Overdue::Stop(Stop::Cancelled))));
        assert!(is_gone.load(Ordering::Relaxed), "what it held is closed");
        let other = self::agent();
        let ended = supervise(std::future::pending::<()>(), &other.lease, Instant::now(), GRACE).await;
        assert!(matches!(ended, Supervised::Dropped(Overdue::Time)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn wedged_agents_lose_their_slots_up_to_a_bound() {
        let metrics = WorkerMetrics::register(&mut Registry::default());
        let (slots, wedged, is_over) =
            (Arc::new(Semaphore::new(2)), Wedged::default(), Arc::new(AtomicBool::new(false)));
        for (count, free) in [(1, 2), (2, 1)] {
            let agent = agent();
            let slot = Arc::clone(&slots).acquire_owned().await.unwrap();
            agent.leases.stop(agent.key, 1, Stop::Cancelled);
            let ended = supervise(blocking(&is_over), &agent.lease, later(), GRACE).await;
            let Supervised::Wedged(Overdue::Stop(Stop::Cancelled), run) = ended else { panic!("it holds its thread") };
            wedged.take(run, slot, 1, &metrics);
            assert_eq!((wedged.count(), slots.available_permits()), (count, free), "one may be made good for");
        }
        assert_eq!((metrics.wedges.get(), metrics.wedged.get()), (2, 2));
        is_over.store(true, Ordering::Relaxed);
        let all_is_well = async {
            while slots.available_permits() < 2 || metrics.wedged.get() > 0 || wedged.count() > 0 {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(20), all_is_well).await.expect("the last slot comes back with its agent");
        assert_eq!(metrics.wedges.get(), 2);
    }
}
