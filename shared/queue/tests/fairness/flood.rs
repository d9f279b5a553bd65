//! One tenant floods; the others do not notice.

use penstock_protocol::ThreadId;
use penstock_queue::QueuedTask;

use crate::house::{House, Job, PLAIN};

/// Tenant 1 queues 1 000 tasks, spread as `spread` says, then tenant 2 one. Returns when that one started and ended.
async fn victim_of(spread: impl Fn(usize, QueuedTask) -> QueuedTask) -> (u64, u64) {
    let mut house = House::open(4).await;
    for number in 0..1000 {
        let task = spread(number, house.new_task(1));
        // Each takes a little longer, so that slots do not fall free together.
        house.queue(&task, Job { takes_ms: 3000 + (number as u64 % 7) * 100, ..PLAIN }).await;
    }
    house.starts(20).await;
    let asked_ms = house.now_ms();
    let victim = house.submit(2, PLAIN).await;
    while !house.finished.contains(&victim) {
        assert!(house.step().await);
    }
    let answer = (house.started_ms(victim).unwrap() - asked_ms, house.now_ms() - asked_ms);
    house.close().await;
    answer
}

#[tokio::test]
async fn one_task_after_a_flood_of_a_thousand_is_answered_in_twice_its_time_alone() {
    let (waited_ms, answered_ms) = victim_of(|_, task| task).await;
    println!("one tenant: waited {waited_ms} ms, answered in {answered_ms} ms (3000 alone)");
    assert!(answered_ms <= 2 * 3000, "{answered_ms} ms");
}

#[tokio::test]
async fn a_flood_spread_over_200_users_and_threads_gains_nothing() {
    let threads: Vec<_> = (0..200).map(|_| ThreadId::mint()).collect();
    let spread = |number: usize, task: QueuedTask| QueuedTask {
        user: Some(format!("user-{}", number % 200)),
        thread: Some(threads[number % 200]),
        agent: format!("agent-{}", number % 20),
        ..task
    };
    let (waited_ms, answered_ms) = victim_of(spread).await;
    println!("200 users and threads: waited {waited_ms} ms, answered in {answered_ms} ms (3000 alone)");
    assert!(answered_ms <= 2 * 3000, "{answered_ms} ms");
}

#[tokio::test]
async fn every_tenant_with_work_is_served_once_a_round_and_none_is_skipped() {
    const TENANTS: u32 = 300;
    let mut house = House::open(1).await;
    for _ in 0..2 {
        for tenant in 1..=TENANTS {
            house.submit(tenant, PLAIN).await;
        }
    }
    house.starts(2 * TENANTS as usize - 1).await;
    for round in house.started.chunks(TENANTS as usize) {
        let mut served: Vec<_> = round.iter().map(|started| started.key.tenant.0).collect();
        served.sort_unstable();
        served.dedup();
        assert_eq!(served.len(), TENANTS as usize);
    }
    house.close().await;
}

#[tokio::test]
async fn priority_moves_a_task_in_its_own_line_and_takes_nothing_from_others() {
    let mut house = House::open(1).await;
    house.submit(3, PLAIN).await;
    for _ in 0..60 {
        // Places of top priority, a whole head start earlier than those of the other tenant.
        let urgent = house.new_task(1);
        house.queue(&urgent, PLAIN).await;
    }
    for _ in 0..60 {
        house.submit(2, PLAIN).await;
    }
    let served = house.starts(100).await;
    assert!((48..=52).contains(&served[&1]), "{served:?}");
    house.close().await;
}
