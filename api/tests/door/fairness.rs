//! Threads, pauses, terms and standing, as clients and operators meet them.

use penstock_protocol::{Status, ThreadId};
use penstock_store::{Bound, TermsChange};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Customer, Door, eventually, key_in, task};

fn in_thread(thread: ThreadId, mode: &str) -> Value {
    json!({"agent": "assistant", "input": "hello", "thread_id": thread, "on_busy_thread": mode})
}

async fn operator(door: &Door) -> String {
    key_in(&door.app.store, "ann", "read,admin").await
}

async fn post(door: &Door, key: &str, path: &str, body: &Value) -> Answer {
    let request = door.ann.client.request(Method::POST, format!("{}{path}", door.url)).bearer_auth(key).json(body);
    Answer::read(request.send().await.unwrap()).await
}

async fn reason(customer: &Customer, answer: &Answer) -> Value {
    customer.get(&format!("/api/task/{}", answer.task_id())).await.json()["waiting_reason"].clone()
}

#[tokio::test]
async fn a_busy_thread_is_waited_for_refused_or_interrupted_as_the_request_says() {
    let door = Door::open().await;
    let thread = ThreadId::mint();
    let first = door.ann.submit(&in_thread(thread, "reject")).await;
    first.assert_accepted();
    let refused = door.ann.submit(&in_thread(thread, "reject")).await;
    refused.assert_problem(409, "thread_busy");
    assert_eq!(door.rows().await.len(), 1, "a refused one leaves nothing behind");
    let second = door.ann.submit(&in_thread(thread, "queue")).await;
    second.assert_accepted();
    assert_eq!(reason(&door.ann, &second).await, "thread_busy");
    // A thread of another tenant has another holder.
    let bob = door.customer("bob").await;
    bob.submit(&in_thread(thread, "reject")).await.assert_accepted();

    let third = door.ann.submit(&in_thread(thread, "interrupt")).await;
    third.assert_accepted();
    let status = async |answer: &Answer| door.row(answer.task_id()).await.unwrap().status;
    for earlier in [&first, &second] {
        assert_eq!(status(earlier).await, Status::Cancelled);
    }
    assert_eq!(status(&third).await, Status::Queued);
    assert_eq!(reason(&door.ann, &third).await, "no_workers", "the thread is its own");
    // The same request again interrupts nobody but those before it.
    let mut again = in_thread(thread, "interrupt");
    again["task_id"] = json!(third.task_id());
    let unlike = door.ann.submit(&again).await;
    assert!(unlike.status.as_u16() == 202 || unlike.status.as_u16() == 422);
    assert_eq!(status(&third).await, Status::Queued);
    door.ann.submit(&in_thread(thread, "wait")).await.assert_problem(422, "invalid_request");
    door.stop().await;
}

#[tokio::test]
async fn of_many_that_ask_for_a_free_thread_at_once_one_is_accepted() {
    let door = Door::open().await;
    let body = in_thread(ThreadId::mint(), "reject");
    let answers = futures_util::future::join_all((0..30).map(|_| door.ann.submit(&body))).await;
    let count = |status: u16| answers.iter().filter(|answer| answer.status.as_u16() == status).count();
    assert_eq!((count(202), count(409)), (1, 29));
    assert_eq!(door.rows().await.len(), 1);
    door.stop().await;
}

