//! Many tasks on one socket.

use penstock_protocol::{TaskId, TaskKey};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Door, eventually};
use crate::run::{Hands, frames};
use crate::socket::Socket;

async fn say(socket: &mut Socket, word: Value) {
    socket.send(Message::Text(word.to_string().into())).await;
}

#[tokio::test]
async fn each_task_keeps_its_order_and_its_end() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let ids: Vec<_> = (0..30).map(|_| TaskId::mint()).collect();
    let mut socket = Socket::dial(&door, &door.ann, "/api/ws").await;
    for id in &ids {
        say(&mut socket, json!({"op": "subscribe", "task_id": id})).await;
    }
    for id in &ids {
        let mut run = hands.begin(&door, *id).await;
        run.open().await;
        run.close().await;
        run.succeed("").await;
    }
    let mut got = std::collections::HashMap::<String, Vec<String>>::new();
    let mut ended = 0;
    while ended < ids.len() {
        let text = socket.next().await.unwrap();
        let word: Value = serde_json::from_str(&text).unwrap();
        let task = word["task_id"].as_str().unwrap().to_owned();
        if word.get("end").is_some() {
            assert_eq!(word, json!({"task_id": task, "end": true}));
            ended += 1;
        } else {
            // The event is carried as it is, byte for byte.
            let event = text.strip_prefix(&format!(r#"{{"task_id":"{task}","event":"#)).unwrap();
            got.entry(task).or_default().push(event.strip_suffix('}').unwrap().to_owned());
        }
    }
    for id in &ids {
        assert_eq!(got[&id.to_string()], frames(&door.app, TaskKey::new(door.ann.tenant, *id)).await);
    }
    // A socket outlives its tasks: an old one can be read again, from any cursor.
    say(&mut socket, json!({"op": "subscribe", "task_id": ids[0], "after": "1-3"})).await;
    assert_eq!(socket.event().await["event"]["type"], "RUN_FINISHED");
    assert_eq!(socket.event().await["end"], true);
    say(&mut socket, json!({"op": "subscribe", "task_id": ids[0], "after": "7-7"})).await;
    assert_eq!(socket.event().await, json!({"task_id": ids[0], "end": 4409}));
    door.stop().await;
}

#[tokio::test]
async fn wrong_words_are_answered_and_bounds_are_kept() {
    let door = Door::open_with(|settings| {
        settings.events.tasks_per_socket_max = 2;
        settings.events.unknown_task_wait = std::time::Duration::from_millis(300);
    })
    .await;
    let mut socket = Socket::dial(&door, &door.ann, "/api/ws").await;
    for word in
        [json!("x"), json!({"op": "dance"}), json!({"op": "subscribe"}), json!({"op": "subscribe", "task_id": "7"})]
    {
        say(&mut socket, word).await;
        assert_eq!(socket.event().await["error"], "invalid_request");
    }
    let (a, b, c) = (TaskId::mint(), TaskId::mint(), TaskId::mint());
    say(&mut socket, json!({"op": "subscribe", "task_id": a, "after": "x"})).await;
    assert_eq!(socket.event().await["task_id"], json!(a));
    for id in [a, b] {
        say(&mut socket, json!({"op": "subscribe", "task_id": id})).await;
    }
    say(&mut socket, json!({"op": "subscribe", "task_id": a})).await;
    assert_eq!(socket.event().await["error"], "already_subscribed");
    say(&mut socket, json!({"op": "subscribe", "task_id": c})).await;
    assert_eq!(socket.event().await["error"], "too_many_tasks");
    say(&mut socket, json!({"op": "unsubscribe", "task_id": a})).await;
    say(&mut socket, json!({"op": "subscribe", "task_id": c})).await;
    let ends = [socket.event().await, socket.event().await];
    for id in [b, c] {
        assert!(ends.contains(&json!({"task_id": id, "end": 4404})), "{ends:?}");
    }
    eventually("no watch is left", async || door.app.metrics.text().contains("event_watches 0")).await;
    door.stop().await;
}
