//! Reads: one task, pages of tasks, and what a foreign tenant sees of them (nothing).

use std::collections::HashSet;

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::harness::{Answer, Door, task};

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_id_an_unknown_id_and_no_id_at_all_look_alike_byte_for_byte() {
    let door = Door::open().await;
    let bob = door.customer("bob").await;
    let id = door.ann.submit(&task()).await.task_id();
    let paths = [
        format!("/api/task/{id}"),
        format!("/api/task/{}", uuid::Uuid::now_v7()),
        "/api/task/nonsense".into(),
        "/api/task/%ff".into(),
    ];
    let mut answers = Vec::new();
    for path in &paths {
        answers.push(bob.get(path).await);
        answers.push(bob.delete(path).await);
    }
    for answer in &answers {
        answer.assert_problem(404, "task_not_found");
        assert_eq!(shape(answer), shape(&answers[0]));
    }
    assert_eq!(door.ann.get(&paths[0]).await.json()["status"], "queued", "nobody cancelled it");
    // A client-minted id of one tenant is free for another.
    bob.submit(&json!({"agent": "assistant", "input": "mine", "task_id": id})).await.assert_accepted();
    assert_eq!(door.ann.get(&paths[0]).await.json()["metadata"], Value::Null);
    door.stop().await;
}

/// Everything of an answer but the request's own id, its date.
fn shape(answer: &Answer) -> (String, Vec<(String, String)>) {
    let mut headers: Vec<_> = answer
        .headers
        .iter()
        .filter(|(name, _)| *name != "x-request-id" && *name != "date")
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    headers.sort();
    (answer.text.clone(), headers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_tells_why_it_waits_and_returns_the_callers_data() {
    let door = Door::open().await;
    let mut body = task();
    body["metadata"] = json!({"order": 17});
    door.ann.submit(&task()).await.assert_accepted();
    let submitted = door.ann.submit(&body).await;
    let answer = door.ann.get(&format!("/api/task/{}", submitted.task_id())).await;
    let json = answer.json();
    assert_eq!((json["status"].as_str(), json["agent"].as_str()), (Some("queued"), Some("assistant")));
    assert_eq!(json["metadata"], json!({"order": 17}));
    let waiting = [&json["waiting_reason"], &json["position"], &json["estimated_wait_ms"]];
    assert_eq!(waiting, [&json!("no_workers"), &json!(1), &json!(null)]);
    assert_eq!(json["attempts"], json!({"latest": 0, "crashes": 0, "failures": 0}));
    assert_eq!(json["links"], submitted.json()["links"]);

    // A second task of a thread waits for the first.
    let mut next = task();
    next["thread_id"] = json["thread_id"].clone();
    let next = door.ann.submit(&next).await.task_id();
    assert_eq!(door.ann.get(&format!("/api/task/{next}")).await.json()["waiting_reason"], "thread_busy");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_each_task_once_and_only_the_callers() {
    let door = Door::open().await;
    let bob = door.customer("bob").await;
    bob.submit(&task()).await.assert_accepted();
    let mut ids = HashSet::new();
    for number in 0..7 {
        let mut body = task();
        body["user"] = json!(if number % 2 == 0 { "even" } else { "odd" });
        ids.insert(door.ann.submit(&body).await.task_id().to_string());
    }
    let (mut seen, mut path, mut pages) = (Vec::new(), "/api/task?limit=3".to_owned(), 0);
    loop {
        let answer = door.ann.get(&path).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        let json = answer.json();
        seen.extend(json["tasks"].as_array().unwrap().iter().map(|task| task["task_id"].as_str().unwrap().to_owned()));
        pages += 1;
        let Some(next) = json["next"].as_str() else { break };
        path = format!("/api/task?limit=3&cursor={next}");
    }
    assert_eq!((pages, seen.len()), (3, 7));
    assert_eq!(seen.into_iter().collect::<HashSet<_>>(), ids);

    let count =
        async |query: &str| door.ann.get(&format!("/api/task?{query}")).await.json()["tasks"].as_array().unwrap().len();
    assert_eq!(count("user=odd").await, 3);
    assert_eq!(count("status=queued").await, 7);
    assert_eq!(count("status=running").await, 0);
    assert_eq!(count("agent=other").await, 0);
    for query in ["limit=0", "limit=101", "limit=x", "status=happy", "cursor=zzz", "colour=red", "thread_id=7"] {
        door.ann.get(&format!("/api/task?{query}")).await.assert_problem(422, "invalid_request");
    }
    door.stop().await;
}
