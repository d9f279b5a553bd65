//! Beats for all leases of this process, from an OS thread and a connection of its own: an agent that blocks every thread
//! of the runtime keeps its lease.
//!
//! Law 11: leases live in Redis time. A worker that cannot reach Redis goes on: if its lease passed and somebody reaped
//! the task, Redis refuses its writes. The thread also hears cancels at once; a lost word comes with the next beat.

use std::thread::JoinHandle;
use std::time::Duration;

use penstock_protocol::TaskKey;
use penstock_queue::{Beat, LeaseState, LostTask, Order, OrderSignal, Orders, Queue, QueueSettings, WorkerId};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{Leases, Stop};
use crate::metrics::WorkerMetrics;

/// Lost tasks of silent workers that one beat brings home.
const LOST_MAX: usize = 20;
/// Pause before a connection is tried again.
const RECONNECT_EVERY: Duration = Duration::from_millis(500);

/// What a beat found that needs MySQL; the runtime's business.
#[derive(Debug)]
pub(crate) enum Finding {
    /// Redis has forgotten a task that runs here.
    Forgotten {
        /// The task.
        key: TaskKey,
        /// The attempt that runs.
        attempt: u32,
    },
    /// Tasks of silent workers.
    Lost(Vec<LostTask>),
}

/// The thread that beats.
pub(crate) struct Heartbeat {
    slots: watch::Sender<Option<usize>>,
    last: watch::Receiver<Option<Instant>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread works with.
struct Beating {
    settings: QueueSettings,
    worker: WorkerId,
    every: Duration,
    leases: Leases,
    metrics: WorkerMetrics,
    slots: watch::Receiver<Option<usize>>,
    last: watch::Sender<Option<Instant>>,
    findings: mpsc::Sender<Finding>,
}

impl Heartbeat {
    /// Starts the thread. It reports `slots` until told otherwise.
    ///
    /// Errors: the system gives no thread.
    pub(crate) fn start(
        settings: QueueSettings,
        worker: WorkerId,
        every: Duration,
        slots: usize,
        leases: Leases,
        metrics: WorkerMetrics,
        findings: mpsc::Sender<Finding>,
    ) -> std::io::Result<Self> {
        let (slots, slots_seen) = watch::channel(Some(slots));
        let (last, last_seen) = watch::channel(None);
        let beating = Beating { settings, worker, every, leases, metrics, slots: slots_seen, last, findings };
        let thread = std::thread::Builder::new().name("heartbeat".to_owned()).spawn(move || {
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime.block_on(beating.run()),
                Err(error) => tracing::error!(%error, "the heartbeat has no runtime"),
            }
        })?;
        Ok(Self { slots, last: last_seen, thread: Some(thread) })
    }

    /// Takes no new task from now on; what runs keeps its lease.
    pub(crate) fn close_slots(&self) {
        self.slots.send_replace(Some(0));
    }

    /// Says good-bye to Redis and ends the thread.
    pub(crate) fn leave(&mut self) {
        self.slots.send_replace(None);
        if let Some(thread) = self.thread.take() {
            // It waits for at most one answer of Redis, which is bounded.
            let _ = thread.join();
        }
    }

    /// A view for the health pages.
    pub(crate) fn last(&self) -> watch::Receiver<Option<Instant>> {
        self.last.clone()
    }
}

impl Beating {
    async fn run(mut self) {
        let Some((queue, mut orders)) = self.connect().await else { return };
        let mut every = interval(self.every);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_away = false;
        loop {
            tokio::select! {
                _ = every.tick() => {}
                changed = self.slots.changed() => if changed.is_err() { return },
                signal = orders.next() => match signal {
                    OrderSignal::Order(Order::Cancel { key, attempt }) => {
                        self.leases.stop(key, attempt, Stop::Cancelled);
                        continue;
                    }
                    OrderSignal::Reconnected => {}
                },
            }
            let Some(slots) = *self.slots.borrow_and_update() else {
                // Redis finds out by itself if it does not hear this.
                let _ = queue.leave(&self.worker).await;
                return;
            };
            let leases = self.leases.all();
            match queue.beat(&self.worker, slots, &leases, LOST_MAX).await {
                Ok(beat) => {
                    if std::mem::take(&mut is_away) {
                        tracing::info!("Redis answers beats again");
                    }
                    self.last.send_replace(Some(Instant::now()));
                    self.heed(beat, &leases);
                }
                Err(error) => {
                    self.metrics.beats_missed.inc();
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(%error, "Redis does not answer beats; tasks go on");
                    }
                }
            }
        }
    }

    fn heed(&self, beat: Beat, leases: &[(TaskKey, u32)]) {
        for (&(key, attempt), state) in leases.iter().zip(beat.leases) {
            match state {
                LeaseState::Held => {}
                LeaseState::CancelAsked => self.leases.stop(key, attempt, Stop::Cancelled),
                LeaseState::Lost => {
                    self.metrics.leases_lost.inc();
                    self.leases.stop(key, attempt, Stop::Lost);
                }
                // A full channel is no loss: the next beat finds it again.
                LeaseState::Unknown => drop(self.findings.try_send(Finding::Forgotten { key, attempt })),
            }
        }
        if !beat.lost.is_empty() {
            drop(self.findings.try_send(Finding::Lost(beat.lost)));
        }
    }

    /// Connects, for as long as it takes; `None` when told to leave.
    async fn connect(&mut self) -> Option<(Queue, Orders)> {
        loop {
            let connected = async {
                let queue = Queue::connect(self.settings.clone()).await?;
                let orders = queue.orders(&self.worker).await?;
                Ok::<_, penstock_queue::ConnectError>((queue, orders))
            };
            match connected.await {
                Ok(connected) => return Some(connected),
                Err(error) => tracing::warn!(%error, "the heartbeat cannot reach Redis; trying on"),
            }
            tokio::time::sleep(RECONNECT_EVERY).await;
            if self.slots.borrow().is_none() {
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_queue::fixture::{TestQueue, task};
    use penstock_queue::{StartVerdict, State};
    use prometheus_client::registry::Registry;

    use super::*;

    const LEASE: Duration = Duration::from_millis(1500);

    /// One thread, as if the agent held all of them.
    #[tokio::test]
    async fn an_agent_that_blocks_every_thread_of_the_runtime_keeps_its_lease() {
        let test = TestQueue::create_with(|settings| settings.lease = LEASE).await;
        let (worker, task, leases) = (WorkerId::new("w").unwrap(), task(1, 1), Leases::default());
        let metrics = WorkerMetrics::register(&mut Registry::default());
        let (found, mut findings) = mpsc::channel(16);
        let settings = test.queue.settings().clone();
        let mut heartbeat =
            Heartbeat::start(settings, worker.clone(), LEASE / 5, 1, leases.clone(), metrics, found).unwrap();
        test.queue.enqueue(&task).await.unwrap();
        let mut reader = test.queue.ready_reader(worker.clone());
        let entry = loop {
            if let Some(entry) = reader.read_now(1).await.unwrap().pop() {
                break entry;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let started = test.queue.start(&entry, &worker, "{}").await.unwrap();
        assert!(matches!(started, StartVerdict::Running { .. }), "{started:?}");
        let _lease = leases.hold(task.key, entry.attempt, Instant::now() + Duration::from_secs(600));

        std::thread::sleep(4 * LEASE);

        assert_eq!(test.queue.lost(10).await.unwrap(), []);
        assert_eq!(test.queue.position(task.key).await.unwrap().state, Some(State::Running));
        assert!(findings.try_recv().is_err(), "nobody found it lost");
        heartbeat.leave();
        test.delete().await;
    }
}
