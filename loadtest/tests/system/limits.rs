//! Limits hold exactly while many ask at once, and a no is cheap.

use std::time::Duration;

use tokio::task::JoinSet;

use crate::house::{House, Plan, wait_until};

/// Submits `count` tasks at the same moment; returns the answers.
async fn at_once(house: &House, count: usize, agent: &'static str) -> Vec<penstock_loadtest::client::Answer> {
    let mut posts = JoinSet::new();
    for _ in 0..count {
        let client = house.client();
        posts.spawn(async move { client.post(agent, "now").await });
    }
    posts.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_rejects_with_retry_after_and_never_takes_one_too_many() {
    let house = House::build(
        Plan::default().apis(2).set("worker.slots", 4).set("queue.depth_max", 8).set("queue.tenant_depth_max", 8),
    )
    .await;
    let answers = at_once(&house, 200, "slow-30s").await;
    let accepted = answers.iter().filter(|answer| answer.status == 202).count();
    // Eight wait, and up to four may have left for a slot meanwhile.
    assert!((8..=12).contains(&accepted), "{accepted} were accepted");
    for no in answers.iter().filter(|answer| answer.status != 202) {
        assert_eq!(no.status, 429, "{}", no.text);
        assert!(no.header("retry-after").is_some_and(|s| (1..=60).contains(&s.parse::<u64>().unwrap_or(0))));
        assert!(no.body["code"] == "queue_full" || no.body["code"] == "tenant_queue_full", "{}", no.text);
    }
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_equal_requests_are_one_task() {
    let house = House::build(Plan::default().apis(2)).await;
    let mut posts = JoinSet::new();
    for at in 0..50 {
        let client = house.client_of(at % 2, &house.key);
        posts.spawn(async move {
            client
                .request_with(
                    "POST",
                    "/api/task",
                    "idempotency-key: order-7\r\n",
                    r#"{"agent":"instant","input":"once"}"#,
                )
                .await
        });
    }
    let answers = posts.join_all().await;
    let first = answers[0].body["task_id"].clone();
    for answer in &answers {
        assert_eq!((answer.status, &answer.body["task_id"]), (202, &first), "{}", answer.text);
    }
    let client = house.client();
    let other = client
        .request_with("POST", "/api/task", "idempotency-key: order-7\r\n", r#"{"agent":"instant","input":"twice"}"#)
        .await;
    assert_eq!(other.status, 422, "{}", other.text);
    let task = first.as_str().unwrap().parse().unwrap();
    client.follow(task, Duration::from_secs(20)).await;
    assert_eq!(house.provider_stats().await["calls"], 1);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_stops_working_at_every_door_and_on_every_socket() {
    let house = House::build(Plan::default().apis(2)).await;
    let key = house.tenant("guest");
    let (here, there) = (house.client_of(0, &key), house.client_of(1, &key));
    for door in [&here, &there] {
        wait_until("the new key works", Duration::from_secs(5), async || {
            door.request("GET", "/api/task").await.status == 200
        })
        .await;
    }
    let task = here.submit("slow-30s", "long").await;
    let mut socket = there.socket(task).await;
    let listed = house.command(&["key", "list"]);
    let row = listed.lines().find(|line| line.contains("guest")).expect("the key is listed");
    let number = row.split_whitespace().next().expect("a number");
    let _ = house.command(&["key", "revoke", number]);
    for door in [&here, &there] {
        wait_until("the revoked key is refused", Duration::from_secs(2), async || {
            door.request("GET", "/api/task").await.status == 401
        })
        .await;
    }
    let closed = tokio::time::timeout(Duration::from_secs(2), async {
        use futures_util::StreamExt;
        loop {
            match socket.next().await {
                Some(Ok(tokio_tungstenite::tungstenite::Message::Close(frame))) => {
                    return frame.map(|f| u16::from(f.code));
                }
                Some(Ok(_)) => {}
                _ => return None,
            }
        }
    });
    assert_eq!(closed.await.expect("the socket ends within 2 s"), Some(4401));
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_long_for_a_vendors_limit_tells_its_client_and_is_served() {
    // One call at once, the next after three seconds; both workers share it.
    let plan = Plan::default().workers(2).set("limits.default.rpm", 20).set("buckets.told_ms", 200);
    let house = House::build(plan).await;
    let client = house.client();
    let (first, second) = (client.submit("instant", "first").await, client.submit("instant", "second").await);
    let (first, second) =
        (client.follow(first, Duration::from_secs(60)).await, client.follow(second, Duration::from_secs(60)).await);
    let all = first.events.iter().chain(&second.events);
    let told: Vec<_> = all.filter(|event| event["name"] == "penstock.throttled").collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0]["value"]["waitedMs"].as_u64() >= Some(200), "{told:?}");
    assert!(first.end()["type"] == "RUN_FINISHED" && second.end()["type"] == "RUN_FINISHED");
    assert_eq!(house.provider_stats().await["calls"], 2);
    house.take_down().await;
}
