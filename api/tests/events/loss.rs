//! What gets lost: bells, streams, rows not yet published. A reader misses nothing, or is told.

use std::time::Duration;

use futures_util::StreamExt;
use penstock_protocol::{Event, Status, TaskId, TaskKey};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::harness::{Door, PATIENCE, eventually};
use crate::order::id_of;
use crate::run::{Hands, frames, redis, write_silently};
use crate::socket::{Seen, Socket, assert_whole, text, types};

/// A door whose sweep looks soon.
async fn door() -> Door {
    Door::open_with(|settings| settings.events.silence = Duration::from_millis(300)).await
}

fn last(seen: &Seen) -> Value {
    serde_json::from_str(seen.frames.last().unwrap()).unwrap()
}

#[tokio::test]
async fn events_without_a_bell_arrive_by_the_sweep() {
    let door = door().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let mut socket = Socket::follow(&door, id).await;
    let run = hands.begin(&door, id).await;
    assert_eq!(socket.event().await["type"], "RUN_STARTED");
    let start = Event::StepStarted { step_name: "s".into() };
    write_silently(&door.app, run.key, "1-2", 2, &start).await;
    let event = socket.event().await;
    assert_eq!((event["type"].as_str(), &event["metadata"]["penstock"]["seq"]), (Some("STEP_STARTED"), &2.into()));
    // The next bell shows a gap, which is read.
    write_silently(&door.app, run.key, "1-3", 3, &Event::StepFinished { step_name: "s".into() }).await;
    write_silently(&door.app, run.key, "1-4", 4, &start).await;
    let bell = format!("{}bell", door.app.queue.shard().prefix());
    redis(&door.app, &["PUBLISH", &bell, &format!("{} 1-4 4 {}", run.key, start.to_json())]).await;
    assert_eq!(socket.event().await["type"], "STEP_FINISHED");
    assert_eq!(socket.event().await["type"], "STEP_STARTED");
    door.stop().await;
}

