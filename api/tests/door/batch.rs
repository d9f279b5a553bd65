//! `POST /api/tasks`: each item as the single door would have answered it.

use penstock_protocol::{Ending, Status, TaskId, TaskKey, ThreadId};
use penstock_store::{Claimed, End};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::harness::{Answer, Customer, Door, task, task_named};

async fn submit_all(customer: &Customer, tasks: &[Value]) -> Answer {
    let request = customer.request(Method::POST, "/api/tasks").json(&json!({"tasks": tasks}));
    Answer::read(request.send().await.unwrap()).await
}

async fn verdicts(customer: &Customer, tasks: &[Value]) -> Vec<(u64, Value)> {
    let answer = submit_all(customer, tasks).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let answer = answer.json();
    let all = answer["verdicts"].as_array().unwrap().iter();
    all.map(|verdict| (verdict["status"].as_u64().unwrap(), verdict["body"].clone())).collect()
}

/// What two answers about one task must share: everything but estimates.
fn essence(mut body: Value) -> Value {
    if let Some(body) = body.as_object_mut() {
        body.remove("position");
        body.remove("estimated_wait_ms");
    }
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn each_item_has_the_verdict_of_the_single_door_in_its_place() {
    let door = Door::open().await;
    let id = TaskId::mint();
    let mut other = task_named(id);
    other["input"] = json!("other");
    let items = [
        task_named(id),
        json!({"agent": "nobody", "input": "x"}),
        task_named(id),
        other.clone(),
        json!({"agent": "assistant"}),
        json!({"agent": "assistant", "input": "x", "input": "y"}),
        json!({"agent": "assistant", "input": "x", "idempotency_key": "with space"}),
        json!(7),
        task(),
    ];
    let found = verdicts(&door.ann, &items).await;
    let statuses: Vec<_> = found.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [202, 422, 202, 422, 422, 202, 422, 422, 202]);
    assert_eq!((&found[0].1["task_id"], &found[2].1["task_id"]), (&json!(id), &json!(id)));
    assert_eq!((&found[1].1["code"], &found[3].1["code"]), (&json!("unknown_agent"), &json!("body_differs")));
    assert_eq!(found[4].1["path"], "input");
    assert_eq!(door.rows().await.len(), 3);
    // The single door says the same of each.
    for (at, item) in items.iter().enumerate().filter(|(at, _)| *at != 5 && *at != 8) {
        let single = door.ann.submit(item).await;
        assert_eq!(u64::from(single.status.as_u16()), found[at].0, "item {at}: {}", single.text);
        assert_eq!(essence(single.json()), essence(found[at].1.clone()), "item {at}");
    }
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn single_and_batch_say_the_same_of_a_key_in_every_state_of_its_task() {
    let door = Door::open().await;
    let store = &door.app.store;
    for (key, status) in
        [("queued", "queued"), ("running", "running"), ("succeeded", "succeeded"), ("cancelled", "cancelled")]
    {
        let mut item = task();
        let single = door.ann.submit_keyed(&item, key).await;
        let task = TaskKey::new(door.ann.tenant, single.task_id());
        if status == "running" || status == "succeeded" {
            assert!(matches!(store.claim(task, 1, "w").await.unwrap(), Claimed::Mine(_)));
        }
        if status == "succeeded" {
            let ending = Ending { status: Status::Succeeded, result: Some("x".into()), error: None, usage: vec![] };
            store.end(End { key: task, attempt: 1, ending, model: None, model_calls: 1 }).await.unwrap();
        }
        if status == "cancelled" {
            door.ann.delete(&format!("/api/task/{}", task.task)).await;
        }
        item["idempotency_key"] = json!(key);
        let mut differs = item.clone();
        differs["input"] = json!("other");
        let found = verdicts(&door.ann, &[item, differs]).await;
        let again = door.ann.submit_keyed(&super::harness::task(), key).await;
        assert_eq!((found[0].0, &found[0].1["status"]), (202, &json!(status)), "{key}");
        assert_eq!(essence(again.json()), essence(found[0].1.clone()), "{key}");
        assert_eq!((found[1].0, &found[1].1["code"]), (422, &json!("body_differs")), "{key}");
    }
    assert_eq!(door.rows().await.len(), 4);
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_larger_than_the_room_fills_it_and_not_one_more() {
    let door = Door::open_with(|settings| {
        settings.queue.depth_max = 7;
        settings.queue.tenant_depth_max = 7;
    })
    .await;
    let found = verdicts(&door.ann, &vec![task(); 40]).await;
    assert_eq!(found.iter().filter(|(status, _)| *status == 202).count(), 7);
    for (status, body) in found.iter().filter(|(status, _)| *status != 202) {
        assert_eq!((*status, &body["code"]), (429, &json!("queue_full")));
        assert!(body["retry_after_ms"].as_u64().unwrap() >= 1000);
    }
    assert_eq!((door.rows().await.len(), door.depth().await), (7, 7));
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn items_of_one_conversation_are_accepted_in_their_order() {
    let door = Door::open().await;
    let thread = ThreadId::mint();
    let items: Vec<_> =
        (0..30).map(|at| json!({"agent": "assistant", "input": format!("{at}"), "thread_id": thread})).collect();
    let found = verdicts(&door.ann, &items).await;
    let mut places = Vec::new();
    for (status, body) in &found {
        assert_eq!(*status, 202);
        let id = TaskId(body["task_id"].as_str().unwrap().parse().unwrap());
        places.push(door.row(id).await.unwrap().place);
    }
    assert!(places.is_sorted(), "{places:?}");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_bounded_and_needs_a_key() {
    let door = Door::open_with(|settings| {
        settings.api.batch_items_max = 3;
        settings.api.body_bytes_max = 2048;
        settings.api.batch_bytes_max = 8192;
    })
    .await;
    submit_all(&door.ann, &[]).await.assert_problem(422, "invalid_request");
    submit_all(&door.ann, &vec![task(); 4]).await.assert_problem(422, "invalid_request");
    let large = json!({"agent": "assistant", "input": "x".repeat(3000)});
    let found = verdicts(&door.ann, &[large.clone(), task()]).await;
    assert_eq!((found[0].0, &found[0].1["code"], found[1].0), (413, &json!("body_too_large"), 202));
    submit_all(&door.ann, &vec![large; 3]).await.assert_problem(413, "body_too_large");
    let keyed = door.ann.request(Method::POST, "/api/tasks").header("idempotency-key", "k");
    let answer = Answer::read(keyed.json(&json!({"tasks": [task()]})).send().await.unwrap()).await;
    answer.assert_problem(422, "invalid_request");
    let request = door.ann.client.post(format!("{}/api/tasks", door.url)).json(&json!({"tasks": [task()]}));
    Answer::read(request.send().await.unwrap()).await.assert_problem(401, "unauthenticated");
    assert_eq!(door.rows().await.len(), 1);
    door.stop().await;
}
