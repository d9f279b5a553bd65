//! A queue with one worker in virtual time: tasks take as long as the test says, and nothing happens in between.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use penstock_protocol::{TaskKey, TenantNo};
use penstock_queue::fixture::{TestQueue, task};
use penstock_queue::{
    AdmitLimits, AdmitRequest, AdmitVerdict, EnqueueVerdict, Finish, QueuedTask, ReadyEntry, ReadyReader, TenantTerms,
    VirtualClock, WorkerId,
};

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}"#;

/// What the test knows of a task and the queue does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) takes_ms: u64,
    /// Tokens it really uses; `None` = nobody counted.
    pub(crate) real: Option<u64>,
}

/// Three seconds, as many tokens as estimated.
pub(crate) const PLAIN: Job = Job { takes_ms: 3000, real: None };

/// A start, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    pub(crate) key: TaskKey,
    pub(crate) at_ms: u64,
}

pub(crate) struct House {
    pub(crate) test: TestQueue,
    pub(crate) clock: VirtualClock,
    worker: WorkerId,
    slots: usize,
    reader: ReadyReader,
    running: BinaryHeap<Reverse<(u64, u64)>>,
    entries: HashMap<u64, ReadyEntry>,
    jobs: HashMap<TaskKey, Job>,
    pub(crate) started: Vec<Started>,
    pub(crate) finished: Vec<TaskKey>,
    number: u64,
}

impl House {
    pub(crate) async fn open(slots: usize) -> Self {
        Self::open_with(slots, 1_000_000).await
    }

    pub(crate) async fn open_with(slots: usize, debt_max_tokens: u64) -> Self {
        let clock = VirtualClock::default();
        clock.set_ms(1_000_000);
        let of_queue = clock.clone();
        let test = TestQueue::create_with(|settings| {
            settings.virtual_clock = Some(of_queue);
            settings.debt_max_tokens = debt_max_tokens;
        })
        .await;
        let worker = WorkerId::new("w").unwrap();
        test.queue.beat(&worker, slots, &[], 0).await.unwrap();
        let reader = test.queue.ready_reader(worker.clone());
        Self {
            test,
            clock,
            worker,
            slots,
            reader,
            running: BinaryHeap::new(),
            entries: HashMap::new(),
            jobs: HashMap::new(),
            started: Vec::new(),
            finished: Vec::new(),
            number: 0,
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// Lets time pass with nothing in it but a beat and a tick at its end.
    pub(crate) async fn pass(&mut self, ms: u64) {
        self.clock.set_ms(self.now_ms() + ms);
        self.test.queue.beat(&self.worker, self.slots, &[], 0).await.unwrap();
        self.test.queue.tick().await.unwrap();
        self.start_all().await;
    }

    /// A task of `tenant` that is not queued yet.
    pub(crate) fn new_task(&mut self, tenant: u32) -> QueuedTask {
        self.number += 1;
        QueuedTask { accepted_ms: self.number, ..task(tenant, self.number) }
    }

    /// Queues a task and starts what it sets free.
    pub(crate) async fn queue(&mut self, task: &QueuedTask, job: Job) -> TaskKey {
        let verdict = self.test.queue.enqueue(task).await.unwrap();
        assert!(matches!(verdict, EnqueueVerdict::Queued { .. }), "{verdict:?}");
        self.jobs.insert(task.key, job);
        self.start_all().await;
        task.key
    }

    /// Queues a new task of `tenant`.
    pub(crate) async fn submit(&mut self, tenant: u32, job: Job) -> TaskKey {
        let task = self.new_task(tenant);
        self.queue(&task, job).await
    }

    /// Keeps `tenant` from running out: queues `count` tasks.
    pub(crate) async fn flood(&mut self, tenant: u32, count: usize, job: Job) {
        for _ in 0..count {
            self.submit(tenant, job).await;
        }
    }

    pub(crate) async fn admit(&self, task: &QueuedTask, limits: AdmitLimits) -> AdmitVerdict {
        let request = AdmitRequest { key: task.key, user: task.user.as_deref(), body_hash: &task.body_hash, limits };
        self.test.queue.admit(&request).await.unwrap()
    }

    /// Starts everything that was handed out.
    pub(crate) async fn start_all(&mut self) {
        loop {
            let entries = self.reader.read_now(100).await.unwrap();
            if entries.is_empty() {
                return;
            }
            for entry in entries {
                self.test.queue.start(&entry, &self.worker, STARTED).await.unwrap();
                let at_ms = self.now_ms();
                self.started.push(Started { key: entry.key, at_ms });
                let number = self.started.len() as u64;
                let ends_ms = at_ms + self.jobs[&entry.key].takes_ms;
                self.running.push(Reverse((ends_ms, number)));
                self.entries.insert(number, entry);
            }
        }
    }

    /// When the next running task ends.
    pub(crate) fn next_end_ms(&self) -> Option<u64> {
        self.running.peek().map(|Reverse((ends_ms, _))| *ends_ms)
    }

    /// Goes on to the next end: the task is finished, and what it sets free is started. False when nothing runs.
    pub(crate) async fn step(&mut self) -> bool {
        let Some(Reverse((ends_ms, number))) = self.running.pop() else { return false };
        self.clock.set_ms(ends_ms.max(self.now_ms()));
        let entry = self.entries.remove(&number).unwrap();
        let finish = Finish {
            key: entry.key,
            attempt: entry.attempt,
            worker: &self.worker,
            cost_tokens: self.jobs[&entry.key].real,
            input_tokens: 100,
            last_seq: 1,
            event: FINISHED,
        };
        self.test.queue.finish(&finish).await.unwrap();
        self.finished.push(entry.key);
        self.start_all().await;
        true
    }

    /// Goes on until `count` more tasks were started; returns how many of them were of each tenant, by number.
    pub(crate) async fn starts(&mut self, count: usize) -> HashMap<u32, usize> {
        let from = self.started.len();
        while self.started.len() < from + count {
            assert!(self.step().await, "the queue ran dry");
        }
        let mut by_tenant = HashMap::new();
        for started in &self.started[from..from + count] {
            *by_tenant.entry(started.key.tenant.0).or_default() += 1;
        }
        by_tenant
    }

    /// Goes on until nothing runs any more.
    pub(crate) async fn finish_all(&mut self) {
        while self.step().await {}
    }

    pub(crate) fn started_ms(&self, key: TaskKey) -> Option<u64> {
        self.started.iter().find(|started| started.key == key).map(|started| started.at_ms)
    }

    pub(crate) async fn close(self) {
        self.test.delete().await;
    }
}

pub(crate) fn usual(tenant: u32) -> TenantTerms {
    TenantTerms::usual(TenantNo(tenant))
}
