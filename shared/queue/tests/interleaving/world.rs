//! The small world in which everything goes wrong: doors, workers, a reaper, a reconciler, clients, and accidents.
//!
//! One random step after another; the laws are judged after each. Time is virtual. A step of an actor is one call to
//! MySQL or one to Redis, so a crash can come between any two of them.

use std::collections::HashMap;

use penstock_protocol::{Place, PlaceSource, Status, TaskId, TaskKey, TaskSpec, TenantNo, ThreadId};
use penstock_queue::fixture::TestQueue;
use penstock_queue::{AdmitLimits, Library, QueuedTask, TenantTerms, Terms, VirtualClock};
use penstock_store::fixture::TestDatabase;
use penstock_store::{NewTask, Store, TaskRow};

use crate::door::Registered;
use crate::random::Random;
use crate::recovery::Rebuild;
use crate::replay::Call;
use crate::worker::Worker;

pub(crate) const DEPTH_MAX: u64 = 10;
pub(crate) const AGENTS: [&str; 2] = ["planner", "writer"];
pub(crate) const LEASE_MS: u64 = 15_000;
pub(crate) const BEAT_MS: u64 = 3_000;
/// The first lost worker sends a task to quarantine, so that many of them are there.
pub(crate) const QUARANTINE_CRASHES_MIN: u32 = 1;

/// Workers lost so far, the present one included: it is asked about when nobody runs the task.
pub(crate) fn crashes_of(row: &TaskRow) -> u32 {
    row.crashes + u32::from(row.status == Status::Running)
}

/// A broken law, in words.
pub(crate) type Law = Result<(), String>;

/// What the test knows of a task without asking anybody.
#[derive(Default)]
pub(crate) struct Known {
    /// The row was committed.
    pub(crate) is_accepted: bool,
    /// Terminal status first seen in MySQL.
    pub(crate) ended: Option<penstock_protocol::Status>,
    /// Its event stream was deleted at some time.
    pub(crate) has_lost_events: bool,
    /// Highest attempt that was started, closed or fenced since its stream was last lost.
    pub(crate) fenced: u32,
    /// Its end may be stored and never published: a door died between a cancel's row and Redis, or Redis lost the task
    /// before its end. Readers of such a task build the end from the row.
    pub(crate) may_be_silent: bool,
    pub(crate) task: Option<QueuedTask>,
}

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) clock: VirtualClock,
    pub(crate) database: TestDatabase,
    pub(crate) test: TestQueue,
    pub(crate) places: PlaceSource,
    pub(crate) known: HashMap<TaskKey, Known>,
    pub(crate) order: Vec<TaskKey>,
    pub(crate) threads: Vec<ThreadId>,
    pub(crate) doors: Vec<Registered>,
    pub(crate) workers: Vec<Worker>,
    pub(crate) worker_count: usize,
    pub(crate) rebuilds: Vec<Rebuild>,
    pub(crate) calls: Vec<Call>,
    /// What operators have set, as MySQL would have it.
    pub(crate) terms: Terms,
    /// A key was deleted and no wipe followed yet: homes and counters may be anything.
    pub(crate) is_broken: bool,
    /// Streams to be judged after this step.
    pub(crate) touched: Vec<TaskKey>,
    /// No more accidents.
    pub(crate) is_calm: bool,
    /// Whether Redis may lose keys.
    pub(crate) is_lossy: bool,
    pub(crate) trace: Vec<String>,
}

impl World {
    pub(crate) async fn new(seed: u64, library: Library) -> Self {
        let clock = VirtualClock::default();
        clock.set_ms(1_000_000);
        let mut random = Random::new(seed);
        let clock_of_queue = clock.clone();
        let test =
            TestQueue::create_with_library(|settings| settings.virtual_clock = Some(clock_of_queue), library).await;
        let threads = (0..3).map(|_| ThreadId::mint()).collect();
        let places = PlaceSource::new(u32::try_from(random.next() >> 34).unwrap(), 10_000);
        Self {
            random,
            clock,
            database: TestDatabase::create().await,
            test,
            places,
            known: HashMap::new(),
            order: Vec::new(),
            threads,
            doors: Vec::new(),
            workers: Vec::new(),
            worker_count: 0,
            rebuilds: Vec::new(),
            calls: Vec::new(),
            terms: terms(),
            is_broken: false,
            touched: Vec::new(),
            is_calm: false,
            is_lossy: true,
            trace: Vec::new(),
        }
    }

