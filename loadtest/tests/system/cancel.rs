//! Cancel: final from any state, and the provider is let go.

use std::time::Duration;

use futures_util::StreamExt;

use crate::house::{House, Plan, wait_until};

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_the_start_is_final_at_once_and_no_provider_is_called() {
    let house = House::build(Plan::default().set("worker.slots", 1)).await;
    let client = house.client();
    let busy = client.submit("slow-3s", "keep the slot").await;
    let waiting = client.submit("instant", "never").await;
    assert_eq!(client.cancel(waiting).await.status, 200);
    let followed = client.follow(waiting, SOON).await;
    assert_eq!(followed.events.len(), 2, "a start, since no run can end without one, and the end");
    assert_eq!(followed.end()["outcome"]["type"], "cancelled");
    assert_eq!(client.read(waiting).await["status"], "cancelled");
    // Again is no error, and changes nothing.
    assert_eq!(client.cancel(waiting).await.status, 200);
    client.follow(busy, SOON).await;
    assert_eq!(house.provider_stats().await["calls"], 1);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_in_the_middle_closes_the_providers_socket_and_keeps_what_was_seen() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let task = client.submit("slow-30s", "a long story").await;
    let mut socket = client.socket(task).await;
    while let Some(Ok(frame)) = socket.next().await {
        if frame.to_text().is_ok_and(|text| text.contains("TEXT_MESSAGE_CONTENT")) {
            break;
        }
    }
    client.cancel(task).await;
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.end()["outcome"]["type"], "cancelled");
    assert!(followed.end().get("result").is_none());
    assert_eq!(followed.count("TEXT_MESSAGE_END"), 1);
    let row = client.read(task).await;
    assert_eq!(row["status"], "cancelled");
    assert_eq!(row["result"]["text"], followed.text(), "what was seen is what is stored");
    wait_until("the provider saw its socket closed", SOON, async || {
        house.provider_stats().await["closed_by_caller"] == 1
    })
    .await;
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancels_at_another_door_reach_whichever_worker_runs_the_task() {
    let house = House::build(Plan::default().apis(2).workers(2)).await;
    let (here, there) = (house.client(), house.client_of(1, &house.key));
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(here.submit("slow-30s", "long").await);
    }
    for task in &tasks {
        here.wait_for(*task, "running", SOON).await;
        there.cancel(*task).await;
    }
    for task in &tasks {
        assert_eq!(here.follow(*task, SOON).await.end()["outcome"]["type"], "cancelled");
    }
    wait_until("all sockets are closed", SOON, async || house.provider_stats().await["in_flight"] == 0).await;
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_task_cannot_be_cancelled_and_looks_like_none() {
    let house = House::build(Plan::default()).await;
    let stranger = house.tenant("other");
    let (client, other) = (house.client(), house.client_of(0, &stranger));
    let task = client.submit("slow-3s", "mine").await;
    // The stranger's key becomes known within the refresh.
    wait_until("the new key works", SOON, async || other.request("GET", "/api/task").await.status == 200).await;
    let (foreign, unknown) = (other.cancel(task).await, other.cancel(uuid::Uuid::now_v7()).await);
    assert_eq!((foreign.status, unknown.status), (404, 404));
    assert_eq!(client.follow(task, SOON).await.end()["outcome"]["type"], "success");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_cancels_stop_a_hundred_tasks_on_four_workers() {
    let house = House::build(Plan::default().workers(4).set("worker.slots", 25)).await;
    let client = house.client();
    let mut tasks = Vec::new();
    for _ in 0..100 {
        tasks.push(client.submit("slow-30s", "long").await);
    }
    wait_until("all call their models", SOON, async || house.provider_stats().await["in_flight"] == 100).await;
    let mut cancels = tokio::task::JoinSet::new();
    for task in tasks.clone() {
        let client = client.clone();
        cancels.spawn(async move { client.cancel(task).await.status });
    }
    assert!(cancels.join_all().await.into_iter().all(|status| status == 200));
    for task in tasks {
        assert_eq!(client.follow(task, SOON).await.end()["outcome"]["type"], "cancelled");
    }
    wait_until("all hundred sockets are closed", SOON, async || {
        let stats = house.provider_stats().await;
        stats["in_flight"] == 0 && stats["closed_by_caller"] == 100
    })
    .await;
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_pub_sub_a_cancel_lands_with_the_next_beat() {
    // The door leaves the end to the worker, so only the beat can tell it.
    let house = House::build(Plan::default().set("queue.cancel_grace_ms", 60_000)).await;
    let client = house.client();
    let task = client.submit("slow-30s", "long").await;
    crate::leases::has_spoken(&client, task).await;
    let mut redis = house.redis_connection().await;
    let cut: [&[&str]; 2] = [&["ACL", "SETUSER", "default", "-subscribe"], &["CLIENT", "KILL", "TYPE", "pubsub"]];
    for words in cut {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).exec_async(&mut redis).await.unwrap();
    }
    client.cancel(task).await;
    wait_until("the provider saw its socket closed", SOON, async || {
        house.provider_stats().await["closed_by_caller"] == 1
    })
    .await;
    redis::cmd("ACL").arg(&["SETUSER", "default", "+subscribe"]).exec_async(&mut redis).await.unwrap();
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.end()["outcome"]["type"], "cancelled");
    assert_eq!(client.read(task).await["result"]["text"], followed.text());
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_of_a_task_whose_worker_was_killed_is_told_long_before_its_lease_has_passed() {
    let mut house = House::build(Plan::default().set("queue.lease_ms", 600_000)).await;
    let client = house.client();
    let task = client.submit("slow-30s", "long").await;
    crate::leases::has_spoken(&client, task).await;
    house.workers[0].0.kill();
    client.cancel(task).await;
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.end()["outcome"]["type"], "cancelled");
    assert_eq!(followed.count("TEXT_MESSAGE_START"), followed.count("TEXT_MESSAGE_END"));
    assert_eq!(client.read(task).await["result"]["text"], followed.text(), "what was seen is what is stored");
    house.add_worker().await;
    let next = client.submit("instant", "next").await;
    assert_eq!(client.follow(next, SOON).await.end()["outcome"]["type"], "success");
    assert_eq!(house.provider_stats().await["calls"], 2, "nothing was revived");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_wins_against_a_worker_that_is_told_to_stop() {
    let mut house = House::build(Plan::default().set("worker.drain_ms", 0)).await;
    let client = house.client();
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push(client.submit("slow-30s", "long").await);
    }
    wait_until("all call their models", SOON, async || house.provider_stats().await["in_flight"] == 20).await;
    let mut cancels = tokio::task::JoinSet::new();
    for (at, task) in tasks.clone().into_iter().enumerate() {
        let client = client.clone();
        cancels.spawn(async move { client.cancel(task).await.status });
        if at == 10 {
            house.workers[0].0.signal("TERM");
        }
    }
    assert!(cancels.join_all().await.into_iter().all(|status| status == 200));
    house.workers[0].0.ended(SOON).await;
    house.add_worker().await;
    for task in tasks {
        assert_eq!(client.follow(task, SOON).await.end()["outcome"]["type"], "cancelled");
        assert_eq!(client.read(task).await["status"], "cancelled");
    }
    assert_eq!(house.provider_stats().await["calls"], 20, "nothing was revived");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_before_a_frozen_worker_begins_costs_no_call() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    house.workers[0].0.signal("STOP");
    let task = client.submit("instant", "never").await;
    client.cancel(task).await;
    assert_eq!(client.follow(task, SOON).await.end()["outcome"]["type"], "cancelled");
    house.workers[0].0.signal("CONT");
    let next = client.submit("instant", "next").await;
    assert_eq!(client.follow(next, SOON).await.end()["outcome"]["type"], "success");
    assert_eq!(house.provider_stats().await["calls"], 1);
    house.take_down().await;
}
