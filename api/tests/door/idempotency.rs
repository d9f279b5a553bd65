//! Check 3: the same request is one task, whoever sends it again, and when.

use std::collections::HashSet;

use futures_util::future::join_all;
use penstock_protocol::TaskId;
use penstock_queue::{AdmitLimits, AdmitRequest, AdmitVerdict, Start};
use penstock_store::fixture::TestDatabase;
use serde_json::json;

use super::harness::{Door, eventually, forget, settings_of, task, task_named};

#[tokio::test(flavor = "multi_thread")]
async fn fifty_equal_posts_at_once_are_one_task_and_get_one_answer() {
    let door = Door::open().await;
    let body = task_named(TaskId::mint());
    let answers = join_all((0..50).map(|_| door.ann.submit(&body))).await;
    let mut seen = HashSet::new();
    for answer in &answers {
        answer.assert_accepted();
        let json = answer.json();
        seen.insert((json["task_id"].to_string(), json["thread_id"].to_string(), json["status"].to_string()));
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(door.rows().await.len(), 1);
    assert_eq!(door.depth().await, 1);
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_equal_posts_to_two_doors_are_one_task() {
    let database = TestDatabase::create().await;
    let settings = settings_of(&database).await;
    let (one, other) = (Door::start(settings.clone(), &database).await, Door::start(settings, &database).await);
    let body = json!({"agent": "assistant", "input": "once"});
    let answers = join_all((0..50).map(|turn| {
        let door = if turn % 2 == 0 { &one } else { &other };
        door.ann.submit_keyed(&body, "order-17")
    }))
    .await;
    let ids: HashSet<_> = answers
        .iter()
        .map(|answer| {
            answer.assert_accepted();
            answer.task_id()
        })
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!((one.rows().await.len(), one.depth().await), (1, 1));
    other.stop().await;
    one.stop().await;
    database.drop_database().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_body_under_the_same_id_or_key_is_refused() {
    let door = Door::open().await;
    let id = TaskId::mint();
    door.ann.submit(&task_named(id)).await.assert_accepted();
    let mut other = task_named(id);
    other["input"] = "other".into();
    let answer = door.ann.submit(&other).await;
    answer.assert_problem(422, "body_differs");
    assert_eq!(answer.task_id(), id);

    door.ann.submit_keyed(&task(), "k").await.assert_accepted();
    other = task();
    other["input"] = "other".into();
    door.ann.submit_keyed(&other, "k").await.assert_problem(422, "body_differs");
    assert_eq!((door.rows().await.len(), door.depth().await), (2, 2));
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_stands_for_a_derived_id_and_beside_an_id_for_itself() {
    let door = Door::open().await;
    let first = door.ann.submit_keyed(&task(), "k1").await;
    assert_eq!(first.task_id(), TaskId::from_idempotency_key(door.ann.tenant, "k1"));
    assert_eq!(door.ann.submit_keyed(&task(), "k1").await.task_id(), first.task_id());
    assert_ne!(door.ann.submit_keyed(&task(), "k2").await.task_id(), first.task_id());
    assert_ne!(door.customer("bob").await.submit_keyed(&task(), "k1").await.task_id(), first.task_id());

    // Both: the id names the task, and the key cannot name a second one.
    let id = TaskId::mint();
    assert_eq!(door.ann.submit_keyed(&task_named(id), "k3").await.task_id(), id);
    assert_eq!(door.ann.submit_keyed(&task_named(id), "k3").await.task_id(), id);
    let answer = door.ann.submit_keyed(&task_named(TaskId::mint()), "k3").await;
    answer.assert_problem(422, "body_differs");
    assert_eq!(answer.task_id(), id, "the answer names the task that has the key");
    assert_eq!(door.rows().await.len(), 3);
    assert_eq!(door.depth().await, 4, "the place of the loser was given back");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_redis_forgot_is_answered_from_the_row() {
    let door = Door::open().await;
    let (first, second) = (task_named(TaskId::mint()), task_named(TaskId::mint()));
    let before = door.ann.submit(&first).await;
    forget(door.app.queue.shard().prefix()).await;
    eventually("the queue is rebuilt", async || door.app.queue.gauges().await.unwrap().is_open).await;
    let again = door.ann.submit(&first).await;
    again.assert_accepted();
    assert_eq!(again.json()["thread_id"], before.json()["thread_id"]);
    let mut other = first.clone();
    other["input"] = "other".into();
    door.ann.submit(&other).await.assert_problem(422, "body_differs");

    // Forgotten with the task cancelled: the row is terminal, and the repeat does not bring it back.
    let cancelled = door.ann.submit(&second).await.task_id();
    door.ann.delete(&format!("/api/task/{cancelled}")).await;
    forget(door.app.queue.shard().prefix()).await;
    eventually("the queue is rebuilt", async || door.app.queue.gauges().await.unwrap().is_open).await;
    let again = door.ann.submit(&second).await;
    again.assert_accepted();
    assert_eq!(again.json()["status"], "cancelled");
    assert_eq!((door.rows().await.len(), door.depth().await), (2, 1));
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_another_door_never_finishes_storing_is_told_to_come_back() {
    let door = Door::open().await;
    let id = TaskId::mint();
    // What another door would do first: register. It then dies.
    let body = task_named(id);
    let request: penstock_api::task::SubmitRequest = serde_json::from_value(body.clone()).unwrap();
    let body_hash = &penstock_api::task::Submission::hash_of(&request).unwrap();
    let limits = AdmitLimits { depth_max: 10, ..AdmitLimits::default() };
    let key = penstock_protocol::TaskKey::new(door.ann.tenant, id);
    let verdict =
        door.app.queue.admit(&AdmitRequest { key, user: None, body_hash, start: Start::Now, limits }).await.unwrap();
    let AdmitVerdict::Admitted(dead) = verdict else { panic!("the queue is empty") };

    let answer = door.ann.submit(&body).await;
    answer.assert_problem(409, "in_progress");
    assert_eq!((answer.task_id(), answer.header("retry-after")), (id, Some("1")));
    assert_eq!(door.rows().await.len(), 0);
    // Once the registration is gone the same request is taken.
    assert!(door.app.queue.release(&dead).await.unwrap());
    door.ann.submit(&body).await.assert_accepted();
    door.stop().await;
}
