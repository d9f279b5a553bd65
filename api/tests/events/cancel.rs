//! A cancel in every state: final at once, told to whoever watches, and what was seen is what is stored.

use std::time::Duration;

use penstock_protocol::{EventId, Place, Status, TaskId, TaskKey, TenantNo, ThreadId};
use penstock_queue::{Fate, LostTask, QueuedTask, Retry, RetryCause, State, WorkerId};
use reqwest::StatusCode;
use serde_json::json;

use crate::harness::{Door, eventually, task_named};
use crate::run::{Hands, Run, redis};

/// Cancels a task and waits until its end is told; returns its events.
async fn cancelled(door: &Door, key: TaskKey) -> Vec<String> {
    let answer = door.ann.delete(&format!("/api/task/{}", key.task)).await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (StatusCode::OK, Some("cancelled")));
    eventually("the end is told", async || door.app.queue.position(key).await.unwrap().state == Some(State::Ended))
        .await;
    let events = door.app.queue.read_events(key, EventId::default(), 100).await.unwrap();
    assert!(events.windows(2).all(|pair| pair[1].seq == pair[0].seq + 1), "{events:?}");
    let last = events.last().unwrap();
    assert!(last.event.contains(r#""outcome":{"type":"cancelled"}"#), "{events:?}");
    assert_eq!(door.row(key.task).await.unwrap().status, Status::Cancelled);
    events.into_iter().map(|event| event.event).collect()
}

async fn assert_holds_nothing(door: &Door) {
    let gauges = door.app.queue.gauges().await.unwrap();
    assert_eq!((gauges.depth(), gauges.delayed, gauges.running), (0, 0, 0), "no place is held");
}

fn ends(events: &[String]) -> usize {
    events.iter().filter(|event| event.contains("TEXT_MESSAGE_END")).count()
}

/// A run that has said half of its answer.
async fn half_said(hands: &Hands, door: &Door) -> Run {
    let mut run = hands.begin(door, TaskId::mint()).await;
    run.open().await;
    run.delta("half of ").await;
    run.delta("it").await;
    run
}

async fn assert_kept(door: &Door, key: TaskKey) {
    let row = door.row(key.task).await.unwrap();
    assert_eq!(row.result, Some(json!({"message_id": "m1", "text": "half of it"})), "what was seen is what is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_and_handed_out() {
    let door = Door::open().await;
    let in_line = Hands::submit(&door, TaskId::mint()).await;
    assert_eq!(cancelled(&door, in_line).await.len(), 1);
    // With a slot the next one is handed out, and nobody has claimed it.
    let _hands = Hands::at(&door).await;
    let handed_out = Hands::submit(&door, TaskId::mint()).await;
    assert_eq!(door.app.queue.position(handed_out).await.unwrap().state, Some(State::HandedOut));
    assert_eq!(cancelled(&door, handed_out).await.len(), 1);
    assert_holds_nothing(&door).await;
    let claimed = door.app.store.claim(handed_out, 1, "late").await.unwrap();
    assert!(matches!(claimed, penstock_store::Claimed::Ended(_)), "a claim that comes later is refused: {claimed:?}");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn held_behind_its_thread() {
    let door = Door::open().await;
    let thread = ThreadId::mint();
    let mut keys = Vec::new();
    for _ in 0..2 {
        let id = TaskId::mint();
        let mut body = task_named(id);
        body["thread_id"] = json!(thread);
        door.ann.submit(&body).await.assert_accepted();
        keys.push(TaskKey::new(door.ann.tenant, id));
    }
    assert_eq!(door.app.queue.position(keys[1]).await.unwrap().state, Some(State::Held));
    door.ann.delete(&format!("/api/task/{}", keys[1].task)).await;
    assert_eq!(door.app.queue.position(keys[1]).await.unwrap().state, Some(State::Ended));
    assert_eq!(cancelled(&door, keys[0]).await.len(), 1);
    assert_holds_nothing(&door).await;
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_retry_after_it_had_said_something() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let run = half_said(&hands, &door).await;
    assert!(door.app.store.requeue(run.key, 1, true).await.unwrap());
    let (key, worker) = (run.key, run.worker());
    let cause = RetryCause::AttemptFailed;
    let retry = Retry { key, attempt: 1, worker, delay: Duration::from_secs(600), cost_tokens: None, cause };
    door.app.queue.retry(&retry).await.unwrap();
    assert_eq!(door.app.queue.position(key).await.unwrap().state, Some(State::Delayed));
    let events = cancelled(&door, key).await;
    assert_eq!(ends(&events), 1, "no run finishes with an open message: {events:?}");
    assert_kept(&door, key).await;
    assert_holds_nothing(&door).await;
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_quarantine() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let run = half_said(&hands, &door).await;
    // The lane is taken by another one, so this one waits once it has lost its worker.
    let other = QueuedTask {
        key: TaskKey::new(TenantNo(4_000_000), TaskId::mint()),
        user: None,
        thread: None,
        body_hash: [0; 32],
        place: Place::from_stored("0".repeat(Place::BYTES)),
        accepted_ms: 1,
        cost_tokens: 1,
        attempt: 0,
        is_quarantined: true,
        agent: String::new(),
    };
    door.app.queue.enqueue(&other).await.unwrap();
    let leases = format!("{}leases", door.app.queue.shard().prefix());
    redis(&door.app, &["ZADD", &leases, "1", &run.key.to_string()]).await;
    let lost = LostTask { key: run.key, attempt: 1, has_started: true };
    let reaper = WorkerId::new("reaper").unwrap();
    door.app.queue.reap(&lost, &reaper, Fate::WaitsInQuarantine).await.unwrap();
    assert_eq!(door.app.queue.position(run.key).await.unwrap().state, Some(State::Quarantined));
    let events = cancelled(&door, run.key).await;
    assert_eq!(ends(&events), 1, "{events:?}");
    assert_kept(&door, run.key).await;
    assert!(door.app.queue.close(other.key, 0, "{}").await.unwrap());
    assert_holds_nothing(&door).await;
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_under_a_worker_that_is_gone() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    // Nobody beats for it, and its lease has most of its 15 s left.
    let mut run = half_said(&hands, &door).await;
    let events = cancelled(&door, run.key).await;
    assert_eq!(ends(&events), 1, "no run finishes with an open message: {events:?}");
    assert_kept(&door, run.key).await;
    assert_holds_nothing(&door).await;
    assert!(run.is_refused("boo").await, "a worker that comes back writes nothing");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn before_a_door_has_queued_it() {
    let door = Door::open().await;
    let key = Hands::submit(&door, TaskId::mint()).await;
    // As after a flush: the row is there, and Redis knows nothing.
    crate::harness::forget(door.app.queue.shard().prefix()).await;
    let answer = door.ann.delete(&format!("/api/task/{}", key.task)).await;
    assert_eq!(answer.json()["status"], "cancelled");
    let events = door.app.queue.read_events(key, EventId::default(), 10).await.unwrap();
    assert_eq!(events.len(), 1, "whoever waits is told: {events:?}");
    door.stop().await;
}
