//! Caps and start rates: a tenant at one of them is skipped, and blocks nobody.

use penstock_queue::{Obstacle, TenantTerms};

use crate::house::{House, Job, PLAIN, usual};

const SHORT: Job = Job { takes_ms: 10, ..PLAIN };

#[tokio::test]
async fn starts_are_spread_over_the_minute_and_others_flow() {
    let mut house = House::open(50).await;
    house.test.apply_to(&[TenantTerms { starts_per_minute: Some(30), ..usual(1) }]).await;
    house.flood(1, 10, SHORT).await;
    house.flood(2, 20, SHORT).await;
    let of = |house: &House, tenant: u32| {
        let mine = house.started.iter().filter(|started| started.key.tenant.0 == tenant);
        mine.map(|started| started.at_ms - 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!((of(&house, 1).len(), of(&house, 2).len()), (1, 20), "one at once, and the other tenant all of its");
    house.finish_all().await;
    for _ in 0..80 {
        house.pass(250).await;
        house.finish_all().await;
    }
    let starts = of(&house, 1);
    assert_eq!(starts.len(), 10);
    // A start that comes late may be made up for, by a second at most.
    assert!(starts.windows(2).all(|pair| (1000..=2250).contains(&(pair[1] - pair[0]))), "{starts:?}");
    assert!((17_000..=18_250).contains(starts.last().unwrap()), "{starts:?}");
    house.close().await;
}

#[tokio::test]
async fn a_high_rate_is_kept_although_the_tick_comes_once_a_second() {
    let mut house = House::open(1000).await;
    house.test.apply_to(&[TenantTerms { starts_per_minute: Some(6000), ..usual(1) }]).await;
    house.flood(1, 600, SHORT).await;
    for _ in 0..4 {
        house.pass(1000).await;
    }
    // A second's worth at once, then 100 a second.
    let started = house.started.len();
    assert!((495..=501).contains(&started), "{started}");
    house.close().await;
}

#[tokio::test]
async fn why_a_task_does_not_move_is_told() {
    let mut house = House::open(2).await;
    house
        .test
        .apply_to(&[
            TenantTerms { starts_per_minute: Some(1), ..usual(1) },
            TenantTerms { running_max: Some(1), ..usual(2) },
        ])
        .await;
    house.submit(1, PLAIN).await;
    let paced = house.submit(1, PLAIN).await;
    house.submit(2, PLAIN).await;
    let capped = house.submit(2, PLAIN).await;
    let behind = house.submit(3, PLAIN).await;
    let why = async |key| house.test.queue.position(key).await.unwrap();
    assert_eq!(why(paced).await.obstacle, Some(Obstacle::StartRate));
    assert!(why(paced).await.wait_ms.unwrap() >= 59_000);
    assert_eq!(why(capped).await.obstacle, Some(Obstacle::TenantCap));
    assert_eq!(why(behind).await.obstacle, None);
    house.close().await;
}
