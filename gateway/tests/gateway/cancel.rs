//! Cancel is dropping the call: the provider sees its connection closed and the permit comes back.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;

use crate::house::{eventually, house, house_with};

#[tokio::test]
async fn a_call_dropped_before_its_first_token_closes_the_connection() {
    for behaviour in ["stall=byte", "stall=head", "only=comments", "first_ms=60000"] {
        let house = house().await;
        let call = house.open(behaviour);
        let arrived = eventually("the call arrives", || house.stats().in_flight == 1);
        tokio::select! {
            _ = call => panic!("{behaviour} was answered"),
            () = arrived => {}
        }
        house.closed_by_caller(1).await;
        assert_eq!(house.counted("dropped"), 1, "{behaviour}");
    }
}

#[tokio::test]
async fn a_stream_dropped_in_the_middle_closes_the_connection() {
    let house = house().await;
    let mut stream = house.open("chunks=100000,gap_ms=5").await.unwrap();
    for _ in 0..3 {
        stream.next().await.unwrap().unwrap();
    }
    drop(stream);
    house.closed_by_caller(1).await;
    let closed = house.stats().closed.pop_back().unwrap();
    assert!(closed.chunks >= 3 && closed.tag.is_some(), "{closed:?}");
    assert_eq!((house.counted("dropped"), house.counted("clean_end")), (1, 0));
}

#[tokio::test]
async fn a_read_that_is_given_up_loses_nothing() {
    let house = house().await;
    let mut stream = house.open("chunks=20,gap_ms=10").await.unwrap();
    let mut text = String::new();
    loop {
        match timeout(Duration::from_millis(3), stream.next()).await {
            Err(_) => {}
            Ok(Some(Ok(penstock_gateway::ModelChunk::Text(piece)))) => text.push_str(&piece),
            Ok(Some(Ok(_))) => {}
            Ok(None) => break,
            Ok(Some(Err(failed))) => panic!("{failed}"),
        }
    }
    assert_eq!(text, penstock_loadtest::fake::expected_text(1, "hello", 20));
}

#[tokio::test]
async fn a_call_dropped_at_the_gate_was_never_sent_and_frees_its_place() {
    let house = house_with(|settings| settings.gate.permits = 1).await;
    let holding = house.open("stall=1").await.unwrap();
    assert!(timeout(Duration::from_millis(100), house.open("instant")).await.is_err());
    assert_eq!(house.stats().calls, 1);
    drop(holding);
    assert!(house.ask("instant").await.1.is_none());
}

#[tokio::test]
async fn a_hundred_cancels_are_a_hundred_closes() {
    let house = house_with(|settings| settings.gate.permits = 200).await;
    let streams = (0..100).map(|_| house.open("chunks=100000,gap_ms=50"));
    let streams: Vec<_> = futures_util::future::join_all(streams).await;
    assert!(streams.iter().all(Result::is_ok));
    assert_eq!(house.stats().in_flight, 100);
    drop(streams);
    house.closed_by_caller(100).await;
    assert_eq!(house.counted("dropped"), 100);
}

#[tokio::test]
async fn a_thousand_cancels_at_random_points_leave_nothing_behind() {
    const CALLS: u64 = 1_000;
    let house = house_with(|settings| settings.gate.permits = 32).await;
    let calls = (0..CALLS).map(|number| {
        let house = &house;
        async move {
            // The same points in every run, spread over the head, the first token, the middle and the end.
            let random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
            let behaviour = format!("first_ms={},chunks=8,gap_ms=2", random % 7);
            match number % 4 {
                0 => drop(timeout(Duration::from_millis(random % 12), house.open(&behaviour)).await),
                1 => drop(house.open(&behaviour).await.unwrap()),
                2 => {
                    let mut stream = house.open(&behaviour).await.unwrap();
                    for _ in 0..random % 9 {
                        stream.next().await;
                    }
                }
                _ => {
                    let mut stream = house.open(&behaviour).await.unwrap();
                    while timeout(Duration::from_millis(1 + random % 3), stream.next())
                        .await
                        .is_ok_and(|step| step.is_some())
                    {}
                }
            }
        }
    });
    futures_util::stream::iter(calls).buffer_unordered(100).collect::<Vec<_>>().await;
    eventually("the provider has no call left", || house.stats().in_flight == 0).await;
    let stats = house.stats();
    assert_eq!(stats.calls, stats.completed + stats.closed_by_caller);
    assert!(stats.closed_by_caller > CALLS / 4, "{} closed", stats.closed_by_caller);
    // Every call ended once: whole, or dropped, be it at the gate.
    assert_eq!(house.counted("clean_end") + house.counted("dropped"), CALLS);
    // All permits came back.
    assert!(house.ask("instant").await.1.is_none());
}
