//! Second attempts: when they come, when they do not, and what they wait for.

use std::time::Duration;

use penstock_gateway::{ModelChunk, Outcome};
use penstock_loadtest::fake::expected_text;

use crate::house::{eventually, house, house_with, request, retry, scope, text_and_rest};

#[tokio::test]
async fn a_second_attempt_mends_what_failed_before_the_first_token() {
    for broken in ["status=500", "error=0", "cut=0", "eof=0", "garbage=0", "chunks=0", "status=429,retry_after_ms=20"] {
        let house = house().await;
        let (chunks, failure) = house.ask(&format!("{broken} then chunks=3")).await;
        assert!(failure.is_none(), "{broken}: {failure:?}");
        let (text, rest) = text_and_rest(chunks);
        assert_eq!(text, expected_text(1, "hello", 3), "{broken}");
        assert!(matches!(rest.last(), Some(ModelChunk::Finish { .. })), "{broken}");
        assert_eq!(house.stats().calls, 2, "{broken}");
        assert_eq!(house.counted("clean_end"), 1, "{broken}");
    }
}

#[tokio::test]
async fn the_second_attempt_waits_for_the_vendors_hint() {
    for (hint, least_ms) in [("retry_after_ms=700", 700), ("retry_after=1", 1_000)] {
        for status in [429, 503] {
            let house = house().await;
            let failure = house.ask(&format!("status={status},{hint} then instant")).await.1;
            assert!(failure.is_none(), "{failure:?}");
            let calls = house.provider.calls(2);
            // Whole milliseconds, both rounded down.
            assert!(calls[1].at_ms - calls[0].at_ms >= least_ms - 1, "{status}, {hint}: {calls:?}");
        }
    }
}

#[tokio::test]
async fn a_429_without_a_hint_waits_for_the_gates_push_back() {
    let house = house().await;
    assert!(house.ask("status=429 then instant").await.1.is_none());
    let calls = house.provider.calls(2);
    assert!(calls[1].at_ms - calls[0].at_ms >= 399, "{calls:?}");
}

#[tokio::test]
async fn a_429_holds_other_calls_of_the_same_exit_back() {
    let house = house().await;
    let limited = house.ask("status=429,retry_after_ms=500 then instant");
    let other = async {
        eventually("the 429 is answered", || house.stats().completed == 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        house.ask("instant").await
    };
    let (limited, other) = tokio::join!(limited, other);
    assert!(limited.1.is_none() && other.1.is_none());
    let calls = house.provider.calls(3);
    assert!(calls[1..].iter().all(|call| call.at_ms - calls[0].at_ms >= 499), "{calls:?}");
}

#[tokio::test]
async fn a_hint_beyond_the_bound_is_told_and_not_waited_for() {
    let house = house().await;
    let failure = house.ask("status=429,retry_after=120").await.1.unwrap();
    assert_eq!((failure.outcome, failure.attempts), (Outcome::RateLimited, 1));
    assert_eq!(failure.retry_after, Some(Duration::from_secs(120)));
    assert_eq!(house.stats().calls, 1);
}

#[tokio::test]
async fn a_wait_beyond_the_time_box_or_the_deadline_is_not_begun() {
    let house = house_with(|settings| settings.retry.time_box = Duration::from_millis(500)).await;
    let failure = house.ask("status=429,retry_after=3").await.1.unwrap();
    assert_eq!((failure.outcome, failure.attempts), (Outcome::RateLimited, 1));
    // The gate of the first house is pushed back.
    let house = house_with(|_| {}).await;
    let mut scope = scope();
    scope.deadline = Some(tokio::time::Instant::now() + Duration::from_millis(100));
    let failure = crate::house::failed(house.gateway.stream(&request("status=500"), &scope).await.err().unwrap());
    // The shortest back-off is longer than what is left.
    assert_eq!(failure.attempts, 1, "{failure:?}");
}

#[tokio::test]
async fn attempts_are_bounded_and_some_outcomes_are_tried_only_once_more() {
    let five = retry(5, Duration::from_secs(20));
    let house = house_with(|settings| settings.retry = five).await;
    assert_eq!(house.ask("status=500").await.1.unwrap().attempts, 5);
    assert_eq!(house.ask("garbage=0").await.1.unwrap().attempts, 2);
    assert_eq!(house.ask("chunks=0").await.1.unwrap().attempts, 2);
    assert_eq!(house.stats().calls, 9);
}

#[tokio::test]
async fn no_more_calls_run_than_the_gate_has_permits() {
    let house = house_with(|settings| settings.gate.permits = 2).await;
    let calls = (0..6).map(|_| house.ask("chunks=3,gap_ms=20"));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|(_, failure)| failure.is_none()));
    assert_eq!((house.stats().calls, house.stats().in_flight_max), (6, 2));
}

#[tokio::test]
async fn a_call_without_a_permit_in_time_is_never_sent() {
    let house = house_with(|settings| {
        settings.gate.permits = 1;
        settings.retry.time_box = Duration::from_millis(200);
    })
    .await;
    let holding = house.open("first_ms=0,stall=1").await.unwrap();
    let failure = house.ask("instant").await.1.unwrap();
    assert_eq!((failure.outcome, failure.attempts), (Outcome::NoPermit, 0));
    assert_eq!(house.stats().calls, 1);
    drop(holding);
    assert!(house.ask("instant").await.1.is_none(), "the permit comes back with the stream");
}
