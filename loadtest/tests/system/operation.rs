//! What an operator does while the system runs: changes settings, checks the queue, and mistreats Redis.

use std::time::Duration;

use serde_json::Value;

use crate::house::{House, Plan, wait_until};

const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_settings_file_is_in_force_in_doors_and_workers_and_a_bad_one_is_not() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let (door, worker) = (house.apis[0].1, house.workers[0].1);
    assert_eq!(client.post("newcomer", "hello").await.status, 422, "nobody has heard of it");
    house.write_settings("[chains.fresh]\nhops = [\"fake/instant\"]\n[agents.newcomer]\nchain = \"fresh\"\n[queue]\ndepth_max = 777\ntenant_depth_max = 777\n");
    wait_until("both have taken it", SOON, async || {
        let (door, worker) = (house.page(door, "/metrics").await, house.page(worker, "/metrics").await);
        [door, worker].iter().all(|page| page.contains("settings_reloads_total{outcome=\"Applied\"} 1"))
    })
    .await;
    assert_eq!(client.request("GET", "/api/queue").await.body["depth_max"], 777);
    let task = client.submit("newcomer", "hello").await;
    client.wait_for(task, "succeeded", SOON).await;

    house.write_settings("[queue]\ndepth_max = 0\n");
    wait_until("it is refused", SOON, async || {
        house.page(door, "/metrics").await.contains("penstock_settings_refused 1")
    })
    .await;
    assert_eq!(client.request("GET", "/api/queue").await.body["depth_max"], 777, "the old values stay in force");
    // A hang-up means: read it now. It does not end a process.
    house.write_settings("[queue]\ndepth_max = 888\ntenant_depth_max = 888\n");
    for (process, _) in house.apis.iter().chain(&house.workers) {
        process.signal("HUP");
    }
    wait_until("it is mended", SOON, async || client.request("GET", "/api/queue").await.body["depth_max"] == 888).await;
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_fails_while_queue_and_truth_differ_and_a_repair_makes_them_one() {
    let house = House::build(Plan::default().workers(0).set("queue.reconcile_every_ms", 600_000)).await;
    let client = house.client();
    let task = client.submit("instant", "wait for a worker").await;
    let (is_well, said) = house.try_command(&["check"]);
    assert!(is_well, "{said}");
    // A cancel that never reached Redis.
    let store = &house.database.store;
    let tenant = store.tenants().await.unwrap()[0].no;
    store.cancel(penstock_protocol::TaskKey::new(tenant, penstock_protocol::TaskId(task))).await.unwrap();
    wait_until("the difference is found", SOON, async || {
        let (is_well, said) = house.try_command(&["check"]);
        !is_well && said.contains("live records of ended rows") && said.contains(&task.to_string())
    })
    .await;
    let (is_mended, said) = house.try_command(&["check", "--repair"]);
    assert!(is_mended, "{said}");
    assert!(house.try_command(&["check"]).0);
    assert_eq!(client.follow(task, SOON).await.end()["outcome"]["type"], "cancelled");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_turns_unsafe_degrades_loudly_once_and_a_full_one_refuses_only_new_tasks() {
    let house = House::build(Plan::default().set("redis.judge_every_ms", 1000)).await;
    let client = house.client();
    let (door, worker) = (house.apis[0].1, house.workers[0].1);
    let mut redis = house.redis_connection().await;
    let mut set = async |name: &str, value: &str| {
        redis::cmd("CONFIG").arg("SET").arg(name).arg(value).exec_async(&mut redis).await.unwrap();
    };
    set("maxmemory-policy", "allkeys-lru").await;
    wait_until("both say so", SOON, async || {
        let (door, worker) = (house.page(door, "/readyz").await, house.page(worker, "/readyz").await);
        door.contains("\"degraded\":\"redis has maxmemory-policy `allkeys-lru`") && worker.contains("degraded: redis")
    })
    .await;
    assert!(house.page(door, "/metrics").await.contains("penstock_redis_trusted 0"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let said = house.apis[0].0.log().matches("cannot be trusted").count();
    assert_eq!(said, 1, "one line a change");
    set("maxmemory-policy", "noeviction").await;
    wait_until("it is well again", SOON, async || !house.page(door, "/readyz").await.contains("degraded")).await;

    let running = client.submit("assistant", "go\n[[fake: chunks=30,gap_ms=100]]").await;
    client.wait_for(running, "running", SOON).await;
    let used: String = redis::cmd("INFO").arg("memory").query_async(&mut house.redis_connection().await).await.unwrap();
    assert!(used.contains("used_memory:"));
    set("maxmemory", "1").await;
    let refused = client.post("instant", "one more").await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &Value::from("unavailable")), "{}", refused.text);
    assert!(refused.header("retry-after").is_some());
    client.wait_for(running, "succeeded", SOON).await;
    set("maxmemory", "0").await;
    wait_until("the door takes tasks again", SOON, async || client.post("instant", "now").await.status == 202).await;
    assert_eq!(client.follow(running, SOON).await.end()["outcome"]["type"], "success");
    house.take_down().await;
}
