//! Workers that are killed, frozen and replaced, under load.

use std::time::Duration;

use penstock_protocol::Status;
use tokio::time::sleep;

use super::judge::judge;
use super::load::Load;
use super::{Moments, PATIENCE, plan, scale};
use crate::house::{House, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn workers_killed_at_random_moments_leave_every_task_with_one_end() {
    let (tasks, kills) = scale((30, 3), (200, 20));
    let mut house = House::build(plan().workers(2).set("worker.slots", 10).set("queue.crashes_max", 10)).await;
    let mut moments = Moments::new("kill -9");
    let load = Load::start(&house, Duration::from_millis(scale(60, 200)), 10, 60);
    for _ in 0..kills {
        sleep(moments.ms(100, 1500)).await;
        let at = house.workers.len() - 1 - moments.below(2);
        house.workers.remove(at).0.kill();
        house.add_worker().await;
    }
    load.more(tasks).await;
    let accepted = load.end().await;
    let judged = judge(&house, &accepted).await;
    assert!(judged.rows.iter().all(|row| row.status == Status::Succeeded), "{:#?}", judged.rows);
    // Each kill costs at most one model call for each slot that it had.
    assert!(judged.calls <= accepted.len() + kills * 10, "{} calls for {} tasks", judged.calls, accepted.len());
    judged.tell("kill -9", &format!("{kills} kills"));
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_worker_comes_back_harmless_and_its_late_writes_are_counted() {
    let lease_ms = scale(2000, 15_000);
    let house = House::build(plan().workers(2).set("worker.slots", 8)).await;
    let load = Load::start(&house, Duration::from_millis(100), 30, scale(100, 400));
    let (frozen, port) = &house.workers[0];
    wait_until("the worker that will freeze has tasks", PATIENCE, async || {
        house.page(*port, "/metrics").await.lines().any(|line| line == "penstock_worker_running_count 8")
    })
    .await;
    frozen.signal("STOP");
    sleep(Duration::from_millis(lease_ms + 1500)).await;
    wait_until("its tasks have gone on elsewhere", PATIENCE, async || {
        house.page(house.workers[1].1, "/metrics").await.contains("penstock_worker_recovered_total")
    })
    .await;
    frozen.signal("CONT");
    wait_until("its attempts are counted as lost", PATIENCE, async || {
        let page = house.page(*port, "/metrics").await;
        page.lines().any(|line| line.starts_with("penstock_worker_attempts_total{end=\"Lost\"} "))
    })
    .await;
    let accepted = load.end().await;
    let judged = judge(&house, &accepted).await;
    assert!(judged.rows.iter().all(|row| row.status == Status::Succeeded), "{:#?}", judged.rows);
    judged.tell("freeze past the lease, thaw", "");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_spends_no_attempt_and_delays_no_task_beyond_a_lease() {
    let count = scale(3, 5);
    let plan = plan().workers(count).set("worker.slots", 4).set("worker.drain_ms", scale(300, 2000));
    let lease = Duration::from_millis(scale(2000, 15_000));
    let mut house = House::build(plan).await;
    let load = Load::start(&house, Duration::from_millis(100), 10, 80);
    load.more(10).await;
    for _ in 0..count {
        let (mut leaving, _) = house.workers.remove(0);
        leaving.signal("TERM");
        leaving.ended(PATIENCE).await;
        house.add_worker().await;
    }
    let accepted = load.end().await;
    let judged = judge(&house, &accepted).await;
    for row in &judged.rows {
        assert_eq!(row.status, Status::Succeeded, "{row:#?}");
        assert_eq!((row.crashes, row.failures), (0, 0), "no attempt is spent: {row:#?}");
    }
    let wait = judged.wait_max();
    // The machine of the tests may be busy; a task that waited for a lease to pass would wait on top of that.
    assert!(wait < lease + Duration::from_secs(15), "a task waited {wait:?}");
    judged.tell("rolling restart", &format!("{count} workers, longest wait {:.1} s", wait.as_secs_f64()));
    house.take_down().await;
}
