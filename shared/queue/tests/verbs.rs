//! Each verb by itself, on a real Redis.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on must fail")]

use std::time::Duration;

use penstock_protocol::{Event, EventId, TaskKey, TenantNo, ThreadId, event::is_terminal_json};
use penstock_queue::fixture::{TestQueue, task};
use penstock_queue::{
    AdmitLimits, AdmitRequest, AdmitVerdict, Adoption, AttemptVerdict, CancelVerdict, CensusState, Emission,
    EmitVerdict, EnqueueVerdict, Fate, Finish, LeaseState, QueuedTask, ReadyEntry, ReapVerdict, Reason, Retry,
    RetryCause, StartVerdict, State, TenantTerms, Terms, VirtualClock, WorkerId,
};

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}"#;
const CANCELLED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}"#;

fn usual(tenant: u32) -> TenantTerms {
    TenantTerms::usual(TenantNo(tenant))
}

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).unwrap()
}

fn limits(depth_max: u64) -> AdmitLimits {
    AdmitLimits { depth_max, ..AdmitLimits::default() }
}

async fn admit(test: &TestQueue, task: &QueuedTask, limits: AdmitLimits) -> AdmitVerdict {
    let request = AdmitRequest { key: task.key, user: task.user.as_deref(), body_hash: &task.body_hash, limits };
    test.queue.admit(&request).await.unwrap()
}

fn rejection(verdict: &AdmitVerdict) -> Reason {
    match verdict {
        AdmitVerdict::Rejected(rejected) => rejected.reason,
        other => panic!("expected a rejection, got {other:?}"),
    }
}

async fn next(test: &TestQueue, name: &str) -> Option<ReadyEntry> {
    test.queue.ready_reader(worker(name)).read_now(1).await.unwrap().pop()
}

/// Hands the next task to `name` and starts it.
async fn run_next(test: &TestQueue, name: &str) -> ReadyEntry {
    let entry = next(test, name).await.expect("a task was handed out");
    let started = test.queue.start(&entry, &worker(name), STARTED).await.unwrap();
    assert!(matches!(started, StartVerdict::Running { .. }), "{started:?}");
    entry
}

async fn finish(test: &TestQueue, entry: &ReadyEntry, name: &str) -> AttemptVerdict {
    let worker = worker(name);
    let finish = Finish {
        key: entry.key,
        attempt: entry.attempt,
        worker: &worker,
        cost_tokens: None,
        input_tokens: 0,
        last_seq: 1,
        event: FINISHED,
    };
    test.queue.finish(&finish).await.unwrap()
}

async fn events(test: &TestQueue, key: TaskKey) -> Vec<(String, u64, String)> {
    let events = test.queue.read_events(key, EventId::default(), 100).await.unwrap();
    events.into_iter().map(|event| (event.id.to_string(), event.seq, event.event)).collect()
}

#[tokio::test]
async fn a_task_goes_from_the_door_to_its_end_and_leaves_nothing_but_a_tombstone() {
    let test = TestQueue::create().await;
    let mut bells = test.queue.bells().await.unwrap();
    test.queue.beat(&worker("w"), 1, &[], 0).await.unwrap();
    let task = QueuedTask { user: Some("ada".into()), thread: Some(ThreadId::mint()), ..task(1, 1) };
    let AdmitVerdict::Admitted(admitted) = admit(&test, &task, limits(8)).await else { panic!("let in") };
    assert_eq!((admitted.depth(), admitted.ahead()), (1, 0));
    assert_eq!(test.queue.enqueue(&task).await.unwrap(), EnqueueVerdict::Queued { returned: false });

    let entry = run_next(&test, "w").await;
    assert_eq!((entry.key, entry.attempt), (task.key, 1));
    let delta = Event::TextMessageContent { message_id: "m".into(), delta: "hello".into() }.to_json();
    let emission =
        Emission { key: task.key, attempt: 1, first_n: 2, first_seq: 2, events: &[delta.clone(), delta.clone()] };
    assert_eq!(test.queue.emit(&emission).await.unwrap(), EmitVerdict::Written);
    assert_eq!(finish(&test, &entry, "w").await, AttemptVerdict::Done);

    let stored = events(&test, task.key).await;
    let ids: Vec<_> = stored.iter().map(|(id, seq, _)| (id.as_str(), *seq)).collect();
    assert_eq!(ids, [("1-1", 1), ("1-2", 2), ("1-3", 3), ("1-4", 4)]);
    assert_eq!((stored[0].2.as_str(), stored[3].2.as_str()), (STARTED, FINISHED));
    for (id, seq, event) in stored {
        let penstock_queue::BellSignal::Bell(bell) = bells.next().await else { panic!("a bell") };
        assert_eq!((bell.id.to_string(), bell.seq, bell.event.unwrap()), (id, seq, event));
    }
    let gauges = test.queue.gauges().await.unwrap();
    assert_eq!((gauges.depth(), gauges.running, gauges.tombstones, gauges.slots), (0, 0, 1, 1));
    for hash in ["users", "threads"] {
        assert_eq!(test.command::<Vec<String>>(&["HKEYS", &test.key(hash)]).await, ["#"], "{hash}");
    }
    assert_eq!(test.queue.census().await.unwrap().state, CensusState::Open);
    test.delete().await;
}

