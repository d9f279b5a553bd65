//! Timers of an attempt: what they are deaf to, and that the provider sees the connection closed.

use std::time::Duration;

use penstock_gateway::{ModelChunk, Outcome};
use tokio::time::Instant;

use crate::house::{House, failed, house, house_with, read, request, scope};

const FIRST_TOKEN: Duration = Duration::from_millis(400);

async fn hasty_house() -> House {
    house_with(|settings| {
        settings.timers.first_token = FIRST_TOKEN;
        settings.timers.idle = Duration::from_millis(400);
        settings.retry.attempts = 1;
    })
    .await
}

#[tokio::test]
async fn no_first_token_in_time_closes_the_connection_whatever_else_is_sent() {
    for behaviour in [
        "stall=byte",
        "stall=head",
        "stall=0",
        "only=comments,gap_ms=20",
        "only=roles,gap_ms=20",
        "first_ms=60000,keepalive_ms=20",
        "first_byte_ms=60000",
    ] {
        let house = hasty_house().await;
        let began = Instant::now();
        let (chunks, failure) = house.ask(behaviour).await;
        assert_eq!(chunks, [], "{behaviour}");
        assert_eq!(failure.unwrap().outcome, Outcome::FirstToken, "{behaviour}");
        assert!(began.elapsed() >= FIRST_TOKEN, "{behaviour}: cut before its time");
        house.closed_by_caller(1).await;
        assert_eq!(house.counted("first_token"), 1, "{behaviour}");
    }
}

#[tokio::test]
async fn the_first_token_timer_begins_anew_for_the_second_attempt() {
    let house = house_with(|settings| settings.timers.first_token = FIRST_TOKEN).await;
    let (_, failure) = house.ask("stall=head then first_ms=100").await;
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!(house.stats().calls, 2);
    house.closed_by_caller(1).await;
}

#[tokio::test]
async fn the_first_token_timer_begins_with_the_permit() {
    let house = house_with(|settings| {
        settings.gate.permits = 1;
        settings.timers.first_token = FIRST_TOKEN;
        settings.retry.attempts = 1;
    })
    .await;
    // The third waits for the first two, longer than its timer.
    let answers = futures_util::future::join_all((0..3).map(|_| house.ask("first_ms=210"))).await;
    assert!(answers.iter().all(|(_, failure)| failure.is_none()), "{answers:?}");
}

#[tokio::test]
async fn reasoning_and_tool_fragments_are_first_tokens() {
    let house = hasty_house().await;
    for behaviour in ["reasoning=1,gap_ms=600,stall=1", "tools=indexed,stall=1"] {
        let failure = house.ask(behaviour).await.1.unwrap();
        assert_eq!(failure.outcome, Outcome::Broken, "{behaviour}: the idle timer, not the first token's");
    }
}

#[tokio::test]
async fn silence_after_the_first_token_closes_the_connection_comments_or_not() {
    for behaviour in ["chunks=5,stall=2", "chunks=5,stall=2,keepalive_ms=20"] {
        let house = hasty_house().await;
        let (chunks, failure) = house.ask(behaviour).await;
        assert_eq!(failure.unwrap().outcome, Outcome::Broken, "{behaviour}");
        assert_eq!(chunks, [ModelChunk::Text("[1 messages] hello word-1".into())], "{behaviour}");
        house.closed_by_caller(1).await;
        assert_eq!(house.counted("broken"), 1);
    }
}

#[tokio::test]
async fn a_slow_but_steady_answer_outlives_the_idle_timer() {
    let house = hasty_house().await;
    let (_, failure) = house.ask("chunks=12,gap_ms=60").await;
    assert!(failure.is_none(), "{failure:?}");
}

#[tokio::test]
async fn a_slow_reader_is_no_silence_of_the_provider() {
    let house = hasty_house().await;
    let mut stream = house.open("chunks=6,gap_ms=20").await.unwrap();
    stream.next().await.unwrap().unwrap();
    // Longer than the idle timer, in the reader's own time.
    tokio::time::sleep(Duration::from_millis(800)).await;
    let (_, failure) = read(stream).await;
    assert!(failure.is_none(), "{failure:?}");
}

#[tokio::test]
async fn a_finished_answer_whose_stream_never_ends_is_whole() {
    let house = hasty_house().await;
    let (chunks, failure) = house.ask("chunks=2,done=0,open=1").await;
    assert!(failure.is_none(), "{failure:?}");
    assert!(matches!(chunks.last(), Some(ModelChunk::Finish { .. })));
}

#[tokio::test]
async fn the_total_time_ends_an_answer_that_never_ends() {
    // With and without a moment in which nothing is ready to be read.
    for behaviour in ["chunks=1000000,gap_ms=10", "chunks=1000000000,gap_ms=0"] {
        let house = house_with(|settings| settings.timers.total = Duration::from_millis(150)).await;
        let (chunks, failure) = house.ask(behaviour).await;
        assert!(!chunks.is_empty(), "{behaviour}");
        assert_eq!(failure.unwrap().outcome, Outcome::Total, "{behaviour}");
        house.closed_by_caller(1).await;
    }
}

#[tokio::test]
async fn an_answer_beyond_the_bound_is_given_up() {
    let house = house().await;
    let (_, failure) = house.ask("chunks=1000,chunk_bytes=100000").await;
    assert_eq!(failure.unwrap().outcome, Outcome::Broken);
    house.closed_by_caller(1).await;
    let (chunks, failure) = house.ask("chunks=1,chunk_bytes=1048576").await;
    assert_eq!((chunks, failure.unwrap().outcome), (vec![], Outcome::Undecodable), "one event beyond its bound");
}

#[tokio::test]
async fn a_total_time_before_the_first_token_is_not_tried_again() {
    let house = house_with(|settings| settings.timers.total = Duration::from_millis(200)).await;
    let failure = house.ask("stall=head").await.1.unwrap();
    assert_eq!((failure.outcome, failure.attempts), (Outcome::Total, 1));
    house.closed_by_caller(1).await;
}

#[tokio::test]
async fn the_callers_deadline_ends_a_call_before_and_after_its_first_token() {
    let house = house().await;
    let mut scope = scope();
    scope.deadline = Some(Instant::now() + Duration::from_millis(200));
    let failure = failed(house.gateway.stream(&request("stall=head"), &scope).await.err().unwrap());
    assert_eq!((failure.outcome, failure.attempts), (Outcome::Deadline, 1));
    scope.deadline = Some(Instant::now() + Duration::from_millis(200));
    let stream = house.gateway.stream(&request("chunks=100000,gap_ms=10"), &scope).await.unwrap();
    assert_eq!(read(stream).await.1.unwrap().outcome, Outcome::Deadline);
    house.closed_by_caller(2).await;
    assert_eq!(house.counted("deadline"), 2);
}
