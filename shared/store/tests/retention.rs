//! Old tasks go in small batches, and nobody who writes beside it notices.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use penstock_protocol::{
    Ending, ErrorCode, Input, PlaceSource, Status, TaskId, TaskKey, TaskSpec, TenantNo, ThreadId, clock,
};
use penstock_store::fixture::TestDatabase;
use penstock_store::{Claimed, End, NewTask, NotBefore, Store};
use sqlx::{Connection, MySqlConnection};
use tokio::time::Instant;

const TENANT: TenantNo = TenantNo(1);
const DAY_MS: u64 = 24 * 3600 * 1000;

fn new_task(places: &PlaceSource) -> NewTask {
    let now = clock::wall_ms();
    NewTask {
        key: TaskKey::new(TENANT, TaskId::mint()),
        thread: ThreadId::mint(),
        agent: "assistant".into(),
        user: None,
        place: places.next(now, 0),
        priority: 0,
        cost_tokens: 1000,
        body_hash: [7; 32],
        idempotency_key: None,
        accepted_ms: now,
        deadline_in_ms: None,
        cancel_on_disconnect: false,
        replay_of: None,
        start: NotBefore::Now,
        webhook: None,
        spec: TaskSpec {
            input: Input::Text("hello".into()),
            is_new_thread: true,
            metadata: serde_json::Value::Null,
            state: serde_json::Value::Null,
            tools: vec![],
            context: vec![],
            retry: None,
            traceparent: None,
        },
    }
}

/// The whole life of a task.
async fn live(store: &Store, places: &PlaceSource, status: Status) -> TaskKey {
    let task = new_task(places);
    let key = task.key;
    store.accept(task).await.unwrap_or_else(|error| panic!("accept: {error}"));
    assert!(matches!(store.claim(key, 1, "w").await, Ok(Claimed::Mine(_))));
    let ending = match status {
        Status::Failed => Ending::failed(ErrorCode::Internal, "no".to_owned()),
        _ => Ending { status, result: Some("done".into()), error: None, usage: vec![] },
    };
    let end = End { key, attempt: 1, ending, model: None, model_calls: 1 };
    store.end(end).await.unwrap_or_else(|error| panic!("end: {error}"));
    key
}

/// Lets every task that is there be older by `days`.
async fn age(database: &TestDatabase, days: u64) {
    let mut connection = MySqlConnection::connect(&database.url).await.unwrap();
    sqlx::query("UPDATE task SET accepted_ms = accepted_ms - ?, ended_ms = ended_ms - ?")
        .bind(days * DAY_MS)
        .bind(days * DAY_MS)
        .execute(&mut connection)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_ended_long_enough_ago_goes_and_failures_stay_longer() {
    let database = TestDatabase::create().await;
    let (store, places) = (database.store.clone(), PlaceSource::new(1, 0));
    let (old, failed) = (live(&store, &places, Status::Succeeded).await, live(&store, &places, Status::Failed).await);
    let open = new_task(&places);
    store.accept(open.clone()).await.unwrap();
    age(&database, 40).await;
    let young = live(&store, &places, Status::Succeeded).await;
    let (now, mut page, mut removed) = (clock::wall_ms(), None, 0);
    // In pages of two, over what must stay as well.
    loop {
        let found = store.old_tasks(TENANT, page, now - 30 * DAY_MS, now - 90 * DAY_MS, 2).await.unwrap();
        removed += store.remove_ended(&found.keys).await.unwrap();
        page = found.last;
        if found.looked < 2 {
            break;
        }
    }
    assert_eq!(removed, 1);
    assert!(store.task(old).await.unwrap().is_none());
    for kept in [failed, open.key, young] {
        assert!(store.task(kept).await.unwrap().is_some());
    }
    assert_eq!(store.remove_ended(&[open.key]).await.unwrap(), 0, "a task that has not ended is never removed");
    let found = store.old_tasks(TENANT, None, now, now - 30 * DAY_MS, 100).await.unwrap();
    assert!(found.keys.contains(&failed), "its time comes too");
    database.drop_database().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_writers_beside_the_sweep_see_no_error() {
    let database = TestDatabase::create().await;
    let (store, places) = (database.store.clone(), std::sync::Arc::new(PlaceSource::new(1, 0)));
    for _ in 0..200 {
        live(&store, &places, Status::Succeeded).await;
    }
    age(&database, 40).await;
    let until = Instant::now() + Duration::from_secs(4);
    let writers: Vec<_> = (0..16)
        .map(|_| {
            let (store, places) = (store.clone(), std::sync::Arc::clone(&places));
            tokio::spawn(async move {
                let mut count = 0;
                while Instant::now() < until {
                    // Panics on any error.
                    live(&store, &places, Status::Succeeded).await;
                    count += 1;
                }
                count
            })
        })
        .collect();
    // The sweep takes old rows and those that ended just now, right where the writers write.
    let (mut page, mut removed) = (None, 0);
    while Instant::now() < until {
        let now = clock::wall_ms() + 1;
        let found = store.old_tasks(TENANT, page, now, now, 50).await.unwrap();
        removed += store.remove_ended(&found.keys).await.unwrap();
        page = if found.looked < 50 { None } else { found.last };
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut written = 0;
    for writer in writers {
        written += writer.await.unwrap();
    }
    assert!(removed >= 200 && written > 16, "removed {removed}, written {written}");
    database.drop_database().await;
}
