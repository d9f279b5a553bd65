//! Order and completeness: before, after, late, resumed and cut readers get the same bytes.

use penstock_protocol::TaskId;

use crate::harness::{Door, eventually};
use crate::run::{Hands, frames, redis, write_silently};
use crate::socket::{Socket, assert_whole, text};

#[tokio::test]
async fn connecting_before_and_after_the_post_gives_the_same_bytes() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let before = Socket::follow(&door, id).await;
    let key = Hands::submit(&door, id).await;
    let waiting = Socket::follow(&door, id).await;
    let mut run = hands.start(id).await;
    let running = Socket::follow(&door, id).await;
    run.open().await;
    run.delta("Grüße, 世界 👩‍🚀").await;
    run.close().await;
    run.succeed("Grüße, 世界 👩‍🚀").await;
    let late = Socket::follow(&door, id).await;
    let log = frames(&door.app, key).await;
    for socket in [before, waiting, running, late] {
        let seen = socket.rest().await;
        assert_whole(&seen, 1);
        assert_eq!(seen.frames, log);
    }
    door.stop().await;
}

#[tokio::test]
async fn a_reader_resumes_after_every_cursor() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let mut run = hands.begin(&door, id).await;
    let key = run.key;
    run.open().await;
    for part in ["a", "b", "c"] {
        run.delta(part).await;
    }
    let during = frames(&door.app, key).await;
    let mut resumed = Vec::new();
    for (at, frame) in during.iter().enumerate() {
        resumed.push((at + 1, Socket::resume(&door, id, &id_of(frame)).await));
    }
    run.close().await;
    run.succeed("abc").await;
    let log = frames(&door.app, key).await;
    for (at, frame) in log.iter().enumerate() {
        resumed.push((at + 1, Socket::resume(&door, id, &id_of(frame)).await));
    }
    for (from, socket) in resumed {
        let seen = socket.rest().await;
        assert_eq!(seen.frames, log[from..], "after {from} events");
        assert_eq!(seen.code, Some(1000));
    }
    door.stop().await;
}

#[tokio::test]
async fn a_long_stream_is_read_in_pages_while_it_grows() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let mut run = hands.begin(&door, id).await;
    let key = run.key;
    run.open().await;
    let mut said = String::new();
    for number in 0..900 {
        run.delta(&format!("{number} ")).await;
        said.push_str(&format!("{number} "));
    }
    let mut readers = vec![Socket::follow(&door, id).await];
    for number in 900..1000 {
        run.delta(&format!("{number} ")).await;
        said.push_str(&format!("{number} "));
        if number % 20 == 0 {
            readers.push(Socket::follow(&door, id).await);
        }
    }
    run.close().await;
    run.succeed("").await;
    let log = frames(&door.app, key).await;
    for reader in readers {
        let seen = reader.rest().await;
        assert_whole(&seen, 1);
        assert_eq!(seen.frames, log);
        assert_eq!(text(&seen.frames), said);
    }
    door.stop().await;
}

#[tokio::test]
async fn twenty_cuts_while_events_are_published_lose_and_double_nothing() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let mut run = hands.begin(&door, id).await;
    let key = run.key;
    let writing = tokio::spawn(async move {
        run.open().await;
        for number in 0..600 {
            run.delta(&format!("{number} ")).await;
        }
        run.close().await;
        run.succeed("").await;
    });
    let (mut got, mut cuts) = (Vec::<String>::new(), 0);
    while !got.last().is_some_and(|frame| frame.contains("RUN_FINISHED")) {
        let mut socket = match got.last() {
            None => Socket::follow(&door, id).await,
            Some(last) => Socket::resume(&door, id, &id_of(last)).await,
        };
        // Cut after a few events, at another place each time.
        let until = got.len() + 3 + cuts * 2;
        while let Ok(frame) = socket.next().await {
            got.push(frame);
            if cuts < 20 && got.len() >= until {
                break;
            }
        }
        cuts += 1;
    }
    writing.await.unwrap();
    assert!(cuts > 20, "{cuts} connections");
    assert_eq!(got, frames(&door.app, key).await);
    door.stop().await;
}

