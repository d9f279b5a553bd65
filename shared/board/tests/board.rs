//! The board on the Redis server that the test harness started.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and reads where its server is"
)]

use std::time::Duration;

use penstock_board::{Board, Notice};

/// A board of its own, and another process's access to it.
fn boards() -> (Board, Board) {
    let mut settings = penstock_config::load(None).unwrap().settings;
    settings.redis.url = std::env::var("PENSTOCK_TEST_REDIS_URL").unwrap().into();
    settings.deployment.id = format!("t{}", uuid::Uuid::new_v4().simple());
    (Board::new(&settings).unwrap(), Board::new(&settings).unwrap())
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn an_order_reaches_every_process_and_ends_by_itself() {
    let (operator, process) = boards();
    let asked = names(&["p/a", "p/b"]);
    assert_eq!(process.read(&asked).await.unwrap(), [Notice::default(); 2]);
    operator.order("p/a", true, Duration::from_secs(60)).await.unwrap();
    let notices = process.read(&asked).await.unwrap();
    let order = notices[0].order.unwrap();
    assert!(order.is_tripped && order.left <= Duration::from_secs(60) && order.left > Duration::from_secs(30));
    assert_eq!(notices[1], Notice::default(), "of no other");
    operator.order("p/a", false, Duration::from_secs(60)).await.unwrap();
    assert!(!process.read(&asked).await.unwrap()[0].order.unwrap().is_tripped, "the last order counts");
    assert!(operator.release("p/a").await.unwrap());
    assert!(!operator.release("p/a").await.unwrap());
    operator.order("p/b", true, Duration::from_millis(1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(process.read(&asked).await.unwrap(), [Notice::default(); 2]);
}

#[tokio::test]
async fn a_trip_is_told_for_as_long_as_it_holds() {
    let (one, other) = boards();
    one.tell_trip("p/a", Duration::from_secs(30)).await.unwrap();
    let notice = other.read(&names(&["p/a"])).await.unwrap()[0];
    assert!(notice.order.is_none() && notice.trip.unwrap() <= Duration::from_secs(30));
}

#[tokio::test]
async fn only_living_processes_are_listed() {
    let (one, other) = boards();
    one.show("w-1", "[1]", Duration::from_secs(60)).await.unwrap();
    other.show("w-2", "[2]", Duration::from_millis(1)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(one.shown().await.unwrap(), [("w-1".to_owned(), "[1]".to_owned())]);
    assert!(one.read(&[]).await.unwrap().is_empty());
}
