//! The line over all processes: one ticket each, by age, at any size.

use super::super::local::Judgement;
use super::super::{Cost, Limits, Rules};
use super::server::Exit;

const NOW: u64 = 1_796_068_800_000;
/// The head asks this much later than it was told.
const SLACK_MS: u64 = 20;

fn rules() -> Rules {
    Rules::of([&Limits { tpm: 60_000, ..Limits::default() }, &Limits::default(), &Limits::default()])
}

fn tokens(input_tokens: u64) -> Cost {
    Cost { input_tokens, ..Cost::default() }
}

fn wait_ms(judgement: Option<Judgement>) -> Option<u64> {
    match judgement.unwrap() {
        Judgement::Wait { wait_ms, .. } => Some(wait_ms),
        Judgement::Granted { .. } => None,
        exhausted => panic!("{exhausted:?}"),
    }
}

#[tokio::test]
async fn who_came_first_is_served_first_whatever_it_costs() {
    let (rules, mut exit) = (rules(), Exit::new().await);
    // 3 000 at once, then 57 tokens in 60 ms.
    assert_eq!(wait_ms(exit.take(&rules, "a", 0, &tokens(3_000), NOW).await.judgement), None);
    let large = wait_ms(exit.take(&rules, "b", 0, &tokens(30_000), NOW).await.judgement).unwrap();
    assert_eq!(large, 3_158, "until the burst is full");
    // A small one that came later waits for both, though its own tokens are there sooner.
    let small = wait_ms(exit.take(&rules, "c", 0, &tokens(100), NOW + 10).await.judgement).unwrap();
    assert!(small > 30_000, "{small}");
    assert_eq!(wait_ms(exit.take(&rules, "b", large, &tokens(30_000), NOW + large).await.judgement), None);
    let rest = wait_ms(exit.take(&rules, "c", large - 10, &tokens(100), NOW + large).await.judgement).unwrap();
    assert!((28_000..30_000).contains(&rest), "the large one is in debt: {rest}");
}

#[tokio::test]
async fn age_decides_and_no_clock_of_a_process() {
    let (rules, mut exit) = (rules(), Exit::new().await);
    exit.take(&rules, "a", 0, &tokens(3_000), NOW).await;
    assert!(wait_ms(exit.take(&rules, "young", 100, &tokens(1_000), NOW).await.judgement).is_some());
    assert!(wait_ms(exit.take(&rules, "old", 5_000, &tokens(1_000), NOW).await.judgement).is_some());
    let later = NOW + 1_100;
    assert!(wait_ms(exit.take(&rules, "young", 1_200, &tokens(1_000), later).await.judgement).is_some());
    assert_eq!(wait_ms(exit.take(&rules, "old", 6_100, &tokens(1_000), later).await.judgement), None);
}

#[tokio::test]
async fn a_ticket_that_is_not_renewed_is_passed_over_and_then_removed() {
    let (rules, mut exit) = (rules(), Exit::new().await);
    exit.take(&rules, "a", 0, &tokens(3_000), NOW).await;
    let dead = wait_ms(exit.take(&rules, "dead", 0, &tokens(3_000), NOW).await.judgement).unwrap();
    let held = NOW + dead + 250;
    assert!(wait_ms(exit.take(&rules, "b", 0, &tokens(10), held).await.judgement).is_some(), "it may still come");
    assert_eq!(wait_ms(exit.take(&rules, "b", 1, &tokens(10), held + 1).await.judgement), None);
    let tickets: Vec<String> = exit.command(&["HKEYS", "{}line"]).await;
    assert_eq!(tickets, ["dead"]);
    exit.take(&rules, "b", 0, &tokens(10), held + 5_001).await;
    let tickets: Vec<String> = exit.command(&["HKEYS", "{}line"]).await;
    assert_eq!(tickets.len(), 0, "{tickets:?}");
}

#[tokio::test]
async fn a_clock_that_goes_back_holds_nobody_up() {
    let (rules, mut exit) = (rules(), Exit::new().await);
    let later = NOW + 3_600_000;
    exit.take(&rules, "a", 0, &tokens(3_000), later).await;
    exit.take(&rules, "gone", 0, &tokens(3_000), later).await;
    let wait = wait_ms(exit.take(&rules, "b", 0, &tokens(100), NOW).await.judgement).unwrap();
    assert!(wait < 200, "{wait}: a ticket of the future is behind");
    assert_eq!(wait_ms(exit.take(&rules, "b", wait, &tokens(100), NOW + wait).await.judgement), None);
}

#[tokio::test]
async fn the_line_holds_so_many_tickets_and_no_more() {
    let (rules, mut exit) = (rules(), Exit::new().await);
    exit.take(&rules, "first", 0, &tokens(3_000), NOW).await;
    for process in 0..300 {
        assert!(wait_ms(exit.take(&rules, &format!("p{process}"), 0, &tokens(100), NOW).await.judgement).is_some());
    }
    let tickets: i64 = exit.command(&["HLEN", "{}line"]).await;
    assert_eq!(tickets, 256);
}

/// 3 processes of 20 small callers and one large one beside them, in virtual time, each process with its own line.
#[tokio::test]
async fn few_takes_a_grant_and_a_large_call_waits_for_its_share_only() {
    struct Process {
        name: &'static str,
        /// Arrival and cost; the first is the head.
        line: std::collections::VecDeque<(u64, u64)>,
        asks_at: u64,
    }
    let (rules, mut exit) = (rules(), Exit::new().await);
    let names = ["a", "b", "c"];
    let mut processes = names.map(|name| {
        let mut line: std::collections::VecDeque<_> = (0..20).map(|_| (NOW, 500)).collect();
        if name == "b" {
            line.push_back((NOW, 30_000));
        }
        Process { name, line, asks_at: NOW }
    });
    let (mut takes, mut grants, mut large_waits) = (0_u32, 0_u32, Vec::new());
    let end = NOW + 180_000;
    loop {
        let process = processes.iter_mut().min_by_key(|process| process.asks_at).unwrap();
        let now = process.asks_at;
        if now > end {
            break;
        }
        let (came, cost) = process.line[0];
        takes += 1;
        match wait_ms(exit.take(&rules, process.name, now - came, &tokens(cost), now).await.judgement) {
            Some(wait) => process.asks_at = now + wait + SLACK_MS,
            None => {
                grants += 1;
                if cost == 30_000 {
                    large_waits.push(now - came);
                }
                process.line.pop_front();
                // The caller comes again, after a call of 50 ms.
                process.line.push_back((now + 50, cost));
                process.asks_at = now.max(process.line[0].0);
            }
        }
    }
    assert!(f64::from(takes) / f64::from(grants) <= 3.0, "{takes} takes for {grants} grants");
    // A round of all calls is 60 × 500 + 30 000 tokens: 63 s at 57 000 a minute, the share of each caller.
    assert!(large_waits.len() >= 2, "{large_waits:?}");
    assert!(large_waits.iter().all(|wait| *wait <= 2 * 63_200), "{large_waits:?}");
}
