//! Bounds: slow readers, seats, patience, what a client may send.

use std::time::Duration;

use penstock_protocol::TaskId;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Door, eventually};
use crate::order::id_of;
use crate::run::{Hands, frames};
use crate::socket::{Seen, Socket, assert_whole, bearer};

#[tokio::test]
async fn a_slow_reader_is_closed_with_4408_and_nobody_else_notices() {
    let door = Door::open_with(|settings| settings.events.reader_bytes_max = 65_536).await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let slow = Socket::follow(&door, id).await;
    let quick = tokio::spawn(Socket::follow(&door, id).await.rest());
    let mut run = hands.begin(&door, id).await;
    let key = run.key;
    run.open().await;
    // More than the kernel's buffers of both sides and the bound hold together.
    for _ in 0..600 {
        run.delta(&"x".repeat(30_000)).await;
    }
    run.close().await;
    run.succeed("").await;
    let log = frames(&door.app, key).await;
    let seen = quick.await.unwrap();
    assert_whole(&seen, 1);
    assert_eq!(seen.frames.len(), log.len());
    eventually("the slow reader overran", async || door.app.metrics.text().contains("event_overruns_total 1")).await;
    let seen = slow.rest().await;
    assert_eq!(seen.code, Some(4408));
    assert!(!seen.frames.is_empty() && seen.frames.len() < log.len(), "{} of {}", seen.frames.len(), log.len());
    assert_eq!(seen.frames, log[..seen.frames.len()], "what it got has no hole");
    // It comes back with its cursor and misses nothing.
    let rest = Socket::resume(&door, id, &id_of(seen.frames.last().unwrap())).await.rest().await;
    assert_eq!(rest.frames, log[seen.frames.len()..]);
    door.stop().await;
}

#[tokio::test]
async fn a_reader_that_pages_slowly_is_not_punished_for_it() {
    let door = Door::open_with(|settings| settings.events.reader_bytes_max = 65_536).await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let mut run = hands.begin(&door, id).await;
    let key = run.key;
    run.open().await;
    for _ in 0..600 {
        run.delta(&"x".repeat(30_000)).await;
    }
    let mut late = Socket::follow(&door, id).await;
    late.event().await;
    run.close().await;
    run.succeed("").await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let seen = late.rest().await;
    assert_whole(&seen, 2);
    assert_eq!(seen.frames.len() + 1, frames(&door.app, key).await.len());
    door.stop().await;
}

#[tokio::test]
async fn a_key_has_so_many_seats_and_a_process_so_many() {
    let door = Door::open_with(|settings| {
        settings.events.sockets_per_key_max = 2;
        settings.events.sockets_max = 3;
    })
    .await;
    let bob = door.customer("bob").await;
    let id = TaskId::mint();
    let first = Socket::follow(&door, id).await;
    let _second = Socket::follow(&door, id).await;
    let third = Socket::follow(&door, id).await.rest().await;
    assert_eq!(third, Seen { frames: vec![], code: Some(4429) });
    door.ann.get(&format!("/api/task/{id}/events")).await.assert_problem(429, "too_many_sockets");

    let _bobs = Socket::dial(&door, &bob, &format!("/api/task/{id}/ws")).await;
    let path = format!("/api/task/{id}/ws");
    let refused = Socket::try_dial(&door.url, &path, &[("authorization", &bearer(&bob))]).await.err().unwrap();
    assert_eq!(refused.status(), 503);

    drop(first);
    eventually("the seat came back", async || {
        let mut socket = Socket::follow(&door, id).await;
        socket.is_quiet(Duration::from_millis(100)).await
    })
    .await;
    door.stop().await;
}

#[tokio::test]
async fn a_task_that_never_comes_is_given_up_with_4404() {
    let door = Door::open_with(|settings| settings.events.unknown_task_wait = Duration::from_millis(400)).await;
    let hands = Hands::at(&door).await;
    let (unknown, known) = (TaskId::mint(), TaskId::mint());
    let waits = Socket::follow(&door, unknown).await;
    Hands::submit(&door, known).await;
    let queued = Socket::follow(&door, known).await;
    assert_eq!(waits.rest().await, Seen { frames: vec![], code: Some(4404) });
    let stream = door.ann.get(&format!("/api/task/{unknown}/events")).await;
    assert!(
        stream.text.ends_with("event: close\ndata: {\"code\":4404,\"reason\":\"no such task\"}\n\n"),
        "{}",
        stream.text
    );
    // A task that exists is waited for as long as it takes.
    hands.start(known).await.succeed("").await;
    assert_whole(&queued.rest().await, 1);
    door.stop().await;
}

#[tokio::test]
async fn a_client_may_send_little() {
    let door = Door::open().await;
    let id = TaskId::mint();
    let mut chatty = Socket::follow(&door, id).await;
    chatty.send(Message::Text("hello".into())).await;
    assert!(chatty.is_quiet(Duration::from_millis(100)).await, "a word is ignored");
    chatty.send(Message::Text("x".repeat(5000).into())).await;
    assert_ne!(chatty.rest().await.code, Some(1000));
    let mut binary = Socket::follow(&door, id).await;
    binary.send(Message::Binary(vec![1].into())).await;
    assert_eq!(binary.rest().await.code, Some(1008));
    door.stop().await;
}