#[tokio::test]
async fn depth_counts_every_task_that_waits_and_admission_stops_at_the_limit() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("w"), 1, &[], 0).await.unwrap();
    let tasks: Vec<_> = (0..5).map(|number| task(1, number)).collect();
    for task in &tasks[..3] {
        assert!(matches!(admit(&test, task, limits(4)).await, AdmitVerdict::Admitted(_)));
        test.queue.enqueue(task).await.unwrap();
    }
    // One is handed out, two are in line, one is registered only.
    assert!(matches!(admit(&test, &tasks[3], limits(4)).await, AdmitVerdict::Admitted(_)));
    let full = admit(&test, &tasks[4], limits(4)).await;
    assert_eq!(rejection(&full), Reason::Full);
    let AdmitVerdict::Rejected(rejected) = full else { unreachable!() };
    assert_eq!(rejected.depth, 4);
    // A running task is not part of the depth.
    run_next(&test, "w").await;
    assert!(matches!(admit(&test, &tasks[4], limits(4)).await, AdmitVerdict::Admitted(_)));
    test.delete().await;
}

#[tokio::test]
async fn a_thousand_doors_at_once_never_pass_the_limit() {
    let test = TestQueue::create().await;
    let requests = (0..1000).map(|number| {
        let (queue, task) = (test.queue.clone(), task(1 + number % 3, u64::from(number)));
        async move {
            let request = AdmitRequest { key: task.key, user: None, body_hash: &task.body_hash, limits: limits(8) };
            matches!(queue.admit(&request).await.unwrap(), AdmitVerdict::Admitted(_))
        }
    });
    let admitted = futures_util::future::join_all(requests).await.into_iter().filter(|is_in| *is_in).count();
    assert_eq!(admitted, 8);
    assert_eq!(test.queue.gauges().await.unwrap().admitted, 8);
    test.delete().await;
}

#[tokio::test]
async fn bounds_of_tenant_and_user_reject_by_their_own_reason() {
    let test = TestQueue::create().await;
    let first = QueuedTask { user: Some("ada".into()), ..task(1, 1) };
    let second = QueuedTask { user: Some("ada".into()), ..task(1, 2) };
    let stranger = QueuedTask { user: Some("ada".into()), ..task(2, 3) };
    assert!(matches!(admit(&test, &first, limits(8)).await, AdmitVerdict::Admitted(_)));
    let tenant_full = AdmitLimits { tenant_depth_max: 1, ..limits(8) };
    assert_eq!(rejection(&admit(&test, &second, tenant_full).await), Reason::TenantFull);
    let tenant_live = AdmitLimits { tenant_live_max: 1, ..limits(8) };
    assert_eq!(rejection(&admit(&test, &second, tenant_live).await), Reason::TenantLive);
    let user_live = AdmitLimits { user_live_max: 1, ..limits(8) };
    assert_eq!(rejection(&admit(&test, &second, user_live).await), Reason::UserLive);
    // The same name at another tenant is another person.
    assert!(matches!(admit(&test, &stranger, user_live).await, AdmitVerdict::Admitted(_)));
    test.delete().await;
}

#[tokio::test]
async fn a_repeated_request_is_seen_pending_or_different_and_never_counted_twice() {
    let test = TestQueue::create().await;
    let task = task(1, 1);
    let other_body = QueuedTask { body_hash: [9; 32], ..task.clone() };
    let AdmitVerdict::Admitted(admitted) = admit(&test, &task, limits(1)).await else { panic!("let in") };
    assert!(matches!(admit(&test, &task, limits(1)).await, AdmitVerdict::Pending));
    assert!(matches!(admit(&test, &other_body, limits(1)).await, AdmitVerdict::Differs));
    test.queue.enqueue(&task).await.unwrap();
    assert!(matches!(admit(&test, &task, limits(1)).await, AdmitVerdict::Seen));
    assert!(matches!(admit(&test, &other_body, limits(1)).await, AdmitVerdict::Differs));
    assert_eq!(test.queue.enqueue(&task).await.unwrap(), EnqueueVerdict::Known(State::InLine));
    assert_eq!(test.queue.gauges().await.unwrap().depth(), 1);
    // A late release of a registration that went on changes nothing.
    assert!(!test.queue.release(&admitted).await.unwrap());
    assert_eq!(test.queue.gauges().await.unwrap().depth(), 1);
    test.delete().await;
}

#[tokio::test]
async fn a_late_release_does_not_take_the_registration_of_another_door() {
    let test = TestQueue::create().await;
    let task = task(1, 1);
    let AdmitVerdict::Admitted(first) = admit(&test, &task, limits(8)).await else { panic!("let in") };
    assert!(test.queue.release(&first).await.unwrap());
    let AdmitVerdict::Admitted(_second) = admit(&test, &task, limits(8)).await else { panic!("let in again") };
    assert!(!test.queue.release(&first).await.unwrap());
    assert_eq!(test.queue.gauges().await.unwrap().admitted, 1);
    test.delete().await;
}

#[tokio::test]
async fn a_registration_without_a_commit_holds_its_place_for_30_seconds() {
    let clock = VirtualClock::default();
    clock.set_ms(1_000_000);
    let test = TestQueue::create_with(|settings| settings.virtual_clock = Some(clock.clone())).await;
    assert!(matches!(admit(&test, &task(1, 1), limits(1)).await, AdmitVerdict::Admitted(_)));
    clock.set_ms(1_029_999);
    assert_eq!(rejection(&admit(&test, &task(1, 2), limits(1)).await), Reason::Full);
    clock.set_ms(1_030_000);
    assert!(matches!(admit(&test, &task(1, 2), limits(1)).await, AdmitVerdict::Admitted(_)));
    assert_eq!(test.queue.gauges().await.unwrap().admitted, 1);
    test.delete().await;
}

