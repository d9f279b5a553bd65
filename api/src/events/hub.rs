//! The relay of a process: one bell subscription, one watch per task, any number of readers.
//!
//! The stream is the only truth and the bell says "look again" (design: events). Per event the hub does one look-up,
//! builds one frame and pushes once per reader. Readers come in through [`super::feed`]; [`super::bells`] and
//! [`super::sweep`] are the two tasks that serve them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use penstock_config::Events;
use penstock_protocol::{EventId, TaskKey};
use penstock_queue::{Queue, StoredEvent};
use penstock_store::Store;
use penstock_telemetry::Metrics;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ending::Standing;
use super::metrics::EventMetrics;
use super::outbox::{Outbox, Ticket};
use super::progress::Progress;
use super::seats::Seats;
use super::standing::Turns;
use super::watch::{Follower, Heard, Todo, Watch};
use super::{bells, sweep};

/// Events of one page of a stream.
pub(super) const PAGE_EVENTS: usize = 200;

/// Departures that may wait to be looked at; what comes on top is not cancelled for it.
const DEPARTED_MAX: usize = 100_000;

/// How often a stopping relay looks whether its readers have gone.
const LEAVING_LOOK_EVERY: Duration = Duration::from_millis(20);

/// Event streams of tasks, for every reader of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hub(Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) queue: Queue,
    pub(super) store: Store,
    pub(super) settings: Events,
    pub(super) metrics: EventMetrics,
    pub(super) seats: Seats,
    /// Turns to ask where waiting tasks stand.
    pub(super) turns: Turns,
    watches: Mutex<HashMap<TaskKey, Watch>>,
    suspects: Mutex<HashSet<TaskKey>>,
    /// Tasks whose last reader left before their end, for [`super::departure`].
    departed: Mutex<HashSet<TaskKey>>,
    stop: CancellationToken,
    /// Wakes the sweep when there are suspects.
    pub(super) suspected: Notify,
    tickets: AtomicU64,
}

impl Hub {
    /// Starts the relay. It serves until `token` is cancelled and the last reader has gone.
    #[must_use]
    pub fn start(
        queue: Queue,
        store: Store,
        settings: &Events,
        tracker: TaskTracker,
        token: CancellationToken,
    ) -> Self {
        let inner = Arc::new(Inner {
            queue,
            store,
            settings: settings.clone(),
            metrics: EventMetrics::new(),
            seats: Seats::new(settings.sockets_max, settings.sockets_per_key_max),
            turns: Turns::new(),
            watches: Mutex::default(),
            suspects: Mutex::default(),
            departed: Mutex::default(),
            stop: token.clone(),
            suspected: Notify::new(),
            tickets: AtomicU64::new(1),
        });
        tracker.spawn(bells::listen(Arc::clone(&inner), token.clone()));
        tracker.spawn(sweep::run(Arc::clone(&inner), token));
        Self(inner)
    }

    /// Registers the relay's metrics in the process's registry.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(|to| self.0.metrics.register(to));
    }

    pub(super) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }
}

