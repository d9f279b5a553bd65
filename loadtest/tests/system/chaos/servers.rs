//! Redis that stops, comes back, or loses what it had; and networks between any two parts.

use std::time::{Duration, Instant};

use penstock_protocol::Status;
use tokio::time::sleep;

use super::judge::{Judged, judge};
use super::load::Load;
use super::{Moments, PATIENCE, plan, scale};
use crate::house::{House, Link};

/// A queue that stands still is noticed by this task: it ends, or the test does.
async fn goes_on(house: &House) -> Duration {
    let (client, began) = (house.client(), Instant::now());
    let mut task = None;
    crate::house::wait_until("a new task is accepted", PATIENCE, async || {
        let answer = client.post("instant", "are you there").await;
        task = (answer.status == 202).then(|| answer.body["task_id"].as_str().and_then(|id| id.parse().ok())).flatten();
        task.is_some()
    })
    .await;
    client.wait_for(task.expect("accepted"), "succeeded", PATIENCE).await;
    began.elapsed()
}

/// A change is told at once, by each process; what must not be is a log that never comes to rest.
const LOG_OVER: f64 = 15.0;

/// Lines of log a second over a story.
fn rate(house: &House, began: Instant, lines_before: usize) -> f64 {
    (house.log_lines() - lines_before) as f64 / began.elapsed().as_secs_f64().max(LOG_OVER)
}

/// Nothing accepted is lost and nothing fails; the log stays readable.
fn all_well(judged: &Judged, lines_a_second: f64) {
    assert!(judged.rows.iter().all(|row| row.status == Status::Succeeded), "{:#?}", judged.rows);
    assert!(lines_a_second < 5.0, "{lines_a_second:.1} lines of log a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn throughput_returns_by_itself_after_every_restart_of_redis() {
    let cycles = scale(2, 8);
    let mut house = House::build(plan().workers(2)).await;
    let mut moments = Moments::new("Redis stops and starts");
    let (began, lines) = (Instant::now(), house.log_lines());
    let load = Load::start(&house, Duration::from_millis(100), 8, 40);
    let mut slowest = Duration::ZERO;
    for _ in 0..cycles {
        load.more(5).await;
        house.restart_redis(moments.ms(500, scale(1500, 15_000))).await;
        slowest = slowest.max(goes_on(&house).await);
    }
    let accepted = load.end().await;
    let judged = judge(&house, &accepted).await;
    let rate = rate(&house, began, lines);
    all_well(&judged, rate);
    judged.tell(
        "Redis stops and starts",
        &format!("{cycles} cycles, back after {:.1} s, {rate:.1} lines a second", slowest.as_secs_f64()),
    );
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_redis_loses_nothing_stands_still() {
    const KEYS: [&str; 16] = [
        "admitted", "line", "ring", "held", "ready", "delayed", "tasks", "tenants", "users", "threads", "leases",
        "workers", "wslots", "stats", "done", "meta",
    ];
    let house = House::build(plan().workers(2)).await;
    let mut moments = Moments::new("Redis loses keys");
    let mut redis = house.redis_connection().await;
    let (began, lines) = (Instant::now(), house.log_lines());
    let load = Load::start(&house, Duration::from_millis(100), 8, 40);
    let mut lost = vec!["everything", "group"];
    lost.extend(scale(vec![KEYS[moments.below(16)]], KEYS.to_vec()));
    let mut slowest = Duration::ZERO;
    for what in &lost {
        load.more(3).await;
        let key = |name: &str| format!("{{penstock:main/0}}:{name}");
        let command = match *what {
            "everything" => redis::cmd("FLUSHALL"),
            "group" => redis::cmd("XGROUP").arg("DESTROY").arg(key("ready")).arg("workers").to_owned(),
            name => redis::cmd("DEL").arg(key(name)).to_owned(),
        };
        command.exec_async(&mut redis).await.expect("Redis obeys");
        slowest = slowest.max(goes_on(&house).await);
    }
    let accepted = load.end().await;
    let judged = judge(&house, &accepted).await;
    let rate = rate(&house, began, lines);
    all_well(&judged, rate);
    let more = format!("{} losses, back after {:.1} s, {rate:.1} lines a second", lost.len(), slowest.as_secs_f64());
    judged.tell("Redis loses keys", &more);
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_link_that_is_cut_or_swallows_packets_stops_the_house() {
    let rounds = scale(1, 4);
    let house = House::build(plan().workers(2)).await;
    let mut moments = Moments::new("links break");
    let (began, lines) = (Instant::now(), house.log_lines());
    let load = Load::start(&house, Duration::from_millis(150), 8, 40);
    let mut slowest = Duration::ZERO;
    for _ in 0..rounds {
        for proxy in [&house.redis_link, &house.mysql, &house.provider_link] {
            for link in [Link::Cut, Link::Stalled] {
                proxy.set(link);
                sleep(moments.ms(300, scale(900, 4000))).await;
                proxy.set(Link::Up);
            }
            slowest = slowest.max(goes_on(&house).await);
        }
    }
    let accepted = load.end().await;
    let judged = judge(&house, &accepted).await;
    let rate = rate(&house, began, lines);
    // A call whose connection was cut after its first token cannot be repeated unseen; its task says so.
    let unfinished = judged.rows.iter().filter(|row| row.status != Status::Succeeded);
    assert!(unfinished.clone().all(|row| row.status == Status::Failed && row.error.is_some()), "{:#?}", judged.rows);
    judged.tell("links break", &format!("back after {:.1} s, {rate:.1} lines a second", slowest.as_secs_f64()));
    house.take_down().await;
}
