//! Traps that were seen: what is in the store may be odd, clocks go back, numbers are large, refills are tiny, debts are long.

use std::time::Duration;

use penstock_config::DayReset;

use super::super::local::Judgement;
use super::super::{Change, Cost, Dimension, Limits, Rules};
use super::server::Exit;

const NOW: u64 = 1_796_068_800_000;

fn rules(limits: &Limits) -> Rules {
    Rules::of([limits, &Limits::default(), &Limits::default()])
}

fn tokens(input_tokens: u64) -> Cost {
    Cost { input_tokens, ..Cost::default() }
}

fn is_granted(judgement: Option<Judgement>) -> bool {
    matches!(judgement, Some(Judgement::Granted { .. }))
}

#[tokio::test]
async fn what_is_no_finite_number_in_the_store_counts_as_missing() {
    let rules = rules(&Limits { tpm: 6_000, ..Limits::default() });
    for odd in ["nan", "inf", "-inf", "", "much", "0x", "1e999"] {
        let mut exit = Exit::new().await;
        let _: i64 = exit.command(&["HSET", "{}levels", "t", odd, "t@", &NOW.to_string()]).await;
        assert!(is_granted(exit.take(&rules, "a", 0, &tokens(100), NOW).await.judgement), "level {odd:?}");
        let _: i64 = exit.command(&["HSET", "{}levels", "t", "50", "t@", odd]).await;
        assert_eq!(exit.take(&rules, "a", 0, &tokens(100), NOW).await.levels, [200], "stamp {odd:?}");
    }
}

#[tokio::test]
async fn minus_zero_is_zero() {
    let rules = rules(&Limits { tpm: 6_000, tpd: 1_000, ..Limits::default() });
    let mut exit = Exit::new().await;
    let _: i64 = exit.command(&["HSET", "{}levels", "t", "-0", "t@", &NOW.to_string()]).await;
    let answer = exit.take(&rules, "a", 0, &tokens(0), NOW).await;
    assert!(is_granted(answer.judgement), "{answer:?}");
    let nothing = Change::to_real(&tokens(0), 0, 0);
    assert_eq!(exit.settle(&rules, &nothing, NOW, NOW).await, [0]);
    let used: Vec<i64> = exit.command(&["HVALS", "{}day_tokens"]).await;
    assert_eq!(used, [0]);
}

#[tokio::test]
async fn numbers_near_the_largest_stay_whole() {
    let rules = rules(&Limits { tpm: 1_000_000_000_000, tpd: 1_000_000_000_000, ..Limits::default() });
    let mut exit = Exit::new().await;
    let all = tokens(u64::MAX);
    let answer = exit.take(&rules, "a", 0, &all, NOW).await;
    assert!(is_granted(answer.judgement), "{answer:?}");
    assert_eq!((answer.levels, answer.uses), (vec![-950_000_000_000], vec![1_000_000_000_000]));
    let slot = NOW - NOW % 3_600_000;
    let used: String = exit.command(&["HGET", "{}day_tokens", &slot.to_string()]).await;
    assert_eq!(used, "1000000000000", "no 1e+12");
    let levels = exit.settle(&rules, &Change::to_real(&all, 0, 0), slot, NOW).await;
    assert_eq!(levels, [50_000_000_000]);
}

#[tokio::test]
async fn a_stamp_in_the_future_neither_freezes_nor_gives() {
    let rules = rules(&Limits { tpm: 6_000, ..Limits::default() });
    let mut exit = Exit::new().await;
    let later = NOW + 3_600_000;
    assert_eq!(exit.take(&rules, "a", 0, &tokens(300), later).await.levels, [0]);
    let back = exit.take(&rules, "a", 0, &tokens(100), NOW).await;
    assert_eq!(back.levels, [0], "no credit");
    assert!(is_granted(exit.take(&rules, "a", 0, &tokens(100), NOW + 2_000).await.judgement), "no freeze");
}

#[tokio::test]
async fn a_refill_of_a_millisecond_is_not_lost_however_often_it_is_asked() {
    let rules = rules(&Limits { rpm: 1, ..Limits::default() });
    let mut exit = Exit::new().await;
    assert!(is_granted(exit.take(&rules, "a", 0, &tokens(0), NOW).await.judgement));
    // 0.95 a minute repay 0.95 and fill the burst of 0.05 within 63.2 s.
    let mut granted_at = None;
    for ms in (1..64_000).step_by(37) {
        if is_granted(exit.take(&rules, "a", 0, &tokens(0), NOW + ms).await.judgement) {
            granted_at = Some(ms);
            break;
        }
    }
    assert!(granted_at.is_some_and(|ms| (62_900..=63_200).contains(&ms)), "{granted_at:?}");
}

#[tokio::test]
async fn an_empty_start_is_written_by_the_take_that_it_refuses() {
    let rules = rules(&Limits { rpm: 60, starts_full: Some(false), ..Limits::default() });
    let mut exit = Exit::new().await;
    assert!(!is_granted(exit.take(&rules, "a", 0, &tokens(0), NOW).await.judgement));
    let stored: (String, String) = exit.command(&["HMGET", "{}levels", "r", "r@"]).await;
    assert_eq!(stored, ("0".into(), NOW.to_string()));
    assert!(is_granted(exit.take(&rules, "a", 0, &tokens(0), NOW + 1_053).await.judgement));
}