impl Inner {
    /// Lets a reader in: from here on what is heard of the task is noted for it.
    pub(super) fn enter(&self, key: TaskKey) -> Ticket {
        self.watches().entry(key).or_insert_with(|| Watch::new(Instant::now())).enter();
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    /// What was heard of tasks so far, in the order given.
    pub(super) fn heard(&self, cursors: &[(TaskKey, EventId)]) -> Vec<Heard> {
        let watches = self.watches();
        cursors.iter().map(|(key, _)| watches.get(key).map(Watch::heard).unwrap_or_default()).collect()
    }

    /// Lets an entered reader follow; errors when it must read on first.
    pub(super) fn join(
        &self,
        key: TaskKey,
        follower: Follower,
        progress: &Progress,
        heard: Heard,
    ) -> Result<(), Follower> {
        match self.watches().get_mut(&key) {
            Some(watch) => watch.join(follower, progress, heard),
            None => Err(follower),
        }
    }

    /// Lets an entered reader wait for the end only, and has the end looked for.
    pub(super) fn wait(&self, key: TaskKey, ticket: Ticket, outbox: Arc<Outbox>, standing: Standing) {
        if let Some(watch) = self.watches().get_mut(&key) {
            watch.wait(ticket, outbox, standing);
        }
        self.suspect(key);
    }

    /// Forgets a reader that entered, and joined or not.
    pub(super) fn leave(&self, key: TaskKey, ticket: Ticket, has_joined: bool) {
        let mut watches = self.watches();
        if let Some(watch) = watches.get_mut(&key) {
            if has_joined {
                watch.leave(ticket);
            } else {
                watch.give_up();
            }
            if watch.is_empty() {
                watches.remove(&key);
                self.departed(key);
            }
        }
    }

    /// Notes that nobody reads a task here any more. A reader that goes because this process stops has not left it.
    pub(super) fn departed(&self, key: TaskKey) {
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.stop.is_cancelled() && departed.len() < DEPARTED_MAX {
            departed.insert(key);
        }
    }

    /// At most `count` tasks whose readers have left.
    pub(super) fn take_departed(&self, count: usize) -> Vec<TaskKey> {
        take_some(&mut self.departed.lock().unwrap_or_else(PoisonError::into_inner), count)
    }

    /// Whether anybody reads a task here.
    pub(super) fn is_watched(&self, key: TaskKey) -> bool {
        self.watches().contains_key(&key)
    }

    /// Has the row of a task looked at soon.
    pub(super) fn suspect(&self, key: TaskKey) {
        self.suspect_later(key);
        self.suspected.notify_one();
    }

    /// The same, with the next tick of the sweep.
    pub(super) fn suspect_later(&self, key: TaskKey) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
    }

    /// At most `count` tasks whose rows are to be looked at.
    pub(super) fn take_suspects(&self, count: usize) -> Vec<TaskKey> {
        take_some(&mut self.suspects.lock().unwrap_or_else(PoisonError::into_inner), count)
    }

    /// Does what a bell or a page left to do: counts, has the row looked at, drops a watch without readers.
    ///
    /// Returns whether the stream is to be read.
    pub(super) fn follow_up(&self, key: TaskKey, todo: Todo, watches: &mut HashMap<TaskKey, Watch>) -> bool {
        self.metrics.relayed.inc_by(todo.passed);
        self.metrics.overruns.inc_by(todo.slow);
        if todo.look {
            self.suspect(key);
        }
        if todo.passed > 0 && watches.get(&key).is_some_and(Watch::is_empty) {
            watches.remove(&key);
        }
        todo.read
    }

    /// Passes pages on to followers; returns the tasks of which there may be more.
    pub(super) fn pass_pages(&self, cursors: &[(TaskKey, EventId)], pages: &[Vec<StoredEvent>]) -> Vec<TaskKey> {
        let (now, mut watches) = (Instant::now(), self.watches());
        let mut more = Vec::new();
        for ((key, _), page) in cursors.iter().zip(pages) {
            let Some(watch) = watches.get_mut(key) else { continue };
            let todo = watch.page(page, page.len() == PAGE_EVENTS, now);
            if self.follow_up(*key, todo, &mut watches) {
                more.push(*key);
            }
        }
        more
    }

    /// Ends when `token` is cancelled and the last reader has gone.
    pub(super) async fn served_out(&self, token: &CancellationToken) {
        token.cancelled().await;
        while !self.watches().is_empty() {
            sleep(LEAVING_LOOK_EVERY).await;
        }
    }

    pub(super) fn watches(&self) -> MutexGuard<'_, HashMap<TaskKey, Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take_some(keys: &mut HashSet<TaskKey>, count: usize) -> Vec<TaskKey> {
    if keys.len() <= count {
        return keys.drain().collect();
    }
    let taken: Vec<_> = keys.iter().take(count).copied().collect();
    for key in &taken {
        keys.remove(key);
    }
    taken
}