#[tokio::test]
async fn ten_runs_at_once_keep_their_own_order() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let mut work = Vec::new();
    for _ in 0..10 {
        let id = TaskId::mint();
        let readers = [Socket::follow(&door, id).await, Socket::follow(&door, id).await];
        let mut run = hands.begin(&door, id).await;
        let key = run.key;
        let writing = tokio::spawn(async move {
            run.open().await;
            for number in 0..100 {
                run.delta(&format!("{number} ")).await;
                tokio::task::yield_now().await;
            }
            run.close().await;
            run.succeed("").await;
        });
        work.push((key, readers, writing));
    }
    for (key, readers, writing) in work {
        writing.await.unwrap();
        let log = frames(&door.app, key).await;
        for reader in readers {
            let seen = reader.rest().await;
            assert_whole(&seen, 1);
            assert_eq!(seen.frames, log);
        }
    }
    door.stop().await;
}

#[tokio::test]
async fn a_task_cancelled_before_it_ran_still_starts_before_it_ends() {
    let door = Door::open().await;
    let id = TaskId::mint();
    let before = Socket::follow(&door, id).await;
    Hands::submit(&door, id).await;
    door.ann.delete(&format!("/api/task/{id}")).await;
    let after = Socket::follow(&door, id).await;
    let seen = before.rest().await;
    assert_whole(&seen, 0);
    assert!(seen.frames[0].contains(r#""type":"RUN_STARTED""#), "{seen:?}");
    assert!(seen.frames[1].contains(r#""outcome":{"type":"cancelled"}"#), "{seen:?}");
    assert_eq!(after.rest().await, seen);
    let resumed = Socket::resume(&door, id, &id_of(&seen.frames[0])).await.rest().await;
    assert_eq!(resumed.frames, seen.frames[1..]);
    door.stop().await;
}

#[tokio::test]
async fn an_event_too_large_for_the_bell_is_read_from_the_stream() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let mut socket = Socket::follow(&door, id).await;
    let mut run = hands.begin(&door, id).await;
    socket.event().await;
    run.open().await;
    run.delta(&"x".repeat(300_000)).await;
    run.delta("y").await;
    run.close().await;
    run.succeed("").await;
    let seen = socket.rest().await;
    assert_eq!(text(&seen.frames).len(), 300_001);
    assert_whole(&seen, 2);
    door.stop().await;
}

#[tokio::test]
async fn a_reader_ends_at_the_first_end_whatever_follows() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let live = Socket::follow(&door, id).await;
    let run = hands.begin(&door, id).await;
    let (key, thread) = (run.key, run.thread());
    run.succeed("done").await;
    let seen = live.rest().await;
    assert_whole(&seen, 1);
    // A stream that was sealed refuses more; one that a flush took the seal from would not.
    let stream = door.app.queue.shard().events(key);
    redis(&door.app, &["DEL", &stream]).await;
    let started = penstock_protocol::Event::run_started(thread, id);
    let end = penstock_protocol::Event::RunError { message: "first".into(), code: None, usage: vec![] };
    write_silently(&door.app, key, "1-1", 1, &started).await;
    write_silently(&door.app, key, "1-2", 2, &end).await;
    write_silently(&door.app, key, "1-3", 3, &end).await;
    let again = Socket::follow(&door, id).await.rest().await;
    assert_whole(&again, 1);
    assert_eq!(again.frames.len(), 2);
    door.stop().await;
}

#[tokio::test]
async fn closing_every_socket_changes_nothing_about_the_run() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let mut socket = Socket::follow(&door, id).await;
    let mut run = hands.begin(&door, id).await;
    socket.event().await;
    drop(socket);
    run.open().await;
    run.close().await;
    run.succeed("done").await;
    eventually("the task succeeded", async || {
        door.row(id).await.is_some_and(|row| row.status == penstock_protocol::Status::Succeeded)
    })
    .await;
    assert_whole(&Socket::follow(&door, id).await.rest().await, 1);
    door.stop().await;
}

pub(crate) fn id_of(frame: &str) -> String {
    let event: serde_json::Value = serde_json::from_str(frame).unwrap();
    event["metadata"]["penstock"]["id"].as_str().unwrap().to_owned()
}
