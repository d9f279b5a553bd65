//! Leases under stress: workers that freeze and thaw, start in numbers, or run out of time.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::json;
use uuid::Uuid;

use crate::house::{Client, House, Plan, wait_until};

const SOON: Duration = Duration::from_secs(30);

/// A lease of two seconds, so that a test need not wait for the usual fifteen.
pub(crate) fn short_leases() -> Plan {
    Plan::default()
        .set("queue.lease_ms", 2000)
        .set("queue.beat_every_ms", 500)
        .set("mysql.timeout_ms", 1500)
        .set("redis.script_timeout_ms", 800)
}

/// Waits until a client has seen a part of the answer.
pub(crate) async fn has_spoken(client: &Client, task: Uuid) {
    let mut socket = client.socket(task).await;
    while let Some(Ok(frame)) = socket.next().await {
        if frame.to_text().is_ok_and(|text| text.contains("TEXT_MESSAGE_CONTENT")) {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_was_frozen_past_its_lease_comes_back_harmless() {
    let mut house = House::build(short_leases()).await;
    let client = house.client();
    let task = client.submit("assistant", "go\n[[fake: chunks=60,gap_ms=100]]").await;
    has_spoken(&client, task).await;
    let started = client.read(task).await["started_ms"].clone();
    house.workers[0].0.signal("STOP");
    house.add_worker().await;
    // Redis may give the second attempt to the reader of the frozen worker, which waits for one.
    wait_until("another worker has it", SOON, async || {
        client.read(task).await["attempts"]["latest"].as_u64() >= Some(2) && house.provider_stats().await["calls"] == 2
    })
    .await;
    house.workers[0].0.signal("CONT");
    // Its next event meets the fence, or its beat is answered first and it stops before it writes.
    wait_until("what it does late is refused and counted", SOON, async || {
        let refused = house.worker_metric(0, r#"penstock_worker_late_writes_total{write="Event"}"#).await;
        refused + house.worker_metric(0, r#"penstock_worker_attempts_total{end="Lost"}"#).await >= 1.0
    })
    .await;
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.end()["outcome"]["type"], "success");
    assert_eq!((followed.count("RUN_STARTED"), followed.count("MESSAGES_SNAPSHOT")), (1, 1));
    let row = client.read(task).await;
    assert_eq!(row["attempts"]["crashes"], 1);
    assert_eq!(row["result"]["text"], followed.text());
    assert_eq!(row["started_ms"], started, "it started once");
    assert_eq!(house.provider_stats().await["calls"], 2, "each attempt called once");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_start_all_at_once_recover_nothing_that_has_a_live_owner() {
    // Twenty seconds, for ten leases have to pass.
    let mut house = House::build(short_leases()).await;
    let client = house.client();
    let mut tasks = Vec::new();
    for _ in 0..10 {
        tasks.push(client.submit("assistant", "go\n[[fake: chunks=200,gap_ms=100]]").await);
    }
    for task in &tasks {
        client.wait_for(*task, "running", SOON).await;
    }
    for _ in 0..3 {
        house.add_worker().await;
    }
    for task in &tasks {
        assert_eq!(client.follow(*task, SOON).await.end()["outcome"]["type"], "success");
        assert_eq!(client.read(*task).await["attempts"]["latest"], 1, "ten leases long, and delivered once");
    }
    assert_eq!(house.provider_stats().await["calls"], 10);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_in_the_middle_closes_the_stream_and_frees_the_slot() {
    let house = House::build(Plan::default().set("worker.slots", 1)).await;
    let client = house.client();
    let answer = client.post_body(&json!({"agent": "slow-30s", "input": "long", "deadline_ms": 2000})).await;
    let task: Uuid = answer.body["task_id"].as_str().unwrap().parse().unwrap();
    let next = client.submit("instant", "next").await;
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.end()["code"], "penstock.deadline", "{:#?}", followed.end());
    assert_eq!(client.read(task).await["status"], "expired");
    assert_eq!(client.follow(next, SOON).await.end()["outcome"]["type"], "success");
    wait_until("the provider saw its socket closed", SOON, async || {
        house.provider_stats().await["closed_by_caller"] == 1
    })
    .await;
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_was_read_and_never_begun_goes_elsewhere_and_is_counted() {
    let mut house = House::build(short_leases()).await;
    let client = house.client();
    // Redis gives the entry to the reader that waits for it, frozen or not.
    house.workers[0].0.signal("STOP");
    let task = client.submit("instant", "now").await;
    house.add_worker().await;
    assert_eq!(client.follow(task, SOON).await.end()["outcome"]["type"], "success");
    let row = client.read(task).await;
    assert_eq!((&row["attempts"]["latest"], &row["attempts"]["crashes"]), (&json!(2), &json!(0)));
    let counted = house.worker_metric(1, "penstock_recovery_unstarted_total").await;
    assert!(counted >= 1.0, "{counted}");
    house.workers[0].0.signal("CONT");
    let next = client.submit("instant", "next").await;
    assert_eq!(client.follow(next, SOON).await.end()["outcome"]["type"], "success");
    assert_eq!(house.provider_stats().await["calls"], 2, "the one that thawed called nobody for it");
    house.take_down().await;
}
