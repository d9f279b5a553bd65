//! Cancel: final, repeatable, and without effect on what has ended.

use penstock_protocol::{Ending, EventId, Status, TaskKey};
use penstock_queue::State;
use penstock_store::{Claimed, End, Ended};
use reqwest::StatusCode;

use super::harness::{Door, task};

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_gives_its_place_back_at_once_and_says_the_same_again() {
    let door = Door::open().await;
    let path = format!("/api/task/{}", door.ann.submit(&task()).await.task_id());
    let first = door.ann.delete(&path).await;
    assert_eq!((first.status, first.json()["status"].as_str()), (StatusCode::OK, Some("cancelled")));
    assert_eq!(door.depth().await, 0);
    let again = door.ann.delete(&path).await;
    assert_eq!(again.json()["ended_ms"], first.json()["ended_ms"]);
    let read = door.ann.get(&path).await.json();
    assert_eq!((read["status"].as_str(), read["waiting_reason"].is_null()), (Some("cancelled"), true));
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_has_its_end_in_the_event_stream() {
    let door = Door::open().await;
    let id = door.ann.submit(&task()).await.task_id();
    door.ann.delete(&format!("/api/task/{id}")).await;
    let key = TaskKey::new(door.ann.tenant, id);
    assert_eq!(door.app.queue.position(key).await.unwrap().state, Some(State::Ended));
    let events = door.app.queue.read_events(key, EventId::default(), 10).await.unwrap();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].event.contains(r#""outcome":{"type":"cancelled"}"#), "{events:?}");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_has_ended_stays_as_it_ended() {
    let door = Door::open().await;
    let id = door.ann.submit(&task()).await.task_id();
    let key = TaskKey::new(door.ann.tenant, id);
    assert!(matches!(door.app.store.claim(key, 1, "w").await.unwrap(), Claimed::Mine(_)));
    let ending = Ending { status: Status::Succeeded, result: Some("done".into()), error: None, usage: vec![] };
    let end = End { key, attempt: 1, ending, model: None, model_calls: 1 };
    assert!(matches!(door.app.store.end(end).await.unwrap(), Ended::Mine));
    let answer = door.ann.delete(&format!("/api/task/{id}")).await;
    let json = answer.json();
    assert_eq!((answer.status, json["status"].as_str()), (StatusCode::OK, Some("succeeded")));
    assert_eq!(json["result"], "done");
    door.stop().await;
}
