//! Tasks that asked to be cancelled when nobody watches them any more.

use std::time::Duration;

use penstock_protocol::{Status, TaskId};
use penstock_store::fixture::TestDatabase;
use serde_json::json;

use crate::harness::{Door, eventually, settings_of, task_named};
use crate::run::Hands;
use crate::socket::Socket;

const GRACE: Duration = Duration::from_secs(1);

/// Submits a task that is to end with its last watcher.
async fn submit(door: &Door) -> TaskId {
    let id = TaskId::mint();
    let mut body = task_named(id);
    body["on_disconnect"] = json!("cancel");
    door.ann.submit(&body).await.assert_accepted();
    id
}

async fn status(door: &Door, id: TaskId) -> Status {
    door.row(id).await.unwrap().status
}

async fn is_cancelled(door: &Door, id: TaskId) {
    eventually("it is cancelled", async || status(door, id).await == Status::Cancelled).await;
}

/// A task whose watcher leaves now; once it is cancelled, whatever left before has had its grace.
async fn a_grace_passes(door: &Door) {
    for _ in 0..2 {
        let marker = submit(door).await;
        Socket::follow(door, marker).await.cut().await;
        is_cancelled(door, marker).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_watcher_takes_the_task_with_it_if_it_asked_for_it() {
    let door = Door::open_with(|settings| settings.events.disconnect_grace = GRACE).await;
    let hands = Hands::at(&door).await;
    let (asked, unwatched) = (submit(&door).await, submit(&door).await);
    let usual = Hands::submit(&door, TaskId::mint()).await.task;
    let _running = hands.start(asked).await;
    let (first, last) = (Socket::follow(&door, asked).await, Socket::follow(&door, asked).await);
    let other = Socket::follow(&door, usual).await;
    first.cut().await;
    other.cut().await;
    a_grace_passes(&door).await;
    assert_eq!(status(&door, asked).await, Status::Running, "one watcher is left");
    last.cut().await;
    is_cancelled(&door, asked).await;
    assert!(!status(&door, usual).await.is_terminal(), "a disconnect changes nothing unless it was asked to");
    assert!(!status(&door, unwatched).await.is_terminal(), "nobody left it");
    let metrics = door.get("/metrics").await.text;
    assert!(metrics.contains("penstock_disconnect_cancels_total 3"), "{metrics}");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_at_another_door_keeps_it_and_a_stop_of_a_door_is_no_departure() {
    let database = TestDatabase::create().await;
    let mut settings = settings_of(&database).await;
    settings.events.disconnect_grace = GRACE;
    settings.api.drain = Duration::from_millis(200);
    let here = Door::start(settings.clone(), &database).await;
    let there = Door::start(settings, &database).await;
    let (moved, stayed) = (submit(&here).await, submit(&here).await);
    // Leaves here and comes to the other door within the grace.
    let first = Socket::follow(&here, moved).await;
    let _stays = Socket::follow(&here, stayed).await;
    first.cut().await;
    let second = Socket::follow(&there, moved).await;
    a_grace_passes(&there).await;
    assert!(!status(&there, moved).await.is_terminal(), "it is watched at another door");
    here.app.shutdown.cancel();
    eventually("the door has let everybody go", async || here.app.tracker.is_empty()).await;
    a_grace_passes(&there).await;
    assert!(!status(&there, stayed).await.is_terminal(), "its watcher did not leave, the door did");
    second.cut().await;
    is_cancelled(&there, moved).await;
    there.stop().await;
    here.app.store.close().await;
    database.drop_database().await;
}