#[tokio::test]
async fn each_refusal_takes_the_next_free_moment_of_its_tenant() {
    let clock = VirtualClock::default();
    clock.set_ms(1_000_000);
    let test = TestQueue::create_with(|settings| settings.virtual_clock = Some(clock.clone())).await;
    let after = |verdict: &AdmitVerdict| match verdict {
        AdmitVerdict::Rejected(rejected) => rejected.retry_after_ms,
        other => panic!("expected a rejection, got {other:?}"),
    };
    let refused = admit(&test, &task(1, 1), limits(0)).await;
    assert_eq!(after(&refused), 10_000, "nothing is known yet");

    // Four slots, four tasks of 3 s each.
    test.queue.beat(&worker("w"), 4, &[], 0).await.unwrap();
    let mut running = Vec::new();
    for number in 0..8 {
        test.queue.enqueue(&task(1, number)).await.unwrap();
    }
    for _ in 0..4 {
        running.push(run_next(&test, "w").await);
    }
    test.queue.tick().await.unwrap();
    clock.set_ms(1_003_000);
    for entry in &running {
        finish(&test, entry, "w").await;
    }
    let waits: Vec<_> = [
        after(&admit(&test, &task(1, 10), limits(0)).await),
        after(&admit(&test, &task(1, 11), limits(0)).await),
        after(&admit(&test, &task(1, 12), limits(0)).await),
        after(&admit(&test, &task(1, 13), limits(0)).await),
    ]
    .into();
    // The mean is about 3 s and there are four slots: one moment each 750 ms, at least 1 s.
    assert_eq!(waits[0], 1000);
    assert!(waits.windows(2).skip(1).all(|pair| (600..=850).contains(&(pair[1] - pair[0]))), "{waits:?}");
    // Another tenant has its own pointer.
    assert!(after(&admit(&test, &task(2, 14), limits(0)).await) <= 1600);
    // A predicted wait beyond what the caller accepts is refused.
    let impatient = AdmitLimits { wait_ms_max: 100, ..limits(100) };
    assert_eq!(rejection(&admit(&test, &task(1, 15), impatient).await), Reason::WaitTooLong);
    test.delete().await;
}

#[tokio::test]
async fn admission_is_closed_until_a_rebuild_opens_it() {
    let test = TestQueue::create().await;
    test.delete_keys().await;
    assert_eq!(rejection(&admit(&test, &task(1, 1), limits(8)).await), Reason::Rebuilding);
    let broken = test.queue.census().await.unwrap();
    assert_eq!(broken.state, CensusState::Broken);
    let first = test.queue.wipe(&broken).await.unwrap().expect("wiped");
    assert_eq!(test.queue.census().await.unwrap().state, CensusState::Closed);
    // A second rebuild takes over; the first may not open any more.
    let second = test.queue.wipe(&broken).await.unwrap().expect("wiped again");
    assert!(!test.queue.apply(first.book(), &Terms::default()).await.unwrap());
    assert!(!test.queue.open(&first).await.unwrap());
    assert_eq!(rejection(&admit(&test, &task(1, 1), limits(8)).await), Reason::Rebuilding);
    assert!(test.queue.open(&second).await.unwrap());
    let open = test.queue.census().await.unwrap();
    assert_eq!(open.state, CensusState::Open);
    assert!(test.queue.wipe(&broken).await.unwrap().is_none(), "the generation is another one");
    assert!(matches!(admit(&test, &task(1, 1), limits(8)).await, AdmitVerdict::Admitted(_)));
    test.delete().await;
}

#[tokio::test]
async fn the_census_finds_each_deleted_key() {
    for name in [
        "admitted", "line", "ring", "held", "ready", "delayed", "tasks", "tenants", "users", "threads", "leases",
        "stats", "done", "paced",
    ] {
        let test = TestQueue::create().await;
        test.queue.beat(&worker("w"), 3, &[], 0).await.unwrap();
        let thread = Some(ThreadId::mint());
        // One task in every home.
        for number in 0..4 {
            test.queue.enqueue(&QueuedTask { user: Some("ada".into()), ..task(1, number) }).await.unwrap();
        }
        let ended = run_next(&test, "w").await;
        finish(&test, &ended, "w").await;
        let delayed = run_next(&test, "w").await;
        let (w, delay) = (worker("w"), Duration::from_secs(60));
        let retry = Retry {
            key: delayed.key,
            attempt: 1,
            worker: &w,
            delay,
            cost_tokens: None,
            cause: RetryCause::AttemptFailed,
        };
        assert_eq!(test.queue.retry(&retry).await.unwrap(), AttemptVerdict::Done);
        run_next(&test, "w").await;
        for number in 4..8 {
            test.queue.enqueue(&QueuedTask { thread, ..task(1, number) }).await.unwrap();
        }
        test.queue.enqueue(&task(1, 9)).await.unwrap();
        admit(&test, &task(1, 10), limits(100)).await;
        let gauges = test.queue.gauges().await.unwrap();
        for home in [
            gauges.admitted,
            gauges.line,
            gauges.held,
            gauges.handed_out,
            gauges.delayed,
            gauges.running,
            gauges.tombstones,
        ] {
            assert!(home > 0, "every home is in use: {gauges:?}");
        }
        assert_eq!(test.queue.census().await.unwrap().state, CensusState::Open, "before");
        assert_eq!(test.command::<i64>(&["DEL", &test.key(name)]).await, 1);
        test.queue.tick().await.unwrap();
        assert_eq!(test.queue.census().await.unwrap().state, CensusState::Broken, "without {name}");
        test.delete().await;
    }
}

