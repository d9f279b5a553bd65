//! Queue against truth, with both servers: what a check finds, what it mends, and what a rebuild must not leave behind.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use penstock_protocol::{
    Ending, EventId, Input, PlaceSource, Status, TaskId, TaskKey, TaskSpec, TenantNo, ThreadId, clock,
    event::is_terminal_json,
};
use penstock_queue::fixture::{TestQueue, task};
use penstock_queue::{CensusState, EnqueueVerdict, WorkerId};
use penstock_recovery::{DriftKind, Recovery, RecoveryMetrics, Report};
use penstock_store::fixture::TestDatabase;
use penstock_store::{End, NewTask, NotBefore, TaskRow};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const TENANT: TenantNo = TenantNo(1);
const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;

struct World {
    test: TestQueue,
    database: TestDatabase,
    recovery: Recovery,
    places: PlaceSource,
}

impl World {
    async fn new() -> Self {
        let (test, database) = (TestQueue::create().await, TestDatabase::create().await);
        let settings = penstock_config::load(None).unwrap().settings;
        let name = WorkerId::new("door").unwrap();
        let metrics = RecoveryMetrics::default();
        let recovery = Recovery::new(test.queue.clone(), database.store.clone(), name, settings.into(), metrics);
        Self { test, database, recovery, places: PlaceSource::new(1, 0) }
    }

    /// A row that is old enough to be looked at.
    async fn accept(&self) -> TaskRow {
        let accepted_ms = clock::wall_ms() - 60_000;
        let task = NewTask {
            key: TaskKey::new(TENANT, TaskId::mint()),
            thread: ThreadId::mint(),
            agent: "assistant".into(),
            user: Some("ann".into()),
            place: self.places.next(accepted_ms, 0),
            priority: 0,
            cost_tokens: 1000,
            body_hash: [7; 32],
            idempotency_key: None,
            accepted_ms,
            deadline_in_ms: None,
            cancel_on_disconnect: false,
            replay_of: None,
            start: NotBefore::Now,
            webhook: None,
            spec: TaskSpec {
                input: Input::Text("hello".into()),
                is_new_thread: true,
                metadata: serde_json::Value::Null,
                state: serde_json::Value::Null,
                tools: vec![],
                context: vec![],
                retry: None,
                traceparent: None,
            },
        };
        let key = task.key;
        self.database.store.accept(task).await.unwrap();
        self.database.store.task(key).await.unwrap().unwrap()
    }

    async fn enqueue(&self, row: &TaskRow) {
        let verdict = self.test.queue.enqueue(&self.recovery.queued_task(row, 0)).await.unwrap();
        assert!(matches!(verdict, EnqueueVerdict::Queued { .. }));
    }

    /// A task that runs: claimed, started, one event on its stream.
    async fn run(&self) -> TaskRow {
        let row = self.accept().await;
        let worker = WorkerId::new("w").unwrap();
        self.test.queue.beat(&worker, 1, &[], 0).await.unwrap();
        self.enqueue(&row).await;
        let entry = self.test.queue.ready_reader(worker.clone()).read_now(1).await.unwrap().remove(0);
        self.database.store.claim(row.key, entry.attempt, "w").await.unwrap();
        self.test.queue.start(&entry, &worker, STARTED).await.unwrap();
        row
    }

    /// Ends a running row; nobody tells.
    async fn end_untold(&self, row: &TaskRow) {
        let ending = Ending { status: Status::Succeeded, result: Some("done".into()), error: None, usage: vec![] };
        let end = End { key: row.key, attempt: 1, ending, model: None, model_calls: 1 };
        self.database.store.end(end).await.unwrap();
    }

    async fn ends(&self, key: TaskKey) -> usize {
        let events = self.test.queue.read_events(key, EventId::default(), 100).await.unwrap();
        events.iter().filter(|event| is_terminal_json(&event.event)).count()
    }

    async fn check(&self, mend: bool) -> Report {
        self.recovery.check(mend).await.unwrap()
    }

    async fn leave(self) {
        self.test.delete().await;
        self.database.drop_database().await;
    }
}

