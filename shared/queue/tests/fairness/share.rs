//! What each tenant gets over time.

use penstock_protocol::TaskKey;
use penstock_queue::{CancelVerdict, TenantTerms};

use crate::house::{House, Job, PLAIN, usual};

const CANCELLED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}"#;

fn half(count: usize) -> bool {
    (90..=110).contains(&count)
}

#[tokio::test]
async fn weights_of_three_to_one_give_shares_within_five_per_cent() {
    let mut house = House::open(4).await;
    house.test.apply_to(&[TenantTerms { weight: 3, ..usual(1) }]).await;
    house.flood(1, 400, PLAIN).await;
    house.flood(2, 150, PLAIN).await;
    let served = house.starts(400).await;
    println!("weights 3:1: {} : {} of 400", served[&1], served[&2]);
    assert!((285..=315).contains(&served[&1]), "{served:?}");
    house.close().await;
}

#[tokio::test]
async fn a_tenant_whose_tasks_cost_ten_times_their_estimate_gets_no_more_tokens() {
    let mut house = House::open(4).await;
    house.flood(1, 250, Job { real: Some(1000), ..PLAIN }).await;
    house.flood(2, 900, Job { real: Some(100), ..PLAIN }).await;
    house.starts(800).await;
    let tokens = |tenant: u32, each: u64| {
        house.finished.iter().filter(|key: &&TaskKey| key.tenant.0 == tenant).count() as u64 * each
    };
    let (dear, cheap) = (tokens(1, 1000), tokens(2, 100));
    let ratio = dear as f64 / cheap as f64;
    println!("ten times the estimate: {dear} : {cheap} tokens, ratio {ratio:.3}");
    assert!((0.9..=1.1).contains(&ratio), "{ratio}");
    house.close().await;
}

#[tokio::test]
async fn idling_earns_nothing() {
    let mut house = House::open(1).await;
    house.submit(1, PLAIN).await;
    house.flood(2, 700, PLAIN).await;
    house.starts(500).await;
    house.flood(1, 150, PLAIN).await;
    let served = house.starts(200).await;
    assert!(half(served[&1]), "{served:?}");
    house.close().await;
}

#[tokio::test]
async fn past_load_is_not_punished() {
    let mut house = House::open(1).await;
    house.flood(1, 700, PLAIN).await;
    house.starts(500).await;
    house.flood(2, 150, PLAIN).await;
    let served = house.starts(200).await;
    assert!(half(served[&1]), "{served:?}");
    house.close().await;
}

#[tokio::test]
async fn a_cap_that_is_lifted_brings_back_no_hoarded_turns() {
    let mut house = House::open(4).await;
    house.test.apply_to(&[TenantTerms { running_max: Some(1), ..usual(1) }]).await;
    house.flood(1, 300, PLAIN).await;
    house.flood(2, 700, PLAIN).await;
    let capped = house.starts(400).await;
    assert!((90..=101).contains(&capped[&1]), "one slot of four: {capped:?}");
    house.test.apply_to(&[usual(1)]).await;
    let served = house.starts(200).await;
    assert!(half(served[&1]), "{served:?}");
    house.close().await;
}

#[tokio::test]
async fn cancelled_tasks_cost_nothing() {
    let mut house = House::open(1).await;
    house.submit(2, PLAIN).await;
    let mut mine = Vec::new();
    for _ in 0..300 {
        mine.push(house.submit(1, PLAIN).await);
    }
    house.flood(2, 100, PLAIN).await;
    house.flood(3, 100, PLAIN).await;
    for key in &mine[20..299] {
        assert_eq!(house.test.queue.cancel(*key, 0, CANCELLED).await.unwrap(), CancelVerdict::Ended);
    }
    let last = mine[299];
    let from = house.started.len();
    while house.started_ms(last).is_none() {
        assert!(house.step().await);
    }
    // 21 of its own, and as many of each of the two others.
    assert!(house.started.len() - from <= 66, "{}", house.started.len() - from);
    house.close().await;
}

#[tokio::test]
async fn a_changed_weight_counts_at_once() {
    let mut house = House::open(1).await;
    house.flood(1, 300, PLAIN).await;
    house.flood(2, 200, PLAIN).await;
    assert!(half(house.starts(200).await[&1]));
    house.test.apply_to(&[TenantTerms { weight: 9, ..usual(1) }]).await;
    let served = house.starts(100).await;
    assert!((86..=94).contains(&served[&1]), "{served:?}");
    house.close().await;
}

#[tokio::test]
async fn what_a_tenant_can_owe_is_bounded() {
    let mut house = House::open_with(1, 5_000).await;
    house.submit(1, Job { real: Some(1_000_000), ..PLAIN }).await;
    let next = house.submit(1, PLAIN).await;
    house.flood(2, 200, PLAIN).await;
    while house.started_ms(next).is_none() {
        assert!(house.step().await);
    }
    // 5 000 tokens are 50 tasks of the other one.
    let of_other = house.started.iter().filter(|started| started.key.tenant.0 == 2).count();
    assert!((48..=52).contains(&of_other), "{of_other}");
    house.close().await;
}
