//! How well the wait is predicted, and what is refused because of it.

use penstock_queue::{AdmitLimits, AdmitVerdict, Reason};

use crate::house::{House, Job, PLAIN};

/// Random numbers of the test.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// 20 slots, one tenant with hundreds in line, five small ones with a task now and then. Returns predicted ÷ real wait
/// of all that waited at all, sorted.
async fn ratios(takes_ms: impl Fn(&mut Random) -> u64) -> Vec<f64> {
    const SLOTS: usize = 20;
    let mut house = House::open(SLOTS).await;
    let (mut random, mut asked) = (Random(7), Vec::new());
    for _ in 0..300 {
        let job = Job { takes_ms: takes_ms(&mut random), ..PLAIN };
        house.submit(1, job).await;
    }
    house.starts(100).await;
    let limits = AdmitLimits { depth_max: 100_000, ..AdmitLimits::default() };
    for number in 0..240_u32 {
        let tenant = if number % 2 == 0 { 1 } else { 2 + u32::try_from(random.below(5)).unwrap() };
        let (task, job) = (house.new_task(tenant), Job { takes_ms: takes_ms(&mut random), ..PLAIN });
        let AdmitVerdict::Admitted(admitted) = house.admit(&task, limits).await else { unreachable!("there is room") };
        asked.push((task.key, house.now_ms(), admitted.wait_ms()));
        house.queue(&task, job).await;
        house.step().await;
    }
    house.finish_all().await;
    let mut ratios: Vec<_> = asked
        .iter()
        .filter_map(|(key, asked_ms, predicted_ms)| {
            let real_ms = house.started_ms(*key).unwrap() - asked_ms;
            (real_ms > 0).then(|| predicted_ms.unwrap() as f64 / real_ms as f64)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    house.close().await;
    ratios
}

fn report(name: &str, ratios: &[f64]) -> f64 {
    let at = |percent: usize| ratios[ratios.len() * percent / 100];
    println!(
        "predicted ÷ real wait, {name}: p10 {:.2}, p50 {:.2}, p90 {:.2} of {} tasks",
        at(10),
        at(50),
        at(90),
        ratios.len()
    );
    at(50)
}

#[tokio::test]
async fn the_predicted_wait_is_near_the_real_one() {
    let even = report("8-14 s", &ratios(|random| 8_000 + random.below(6_000)).await);
    let bimodal = report("3 s or 60 s", &ratios(|random| if random.below(3) == 0 { 60_000 } else { 3_000 }).await);
    assert!((0.5..=2.0).contains(&even), "{even}");
    assert!((0.3..=3.0).contains(&bimodal), "{bimodal}");
}

#[tokio::test]
async fn a_wait_that_would_be_too_long_is_refused_at_once() {
    let mut house = House::open(4).await;
    house.flood(1, 40, PLAIN).await;
    house.starts(12).await;
    let patience = |wait_ms_max| AdmitLimits { depth_max: 1000, wait_ms_max, ..AdmitLimits::default() };
    let task = house.new_task(1);
    let AdmitVerdict::Rejected(rejected) = house.admit(&task, patience(5_000)).await else { unreachable!("refused") };
    assert_eq!(rejected.reason, Reason::WaitTooLong);
    assert!((1000..=60_000).contains(&rejected.retry_after_ms));
    assert_eq!(house.test.queue.gauges().await.unwrap().admitted, 0, "nothing is left behind");
    // A tenant that has nothing in line is served next, so it may well be in time.
    let small = house.new_task(2);
    assert!(matches!(house.admit(&small, patience(5_000)).await, AdmitVerdict::Admitted(_)));
    assert!(matches!(house.admit(&task, patience(600_000)).await, AdmitVerdict::Admitted(_)));
    house.close().await;
}