fn counts(report: &Report) -> Vec<(DriftKind, u64, u64)> {
    let all = DriftKind::ALL.map(|kind| (kind, report.drift.of(kind).count, report.drift.of(kind).mended));
    all.into_iter().filter(|(_, count, _)| *count > 0).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_every_kind_of_difference_and_a_repair_mends_it() {
    let world = World::new().await;
    let sound = world.accept().await;
    world.enqueue(&sound).await;
    assert_eq!(counts(&world.check(false).await), [], "a sound queue has nothing to mend");

    let forgotten = world.accept().await;
    // A record whose row was removed by hand.
    let orphan = task(1, 1);
    world.test.queue.enqueue(&orphan).await.unwrap();
    // A cancel that never reached Redis.
    let cancelled = world.accept().await;
    world.enqueue(&cancelled).await;
    world.database.store.cancel(cancelled.key).await.unwrap();
    let totals: String = world.test.command(&["HGET", &world.test.key("tenants"), "#"]).await;
    let mut fields: Vec<&str> = totals.split('|').collect();
    fields[6] = "3"; // held
    let _: i64 = world.test.command(&["HSET", &world.test.key("tenants"), "#", &fields.join("|")]).await;
    let _: i64 = world.test.command(&["HSET", &world.test.key("users"), "1|bob", "2"]).await;

    let expected = [
        (DriftKind::RowWithoutRecord, 1),
        (DriftKind::RecordWithoutRow, 1),
        (DriftKind::RecordOfEndedRow, 1),
        (DriftKind::Counter, 2),
    ];
    let found = world.check(false).await;
    assert_eq!(counts(&found), expected.map(|(kind, count)| (kind, count, 0)), "{found:?}");
    assert!(!found.is_well());
    let mended = world.check(true).await;
    assert_eq!(counts(&mended), expected.map(|(kind, count)| (kind, count, count)), "{mended:?}");
    let after = world.check(false).await;
    assert_eq!(counts(&after), [], "{after:?}");
    assert!(after.is_well());
    assert_eq!((after.rows, world.test.queue.gauges().await.unwrap().line), (2, 2));
    assert!(world.test.queue.known(&[forgotten.key]).await.unwrap()[0]);
    assert_eq!(world.ends(cancelled.key).await, 1, "whoever waits for the cancelled task is told");
    world.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_task_is_left_to_its_worker_while_its_end_is_on_the_way() {
    let world = World::new().await;
    let row = world.run().await;
    world.end_untold(&row).await;
    assert_eq!(counts(&world.check(true).await), [], "its worker stores, then tells");
    assert_eq!(world.ends(row.key).await, 0);
    world.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_tells_the_ends_that_were_stored_and_not_told() {
    let world = World::new().await;
    let row = world.run().await;
    world.end_untold(&row).await;
    let _: i64 = world.test.command(&["DEL", &world.test.key("tasks")]).await;
    assert_eq!(world.test.queue.census().await.unwrap().state, CensusState::Broken);
    let stop = CancellationToken::new();
    let running = tokio::spawn(world.recovery.clone().run(stop.clone()));
    let deadline = Instant::now() + Duration::from_secs(30);
    while world.ends(row.key).await == 0 {
        assert!(Instant::now() < deadline, "the end was never told");
        sleep(Duration::from_millis(50)).await;
    }
    stop.cancel();
    running.await.unwrap();
    assert_eq!(world.ends(row.key).await, 1);
    let life: i64 = world.test.command(&["PTTL", &world.test.queue.shard().events(row.key)]).await;
    assert!(life > 0, "its stream goes in time");
    world.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_process_mends_by_itself() {
    let world = World::new().await;
    let forgotten = world.accept().await;
    let cancelled = world.accept().await;
    world.enqueue(&cancelled).await;
    world.database.store.cancel(cancelled.key).await.unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(world.recovery.clone().run(stop.clone()));
    let deadline = Instant::now() + Duration::from_secs(40);
    while world.ends(cancelled.key).await == 0 || !world.test.queue.known(&[forgotten.key]).await.unwrap()[0] {
        assert!(Instant::now() < deadline, "one reconcile period is long over");
        sleep(Duration::from_millis(50)).await;
    }
    stop.cancel();
    running.await.unwrap();
    world.leave().await;
}
