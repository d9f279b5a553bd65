//! Tasks that start later: accepted now, in no depth, durable, bounded.

use penstock_queue::State;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::harness::{Door, eventually, forget, task};

fn later(field: &str, value: impl Into<Value>) -> Value {
    let mut body = task();
    body[field] = value.into();
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_for_later_is_accepted_now_and_waits_beside_the_queue() {
    let door = Door::open_with(|settings| {
        settings.queue.depth_max = 1;
        settings.queue.tenant_depth_max = 1;
    })
    .await;
    let before_ms = door.app.store.now_ms().await.unwrap();
    let answer = door.ann.submit(&later("delay_ms", 600_000)).await;
    answer.assert_accepted();
    let body = answer.json();
    assert_eq!((&body["status"], &body["position"]), (&json!("queued"), &Value::Null), "{body}");
    let run_at_ms = body["run_at_ms"].as_u64().unwrap();
    assert!((before_ms + 590_000..before_ms + 660_000).contains(&run_at_ms), "{body}");
    let moment = door.ann.submit(&later("run_at", "2099-01-01T00:00:00+01:00")).await;
    moment.assert_problem(422, "invalid_request");
    let moment = door.ann.submit(&later("run_at", before_ms + 3_600_000)).await;
    assert_eq!(moment.json()["run_at_ms"], before_ms + 3_600_000);
    let gauges = door.app.queue.gauges().await.unwrap();
    assert_eq!((gauges.depth(), gauges.delayed, gauges.running), (0, 2, 0));
    // The one place of the queue is free for who wants to start now.
    door.ann.submit(&task()).await.assert_accepted();
    door.ann.submit(&task()).await.assert_problem(429, "queue_full");

    let id = answer.task_id();
    let shown = door.ann.get(&format!("/api/task/{id}")).await.json();
    assert_eq!((&shown["status"], &shown["waiting_reason"]), (&json!("queued"), &json!("delayed")), "{shown}");
    assert!(shown["run_at_ms"].as_u64().unwrap().abs_diff(run_at_ms) < 30_000, "{shown}");
    // The same request again is the same task.
    let keyed = later("delay_ms", 1000);
    let first = door.ann.submit_keyed(&keyed, "k").await;
    assert_eq!(door.ann.submit_keyed(&keyed, "k").await.task_id(), first.task_id());
    door.ann.submit_keyed(&later("delay_ms", 2000), "k").await.assert_problem(422, "body_differs");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_its_time_survives_a_flush_and_can_be_cancelled() {
    let door = Door::open().await;
    let answer = door.ann.submit(&later("delay_ms", 600_000)).await;
    answer.assert_accepted();
    forget(door.app.queue.shard().prefix()).await;
    eventually("the queue is rebuilt", async || {
        let gauges = door.app.queue.gauges().await.unwrap();
        gauges.is_open && gauges.delayed == 1 && gauges.depth() == 0
    })
    .await;
    let id = answer.task_id();
    let cancelled = door.ann.delete(&format!("/api/task/{id}")).await.json();
    assert_eq!(cancelled["status"], "cancelled");
    let gauges = door.app.queue.gauges().await.unwrap();
    assert_eq!((gauges.delayed, gauges.depth()), (0, 0));
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_gets_in_line_when_its_time_has_come_without_any_worker() {
    let door = Door::open().await;
    let answer = door.ann.submit(&later("delay_ms", 300)).await;
    let key = penstock_protocol::TaskKey::new(door.ann.tenant, answer.task_id());
    eventually("it is in line", async || door.app.queue.position(key).await.unwrap().state == Some(State::InLine))
        .await;
    // It stands behind what came before it was due.
    let between = door.ann.submit(&later("delay_ms", 60_000)).await;
    let (due, between) = (door.row(answer.task_id()).await.unwrap(), door.row(between.task_id()).await.unwrap());
    assert!(due.place < between.place && due.place.as_str() > format!("{:013x}", due.accepted_ms).as_str());
    // A moment that has passed is no delay.
    let now = door.ann.submit(&later("run_at", 1000)).await;
    now.assert_accepted();
    assert!(now.json().get("run_at_ms").is_none(), "{}", now.text);
    assert_eq!(door.depth().await, 2);
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_for_later_have_bounds_and_a_full_one_says_when_to_come_back() {
    let door = Door::open_with(|settings| {
        settings.queue.delayed_max = 3;
        settings.queue.tenant_delayed_max = 2;
    })
    .await;
    let bob = door.customer("bob").await;
    for _ in 0..2 {
        door.ann.submit(&later("delay_ms", 60_000)).await.assert_accepted();
    }
    let full = door.ann.submit(&later("delay_ms", 60_000)).await;
    full.assert_problem(429, "delayed_full");
    bob.submit(&later("delay_ms", 60_000)).await.assert_accepted();
    bob.submit(&later("delay_ms", 60_000)).await.assert_problem(429, "delayed_full");
    assert_eq!(door.rows().await.len(), 2, "a rejected request has no row");
    // Who wants to start now is not concerned.
    door.ann.submit(&task()).await.assert_accepted();
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_cannot_be_is_refused_with_its_field() {
    let door = Door::open().await;
    let mut both = later("delay_ms", 1);
    both["run_at"] = json!(1);
    let mut hopeless = later("delay_ms", 10_000);
    hopeless["deadline_ms"] = json!(10_000);
    for (body, path) in [
        (both, "run_at"),
        (hopeless, "delay_ms"),
        (later("delay_ms", 40_000_000_000_u64), "delay_ms"),
        (later("run_at", "tomorrow"), "run_at"),
        (later("delay_ms", -1), "delay_ms"),
    ] {
        let answer = door.ann.submit(&body).await;
        answer.assert_problem(422, "invalid_request");
        assert_eq!(answer.json()["path"], path, "{}", answer.text);
    }
    assert_eq!(door.ann.submit(&later("delay_ms", 0)).await.status, StatusCode::ACCEPTED);
    assert_eq!((door.rows().await.len(), door.depth().await), (1, 1));
    door.stop().await;
}
