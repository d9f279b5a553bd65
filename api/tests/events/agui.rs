//! AG-UI's own way in.

use futures_util::StreamExt;
use penstock_protocol::{Status, TaskId, TaskKey, ThreadId};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Door, eventually};
use crate::run::{Hands, frames, redis};
use crate::socket::types;
use crate::sse::parse;

fn input(run: TaskId, thread: ThreadId) -> Value {
    json!({
        "threadId": thread, "runId": run, "state": {}, "tools": [], "context": [], "forwardedProps": {},
        "messages": [{"id": "1", "role": "user", "content": "hello"}], "protocolVersion": "1.0",
    })
}

#[tokio::test]
async fn a_run_goes_in_and_its_events_come_out_again_and_again() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let (run, thread) = (TaskId::mint(), ThreadId::mint());
    let post =
        async || door.ann.request(Method::POST, "/api/agui/assistant").json(&input(run, thread)).send().await.unwrap();
    let answer = post().await;
    assert_eq!(answer.status(), 200);
    let mut body = answer.bytes_stream();
    let first = body.next().await.unwrap().unwrap();
    assert_eq!(&first[..], b": connected\n\n", "the wait is filled at once");
    let again = post().await;
    let mut attempt = hands.start(run).await;
    attempt.open().await;
    attempt.close().await;
    attempt.succeed("hi").await;
    let mut text = String::from_utf8(first.to_vec()).unwrap();
    while let Some(chunk) = body.next().await {
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
    }
    let log = frames(&door.app, TaskKey::new(door.ann.tenant, run)).await;
    assert_eq!(log.len(), 4);
    for text in [text, again.text().await.unwrap(), post().await.text().await.unwrap()] {
        assert_eq!(parse(&text).into_iter().map(|(_, data)| data).collect::<Vec<_>>(), log);
        assert!(!text.contains("[DONE]"));
    }
    // Long after, when its events have expired, the same run is still not run again: its end is told from the row.
    let stream = door.app.queue.shard().events(TaskKey::new(door.ann.tenant, run));
    redis(&door.app, &["DEL", &stream]).await;
    let events = parse(&post().await.text().await.unwrap());
    let told: Vec<_> = events.into_iter().map(|(_, data)| data).collect();
    assert_eq!(types(&told), ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]);
    assert_eq!(door.rows().await.len(), 1, "the same run is one task");
    assert_eq!(door.row(run).await.unwrap().thread, thread);
    door.stop().await;
}

#[tokio::test]
async fn a_disconnect_leaves_the_run_alone() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let run = TaskId::mint();
    let answer =
        door.ann.request(Method::POST, "/api/agui/assistant").json(&input(run, ThreadId::mint())).send().await.unwrap();
    let attempt = hands.start(run).await;
    drop(answer);
    attempt.succeed("still").await;
    eventually("it succeeded", async || door.row(run).await.unwrap().status == Status::Succeeded).await;
    door.stop().await;
}

#[tokio::test]
async fn what_cannot_run_is_refused_before_any_event() {
    let door = Door::open_with(|settings| settings.queue.depth_max = 1).await;
    let post = async |agent: &str, body: Value| {
        let request = door.ann.request(Method::POST, &format!("/api/agui/{agent}")).json(&body);
        Answer::read(request.send().await.unwrap()).await
    };
    let good = || input(TaskId::mint(), ThreadId::mint());
    let changed = |name: &str, value: Value| {
        let mut body = good();
        body[name] = value;
        body
    };
    post("nobody", good()).await.assert_problem(422, "unknown_agent");
    for body in [
        changed("messages", json!([])),
        changed("messages", json!([{"id": "1", "role": "wizard", "content": "x"}])),
        changed("runId", json!("7")),
        changed("threadId", json!(null)),
        changed("forwardedProps", json!({"penstock": {"priority": 10}})),
        changed("forwardedProps", json!({"penstock": {"speed": 10}})),
    ] {
        post("assistant", body).await.assert_problem(422, "invalid_request");
    }
    door.assert_untouched().await;
    let unread = door.ann.request(Method::POST, "/api/agui/assistant").json(&changed("later", json!(1)));
    let answer = unread.send().await.unwrap();
    assert_eq!(answer.status(), 200, "an unknown member is dropped");
    let full = post("assistant", good()).await;
    full.assert_problem(429, "queue_full");
    assert_eq!(full.json()["retryAfterMs"], full.json()["retry_after_ms"]);
    door.stop().await;
}
