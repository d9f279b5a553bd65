//! Checks 4 to 6: exact under a burst, told apart, and without a trace in MySQL.

use futures_util::future::join_all;
use penstock_queue::WorkerId;
use reqwest::StatusCode;
use serde_json::json;

use super::harness::{Door, eventually, rows_of, task};

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_submits_at_once_fill_eight_places_and_not_one_more() {
    let door = Door::open_with(|settings| {
        settings.queue.depth_max = 8;
        settings.queue.tenant_depth_max = 8;
    })
    .await;
    let answers = join_all((0..200).map(|_| async { door.ann.submit(&task()).await })).await;
    let (accepted, rejected): (Vec<_>, Vec<_>) =
        answers.iter().partition(|answer| answer.status == StatusCode::ACCEPTED);
    assert_eq!((accepted.len(), rejected.len()), (8, 192));
    for answer in rejected {
        answer.assert_problem(429, "queue_full");
        assert_eq!(
            (answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")),
            (Some("8"), Some("0"))
        );
    }
    assert_eq!(door.rows().await.len(), 8, "a rejected request has no row");
    assert_eq!(door.depth().await, 8);
    let last = accepted.iter().filter(|answer| answer.header("x-ratelimit-remaining") == Some("0")).count();
    assert_eq!(last, 1, "the last place was told to be the last");

    // A place that is given back is taken again.
    door.ann.delete(&format!("/api/task/{}", accepted[0].task_id())).await;
    door.ann.submit(&task()).await.assert_accepted();
    door.ann.submit(&task()).await.assert_problem(429, "queue_full");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_tenant_is_told_so_and_leaves_room_for_others() {
    let door = Door::open_with(|settings| {
        settings.queue.depth_max = 8;
        settings.queue.tenant_depth_max = 3;
    })
    .await;
    let bob = door.customer("bob").await;
    let answers = join_all((0..20).map(|_| async { door.ann.submit(&task()).await })).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == StatusCode::ACCEPTED).count(), 3);
    for answer in answers.iter().filter(|answer| answer.status != StatusCode::ACCEPTED) {
        answer.assert_problem(429, "tenant_queue_full");
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
    }
    bob.submit(&task()).await.assert_accepted();
    assert_eq!((door.rows().await.len(), rows_of(&door.app, bob.tenant).await.len()), (3, 1));
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_at_the_limit_is_told_so_and_other_users_are_not() {
    let door = Door::open_with(|settings| settings.queue.user_live_max = 2).await;
    let of = |user: &str| json!({"agent": "assistant", "input": "hello", "user": user});
    let first = door.ann.submit(&of("u1")).await;
    door.ann.submit(&of("u1")).await.assert_accepted();
    let answer = door.ann.submit(&of("u1")).await;
    answer.assert_problem(429, "concurrency_limit");
    assert_eq!(answer.header("x-ratelimit-limit"), Some("2"));
    door.ann.submit(&of("u2")).await.assert_accepted();
    door.ann.submit(&task()).await.assert_accepted();
    assert_eq!(door.rows().await.len(), 4);
    door.ann.delete(&format!("/api/task/{}", first.task_id())).await;
    door.ann.submit(&of("u1")).await.assert_accepted();
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_longer_than_the_caller_accepts_or_than_its_deadline_is_rejected() {
    let door = Door::open().await;
    // A worker with one slot that never takes what it is handed: the line gets longer, and the mean is known.
    let worker = WorkerId::new("still").unwrap();
    door.app.queue.beat(&worker, 1, &[], 0).await.unwrap();
    for _ in 0..3 {
        door.ann.submit(&task()).await.assert_accepted();
    }
    eventually("a wait can be predicted", async || {
        door.app.queue.gauges().await.unwrap().mean_service_ms.is_some_and(|mean| mean > 10)
    })
    .await;
    let patient = json!({"agent": "assistant", "input": "x", "max_wait_ms": 3_600_000});
    let accepted = door.ann.submit(&patient).await;
    accepted.assert_accepted();
    assert!(accepted.json()["position"].as_u64().unwrap() >= 2, "{}", accepted.text);
    assert!(accepted.json()["estimated_wait_ms"].as_u64().unwrap() > 10, "{}", accepted.text);
    for field in ["max_wait_ms", "deadline_ms"] {
        let mut hasty = task();
        hasty[field] = json!(1);
        door.ann.submit(&hasty).await.assert_problem(429, "wait_too_long");
    }
    assert_eq!(door.rows().await.len(), 4);
    door.stop().await;
}