    pub(crate) fn store(&self) -> Store {
        self.database.store.clone()
    }

    pub(crate) fn limits(&self) -> AdmitLimits {
        AdmitLimits { depth_max: DEPTH_MAX, tenant_depth_max: 6, user_live_max: 4, ..AdmitLimits::default() }
    }

    /// What just happened, for the story of a broken law.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.trace.push(format!("{} {}", self.clock.now_ms(), text.into()));
    }

    pub(crate) fn pass(&self, ms: u64) {
        self.clock.set_ms(self.clock.now_ms() + ms);
    }

    /// A new request of a random tenant.
    pub(crate) fn new_task(&mut self) -> (NewTask, QueuedTask) {
        let tenant = 1 + u32::try_from(self.random.below(3)).unwrap();
        let key = TaskKey::new(TenantNo(tenant), TaskId::mint());
        let user = self.random.chance(50).then(|| format!("user-{}", self.random.below(2)));
        let shared = self.random.chance(40);
        let thread = if shared { self.threads[self.random.below(3)] } else { ThreadId::mint() };
        let priority = if self.random.chance(20) { 5 } else { 0 };
        let accepted_ms = self.clock.now_ms();
        let place: Place = self.places.next(accepted_ms, priority);
        let mut body_hash = [0; 32];
        body_hash[..16].copy_from_slice(key.task.0.as_bytes());
        let agent = AGENTS[self.random.below(2)].to_owned();
        let cost_tokens = 1 + u32::try_from(self.random.below(2000)).unwrap();
        let row = NewTask {
            key,
            thread,
            agent: agent.clone(),
            user: user.clone(),
            place: place.clone(),
            priority,
            cost_tokens,
            body_hash,
            idempotency_key: None,
            accepted_ms,
            deadline_in_ms: None,
            cancel_on_disconnect: false,
            replay_of: None,
            spec: serde_json::from_str::<TaskSpec>(r#"{"input":"hello"}"#).expect("a request"),
        };
        let task = QueuedTask {
            key,
            user,
            thread: Some(thread),
            body_hash,
            place,
            accepted_ms,
            cost_tokens: u64::from(cost_tokens),
            attempt: 0,
            is_quarantined: false,
            agent,
        };
        self.known.insert(key, Known { task: Some(task.clone()), ..Known::default() });
        self.order.push(key);
        (row, task)
    }

    /// What Redis needs of a row.
    pub(crate) fn queued(&self, row: &TaskRow) -> QueuedTask {
        QueuedTask {
            key: row.key,
            user: row.user.clone(),
            thread: Some(row.thread),
            body_hash: row.body_hash,
            place: row.place.clone(),
            accepted_ms: row.accepted_ms,
            cost_tokens: u64::from(row.cost_tokens),
            attempt: row.attempt,
            is_quarantined: crashes_of(row) >= QUARANTINE_CRASHES_MIN,
            agent: row.agent.clone(),
        }
    }

    pub(crate) fn known(&mut self, key: TaskKey) -> &mut Known {
        self.known.get_mut(&key).expect("only tasks of this world are met")
    }

    /// Remembers a call, to be made again at any later time.
    pub(crate) fn remember(&mut self, call: Call) {
        if self.calls.len() < 300 {
            self.calls.push(call);
        } else {
            let at = self.random.below(300);
            self.calls[at] = call;
        }
    }

    /// Counts the stream of `key` among those that lost events.
    pub(crate) fn lose_events(&mut self, key: TaskKey) {
        let known = self.known(key);
        known.has_lost_events = true;
        known.fenced = 0;
    }
}

/// One tenant with more weight, one with a cap, one with a start rate.
fn terms() -> Terms {
    let usual = |tenant| TenantTerms::usual(TenantNo(tenant));
    Terms {
        revision: 1,
        tenants: vec![
            TenantTerms { weight: 3, ..usual(1) },
            TenantTerms { running_max: Some(2), ..usual(2) },
            TenantTerms { starts_per_minute: Some(90), ..usual(3) },
        ],
        ..Terms::default()
    }
}
