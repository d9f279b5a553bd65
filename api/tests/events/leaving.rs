//! Keep-alive, and the end of a process.

use std::time::Duration;

use penstock_protocol::TaskId;
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Door, eventually};
use crate::run::Hands;
use crate::socket::{Seen, Socket, assert_whole, bearer};

#[tokio::test]
async fn silence_is_filled_with_pings_and_for_pages_with_comments() {
    let door = Door::open_with(|settings| settings.events.ping_every = Duration::from_millis(100)).await;
    let path = format!("/api/task/{}/ws", TaskId::mint());
    let mut plain = Socket::dial(&door, &door.ann, &path).await;
    for _ in 0..5 {
        assert!(matches!(plain.any().await, Message::Ping(_)), "a plain client sees pings only");
    }
    let headers = [("authorization", &*bearer(&door.ann)), ("sec-websocket-protocol", "penstock.agui.v1")];
    let mut page = Socket::try_dial(&door.url, &path, &headers).await.ok().unwrap();
    for _ in 0..3 {
        assert!(matches!(page.any().await, Message::Ping(_)));
        assert_eq!(page.any().await, Message::Text(": ping".into()));
    }
    door.stop().await;
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_let_go() {
    let door = Door::open_with(|settings| settings.events.ping_every = Duration::from_millis(100)).await;
    let mute = Socket::follow(&door, TaskId::mint()).await;
    // It is not read from, so its library answers nothing.
    let left = r#"event_reader_ends_total{end="left"} 1"#;
    eventually("the door let it go", async || door.app.metrics.text().contains(left)).await;
    drop(mute);
    let mut alive = Socket::follow(&door, TaskId::mint()).await;
    assert!(alive.is_quiet(Duration::from_millis(700)).await, "one that answers stays");
    door.stop().await;
}

#[tokio::test]
async fn a_stop_closes_sockets_with_1012_spread_over_the_drain() {
    let door = Door::open_with(|settings| settings.api.drain = Duration::from_secs(3)).await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let mut run = hands.begin(&door, id).await;
    let mut readers = Vec::new();
    for _ in 0..20 {
        let socket = Socket::follow(&door, id).await;
        readers.push(tokio::spawn(async move {
            let seen = socket.rest().await;
            (seen, tokio::time::Instant::now())
        }));
    }
    eventually("every reader is there", async || {
        door.app.metrics.text().contains(r#"event_readers_open{way="socket"} 20"#)
    })
    .await;
    run.open().await;
    let began = tokio::time::Instant::now();
    let stopping = tokio::spawn(door.stop());
    let mut moments = Vec::new();
    for reader in readers {
        let (seen, at) = reader.await.unwrap();
        assert_eq!(seen.code, Some(1012), "{seen:?}");
        assert!(!seen.frames.is_empty());
        moments.push(at - began);
    }
    moments.sort();
    assert!(moments[19] - moments[0] > Duration::from_millis(300), "{moments:?}");
    assert!(stopping.await.unwrap(), "everything ended within the drain");
}

#[tokio::test]
async fn a_run_that_ends_during_the_drain_ends_cleanly() {
    let door = Door::open_with(|settings| settings.api.drain = Duration::from_secs(20)).await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let run = hands.begin(&door, id).await;
    let readers: Vec<_> = [Socket::follow(&door, id).await, Socket::follow(&door, id).await].into_iter().collect();
    let app = door.app.clone();
    app.shutdown.cancel();
    run.succeed("").await;
    for reader in readers {
        let seen = reader.rest().await;
        // One that drew an early moment was told to come back.
        assert!(seen.code == Some(1000) || seen.code == Some(1012), "{seen:?}");
        if seen.code == Some(1000) {
            assert_whole(&seen, 1);
        } else {
            assert_ne!(seen, Seen::default());
        }
    }
    door.stop().await;
}