#[tokio::test]
async fn two_backlogged_tenants_are_served_by_their_weights() {
    let test = TestQueue::create().await;
    test.apply_to(&[TenantTerms { weight: 3, ..usual(1) }]).await;
    for number in 0..80 {
        test.queue.enqueue(&task(1, number)).await.unwrap();
        test.queue.enqueue(&task(2, number)).await.unwrap();
    }
    test.queue.beat(&worker("w"), 1, &[], 0).await.unwrap();
    let mut served = [0, 0];
    for _ in 0..80 {
        let entry = run_next(&test, "w").await;
        served[usize::from(entry.key.tenant.0 == 2)] += 1;
        finish(&test, &entry, "w").await;
    }
    assert_eq!(served, [60, 20]);
    test.delete().await;
}

#[tokio::test]
async fn a_task_does_not_wait_behind_a_flood_of_another_tenant() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("w"), 1, &[], 0).await.unwrap();
    for number in 0..200 {
        test.queue.enqueue(&task(1, number)).await.unwrap();
    }
    let mut entry = run_next(&test, "w").await;
    let victim = task(2, 1000);
    test.queue.enqueue(&victim).await.unwrap();
    let position = test.queue.position(victim.key).await.unwrap();
    assert_eq!((position.state, position.ahead), (Some(State::InLine), Some(0)));
    let mut ahead = 0;
    while entry.key != victim.key {
        finish(&test, &entry, "w").await;
        entry = run_next(&test, "w").await;
        ahead += 1;
    }
    assert!(ahead <= 2, "{ahead} tasks of the flood were served first");
    test.delete().await;
}

#[tokio::test]
async fn a_tenant_at_its_cap_or_on_hold_is_not_in_the_ring_and_blocks_nobody() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("w"), 4, &[], 0).await.unwrap();
    test.apply_to(&[TenantTerms { running_max: Some(1), ..usual(1) }]).await;
    for number in 0..4 {
        test.queue.enqueue(&task(1, number)).await.unwrap();
    }
    assert_eq!(test.command::<Vec<String>>(&["ZRANGE", &test.key("ring"), "0", "-1"]).await, ["#"]);
    assert_eq!(test.queue.gauges().await.unwrap().handed_out, 1);
    test.queue.enqueue(&task(2, 9)).await.unwrap();
    assert_eq!(test.queue.gauges().await.unwrap().handed_out, 2, "another tenant passes");
    test.apply_to(&[TenantTerms { is_paused: true, ..usual(1) }]).await;
    assert_eq!(test.queue.gauges().await.unwrap().handed_out, 2, "no cap, but on hold");
    test.apply_to(&[usual(1)]).await;
    assert_eq!(test.queue.gauges().await.unwrap().handed_out, 4, "freed at once, up to the slots");
    test.delete().await;
}

#[tokio::test]
async fn ready_holds_no_more_than_idle_slots_can_take() {
    let test = TestQueue::create().await;
    for number in 0..10 {
        test.queue.enqueue(&task(1, number)).await.unwrap();
    }
    assert_eq!(test.queue.gauges().await.unwrap().handed_out, 0, "no slots yet");
    test.queue.beat(&worker("w"), 3, &[], 0).await.unwrap();
    assert_eq!(test.queue.gauges().await.unwrap().handed_out, 3, "a beat with more slots hands out");
    run_next(&test, "w").await;
    assert_eq!(test.queue.gauges().await.unwrap().handed_out, 2, "a running task keeps its slot");
    test.queue.leave(&worker("w")).await.unwrap();
    assert_eq!(test.queue.gauges().await.unwrap().slots, 0);
    test.delete().await;
}

#[tokio::test]
async fn a_thread_runs_one_task_at_a_time_in_order_of_acceptance() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("w"), 4, &[], 0).await.unwrap();
    let thread = Some(ThreadId::mint());
    let first = QueuedTask { thread, ..task(1, 100) };
    // The third has priority: an early place, but its turn is the moment of its acceptance.
    let urgent = QueuedTask { thread, accepted_ms: 102, ..task(1, 5) };
    let second = QueuedTask { thread, ..task(1, 101) };
    for task in [&first, &urgent, &second] {
        test.queue.enqueue(task).await.unwrap();
    }
    let gauges = test.queue.gauges().await.unwrap();
    assert_eq!((gauges.handed_out, gauges.held), (1, 2));
    for expected in [first.key, second.key, urgent.key] {
        let entry = run_next(&test, "w").await;
        assert_eq!(entry.key, expected);
        assert!(next(&test, "w").await.is_none(), "the next one waits for its thread");
        finish(&test, &entry, "w").await;
    }
    assert_eq!(test.queue.census().await.unwrap().state, CensusState::Open);
    test.delete().await;
}

#[tokio::test]
async fn cancelling_the_holder_of_a_thread_lets_the_next_one_in() {
    let test = TestQueue::create().await;
    let thread = Some(ThreadId::mint());
    let (first, second) = (QueuedTask { thread, ..task(1, 1) }, QueuedTask { thread, ..task(1, 2) });
    test.queue.enqueue(&first).await.unwrap();
    test.queue.enqueue(&second).await.unwrap();
    assert_eq!(test.queue.position(second.key).await.unwrap().state, Some(State::Held));
    assert_eq!(test.queue.cancel(first.key, 0, CANCELLED).await.unwrap(), CancelVerdict::Ended);
    assert_eq!(test.queue.position(second.key).await.unwrap().state, Some(State::InLine));
    test.delete().await;
}

