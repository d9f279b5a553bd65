//! A task's way through the whole house, and what is stored at its end.

use std::time::Duration;

use serde_json::json;

use crate::house::{House, Plan};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_answered_streamed_and_stored_before_its_end_is_told() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let task = client.submit("assistant", "how are you").await;
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.events[0]["type"], "RUN_STARTED");
    assert_eq!(followed.events[0]["runId"], task.to_string());
    assert_eq!(followed.end()["outcome"]["type"], "success");
    // No waiting: the terminal event means that the result is stored.
    let row = client.read(task).await;
    assert_eq!(row["status"], "succeeded");
    assert_eq!(row["result"]["text"], followed.text());
    assert_eq!(row["model_calls"], 1);
    assert_eq!(row["attempts"]["latest"], 1);
    assert!(row["usage"][0]["totalTokens"].as_u64().is_some_and(|tokens| tokens > 0), "{row:#}");
    assert_eq!(house.provider_stats().await["calls"], 1, "{}", house.provider_stats().await);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_reader_and_a_live_one_see_the_same_bytes() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let task = uuid::Uuid::now_v7();
    let early = tokio::spawn({
        let client = client.clone();
        async move { client.follow(task, SOON).await }
    });
    client.post_body(&json!({"agent": "assistant", "input": "tell me", "task_id": task})).await;
    let early = early.await.unwrap();
    assert_eq!(early.events, client.follow(task, SOON).await.events);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_breaks_off_is_called_again_and_the_partial_text_is_replaced() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let task = client.submit("assistant", "go\n[[fake: cut=3]]").await;
    let followed = client.follow(task, Duration::from_secs(40)).await;
    assert_eq!(followed.end()["type"], "RUN_ERROR", "{:#?}", followed.end());
    assert_eq!(followed.end()["code"], "penstock.provider_error");
    assert_eq!(followed.count("RUN_STARTED"), 1);
    assert_eq!(followed.count("MESSAGES_SNAPSHOT"), 2, "one for each attempt after the first");
    let row = client.read(task).await;
    assert_eq!(row["status"], "failed");
    assert_eq!(row["attempts"]["latest"], 3);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_provider_refuses_is_not_sent_again() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let task = client.submit("assistant", "go\n[[fake: status=400]]").await;
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.end()["type"], "RUN_ERROR");
    assert_eq!(client.read(task).await["attempts"]["latest"], 1);
    assert_eq!(house.provider_stats().await["calls"], 1);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_deadline_has_passed_is_never_sent_to_a_provider() {
    let house = House::build(Plan::default().set("worker.slots", 1)).await;
    let client = house.client();
    let busy = client.submit("slow-3s", "keep the slot").await;
    let late = client.post_body(&json!({"agent": "instant", "input": "x", "deadline_ms": 500})).await;
    // With one slot and one task of unknown length the door cannot know that it will be late.
    assert_eq!(late.status, 202, "{}", late.text);
    let late: uuid::Uuid = late.body["task_id"].as_str().unwrap().parse().unwrap();
    let followed = client.follow(late, SOON).await;
    assert_eq!(followed.events.len(), 1, "{:#?}", followed.events);
    assert_eq!(followed.end()["code"], "penstock.deadline");
    assert_eq!(client.read(late).await["status"], "expired");
    client.follow(busy, SOON).await;
    assert_eq!(house.provider_stats().await["calls"], 1);
    house.take_down().await;
}
