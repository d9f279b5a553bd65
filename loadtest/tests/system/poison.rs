//! Tasks that take their workers with them: bounded in money, kept apart, and kept as dead letters.

use std::time::Duration;

use serde_json::{Value, json};

use crate::house::{House, wait_until};
use crate::leases::short_leases;

const SOON: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
async fn poison_is_bounded_in_money_whatever_redis_forgets_and_ends_as_a_dead_letter() {
    let mut house = House::build(short_leases()).await;
    let client = house.client();
    let task = client.submit("slow-30s", "poison").await;
    for attempt in 1..=3 {
        wait_until("the attempt calls its model", SOON, async || house.provider_stats().await["calls"] == attempt)
            .await;
        house.workers.last_mut().unwrap().0.kill();
        if attempt < 3 {
            let mut redis = house.redis_connection().await;
            redis::cmd("FLUSHALL").exec_async(&mut redis).await.unwrap();
        }
        house.add_worker().await;
    }
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.end()["code"], "penstock.attempts_exhausted", "{:#?}", followed.end());
    assert_eq!(house.provider_stats().await["calls"], 3, "one model call for each lost worker, no more");

    let dead = client.request("GET", "/api/dead?code=penstock.attempts_exhausted").await.body;
    assert_eq!(dead["tasks"][0]["task_id"], task.to_string(), "{dead:#}");
    assert_eq!(dead["tasks"][0]["attempts"]["crashes"], 3);
    let listed = house.command(&["dead", "list", "--tenant", "acme"]);
    assert!(listed.starts_with(&task.to_string()) && listed.contains("penstock.attempts_exhausted"), "{listed}");

    // An operator replays it: a new task, which ends well this time, and the letter is gone.
    let replayed = house.command(&["dead", "replay", "--tenant", "acme", "--agent", "slow-30s"]);
    let new = replayed.trim().rsplit('\t').next().unwrap().parse().unwrap();
    client.cancel(new).await;
    assert_eq!(client.follow(new, SOON).await.end()["outcome"]["type"], "cancelled");
    let read = client.read(task).await;
    assert_eq!((&read["status"], &read["replayed_as"]), (&json!("failed"), &json!(new.to_string())));
    assert_eq!(client.request("GET", "/api/dead").await.body["tasks"], json!([]));
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn suspects_run_one_at_a_time_and_nobody_else_waits_for_them() {
    let plan = short_leases().set("queue.quarantine_crashes_min", 1).set("worker.slots", 10);
    let mut house = House::build(plan).await;
    let client = house.client();
    let mut suspects = Vec::new();
    for _ in 0..3 {
        suspects.push(client.submit("slow-3s", "which of us was it").await);
    }
    for suspect in &suspects {
        client.wait_for(*suspect, "running", SOON).await;
    }
    wait_until("all call their models", SOON, async || house.provider_stats().await["calls"] == 3).await;
    house.workers[0].0.kill();
    house.add_worker().await;
    wait_until("two wait in quarantine", SOON, async || {
        house.door_metric("penstock_queue_quarantined_tasks").await >= 2.0
    })
    .await;
    let healthy = client.submit("instant", "me first").await;
    assert_eq!(client.follow(healthy, SOON).await.end()["outcome"]["type"], "success");
    let before = house.provider_stats().await;
    for suspect in &suspects {
        assert_eq!(client.follow(*suspect, SOON).await.end()["outcome"]["type"], "success");
        let row: Value = client.read(*suspect).await;
        assert_eq!((&row["attempts"]["latest"], &row["attempts"]["crashes"]), (&json!(2), &json!(1)));
    }
    assert_eq!(house.provider_stats().await["calls"], 7, "{before}");
    assert!(house.door_metric("penstock_queue_quarantined_tasks").await < 1.0);
    house.take_down().await;
}