#[tokio::test]
async fn a_fenced_worker_cannot_write_an_event_and_learns_it() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("old"), 1, &[], 0).await.unwrap();
    let task = task(1, 1);
    test.queue.enqueue(&task).await.unwrap();
    let entry = run_next(&test, "old").await;
    let text = [Event::TextMessageEnd { message_id: "m".into() }.to_json()];
    let emission = |n, seq| Emission { key: task.key, attempt: 1, first_n: n, first_seq: seq, events: &text };
    assert_eq!(test.queue.emit(&emission(2, 2)).await.unwrap(), EmitVerdict::Written);
    // The answer to an emit was lost: the same call again finds its own event.
    assert_eq!(test.queue.emit(&emission(2, 2)).await.unwrap(), EmitVerdict::Written);

    let old = worker("old");
    let back = Retry {
        key: task.key,
        attempt: 1,
        worker: &old,
        delay: Duration::ZERO,
        cost_tokens: None,
        cause: RetryCause::HandedBack,
    };
    assert_eq!(test.queue.retry(&back).await.unwrap(), AttemptVerdict::Done);
    assert_eq!(test.queue.emit(&emission(3, 3)).await.unwrap(), EmitVerdict::Fenced);
    assert_eq!(finish(&test, &entry, "old").await, AttemptVerdict::Stale);
    let beat = test.queue.beat(&old, 1, &[(task.key, 1)], 0).await.unwrap();
    assert_eq!(beat.leases, [LeaseState::Lost]);

    let again = run_next(&test, "new").await;
    assert_eq!(again.attempt, 2);
    let stored = events(&test, task.key).await;
    let ids: Vec<_> = stored.iter().map(|(id, seq, _)| (id.as_str(), *seq)).collect();
    assert_eq!(ids, [("1-1", 1), ("1-2", 2), ("2-0", 3), ("2-1", 4)]);
    for (index, name, cause) in [(2, "penstock.handed_back", "handed_back"), (3, "penstock.retry", "handed_back")] {
        let Event::Custom { name: found, value } = serde_json::from_str(&stored[index].2).unwrap() else {
            panic!("{:?}", stored[index])
        };
        assert_eq!((found.as_str(), &value["attempt"], &value["cause"]), (name, &2.into(), &cause.into()));
    }
    test.delete().await;
}

#[tokio::test]
async fn nothing_can_be_written_after_the_seal() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("w"), 1, &[], 0).await.unwrap();
    let task = task(1, 1);
    test.queue.enqueue(&task).await.unwrap();
    let entry = run_next(&test, "w").await;
    assert_eq!(finish(&test, &entry, "w").await, AttemptVerdict::Done);
    let text = [STARTED.to_owned()];
    for attempt in [1, 2, 99] {
        let emission = Emission { key: task.key, attempt, first_n: 5, first_seq: 3, events: &text };
        assert_eq!(test.queue.emit(&emission).await.unwrap(), EmitVerdict::Fenced);
    }
    assert_eq!(finish(&test, &entry, "w").await, AttemptVerdict::Already);
    assert_eq!(test.queue.cancel(task.key, 1, CANCELLED).await.unwrap(), CancelVerdict::Already);
    assert!(!test.queue.close(task.key, 1, CANCELLED).await.unwrap());
    // Even after its tombstone is gone and a stale snapshot queued it again.
    for key in ["tasks", "done"] {
        let _: i64 =
            test.command(&[if key == "tasks" { "HDEL" } else { "ZREM" }, &test.key(key), &task.key.to_string()]).await;
    }
    test.queue.enqueue(&QueuedTask { attempt: 1, ..task.clone() }).await.unwrap();
    let revived = next(&test, "w").await.unwrap();
    assert_eq!(test.queue.start(&revived, &worker("w"), STARTED).await.unwrap(), StartVerdict::Sealed);
    assert!(test.queue.close(task.key, 1, CANCELLED).await.unwrap());
    let stored = events(&test, task.key).await;
    assert_eq!(stored.iter().filter(|(_, _, event)| is_terminal_json(event)).count(), 1);
    assert_eq!(stored.len(), 2);
    let keep_ms: i64 = test.command(&["PTTL", &test.queue.shard().events(task.key)]).await;
    assert!((1..=300_000).contains(&keep_ms), "{keep_ms}");
    test.delete().await;
}

#[tokio::test]
async fn a_cancel_ends_a_waiting_task_and_tells_the_worker_of_a_running_one() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("w"), 1, &[], 0).await.unwrap();
    let (running, waiting, unknown, registered) = (task(1, 1), task(1, 2), task(1, 3), task(1, 4));
    test.queue.enqueue(&running).await.unwrap();
    test.queue.enqueue(&waiting).await.unwrap();
    admit(&test, &registered, limits(100)).await;
    let entry = run_next(&test, "w").await;
    let mut orders = test.queue.orders(&worker("w")).await.unwrap();

    assert_eq!(test.queue.cancel(waiting.key, 0, CANCELLED).await.unwrap(), CancelVerdict::Ended);
    assert_eq!(test.queue.cancel(unknown.key, 0, CANCELLED).await.unwrap(), CancelVerdict::Unknown);
    assert_eq!(test.queue.cancel(registered.key, 0, CANCELLED).await.unwrap(), CancelVerdict::Unknown);
    for key in [waiting.key, unknown.key, registered.key] {
        assert_eq!(events(&test, key).await, [("1-1".to_owned(), 1, CANCELLED.to_owned())]);
    }
    assert_eq!(test.queue.cancel(running.key, 1, CANCELLED).await.unwrap(), CancelVerdict::Flagged);
    let told = penstock_queue::Order::Cancel { key: running.key, attempt: 1 };
    assert_eq!(orders.next().await, penstock_queue::OrderSignal::Order(told));
    let beat = test.queue.beat(&worker("w"), 1, &[(running.key, 1)], 0).await.unwrap();
    assert_eq!(beat.leases, [LeaseState::CancelAsked]);
    assert!(!events(&test, running.key).await.iter().any(|(_, _, event)| is_terminal_json(event)));
    assert_eq!(finish(&test, &entry, "w").await, AttemptVerdict::Done);
    test.delete().await;
}

