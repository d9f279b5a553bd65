//! Server-sent events.

use futures_util::StreamExt;
use penstock_protocol::TaskId;
use reqwest::Method;

use crate::harness::{Answer, Door};
use crate::run::{Hands, frames};

/// `id` and `data` of each event of a body.
pub(crate) fn parse(body: &str) -> Vec<(String, String)> {
    assert!(!body.contains('\r'), "LF only");
    let blocks = body.split("\n\n").filter(|block| !block.is_empty() && !block.starts_with(':'));
    let parsed = blocks.map(|block| {
        let (id, data) =
            block.strip_prefix("id: ").unwrap_or_else(|| panic!("{block:?}")).split_once("\ndata: ").unwrap();
        (id.to_owned(), data.to_owned())
    });
    parsed.collect()
}

#[tokio::test]
async fn a_stream_carries_the_same_events_and_resumes_by_last_event_id() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let path = format!("/api/task/{id}/events");
    let live = tokio::spawn({
        let request = door.ann.request(Method::GET, &path);
        async move { Answer::read(request.send().await.unwrap()).await }
    });
    let mut run = hands.begin(&door, id).await;
    let key = run.key;
    run.open().await;
    run.delta("a\nb").await;
    run.close().await;
    run.succeed("a\nb").await;
    let live = live.await.unwrap();
    assert_eq!(live.status, 200);
    assert_eq!(live.header("content-type"), Some("text/event-stream"));
    let log = frames(&door.app, key).await;
    let events = parse(&live.text);
    assert_eq!(events.iter().map(|(_, data)| data.clone()).collect::<Vec<_>>(), log);

    for (at, (cursor, _)) in events.iter().enumerate() {
        let request = door.ann.request(Method::GET, &path).header("last-event-id", cursor);
        let resumed = Answer::read(request.send().await.unwrap()).await;
        let by_query = door.ann.get(&format!("{path}?after={cursor}")).await;
        if at + 1 == events.len() {
            assert_eq!((resumed.status.as_u16(), by_query.status.as_u16()), (204, 204), "nothing comes any more");
        } else {
            assert_eq!(parse(&resumed.text), events[at + 1..]);
            assert_eq!(parse(&by_query.text), events[at + 1..]);
        }
    }
    // The header is what the browser saw last; the query is what the page began with.
    let request = door.ann.request(Method::GET, &format!("{path}?after=1-1")).header("last-event-id", "1-3");
    assert_eq!(parse(&Answer::read(request.send().await.unwrap()).await.text), events[3..]);
    door.ann.get(&format!("{path}?after=1-77")).await.assert_problem(410, "cursor_gone");
    door.ann.get(&format!("{path}?after=x")).await.assert_problem(422, "invalid_request");
    door.stop().await;
}

#[tokio::test]
async fn a_waiting_stream_answers_at_once_and_says_that_it_lives() {
    let door = Door::open_with(|settings| settings.events.ping_every = std::time::Duration::from_millis(100)).await;
    let path = format!("/api/task/{}/events", TaskId::mint());
    let answer = door.ann.request(Method::GET, &path).send().await.unwrap();
    let mut body = answer.bytes_stream();
    let mut text = String::new();
    while !text.ends_with(": ping\n\n: ping\n\n") {
        text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
    }
    assert!(text.starts_with(": connected\n\n"), "{text}");
    door.stop().await;
}

#[tokio::test]
async fn a_stop_says_so_in_the_stream() {
    let door = Door::open_with(|settings| settings.api.drain = std::time::Duration::from_secs(2)).await;
    let path = format!("/api/task/{}/events", TaskId::mint());
    let answer = door.ann.request(Method::GET, &path).send().await.unwrap();
    let stopping = tokio::spawn(door.stop());
    let text = answer.text().await.unwrap();
    assert!(text.contains("event: close\ndata: {\"code\":1012,"), "{text}");
    assert!(stopping.await.unwrap());
}

#[tokio::test]
async fn a_waiting_stream_tells_where_its_task_stands_until_it_begins() {
    let door = Door::open_with(|settings| settings.events.standing_every = std::time::Duration::from_millis(500)).await;
    let first = door.ann.submit(&serde_json::json!({"agent": "assistant", "input": "x"})).await;
    let path = format!("/api/task/{}/events", first.task_id());
    let mut body = door.ann.request(Method::GET, &path).send().await.unwrap().bytes_stream();
    let mut text = String::new();
    while !text.contains(": waiting ") || !text.ends_with("\n\n") {
        text.push_str(std::str::from_utf8(&body.next().await.unwrap().unwrap()).unwrap());
    }
    let told = text.split(": waiting ").nth(1).unwrap().lines().next().unwrap();
    let told: serde_json::Value = serde_json::from_str(told).unwrap();
    assert_eq!(told["reason"], "no_workers", "{told}");
    assert_eq!(told["position"], 0, "{told}");
    assert!(parse(&text).is_empty(), "nothing but comments");
    door.stop().await;
}
