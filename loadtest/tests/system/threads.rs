//! A conversation: what was said before is put before the input, and its tasks run one after another.

use std::time::Duration;

use serde_json::json;

use crate::house::{House, Plan};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn the_next_task_of_a_thread_knows_what_was_said() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let first = client.post("assistant", "my name is Ada").await;
    let task = first.body["task_id"].as_str().unwrap().parse().unwrap();
    let said = client.follow(task, SOON).await.text();
    let second = client
        .post_body(&json!({"agent": "assistant", "input": "who am I", "thread_id": first.body["thread_id"]}))
        .await;
    client.follow(second.body["task_id"].as_str().unwrap().parse().unwrap(), SOON).await;
    let calls = house.provider_calls().await;
    let messages = &calls[1]["body"]["messages"];
    let roles: Vec<_> = messages.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"], "{calls:#?}");
    assert_eq!(messages[1]["content"], "my name is Ada");
    assert_eq!(messages[2]["content"], said);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_thread_is_not_read() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let first = client.post("assistant", "a secret").await;
    client.follow(first.body["task_id"].as_str().unwrap().parse().unwrap(), SOON).await;
    let stranger = house.tenant("other");
    let other = house.client_of(0, &stranger);
    crate::house::wait_until("the new key works", SOON, async || other.request("GET", "/api/task").await.status == 200)
        .await;
    let second =
        other.post_body(&json!({"agent": "assistant", "input": "go on", "thread_id": first.body["thread_id"]})).await;
    other.follow(second.body["task_id"].as_str().unwrap().parse().unwrap(), SOON).await;
    let calls = house.provider_calls().await;
    assert!(!calls[1].to_string().contains("a secret"), "{calls:#?}");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_thread_run_one_after_another_in_order() {
    let house = House::build(Plan::default()).await;
    let (client, thread) = (house.client(), uuid::Uuid::now_v7());
    let mut tasks = Vec::new();
    for at in 0..4 {
        let input = format!("number {at}\n[[fake: chunks=3,gap_ms=50]]");
        let answer = client.post_body(&json!({"agent": "assistant", "input": input, "thread_id": thread})).await;
        tasks.push(answer.body["task_id"].as_str().unwrap().parse().unwrap());
    }
    for task in tasks {
        client.follow(task, SOON).await;
    }
    assert_eq!(house.provider_stats().await["in_flight_max"], 1, "{}", house.provider_stats().await);
    let calls = house.provider_calls().await;
    let lengths: Vec<_> = calls.iter().map(|call| call["body"]["messages"].as_array().unwrap().len()).collect();
    assert_eq!(lengths, [2, 4, 6, 8]);
    house.take_down().await;
}