#[tokio::test]
async fn a_lost_lease_is_reaped_once_its_time_has_passed_and_the_task_keeps_its_place() {
    let clock = VirtualClock::default();
    clock.set_ms(1_000_000);
    let test = TestQueue::create_with(|settings| settings.virtual_clock = Some(clock.clone())).await;
    test.queue.beat(&worker("dead"), 1, &[], 0).await.unwrap();
    let (lost, later) = (task(1, 1), task(1, 2));
    test.queue.enqueue(&lost).await.unwrap();
    run_next(&test, "dead").await;
    test.queue.enqueue(&later).await.unwrap();
    clock.set_ms(1_015_000 - 1);
    assert!(test.queue.lost(10).await.unwrap().is_empty());
    clock.set_ms(1_015_000);
    let found = test.queue.beat(&worker("reaper"), 0, &[], 10).await.unwrap().lost;
    assert_eq!((found.len(), found[0].key, found[0].has_started), (1, lost.key, true));
    let reaper = worker("reaper");
    assert_eq!(test.queue.reap(&found[0], &reaper, Fate::Waits).await.unwrap(), ReapVerdict::Requeued);
    assert_eq!(test.queue.reap(&found[0], &reaper, Fate::Waits).await.unwrap(), ReapVerdict::NotLost);
    test.queue.beat(&reaper, 1, &[], 0).await.unwrap();
    let entry = run_next(&test, "reaper").await;
    assert_eq!((entry.key, entry.attempt), (lost.key, 2), "before the task that came later");

    clock.set_ms(1_030_000);
    let found = test.queue.lost(10).await.unwrap();
    assert_eq!(test.queue.reap(&found[0], &reaper, Fate::Closes).await.unwrap(), ReapVerdict::Closing { attempt: 3 });
    let closing = ReadyEntry { key: lost.key, attempt: 3, entry: String::new() };
    assert_eq!(finish(&test, &closing, "reaper").await, AttemptVerdict::Done);
    let stored = events(&test, lost.key).await;
    let ids: Vec<_> = stored.iter().map(|(id, seq, _)| (id.as_str(), *seq)).collect();
    assert_eq!(ids, [("1-1", 1), ("2-0", 2), ("2-1", 3), ("3-0", 4), ("3-1", 5)]);
    assert_eq!(test.queue.census().await.unwrap().state, CensusState::Open);
    test.delete().await;
}

#[tokio::test]
async fn an_entry_that_was_read_and_not_started_is_handed_out_again_under_a_higher_attempt() {
    let clock = VirtualClock::default();
    clock.set_ms(1_000_000);
    let test = TestQueue::create_with(|settings| settings.virtual_clock = Some(clock.clone())).await;
    test.queue.beat(&worker("w"), 1, &[], 0).await.unwrap();
    let task = task(1, 1);
    test.queue.enqueue(&task).await.unwrap();
    assert!(test.queue.lost(10).await.unwrap().is_empty(), "nobody read it yet");
    let entry = next(&test, "dead").await.unwrap();
    let found = test.queue.lost(10).await.unwrap();
    assert_eq!((found.len(), found[0].has_started), (1, false));
    assert_eq!(test.queue.reap(&found[0], &worker("w"), Fate::Waits).await.unwrap(), ReapVerdict::Requeued);
    assert_eq!(test.queue.start(&entry, &worker("dead"), STARTED).await.unwrap(), StartVerdict::Stale);
    let again = run_next(&test, "w").await;
    assert_eq!((again.key, again.attempt), (task.key, 2));
    // No run was open, so this one is opened.
    assert_eq!(events(&test, task.key).await[0].2, STARTED);
    test.delete().await;
}

#[tokio::test]
async fn a_claim_that_found_mysql_ahead_raises_the_attempt() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("w"), 1, &[], 0).await.unwrap();
    let task = task(1, 1);
    test.queue.enqueue(&task).await.unwrap();
    let entry = next(&test, "w").await.unwrap();
    assert!(test.queue.raise(&entry, 7, false).await.unwrap());
    assert!(!test.queue.raise(&entry, 9, false).await.unwrap(), "the entry is gone");
    assert_eq!(run_next(&test, "w").await.attempt, 8);
    test.delete().await;
}