#[tokio::test]
async fn a_debt_outlives_five_minutes_and_no_settlement_shortens_its_life() {
    let rules = rules(&Limits { rpm: 600, tpm: 1_000, ..Limits::default() });
    let mut exit = Exit::new().await;
    assert!(is_granted(exit.take(&rules, "a", 0, &tokens(30_000), NOW).await.judgement));
    let repaid_ms = 30_000 * 60_000 / 950;
    let keep: i64 = exit.command(&["PTTL", "{}levels"]).await;
    assert!(keep > repaid_ms - 5_000 && keep <= repaid_ms + 61_000, "{keep} for {repaid_ms}");
    exit.settle(&rules, &Change::to_real(&tokens(10), 5, 0), 0, NOW).await;
    let keep: i64 = exit.command(&["PTTL", "{}levels"]).await;
    assert!(keep > repaid_ms - 5_000, "{keep}");
    let short = self::rules(&Limits { rpm: 600, ..Limits::default() });
    let mut idle = Exit::new().await;
    idle.take(&short, "a", 0, &tokens(0), NOW).await;
    let keep: i64 = idle.command(&["PTTL", "{}levels"]).await;
    assert!((295_000..=360_000).contains(&keep), "{keep}");
}

#[tokio::test]
async fn all_buckets_or_none() {
    let rules =
        rules(&Limits { rpm: 600, tpm: 6_000, input_tpm: 3_000, output_tpm: 3_000, ipm: 60, ..Limits::default() });
    let mut exit = Exit::new().await;
    let full: [i64; 5] = [30, 300, 150, 150, 3];
    for short in Dimension::ALL.into_iter().skip(1) {
        let cost = match short {
            Dimension::InputTokens => Cost { input_tokens: 140, ..Cost::default() },
            Dimension::OutputTokens => Cost { output_tokens: 140, ..Cost::default() },
            Dimension::Images => Cost { images: 3, ..Cost::default() },
            _ => Cost { input_tokens: 149, output_tokens: 149, images: 0 },
        };
        let _: i64 = exit.command(&["DEL", "{}levels"]).await;
        assert!(is_granted(exit.take(&rules, "a", 0, &cost, NOW).await.judgement));
        let refused = exit.take(&rules, "a", 0, &cost, NOW).await;
        let Some(Judgement::Wait { wait_ms, short: Some(why) }) = refused.judgement else { panic!("{refused:?}") };
        assert!(wait_ms > 0 && (why == short || short == Dimension::Tokens), "{why} for {short}");
        let left =
            Dimension::ALL.map(|dimension| full[dimension as usize] - i64::try_from(cost.of(dimension)).unwrap());
        assert_eq!(refused.levels, left, "nothing was debited by the refusal");
    }
}

#[tokio::test]
async fn each_limit_counts_for_itself_whatever_its_period() {
    let rules = rules(&Limits { rpm: 600, rpd: 40, tpm: 6_000, tpd: 100_000, ..Limits::default() });
    let mut exit = Exit::new().await;
    let answer = exit.take(&rules, "a", 0, &tokens(100), NOW).await;
    assert_eq!((answer.levels, answer.uses), (vec![29, 200], vec![1, 100]));
}

#[tokio::test]
async fn a_wrong_day_is_refused_untouched_and_the_time_told() {
    let reset = DayReset::Midnight { offset_minutes: 0 };
    let rules = rules(&Limits { rpm: 600, rpd: 2, day_reset: Some(reset), ..Limits::default() });
    let mut exit = Exit::new().await;
    for believed in [NOW - 86_400_000, NOW + 86_400_000] {
        let answer = exit.take_believing(&rules, &tokens(0), believed, NOW).await;
        assert_eq!((answer.judgement, answer.now_ms), (None, NOW));
    }
    let keys: i64 = exit.command(&["EXISTS", "{}levels", "{}day_requests"]).await;
    assert_eq!(keys, 0);
}

#[tokio::test]
async fn a_used_up_day_says_until_when_and_debits_nothing() {
    let reset = DayReset::Midnight { offset_minutes: 60 };
    let rules = rules(&Limits { rpm: 6_000, rpd: 2, tpd: 1_000, day_reset: Some(reset), ..Limits::default() });
    let mut exit = Exit::new().await;
    for _ in 0..2 {
        assert!(is_granted(exit.take(&rules, "a", 0, &tokens(10), NOW).await.judgement));
    }
    let midnight = NOW + 3 * 3_600_000;
    let refused = exit.take(&rules, "a", 0, &tokens(10), NOW).await;
    let expected = Judgement::Exhausted { wait_ms: midnight - NOW, dimension: Dimension::Requests };
    assert_eq!(refused.judgement, Some(expected));
    assert_eq!((refused.levels, refused.uses), (vec![298], vec![2, 20]));
    assert!(is_granted(exit.take(&rules, "a", 0, &tokens(10), midnight).await.judgement), "at that moment it passes");
    let kept: i64 = exit.command(&["HLEN", "{}day_requests"]).await;
    assert_eq!(kept, 1, "yesterday is gone");
}

#[tokio::test]
async fn a_call_that_was_not_sent_gives_its_day_back() {
    let rules = rules(&Limits { rpd: 1, burst: Some(Duration::from_secs(3)), ..Limits::default() });
    let mut exit = Exit::new().await;
    let Some(Judgement::Granted { slot_ms }) = exit.take(&rules, "a", 0, &tokens(5), NOW).await.judgement else {
        panic!("the first call passes")
    };
    exit.settle(&rules, &Change::give_back(&tokens(5)), slot_ms, NOW).await;
    assert!(is_granted(exit.take(&rules, "a", 0, &tokens(5), NOW).await.judgement));
    exit.settle(&rules, &Change::give_back(&tokens(5)), slot_ms, NOW).await;
    exit.settle(&rules, &Change::give_back(&tokens(5)), slot_ms, NOW).await;
    let used: Vec<i64> = exit.command(&["HVALS", "{}day_requests"]).await;
    assert_eq!(used, [0], "never below zero");
}
