//! Dead letters: listed with their reason, replayed as new tasks, purged; always by a filter where it is about many.

use penstock_protocol::{Ending, ErrorCode, Status, TaskId, TaskKey};
use penstock_store::{Claimed, End};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::harness::{Answer, Customer, Door, task};

/// Submits `body` and lets its attempts run out.
async fn bury(door: &Door, body: &Value, code: ErrorCode) -> TaskId {
    let id = door.ann.submit(body).await.task_id();
    fail(door, id, code).await;
    id
}

async fn fail(door: &Door, id: TaskId, code: ErrorCode) {
    let key = TaskKey::new(door.ann.tenant, id);
    assert!(matches!(door.app.store.claim(key, 1, "w").await.unwrap(), Claimed::Mine(_)));
    let end = End { key, attempt: 1, ending: Ending::failed(code, "it was not to be"), model: None, model_calls: 3 };
    door.app.store.end_as_dead_letter(end).await.unwrap();
    let row = door.row(id).await.unwrap();
    door.app.queue.close(key, 1, &row.terminal_event().unwrap()).await.unwrap();
}

async fn post(customer: &Customer, path: &str, body: &Value) -> Answer {
    Answer::read(customer.request(Method::POST, path).json(body).send().await.unwrap()).await
}

async fn listed(customer: &Customer, query: &str) -> Vec<TaskId> {
    let answer = customer.get(&format!("/api/dead?{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let tasks = answer.json()["tasks"].as_array().unwrap().clone();
    tasks.iter().map(|task| TaskId(task["task_id"].as_str().unwrap().parse().unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_listed_with_their_reason_by_filter_and_page_and_to_nobody_else() {
    let door = Door::open().await;
    let by = |user: &str| json!({"agent": "assistant", "input": "hello", "user": user});
    let first = bury(&door, &by("ada"), ErrorCode::AttemptsExhausted).await;
    let second = bury(&door, &by("bob"), ErrorCode::ProviderError).await;
    let third = bury(&door, &by("bob"), ErrorCode::ProviderError).await;
    let live = door.ann.submit(&task()).await.task_id();

    let mut all = listed(&door.ann, "").await;
    assert_eq!(all.len(), 3, "a live task is none");
    let page = door.ann.get("/api/dead?limit=2").await.json();
    let next = page["next"].as_str().unwrap();
    let rest = listed(&door.ann, &format!("limit=2&cursor={next}")).await;
    assert_eq!((page["tasks"].as_array().unwrap().len(), rest.len()), (2, 1), "pages meet without a gap");
    assert!(!page.to_string().contains(&rest[0].to_string()));
    all.sort();
    let mut expected = vec![first, second, third];
    expected.sort();
    assert_eq!(all, expected);
    assert_eq!(listed(&door.ann, "code=penstock.attempts_exhausted").await, [first]);
    assert_eq!(listed(&door.ann, "user=bob&agent=assistant").await.len(), 2);
    let died = door.row(third).await.unwrap().dead_ms.unwrap();
    assert_eq!(listed(&door.ann, &format!("after_ms={}", died + 1)).await.len(), 0);
    assert_eq!(listed(&door.ann, &format!("before_ms={}", died + 1)).await.len(), 3);

    let read = door.ann.get(&format!("/api/task/{first}")).await.json();
    assert_eq!(
        (read["status"].as_str(), read["error"]["message"].as_str()),
        (Some("failed"), Some("it was not to be"))
    );
    assert!(read["dead_ms"].is_u64());
    door.ann.get("/api/dead?code=nonsense").await.assert_problem(422, "invalid_request");
    door.ann.get("/api/dead?cursor=nonsense").await.assert_problem(422, "invalid_request");
    assert!(door.row(live).await.unwrap().dead_ms.is_none());

    let stranger = door.customer("stranger").await;
    assert!(listed(&stranger, "").await.is_empty());
    post(&stranger, &format!("/api/task/{first}/replay"), &json!({})).await.assert_problem(404, "task_not_found");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_is_one_new_task_however_often_it_is_asked_for() {
    let door = Door::open().await;
    let body = json!({"agent": "assistant", "input": "again", "user": "ada", "priority": 3, "metadata": {"a": 1}});
    let letter = bury(&door, &body, ErrorCode::ProviderError).await;
    let path = format!("/api/task/{letter}/replay");
    let first = post(&door.ann, &path, &json!({})).await;
    first.assert_accepted();
    let new = first.task_id();
    assert_ne!(new, letter);
    let again = post(&door.ann, &path, &json!({})).await;
    again.assert_accepted();
    assert_eq!(again.task_id(), new);
    assert_eq!(door.rows().await.len(), 2);

    let (old_row, new_row) = (door.row(letter).await.unwrap(), door.row(new).await.unwrap());
    assert_eq!((old_row.status, old_row.dead_ms, old_row.replayed_as), (Status::Failed, None, Some(new)), "law 4");
    assert_eq!((new_row.status, new_row.replay_of), (Status::Queued, Some(letter)));
    assert_eq!((new_row.user.as_deref(), new_row.priority, new_row.thread), (Some("ada"), 3, old_row.thread));
    assert_eq!(new_row.spec().unwrap().metadata, json!({"a": 1}));
    assert!(listed(&door.ann, "").await.is_empty(), "it is no dead letter any more");
    let read = door.ann.get(&format!("/api/task/{new}")).await.json();
    assert_eq!(read["replay_of"], letter.to_string());

    // A replay that fails is a letter itself, and a live task is none.
    post(&door.ann, &format!("/api/task/{new}/replay"), &json!({})).await.assert_problem(409, "not_ended");
    fail(&door, new, ErrorCode::ProviderError).await;
    assert_eq!(listed(&door.ann, "").await, [new]);
    post(&door.ann, &format!("/api/task/{new}/replay"), &json!({})).await.assert_accepted();
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_replays_name_a_filter_pass_admission_and_say_what_became_of_each() {
    let door = Door::open_with(|settings| {
        settings.queue.depth_max = 3;
        settings.queue.tenant_depth_max = 3;
        settings.queue.dead_batch_max = 4;
    })
    .await;
    let mut letters = Vec::new();
    for _ in 0..5 {
        letters.push(bury(&door, &task(), ErrorCode::ProviderError).await);
    }
    post(&door.ann, "/api/dead/replay", &json!({})).await.assert_problem(422, "invalid_request");
    post(&door.ann, "/api/dead/replay", &json!({"limit": 2})).await.assert_problem(422, "invalid_request");
    let many = json!({"agent": "assistant", "limit": 5});
    post(&door.ann, "/api/dead/replay", &many).await.assert_problem(422, "invalid_request");
    assert_eq!(listed(&door.ann, "").await.len(), 5, "nothing was touched");

    let answer = post(&door.ann, "/api/dead/replay", &json!({"agent": "assistant"})).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
    let answer = answer.json();
    assert_eq!(answer["replayed"].as_array().unwrap().len(), 3, "{answer}");
    assert_eq!(answer["refused"].as_array().unwrap().len(), 1, "the first no for now ends the call: {answer}");
    assert_eq!(answer["refused"][0]["code"], "queue_full");
    assert!(answer["refused"][0]["retry_after_ms"].is_u64());
    assert!(answer["next"].is_string());
    assert_eq!(door.depth().await, 3, "admission holds for replays too");
    assert_eq!(listed(&door.ann, "").await.len(), 2);

    // With room again, the same call does the rest, and nothing twice.
    for row in door.rows().await.iter().filter(|row| row.status == Status::Queued) {
        door.ann.delete(&format!("/api/task/{}", row.key.task)).await;
    }
    let answer = post(&door.ann, "/api/dead/replay", &json!({"agent": "assistant"})).await.json();
    assert_eq!((answer["replayed"].as_array().unwrap().len(), &answer["next"]), (2, &Value::Null), "{answer}");
    assert_eq!(door.rows().await.len(), 10);
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_names_a_filter_and_leaves_the_tasks_as_they_ended() {
    let door = Door::open_with(|settings| settings.queue.dead_batch_max = 2).await;
    let mut letters = Vec::new();
    for _ in 0..3 {
        letters.push(bury(&door, &task(), ErrorCode::ProviderError).await);
    }
    door.ann.delete("/api/dead").await.assert_problem(422, "invalid_request");
    let none = door.ann.delete("/api/dead?user=nobody").await.json();
    assert_eq!((none["purged"].as_u64(), none["has_more"].as_bool()), (Some(0), Some(false)));
    let first = door.ann.delete("/api/dead?code=penstock.provider_error").await.json();
    assert_eq!((first["purged"].as_u64(), first["has_more"].as_bool()), (Some(2), Some(true)));
    let rest = door.ann.delete("/api/dead?code=penstock.provider_error").await.json();
    assert_eq!((rest["purged"].as_u64(), rest["has_more"].as_bool()), (Some(1), Some(false)));
    assert!(listed(&door.ann, "").await.is_empty());
    for letter in letters {
        assert_eq!(door.row(letter).await.unwrap().status, Status::Failed);
    }
    door.stop().await;
}