#[tokio::test]
async fn a_live_worker_adopts_its_task_after_a_flush_and_its_events_go_on() {
    let test = TestQueue::create().await;
    let w = worker("w");
    test.queue.beat(&w, 1, &[], 0).await.unwrap();
    let task = QueuedTask { user: Some("ada".into()), thread: Some(ThreadId::mint()), ..task(1, 1) };
    test.queue.enqueue(&task).await.unwrap();
    let entry = run_next(&test, "w").await;
    let text = [Event::TextMessageEnd { message_id: "m".into() }.to_json()];
    let emission = |n, seq| Emission { key: task.key, attempt: 1, first_n: n, first_seq: seq, events: &text };
    assert_eq!(test.queue.emit(&emission(2, 2)).await.unwrap(), EmitVerdict::Written);

    test.delete_keys().await;
    assert_eq!(test.queue.emit(&emission(3, 3)).await.unwrap(), EmitVerdict::Gone);
    let census = test.queue.census().await.unwrap();
    let token = test.queue.wipe(&census).await.unwrap().unwrap();
    // A rebuild may know a later task of the thread before the worker comes back.
    let later = QueuedTask { thread: task.thread, ..penstock_queue::fixture::task(1, 2) };
    test.queue.enqueue(&later).await.unwrap();
    assert!(test.queue.open(&token).await.unwrap());
    let beat = test.queue.beat(&w, 0, &[(task.key, 1)], 0).await.unwrap();
    assert_eq!(beat.leases, [LeaseState::Unknown]);
    let adoption = Adoption { task: &task, attempt: 1, worker: &w, last_n: 2 };
    assert!(test.queue.adopt(&adoption).await.unwrap());
    assert!(test.queue.adopt(&adoption).await.unwrap(), "a repeat is the same");
    assert_eq!(test.queue.position(later.key).await.unwrap().state, Some(State::Held), "it waits again");
    let thief = worker("thief");
    assert!(!test.queue.adopt(&Adoption { worker: &thief, ..adoption.clone() }).await.unwrap());
    assert_eq!(test.queue.emit(&emission(3, 3)).await.unwrap(), EmitVerdict::Written);
    let finish = Finish {
        key: task.key,
        attempt: 1,
        worker: &w,
        cost_tokens: None,
        input_tokens: 0,
        last_seq: 3,
        event: FINISHED,
    };
    assert_eq!(test.queue.finish(&finish).await.unwrap(), AttemptVerdict::Done);
    let ids: Vec<_> = events(&test, task.key).await.into_iter().map(|(id, seq, _)| (id, seq)).collect();
    assert_eq!(ids, [("1-3".to_owned(), 3), ("1-4".to_owned(), 4)], "no number is given twice: {entry:?}");
    assert_eq!(test.queue.position(later.key).await.unwrap().state, Some(State::InLine));
    assert_eq!(test.queue.census().await.unwrap().state, CensusState::Open);
    test.delete().await;
}

#[tokio::test]
async fn a_task_that_the_reconciler_queued_again_fences_the_worker_that_had_it() {
    let test = TestQueue::create().await;
    let w = worker("w");
    test.queue.beat(&w, 1, &[], 0).await.unwrap();
    let task = task(1, 1);
    test.queue.enqueue(&task).await.unwrap();
    run_next(&test, "w").await;
    let broken = penstock_queue::Census { state: CensusState::Broken, ..test.queue.census().await.unwrap() };
    let token = test.queue.wipe(&broken).await.unwrap().unwrap();
    assert!(test.queue.open(&token).await.unwrap());
    test.queue.enqueue(&QueuedTask { attempt: 1, ..task.clone() }).await.unwrap();
    let text = [Event::TextMessageEnd { message_id: "m".into() }.to_json()];
    let emission = Emission { key: task.key, attempt: 1, first_n: 2, first_seq: 2, events: &text };
    assert_eq!(test.queue.emit(&emission).await.unwrap(), EmitVerdict::Fenced);
    assert!(!test.queue.adopt(&Adoption { task: &task, attempt: 1, worker: &w, last_n: 1 }).await.unwrap());
    // A repeat of the enqueue, or a sealed stream, changes nothing.
    test.queue.enqueue(&QueuedTask { attempt: 1, ..task.clone() }).await.unwrap();
    let ids: Vec<_> = events(&test, task.key).await.into_iter().map(|(id, seq, _)| (id, seq)).collect();
    assert_eq!(ids, [("1-1".to_owned(), 1), ("2-0".to_owned(), 2)]);
    test.delete().await;
}

#[tokio::test]
async fn a_delayed_retry_comes_back_when_it_is_due() {
    let clock = VirtualClock::default();
    clock.set_ms(1_000_000);
    let test = TestQueue::create_with(|settings| settings.virtual_clock = Some(clock.clone())).await;
    let w = worker("w");
    test.queue.beat(&w, 1, &[], 0).await.unwrap();
    let task = task(1, 1);
    test.queue.enqueue(&task).await.unwrap();
    run_next(&test, "w").await;
    let delay = Duration::from_secs(3);
    let retry = Retry {
        key: task.key,
        attempt: 1,
        worker: &w,
        delay,
        cost_tokens: Some(500),
        cause: RetryCause::AttemptFailed,
    };
    assert_eq!(test.queue.retry(&retry).await.unwrap(), AttemptVerdict::Done);
    let gauges = test.queue.gauges().await.unwrap();
    assert_eq!((gauges.delayed, gauges.depth()), (1, 0), "a task that backs off is in no sum");
    clock.set_ms(1_002_999);
    test.queue.tick().await.unwrap();
    assert!(next(&test, "w").await.is_none());
    clock.set_ms(1_003_000);
    test.queue.tick().await.unwrap();
    assert_eq!(run_next(&test, "w").await.attempt, 2);
    test.delete().await;
}

#[tokio::test]
async fn a_paused_run_holds_no_slot_and_opens_again_on_the_same_stream() {
    let interrupt =
        r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[]}}"#;
    let test = TestQueue::create().await;
    let w = worker("w");
    test.queue.beat(&w, 1, &[], 0).await.unwrap();
    let task = task(1, 1);
    test.queue.enqueue(&task).await.unwrap();
    run_next(&test, "w").await;
    assert_eq!(test.queue.pause(task.key, 1, &w, interrupt).await.unwrap(), AttemptVerdict::Done);
    assert_eq!(test.queue.position(task.key).await.unwrap().state, None);
    assert_eq!(test.queue.gauges().await.unwrap().running, 0);
    test.queue.enqueue(&QueuedTask { attempt: 1, ..task.clone() }).await.unwrap();
    let entry = run_next(&test, "w").await;
    finish(&test, &entry, "w").await;
    let stored: Vec<_> = events(&test, task.key).await;
    let ids: Vec<_> = stored.iter().map(|(id, seq, _)| (id.as_str(), *seq)).collect();
    assert_eq!(ids, [("1-1", 1), ("2-0", 2), ("2-1", 3), ("2-2", 4)]);
    assert_eq!(stored[2].2, STARTED, "a run that an interrupt closed is opened, not retried");
    test.delete().await;
}

