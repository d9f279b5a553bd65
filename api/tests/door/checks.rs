//! Checks 1 and 2 of `POST /api/task`, each with what it must not touch; and the answer of a task that passed.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::harness::{Answer, Door, task};

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_task_is_stored_queued_and_told_where_to_go_on() {
    let door = Door::open().await;
    let body = json!({
        "agent": "assistant", "input": [{"role": "user", "id": "m1", "content": "hi"}], "user": "u1", "priority": 3,
        "deadline_ms": 60_000, "metadata": {"a": 1}, "state": {"s": 2}, "tools": [{"name": "t"}],
    });
    let answer = door.ann.submit(&body).await;
    answer.assert_accepted();
    let (id, json) = (answer.task_id(), answer.json());
    assert_eq!(json["status"], "queued");
    assert_eq!(json["position"], 0);
    assert_eq!(json["links"]["self"], format!("{}/api/task/{id}", door.url));
    assert_eq!(json["links"]["ws"], format!("{}/api/task/{id}/ws", door.url.replace("http", "ws")));
    assert_eq!(answer.header("location"), Some(format!("/api/task/{id}").as_str()));
    assert_eq!(answer.header("x-ratelimit-limit"), Some("10000"));
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("9999"));
    assert_eq!(answer.header("x-ratelimit-reset"), Some("0"));
    let row = door.row(id).await.expect("the row is there before the answer is");
    assert_eq!((row.user.as_deref(), row.priority), (Some("u1"), 3));
    assert_eq!(json["thread_id"], row.thread.to_string());
    assert!(row.deadline_left_ms.is_some_and(|left| left <= 60_000));
    let spec = row.spec().unwrap();
    assert!(spec.is_new_thread);
    assert_eq!(
        (&spec.metadata, &spec.state, &spec.tools),
        (&json!({"a": 1}), &json!({"s": 2}), &vec![json!({"name": "t"})])
    );
    assert_eq!(door.depth().await, 1);
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_1_refuses_a_body_that_is_too_large_malformed_or_of_another_shape() {
    let door = Door::open_with(|settings| settings.api.body_bytes_max = 2000).await;
    let json = [("content-type", "application/json")];
    let large = json!({"agent": "assistant", "input": "x".repeat(3000)}).to_string();
    post(&door, &json, large.clone()).await.assert_problem(413, "body_too_large");
    let chunks =
        large.into_bytes().chunks(500).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec())).collect::<Vec<_>>();
    let stream = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
    post(&door, &json, stream).await.assert_problem(413, "body_too_large");

    post(&door, &json, "{").await.assert_problem(400, "malformed_body");
    post(&door, &json, "").await.assert_problem(400, "malformed_body");
    post(&door, &[], task().to_string()).await.assert_problem(415, "unsupported_media_type");
    post(&door, &[("content-type", "text/plain")], task().to_string())
        .await
        .assert_problem(415, "unsupported_media_type");

    for (field, value) in [
        ("webhook", json!("http://x")),
        ("priority", json!(10)),
        ("user", json!("a|b")),
        ("task_id", json!("7")),
        ("max_wait_ms", json!(0)),
        ("input", json!([])),
    ] {
        let mut body = task();
        body[field] = value;
        let answer = door.ann.submit(&body).await;
        answer.assert_problem(422, "invalid_request");
        assert_eq!(answer.json()["path"], field, "{}", answer.text);
    }
    let answer = door.ann.submit(&json!({"agent": "nobody", "input": "x"})).await;
    answer.assert_problem(422, "unknown_agent");
    assert_eq!(answer.json()["path"], "agent");
    let answer = door.ann.submit_keyed(&task(), "two words").await;
    answer.assert_problem(422, "invalid_request");
    assert_eq!(answer.json()["path"], "Idempotency-Key");
    door.assert_untouched().await;
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_2_refuses_what_is_no_key_in_force_after_the_body_was_judged() {
    let door = Door::open().await;
    let without = |header: Option<String>| {
        let request = door.ann.client.post(format!("{}/api/task", door.url)).json(&task());
        let request = if let Some(header) = header { request.header("authorization", header) } else { request };
        async move { Answer::read(request.send().await.unwrap()).await }
    };
    for header in
        [None, Some("Basic abc".into()), Some("Bearer nonsense".into()), Some(format!("Bearer psk_{}", "x".repeat(43)))]
    {
        let answer = without(header).await;
        answer.assert_problem(401, "unauthenticated");
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
    }
    let broken = door.ann.client.post(format!("{}/api/task", door.url)).header("content-type", "application/json");
    let broken = broken.body("{").send().await.unwrap();
    assert_eq!(broken.status(), StatusCode::BAD_REQUEST, "the body is judged first");
    door.assert_untouched().await;
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_spellings_of_one_json_are_one_request() {
    let door = Door::open().await;
    let id = uuid::Uuid::now_v7();
    let json = [("content-type", "application/json; charset=utf-8")];
    let one = format!(r#"{{"agent":"assistant","input":"hi","task_id":"{id}","metadata":{{"a":1,"b":2}}}}"#);
    let other = format!(
        r#"{{ "metadata": {{"b":2, "a":1}}, "task_id": "{}", "input":"\u0068i","agent":"assistant"}}"#,
        id.simple()
    );
    let (one, other) = (post(&door, &json, one).await, post(&door, &json, other).await);
    one.assert_accepted();
    other.assert_accepted();
    assert_eq!(ids(&one), ids(&other));
    assert_eq!(door.rows().await.len(), 1);
    door.stop().await;
}

fn ids(answer: &Answer) -> (Value, Value) {
    let json = answer.json();
    (json["task_id"].clone(), json["thread_id"].clone())
}

async fn post(door: &Door, headers: &[(&str, &str)], body: impl Into<reqwest::Body>) -> Answer {
    let mut request = door.ann.request(Method::POST, "/api/task").body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::read(request.send().await.unwrap()).await
}
