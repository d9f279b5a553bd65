//! Law 8 and the traps: the script and its twin judge alike, step by step, whatever the clock and the limits do.

use std::time::Duration;

use penstock_config::DayReset;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::local::{Judgement, Local};
use super::super::{Carve, Change, Cost, Dimension, Limits, Rules};
use super::server::Exit;

const NOW: u64 = 1_796_068_800_000;
const CASES: u32 = 60;
const STEPS: usize = 180;

#[derive(Clone, Debug)]
enum Step {
    /// Time goes on, or back.
    Wait {
        ms: i64,
    },
    Take {
        cost: Cost,
    },
    /// Settles the oldest take that is open: real = taken × percent, or as if nothing had been sent.
    Settle {
        percent: u64,
    },
    GiveBack,
}

fn cost() -> impl Strategy<Value = Cost> {
    let tokens = prop_oneof![4 => 0..1_000_u64, 3 => 500..3_000_u64, 1 => 20_000..40_000_u64];
    (tokens, 0..1_500_u64, 0..3_u64).prop_map(|(input_tokens, output_tokens, images)| Cost {
        input_tokens,
        output_tokens,
        images,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_000_i64).prop_map(|ms| Step::Wait { ms }),
        1 => (0..7_200_000_i64).prop_map(|ms| Step::Wait { ms }),
        1 => (-20_000..0_i64).prop_map(|ms| Step::Wait { ms }),
        12 => cost().prop_map(|cost| Step::Take { cost }),
        4 => (0..400_u64).prop_map(|percent| Step::Settle { percent }),
        1 => Just(Step::GiveBack),
    ]
}

/// Limits of every kind; each is 0 (none) as often as not.
fn limits() -> impl Strategy<Value = Limits> {
    let some = |most: u64| prop_oneof![Just(0), 1..most];
    (
        (some(600), some(200_000), some(150_000), some(50_000), some(60)),
        (some(300), some(400_000)),
        prop_oneof![Just(None), (100..57_000_u64).prop_map(|ms| Some(Duration::from_millis(ms)))],
        prop_oneof![Just(None), Just(Some(true)), Just(Some(false))],
        prop_oneof![Just(None), (1..30_000_u64).prop_map(|tokens| Some(Carve::LargestCall { tokens }))],
        prop_oneof![Just(DayReset::Rolling), (-720..720_i64).prop_map(|m| DayReset::Midnight { offset_minutes: m })],
    )
        .prop_map(|((rpm, tpm, input_tpm, output_tpm, ipm), (rpd, tpd), burst, starts_full, carve, reset)| {
            Limits { rpm, tpm, input_tpm, output_tpm, ipm, rpd, tpd, burst, starts_full, carve, day_reset: Some(reset) }
        })
}

#[test]
fn script_and_twin_judge_alike() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let strategy = (limits(), prop::collection::vec(step(), STEPS));
    let outcome = runner.run(&strategy, |(limits, steps)| runtime.block_on(compare(&limits, &steps)));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

async fn compare(limits: &Limits, steps: &[Step]) -> Result<(), TestCaseError> {
    let rules = Rules::of([limits, &Limits::default(), &Limits::default()]);
    let mut exit = Exit::new().await;
    let mut twin = Local::default();
    let mut now = NOW;
    let mut open: Vec<(Cost, u64)> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::Wait { ms } => now = now.saturating_add_signed(*ms),
            Step::Take { cost } => {
                let answer = exit.take(&rules, "a", 0, cost, now).await;
                let judgement = twin.take(&rules, cost, now);
                prop_assert_eq!(answer.judgement, Some(judgement), "step {}", number);
                if let Judgement::Granted { slot_ms } = judgement {
                    open.push((*cost, slot_ms));
                }
                for (rule, used) in rules.days.iter().zip(&answer.uses) {
                    prop_assert_eq!(*used, twin.used(rule.dimension), "step {}: {:?}", number, rule);
                }
            }
            Step::Settle { .. } | Step::GiveBack if open.is_empty() => {}
            Step::Settle { percent } => {
                let (taken, slot_ms) = open.remove(0);
                let real = |tokens: u64| tokens * percent / 100;
                let change = Change::to_real(&taken, real(taken.input_tokens), real(taken.output_tokens));
                exit.settle(&rules, &change, slot_ms, now).await;
                twin.settle(&rules, &change, slot_ms, now);
            }
            Step::GiveBack => {
                let (taken, slot_ms) = open.remove(0);
                exit.settle(&rules, &Change::give_back(&taken), slot_ms, now).await;
                twin.settle(&rules, &Change::give_back(&taken), slot_ms, now);
            }
        }
        for rule in &rules.buckets {
            let stored: Option<f64> = exit.command(&["HGET", "{}levels", rule.dimension.field()]).await;
            prop_assert_eq!(stored, twin.level(rule.dimension), "step {}: {:?}", number, rule.dimension);
        }
    }
    for dimension in Dimension::ALL.into_iter().filter(|d| rules.buckets.iter().all(|rule| rule.dimension != *d)) {
        let stored: Option<f64> = exit.command(&["HGET", "{}levels", dimension.field()]).await;
        prop_assert_eq!(stored, None, "what is not limited is not touched");
    }
    let _: i64 = exit.command(&["DEL", "{}levels", "{}line", "{}day_requests", "{}day_tokens"]).await;
    Ok(())
}