#[tokio::test]
async fn the_tick_forgets_tombstones_silent_workers_and_tenants_at_rest() {
    let clock = VirtualClock::default();
    clock.set_ms(1_000_000);
    let test = TestQueue::create_with(|settings| settings.virtual_clock = Some(clock.clone())).await;
    test.queue.beat(&worker("w"), 2, &[], 0).await.unwrap();
    test.queue.enqueue(&task(1, 1)).await.unwrap();
    let entry = run_next(&test, "w").await;
    finish(&test, &entry, "w").await;
    // Virtual time passes the tenant's tag when another one is served from there on.
    clock.set_ms(1_030_000);
    test.queue.beat(&worker("other"), 1, &[], 0).await.unwrap();
    let gauges = test.queue.gauges().await.unwrap();
    assert_eq!((gauges.tombstones, gauges.slots, gauges.workers), (0, 1, 1));
    assert_eq!(test.command::<Vec<String>>(&["HKEYS", &test.key("tasks")]).await, ["#"]);
    for number in 2..6 {
        test.queue.enqueue(&task(2, number)).await.unwrap();
        let entry = run_next(&test, "other").await;
        finish(&test, &entry, "other").await;
    }
    test.queue.tick().await.unwrap();
    test.queue.tick().await.unwrap();
    let known: Vec<String> = test.command(&["HKEYS", &test.key("tenants")]).await;
    assert!(!known.contains(&"1".to_owned()), "{known:?}");
    test.delete().await;
}

#[tokio::test]
async fn quarantined_tasks_run_one_by_one_and_nobody_else_waits_for_them() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("w"), 4, &[], 0).await.unwrap();
    test.queue.tick().await.unwrap();
    let suspect = |tenant, number| QueuedTask { is_quarantined: true, attempt: 1, ..task(tenant, number) };
    let (first, second, third, healthy) = (suspect(1, 1), suspect(1, 2), suspect(2, 3), task(1, 4));
    for task in [&first, &second, &third, &healthy] {
        test.queue.enqueue(task).await.unwrap();
    }
    let gauges = test.queue.gauges().await.unwrap();
    assert_eq!((gauges.quarantined, gauges.quarantine_running, gauges.held, gauges.depth()), (2, 1, 2, 4));
    let position = test.queue.position(second.key).await.unwrap();
    assert_eq!((position.state, position.ahead), (Some(State::Quarantined), None));
    let entry = run_next(&test, "w").await;
    assert_eq!((entry.key, entry.attempt), (first.key, 2));
    assert_eq!(run_next(&test, "w").await.key, healthy.key, "a healthy task passes them");
    assert!(next(&test, "w").await.is_none(), "two slots are idle, and the lane is taken");

    // A failure or a hand-back keeps the task in the lane, and lets the next one in: another tenant's turn.
    let by = worker("w");
    let cause = RetryCause::HandedBack;
    let retry = Retry { key: first.key, attempt: 2, worker: &by, delay: Duration::ZERO, cost_tokens: None, cause };
    assert_eq!(test.queue.retry(&retry).await.unwrap(), AttemptVerdict::Done);
    let entry = run_next(&test, "w").await;
    assert_eq!(entry.key, third.key);
    assert_eq!(finish(&test, &entry, "w").await, AttemptVerdict::Done);
    let entry = run_next(&test, "w").await;
    assert_eq!((entry.key, entry.attempt), (first.key, 3), "its old place is before the second's");

    // Cancelled while it waits, and while it runs.
    assert_eq!(test.queue.cancel(second.key, 1, CANCELLED).await.unwrap(), CancelVerdict::Ended);
    assert_eq!(test.queue.cancel(first.key, 3, CANCELLED).await.unwrap(), CancelVerdict::Flagged);
    assert_eq!(finish(&test, &entry, "w").await, AttemptVerdict::Done);
    let gauges = test.queue.gauges().await.unwrap();
    assert_eq!((gauges.quarantined, gauges.quarantine_running, gauges.held), (0, 0, 0));
    test.delete().await;
}

#[tokio::test]
async fn a_tenant_that_may_not_run_does_not_block_the_quarantine_lane() {
    let test = TestQueue::create().await;
    test.queue.beat(&worker("w"), 2, &[], 0).await.unwrap();
    test.apply_to(&[TenantTerms { is_paused: true, ..usual(1) }]).await;
    let suspect = |tenant, number| QueuedTask { is_quarantined: true, ..task(tenant, number) };
    let (held, free) = (suspect(1, 1), suspect(2, 2));
    test.queue.enqueue(&held).await.unwrap();
    assert!(next(&test, "w").await.is_none());
    test.queue.enqueue(&free).await.unwrap();
    let entry = run_next(&test, "w").await;
    assert_eq!(entry.key, free.key);
    finish(&test, &entry, "w").await;
    test.apply_to(&[usual(1)]).await;
    assert_eq!(run_next(&test, "w").await.key, held.key);
    test.delete().await;
}
