//! What dies, and what nobody must notice: workers, Redis, MySQL, doors.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::Value;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::house::{House, Link, Plan, wait_until};

/// Lease and reaper, with the 5 s that recovery may take.
const LEASE_AND_MORE: Duration = Duration::from_secs(15 + 5);
const SOON: Duration = Duration::from_secs(30);

async fn submit_many(house: &House, count: usize, agent: &str, input: &str) -> Vec<Uuid> {
    let (client, mut tasks) = (house.client(), Vec::new());
    for _ in 0..count {
        tasks.push(client.submit(agent, input).await);
    }
    tasks
}

/// Follows tasks to their ends, all at once.
async fn ends(house: &House, tasks: &[Uuid], within: Duration) -> Vec<Value> {
    let mut following = JoinSet::new();
    for task in tasks.iter().copied() {
        let client = house.client();
        following.spawn(async move { client.follow(task, within).await.end().clone() });
    }
    following.join_all().await
}

fn all_succeeded(ends: &[Value]) -> bool {
    ends.iter().all(|end| end["outcome"]["type"] == "success")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_costs_one_lease_and_the_run_goes_on_in_the_same_stream() {
    let mut house = House::build(Plan::default()).await;
    let client = house.client();
    let task = client.submit("assistant", "go\n[[fake: chunks=60,gap_ms=100]]").await;
    let mut socket = client.socket(task).await;
    while let Some(Ok(frame)) = socket.next().await {
        if frame.to_text().is_ok_and(|text| text.contains("TEXT_MESSAGE_CONTENT")) {
            break;
        }
    }
    house.workers[0].0.kill();
    house.add_worker().await;
    let followed = client.follow(task, LEASE_AND_MORE + Duration::from_secs(8)).await;
    assert_eq!(followed.end()["outcome"]["type"], "success");
    assert_eq!(followed.count("RUN_STARTED"), 1, "a run that goes on is not started again");
    assert_eq!(followed.count("MESSAGES_SNAPSHOT"), 1);
    assert_eq!(followed.count("TEXT_MESSAGE_START"), followed.count("TEXT_MESSAGE_END"));
    let row = client.read(task).await;
    assert_eq!(row["attempts"]["latest"], 2);
    assert_eq!(row["result"]["text"], followed.text());
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_loses_every_worker_is_given_up_and_its_money_is_bounded() {
    let plan =
        Plan::default().set("queue.lease_ms", 2000).set("queue.beat_every_ms", 500).set("mysql.timeout_ms", 1500);
    let mut house = House::build(plan.set("redis.script_timeout_ms", 800)).await;
    let client = house.client();
    let task = client.submit("slow-30s", "poison").await;
    for attempt in 1..=3 {
        wait_until("the attempt calls its model", SOON, async || house.provider_stats().await["calls"] == attempt)
            .await;
        house.workers.last_mut().unwrap().0.kill();
        house.add_worker().await;
    }
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.end()["code"], "penstock.attempts_exhausted", "{:#?}", followed.end());
    assert_eq!(client.read(task).await["status"], "failed");
    assert_eq!(house.provider_stats().await["calls"], 3, "one model call for each lost worker, no more");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_redis_loses_nothing_and_no_running_task_is_executed_twice() {
    let house = House::build(Plan::default().set("worker.slots", 20)).await;
    let running = submit_many(&house, 20, "assistant", "go\n[[fake: chunks=40,gap_ms=200]]").await;
    for task in &running {
        house.client().wait_for(*task, "running", SOON).await;
    }
    let waiting = submit_many(&house, 50, "instant", "later").await;
    let mut redis = house.redis_connection().await;
    redis::cmd("FLUSHALL").exec_async(&mut redis).await.unwrap();
    let all: Vec<_> = running.iter().chain(&waiting).copied().collect();
    assert!(all_succeeded(&ends(&house, &all, Duration::from_secs(90)).await));
    for task in &running {
        assert_eq!(house.client().read(*task).await["attempts"]["latest"], 1, "a live worker keeps its task");
    }
    assert_eq!(house.provider_stats().await["calls"], 70, "no model call was made twice");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_redis_stops_the_door_and_everything_goes_on_by_itself() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let tasks = submit_many(&house, 10, "assistant", "go\n[[fake: chunks=30,gap_ms=100]]").await;
    for task in &tasks {
        client.wait_for(*task, "running", SOON).await;
    }
    house.redis.signal("STOP");
    let refused = client.post("instant", "now").await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &Value::from("unavailable")), "{}", refused.text);
    assert_eq!(refused.header("retry-after"), Some("2"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    house.redis.signal("CONT");
    assert!(all_succeeded(&ends(&house, &tasks, SOON).await));
    wait_until("the door takes tasks again", SOON, async || client.post("instant", "now").await.status == 202).await;
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_mysql_new_tasks_are_refused_and_running_ones_store_their_result_later() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let running = submit_many(&house, 5, "assistant", "go\n[[fake: chunks=20,gap_ms=100]]").await;
    for task in &running {
        client.wait_for(*task, "running", SOON).await;
    }
    house.mysql.set(Link::Cut);
    let mut unknown = Vec::new();
    let cut_at = tokio::time::Instant::now();
    while cut_at.elapsed() < Duration::from_secs(10) {
        let refused = client.post("instant", "now").await;
        assert_eq!(refused.status, 503, "{}", refused.text);
        assert!(refused.header("retry-after").is_some());
        unknown.extend(refused.body["task_id"].as_str().map(str::to_owned));
    }
    house.mysql.set(Link::Up);
    assert!(all_succeeded(&ends(&house, &running, SOON).await));
    wait_until("the door takes tasks again", SOON, async || client.post("instant", "now").await.status == 202).await;
    // Whoever was told that the outcome is unknown can ask: the task is there and ends, or it is not there.
    for task in unknown {
        let answer = client.request("GET", &format!("/api/task/{task}")).await;
        assert!(answer.status == 404 || answer.status == 200, "{}", answer.text);
    }
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_mysql_is_answered_in_time() {
    let house = House::build(Plan::default().set("mysql.timeout_ms", 1000)).await;
    let client = house.client();
    house.mysql.set(Link::Stalled);
    let refused = client.post("instant", "now").await;
    assert_eq!(refused.status, 503, "{}", refused.text);
    house.mysql.set(Link::Up);
    wait_until("the door takes tasks again", SOON, async || client.post("instant", "now").await.status == 202).await;
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_stop_ends_its_tasks_or_hands_them_back() {
    let mut house = House::build(Plan::default().set("worker.drain_ms", 2000)).await;
    let client = house.client();
    let short = client.submit("assistant", "go\n[[fake: chunks=10,gap_ms=100]]").await;
    let long = client.submit("assistant", "go\n[[fake: chunks=60,gap_ms=100]]").await;
    for task in [short, long] {
        client.wait_for(task, "running", SOON).await;
    }
    house.workers[0].0.signal("TERM");
    house.workers[0].0.ended(Duration::from_secs(3 + 1)).await;
    assert_eq!(client.read(short).await["status"], "succeeded", "it ended within the drain");
    assert_eq!(client.read(long).await["status"], "queued", "it was handed back, not lost");
    house.add_worker().await;
    let followed = client.follow(long, SOON).await;
    assert_eq!(followed.end()["outcome"]["type"], "success");
    let row = client.read(long).await;
    assert_eq!(row["attempts"]["latest"], 2);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_door_loses_no_accepted_task() {
    let mut house = House::build(Plan::default().apis(2)).await;
    let tasks = submit_many(&house, 20, "assistant", "go\n[[fake: chunks=10,gap_ms=100]]").await;
    house.apis[0].0.kill();
    let client = house.client_of(1, &house.key);
    for task in tasks {
        assert_eq!(client.follow(task, SOON).await.end()["outcome"]["type"], "success");
    }
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_changes_nothing() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let task = client.submit("assistant", "go\n[[fake: chunks=10,gap_ms=100]]").await;
    drop(client.socket(task).await);
    client.wait_for(task, "succeeded", SOON).await;
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_deployments_on_one_redis_never_see_each_other() {
    let house = House::build(Plan::default().workers(0)).await;
    // A worker of another deployment, on the same Redis and the same provider.
    let mut stranger = House::build(Plan::default().workers(0).set("deployment.id", "other")).await;
    stranger.borrow_redis(&house);
    stranger.add_worker().await;
    let task = house.client().submit("instant", "mine").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(house.client().read(task).await["status"], "queued");
    stranger.take_down().await;
    house.take_down().await;
}