#[tokio::test]
async fn a_pause_is_an_operators_word_and_survives_a_flush() {
    let door = Door::open().await;
    let bob = door.customer("bob").await;
    let operator = operator(&door).await;
    let tenant = json!({"kind": "tenant", "name": "ann"});
    eventually("the operator's key is known", async || {
        post(&door, &operator, "/api/resume", &tenant).await.status.as_u16() == 200
    })
    .await;
    bob_may_not(&door, &bob, &tenant).await;
    post(&door, &operator, "/api/pause", &json!({"kind": "tenant", "name": "x"}))
        .await
        .assert_problem(422, "invalid_request");
    post(&door, &operator, "/api/pause", &json!({"kind": "agent", "name": "x"}))
        .await
        .assert_problem(422, "unknown_agent");
    let mine = door.ann.submit(&task()).await;
    let other = bob.submit(&task()).await;
    let paused = post(&door, &operator, "/api/pause", &tenant).await;
    assert_eq!(paused.json()["pauses"][0]["name"], "ann", "{}", paused.text);
    eventually("the tenant is paused", async || reason(&door.ann, &mine).await == "paused").await;
    assert_eq!(reason(&bob, &other).await, "no_workers", "nothing changes for another tenant");
    let seen_by = async |customer: &Customer| customer.get("/api/queue").await.json();
    let queue = seen_by(&door.ann).await;
    assert_eq!((&queue["tenant"]["is_paused"], &queue["is_paused"]), (&json!(true), &json!(false)));
    assert_eq!(queue["pauses"].as_array().unwrap().len(), 1);
    assert!(seen_by(&bob).await["pauses"].as_array().unwrap().is_empty(), "the pause of another tenant is not shown");

    crate::harness::forget(door.app.queue.shard().prefix()).await;
    eventually("the queue is rebuilt", async || {
        let gauges = door.app.queue.gauges().await.unwrap();
        gauges.is_open && gauges.line == 2
    })
    .await;
    assert_eq!(reason(&door.ann, &mine).await, "paused");
    post(&door, &operator, "/api/resume", &tenant).await;
    eventually("the tenant goes on", async || reason(&door.ann, &mine).await == "no_workers").await;
    post(&door, &operator, "/api/pause", &json!({"kind": "agent", "name": "assistant"})).await;
    eventually("the agent is paused", async || reason(&bob, &other).await == "paused").await;
    door.stop().await;
}

async fn bob_may_not(door: &Door, bob: &Customer, target: &Value) {
    let request = bob.request(Method::POST, "/api/pause").json(target);
    Answer::read(request.send().await.unwrap()).await.assert_problem(403, "missing_scope");
    assert!(door.app.store.pauses().await.unwrap().is_empty());
}

#[tokio::test]
async fn changed_terms_reach_door_and_queue_and_outlive_a_rebuild() {
    let door = Door::open().await;
    let bound = |count| Some(Bound(Some(count)));
    let terms = TermsChange {
        weight: Some(3),
        running_max: bound(5),
        depth_max: bound(4),
        live_max: bound(3),
        user_live_max: bound(1),
        starts_per_minute: bound(120),
    };
    door.app.store.change_terms("ann", terms).await.unwrap();
    let has_terms = async || {
        let tenant = &door.ann.get("/api/queue").await.json()["tenant"];
        [&tenant["weight"], &tenant["running_max"], &tenant["start_gap_ms"], &tenant["depth_max"]] == [3, 5, 500, 4]
    };
    eventually("the terms are in force", has_terms).await;
    let of_user = |user: &str| json!({"agent": "assistant", "input": "x", "user": user});
    door.ann.submit(&of_user("u1")).await.assert_accepted();
    door.ann.submit(&of_user("u1")).await.assert_problem(429, "concurrency_limit");
    door.ann.submit(&of_user("u2")).await.assert_accepted();
    door.ann.submit(&of_user("u3")).await.assert_accepted();
    door.ann.submit(&of_user("u4")).await.assert_problem(429, "concurrency_limit");
    crate::harness::forget(door.app.queue.shard().prefix()).await;
    eventually("the queue is rebuilt", async || door.app.queue.gauges().await.is_ok_and(|gauges| gauges.is_open)).await;
    assert!(has_terms().await, "the first answer after a rebuild knows them");
    door.app
        .store
        .change_terms("ann", TermsChange { live_max: Some(Bound(None)), ..TermsChange::default() })
        .await
        .unwrap();
    eventually("the bound is gone", async || door.ann.submit(&of_user("u4")).await.status.as_u16() == 202).await;
    door.stop().await;
}