#[tokio::test]
async fn a_killed_subscription_loses_nothing() {
    // The sweep would mend it too, so it is kept out of the way.
    let door = Door::open_with(|settings| settings.events.silence = Duration::from_secs(600)).await;
    let hands = Hands::at(&door).await;
    let ids: Vec<_> = (0..20).map(|_| TaskId::mint()).collect();
    let mut sockets = Vec::new();
    for id in &ids {
        sockets.push(Socket::follow(&door, *id).await);
    }
    let mut runs = Vec::new();
    for id in &ids {
        runs.push(hands.begin(&door, *id).await);
    }
    for round in 0..5 {
        redis(&door.app, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        for run in &mut runs {
            if round == 0 {
                run.open().await;
            }
            run.delta(&format!("{round} ")).await;
        }
    }
    redis(&door.app, &["CLIENT", "KILL", "TYPE", "pubsub"]).await;
    for mut run in runs {
        run.close().await;
        run.succeed("").await;
    }
    for (id, socket) in ids.into_iter().zip(sockets) {
        let seen = socket.rest().await;
        assert_whole(&seen, 1);
        assert_eq!(seen.frames, frames(&door.app, TaskKey::new(door.ann.tenant, id)).await);
        assert_eq!(text(&seen.frames), "0 1 2 3 4 ");
    }
    door.stop().await;
}

#[tokio::test]
async fn a_lost_stream_ends_from_the_row_with_what_was_open_closed() {
    let door = door().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let live = Socket::follow(&door, id).await;
    let mut run = hands.begin(&door, id).await;
    run.open().await;
    run.delta("half of ").await;
    run.lose_stream().await;
    run.store("half of it").await;
    let seen = live.rest().await;
    assert_whole(&seen, 1);
    assert_eq!(
        types(&seen.frames)[2..],
        ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    );
    assert_eq!(last(&seen)["result"]["text"], "half of it");
    let snapshot: Value = serde_json::from_str(&seen.frames[4]).unwrap();
    let messages = snapshot["messages"].as_array().unwrap();
    assert_eq!(messages[1]["id"], "m1");
    assert_eq!(messages[1]["content"], "half of it");

    // A fresh reader of a stream that is gone: prelude and end, at once.
    let fresh = Socket::follow(&door, id).await.rest().await;
    assert_whole(&fresh, 0);
    assert_eq!(types(&fresh.frames), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    for (at, frame) in fresh.frames.iter().enumerate() {
        let resumed = Socket::resume(&door, id, &id_of(frame)).await.rest().await;
        assert_eq!((&resumed.frames[..], resumed.code), (&fresh.frames[at + 1..], Some(1000)));
    }
    // A cursor into what is gone cannot be served.
    let gone = Socket::resume(&door, id, &id_of(&seen.frames[1])).await.rest().await;
    assert_eq!(gone, Seen { frames: vec![], code: Some(4409) });
    door.stop().await;
}

#[tokio::test]
async fn a_reader_that_waits_gets_the_end_of_a_task_whose_stream_never_was() {
    let door = door().await;
    let id = TaskId::mint();
    let before = Socket::follow(&door, id).await;
    let key = Hands::submit(&door, id).await;
    // Stored, and the word to Redis lost.
    let row = door.app.store.cancel(key).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Cancelled);
    let seen = before.rest().await;
    assert_whole(&seen, 0);
    assert_eq!(types(&seen.frames), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!(last(&seen)["outcome"]["type"], "cancelled");
    door.stop().await;
}

#[tokio::test]
async fn a_run_that_goes_on_after_a_flush_is_shown_on_without_a_break() {
    let door = door().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let live = Socket::follow(&door, id).await;
    let mut run = hands.begin(&door, id).await;
    run.open().await;
    run.delta("a").await;
    let mut fresh = Socket::follow(&door, id).await;
    for _ in 0..3 {
        fresh.event().await;
    }
    run.lose_stream().await;
    // The adopted worker goes on where it was.
    let content = Event::TextMessageContent { message_id: "m1".into(), delta: "b".into() };
    write_silently(&door.app, run.key, "1-4", 4, &content).await;
    write_silently(&door.app, run.key, "1-5", 5, &Event::TextMessageEnd { message_id: "m1".into() }).await;
    // A reader that comes now cannot see the beginning; it is not shown half a run.
    let headless = Socket::follow(&door, id).await;
    run.store("ab").await;
    let row = door.row(id).await.unwrap();
    let end = row.terminal_event().unwrap();
    redis(&door.app, &["XADD", &door.app.queue.shard().events(run.key), "1-6", "s", "6", "e", &end]).await;
    let seen = live.rest().await;
    assert_whole(&seen, 1);
    assert_eq!(text(&seen.frames), "ab");
    assert_whole(&fresh.rest().await, 4);
    let headless = headless.rest().await;
    assert_whole(&headless, 0);
    assert_eq!(types(&headless.frames), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    door.stop().await;
}

#[tokio::test]
async fn a_run_that_began_again_after_a_flush_never_starts_twice_for_a_reader() {
    let door = door().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let live = Socket::follow(&door, id).await;
    let mut run = hands.begin(&door, id).await;
    run.open().await;
    let resumed = Socket::resume(&door, id, "1-1").await;
    run.lose_stream().await;
    let started = Event::run_started(run.thread(), id);
    write_silently(&door.app, run.key, "2-1", 1, &started).await;
    let bell = format!("{}bell", door.app.queue.shard().prefix());
    redis(&door.app, &["PUBLISH", &bell, &format!("{} 2-1 1 {}", run.key, started.to_json())]).await;
    run.store("again").await;
    let row = door.row(id).await.unwrap();
    write_end(&door, run.key, "2-2", 2, &row.terminal_event().unwrap()).await;
    let seen = live.rest().await;
    assert_whole(&seen, 1);
    assert_eq!(types(&seen.frames).iter().filter(|kind| *kind == "RUN_STARTED").count(), 1, "{seen:?}");
    assert_eq!(types(&seen.frames)[2..], ["TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    // What is open for it is known from the reader beside it.
    assert_eq!(resumed.rest().await.frames, seen.frames[1..]);
    door.stop().await;
}

async fn write_end(door: &Door, key: TaskKey, id: &str, seq: u64, event: &str) {
    let stream = door.app.queue.shard().events(key);
    redis(&door.app, &["XADD", &stream, id, "s", &seq.to_string(), "e", event]).await;
}

#[tokio::test]
async fn a_reader_whose_open_items_are_not_known_loses_its_cursor_in_a_flush() {
    let door = door().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let mut run = hands.begin(&door, id).await;
    run.open().await;
    let mut resumed = Socket::resume(&door, id, "1-1").await;
    assert_eq!(resumed.event().await["type"], "TEXT_MESSAGE_START");
    run.lose_stream().await;
    run.store("x").await;
    assert_eq!(resumed.rest().await, Seen { frames: vec![], code: Some(4409) });
    // Coming back without the cursor it gets all there is.
    let fresh = Socket::follow(&door, id).await.rest().await;
    assert_whole(&fresh, 0);
    door.stop().await;
}

#[tokio::test]
async fn an_expired_stream_of_a_failed_task_ends_in_its_error() {
    let door = door().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let run = hands.begin(&door, id).await;
    let ending = penstock_protocol::Ending::failed(penstock_protocol::ErrorCode::ProviderError, "no");
    let end = penstock_store::End { key: run.key, attempt: 1, ending, model: None, model_calls: 1 };
    door.app.store.end(end).await.unwrap();
    run.lose_stream().await;
    let seen = Socket::follow(&door, id).await.rest().await;
    assert_whole(&seen, 0);
    assert_eq!(types(&seen.frames), ["RUN_STARTED", "RUN_ERROR"]);
    assert_eq!(last(&seen)["code"], "penstock.provider_error");
    door.stop().await;
}

#[tokio::test]
async fn a_task_that_does_not_exist_yet_costs_redis_nothing() {
    let door = Door::open_with(|settings| settings.events.silence = Duration::from_millis(100)).await;
    let mut sockets = Vec::new();
    for _ in 0..20 {
        sockets.push(Socket::follow(&door, TaskId::mint()).await);
    }
    eventually("every reader has joined", async || door.app.metrics.text().contains("event_watches 20")).await;
    let mut monitor = redis::Client::open(crate::harness::redis_url()).unwrap().get_async_monitor().await.unwrap();
    let mut heard = monitor.on_message::<String>();
    let until = Instant::now() + Duration::from_millis(600);
    let (prefix, mut seen) = (door.app.queue.shard().prefix().to_owned(), 0);
    // Six silences long: whatever Redis is asked about streams of this door would show.
    while Instant::now() < until || seen == 0 {
        door.app.queue.ping().await.unwrap();
        let command = timeout(PATIENCE, heard.next()).await.expect("the monitor hears").expect("it stands");
        assert!(!command.contains(&format!("{prefix}ev:")), "{command}");
        seen += 1;
    }
    assert!(sockets.iter_mut().all(|socket| socket.is_open()));
    drop(heard);
    door.stop().await;
}
