//! The statements of `task` against a real server: batches, claims, ends and their races.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use penstock_protocol::{
    Ending, ErrorCode, Input, PlaceSource, Status, TaskId, TaskKey, TaskSpec, TenantNo, ThreadId, clock,
};
use penstock_store::fixture::TestDatabase;
use penstock_store::{Accepted, Claimed, DeadFilter, DeadPage, End, Ended, ListFilter, NewTask, Page, Store};

const TENANT: TenantNo = TenantNo(1);

fn new_task(places: &PlaceSource) -> NewTask {
    let now = clock::wall_ms();
    NewTask {
        key: TaskKey::new(TENANT, TaskId::mint()),
        thread: ThreadId::mint(),
        agent: "assistant".into(),
        user: Some("ann".into()),
        place: places.next(now, 0),
        priority: 0,
        cost_tokens: 1000,
        body_hash: [7; 32],
        idempotency_key: None,
        accepted_ms: now,
        deadline_in_ms: None,
        cancel_on_disconnect: false,
        replay_of: None,
        spec: TaskSpec {
            input: Input::Text("hello ✓".into()),
            is_new_thread: true,
            metadata: serde_json::json!({"a": 1}),
            state: serde_json::Value::Null,
            tools: vec![],
            context: vec![],
            retry: None,
            traceparent: None,
        },
    }
}

fn end(key: TaskKey, attempt: u32, status: Status) -> End {
    let ending = Ending { status, result: Some("done".into()), error: None, usage: vec![] };
    End { key, attempt, ending, model: Some("fake/steady".into()), model_calls: 1 }
}

async fn mine(store: &Store, key: TaskKey, attempt: u32, worker: &str) -> bool {
    matches!(store.claim(key, attempt, worker).await.unwrap(), Claimed::Mine(_))
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_accepts_at_once_are_all_committed_and_read_back() {
    let database = TestDatabase::create().await;
    let (store, places) = (database.store.clone(), PlaceSource::new(1, 0));
    let tasks: Vec<_> = (0..200).map(|_| new_task(&places)).collect();
    let accepts: Vec<_> = tasks
        .iter()
        .map(|task| {
            tokio::spawn({
                let (store, task) = (store.clone(), task.clone());
                async move { store.accept(task).await.unwrap() }
            })
        })
        .collect();
    for accept in accepts {
        assert!(matches!(accept.await.unwrap(), Accepted::New));
    }
    let keys: Vec<_> = tasks.iter().map(|task| task.key).collect();
    let rows = store.tasks(&keys).await.unwrap();
    assert_eq!(rows.len(), 200);
    assert!(rows.iter().all(|row| row.spec().unwrap() == tasks[0].spec));
    database.drop_database().await;
}

#[tokio::test]
async fn a_row_that_is_there_is_answered_and_left_alone() {
    let database = TestDatabase::create().await;
    let (store, places) = (&database.store, PlaceSource::new(1, 0));
    let first = new_task(&places);
    assert!(matches!(store.accept(first.clone()).await.unwrap(), Accepted::New));
    // The same call once more, as after a lost connection: its own row.
    assert!(matches!(store.accept(first.clone()).await.unwrap(), Accepted::New));
    // Another door's call with the same id.
    let second = NewTask { place: places.next(first.accepted_ms, 0), body_hash: [8; 32], ..first.clone() };
    let Accepted::Before(row) = store.accept(second).await.unwrap() else { panic!("the id is taken") };
    assert_eq!(row.body_hash, [7; 32]);
    // Another id with the same idempotency key.
    let keyed = NewTask { idempotency_key: Some("k".into()), ..new_task(&places) };
    assert!(matches!(store.accept(keyed.clone()).await.unwrap(), Accepted::New));
    let other = NewTask { idempotency_key: Some("k".into()), ..new_task(&places) };
    let Accepted::Before(row) = store.accept(other.clone()).await.unwrap() else { panic!("the key is taken") };
    assert_eq!(row.key, keyed.key);
    assert!(store.task(other.key).await.unwrap().is_none());
    database.drop_database().await;
}

#[tokio::test]
async fn attempts_only_grow_and_a_lost_one_counts_as_a_crash() {
    let database = TestDatabase::create().await;
    let store = &database.store;
    let task = new_task(&PlaceSource::new(1, 0));
    store.accept(task.clone()).await.unwrap();
    assert!(mine(store, task.key, 1, "a").await);
    assert!(mine(store, task.key, 1, "a").await, "a repeated claim is mine again");
    assert!(!mine(store, task.key, 1, "b").await, "the same attempt of another worker is not");
    let Claimed::Mine(row) = store.claim(task.key, 2, "b").await.unwrap() else { panic!("attempt 2 is free") };
    assert_eq!((row.attempt, row.crashes), (2, 1));
    assert!(matches!(store.claim(task.key, 1, "a").await.unwrap(), Claimed::Ahead(_)));
    let unknown = TaskKey::new(TENANT, TaskId::mint());
    assert!(matches!(store.claim(unknown, 1, "a").await.unwrap(), Claimed::Unknown));
    // A retry and a hand-back are no crashes.
    assert!(store.requeue(task.key, 2, true).await.unwrap());
    assert!(!store.requeue(task.key, 1, true).await.unwrap());
    let Claimed::Mine(row) = store.claim(task.key, 3, "c").await.unwrap() else { panic!("attempt 3 is free") };
    assert_eq!((row.crashes, row.failures), (1, 1));
    database.drop_database().await;
}

#[tokio::test]
async fn exactly_one_end_wins_and_the_loser_reads_it() {
    let database = TestDatabase::create().await;
    let store = &database.store;
    let task = new_task(&PlaceSource::new(1, 0));
    store.accept(task.clone()).await.unwrap();
    assert!(mine(store, task.key, 1, "a").await);
    let cancelled = store.cancel(task.key).await.unwrap().unwrap();
    assert_eq!(cancelled.status, Status::Cancelled);
    let Ended::Other(row) = store.end(end(task.key, 1, Status::Succeeded)).await.unwrap() else { panic!("cancelled") };
    assert_eq!(row.status, Status::Cancelled);
    assert!(matches!(store.claim(task.key, 2, "b").await.unwrap(), Claimed::Ended(_)), "nothing is revived");
    // The cancelled attempt is told so too, whatever end it brings, and adds what the client saw, once.
    let own = store.end(end(task.key, 1, Status::Cancelled)).await.unwrap();
    assert!(matches!(own, Ended::Other(row) if row.result.is_none()));
    store.add_partial(&end(task.key, 1, Status::Cancelled)).await.unwrap();
    let mut late = end(task.key, 1, Status::Cancelled);
    late.ending.result = Some("other".into());
    store.add_partial(&late).await.unwrap();
    let row = store.task(task.key).await.unwrap().unwrap();
    assert_eq!((row.result, row.model_calls), (Some("done".into()), 1));
    assert!(store.open_tasks(None, 10).await.unwrap().is_empty());
    database.drop_database().await;
}

#[tokio::test]
async fn a_stale_attempt_cannot_end_the_task_and_a_closing_one_can() {
    let database = TestDatabase::create().await;
    let store = &database.store;
    let task = new_task(&PlaceSource::new(1, 0));
    store.accept(task.clone()).await.unwrap();
    assert!(mine(store, task.key, 1, "a").await && mine(store, task.key, 2, "b").await);
    assert!(
        matches!(store.end(end(task.key, 1, Status::Succeeded)).await.unwrap(), Ended::Other(row) if row.attempt == 2)
    );
    let gone = Ending::failed(ErrorCode::AttemptsExhausted, "lost");
    assert!(matches!(store.end_closing(task.key, 3, &gone).await.unwrap(), Ended::Mine));
    assert!(matches!(store.end(end(task.key, 2, Status::Succeeded)).await.unwrap(), Ended::Other(_)));
    let row = store.task(task.key).await.unwrap().unwrap();
    assert_eq!(row.error, Some((ErrorCode::AttemptsExhausted, "lost".into())));
    assert!(row.terminal_event().unwrap().contains("penstock.attempts_exhausted"));
    database.drop_database().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_and_ends_that_wait_together_each_hear_their_own_outcome() {
    let database = TestDatabase::create().await;
    let (store, places) = (database.store.clone(), PlaceSource::new(1, 0));
    let keys: Vec<_> = (0..100).map(|_| new_task(&places)).collect();
    for task in &keys {
        store.accept(task.clone()).await.unwrap();
    }
    store.cancel(keys[3].key).await.unwrap();
    let mut running = Vec::new();
    for (at, task) in keys.iter().enumerate() {
        let (store, key) = (store.clone(), task.key);
        running.push(tokio::spawn(async move { (at, store.claim(key, 1, "w").await.unwrap(), store, key) }));
    }
    for claim in running {
        let (at, claimed, store, key) = claim.await.unwrap();
        if at == 3 {
            assert!(matches!(claimed, Claimed::Ended(_)));
        } else {
            assert!(matches!(claimed, Claimed::Mine(row) if row.key == key));
            assert!(matches!(store.end(end(key, 1, Status::Succeeded)).await.unwrap(), Ended::Mine));
        }
    }
    database.drop_database().await;
}

#[tokio::test]
async fn lists_are_paged_by_key_and_threads_hold_what_was_said() {
    let database = TestDatabase::create().await;
    let (store, places) = (&database.store, PlaceSource::new(1, 0));
    let thread = ThreadId::mint();
    let mut keys = Vec::new();
    for at in 0..7_u64 {
        let task = NewTask { thread, accepted_ms: 1000 + at / 2, ..new_task(&places) };
        store.accept(task.clone()).await.unwrap();
        assert!(mine(store, task.key, 1, "w").await);
        store.end(end(task.key, 1, Status::Succeeded)).await.unwrap();
        keys.push(task.key);
    }
    let (mut seen, mut page) = (Vec::new(), None);
    loop {
        let rows = store.list(TENANT, &ListFilter::default(), page, 3).await.unwrap();
        let Some(last) = rows.last() else { break };
        page = Some(Page { accepted_ms: last.accepted_ms, task: last.key.task });
        seen.extend(rows.into_iter().map(|row| row.key));
    }
    seen.sort();
    keys.sort();
    assert_eq!(seen, keys);
    assert!(store.list(TenantNo(2), &ListFilter::default(), None, 10).await.unwrap().is_empty());
    assert_eq!(store.thread_before(TENANT, thread, 1002, 10).await.unwrap().len(), 4);
    assert!(store.thread_before(TenantNo(2), thread, 1002, 10).await.unwrap().is_empty());
    database.drop_database().await;
}

#[tokio::test]
async fn a_passed_deadline_is_judged_by_the_servers_clock() {
    let database = TestDatabase::create().await;
    let (store, places) = (&database.store, PlaceSource::new(1, 0));
    let late = NewTask { deadline_in_ms: Some(0), ..new_task(&places) };
    let easy = NewTask { deadline_in_ms: Some(60_000), ..new_task(&places) };
    store.accept(late.clone()).await.unwrap();
    store.accept(easy.clone()).await.unwrap();
    let Claimed::Mine(row) = store.claim(late.key, 1, "w").await.unwrap() else { panic!("claimed") };
    assert_eq!(row.deadline_left_ms, Some(0));
    let Claimed::Mine(row) = store.claim(easy.key, 1, "w").await.unwrap() else { panic!("claimed") };
    assert!(row.deadline_left_ms.is_some_and(|left| left > 50_000 && left <= 60_000));
    database.drop_database().await;
}

#[tokio::test]
async fn keys_and_tenants_are_revoked_and_the_revision_tells() {
    let database = TestDatabase::create().await;
    let store = &database.store;
    let before = store.keys_revision().await.unwrap();
    let no = store.create_tenant("acme").await.unwrap();
    assert!(store.create_tenant("acme").await.is_err());
    let key = penstock_store::NewKey {
        tenant: "acme".into(),
        name: "ci".into(),
        hash: [1; 32],
        scopes: "submit,read".into(),
        expires_ms: None,
    };
    let id = store.create_key(&key).await.unwrap();
    assert!(store.create_key(&penstock_store::NewKey { tenant: "nobody".into(), ..key }).await.is_err());
    let keys = store.keys().await.unwrap();
    assert_eq!((keys[0].tenant, keys[0].hash, keys[0].revoked_ms), (no, [1; 32], None));
    store.revoke_key(id).await.unwrap();
    store.revoke_key(id).await.unwrap();
    assert!(store.revoke_key(id + 1).await.is_err());
    store.revoke_tenant("acme").await.unwrap();
    assert!(store.revoke_tenant("nobody").await.is_err());
    assert!(store.keys().await.unwrap()[0].revoked_ms.is_some());
    assert!(store.tenants().await.unwrap()[0].revoked_ms.is_some());
    assert!(store.keys_revision().await.unwrap() > before);
    database.drop_database().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_id_of_two_tenants_is_two_tasks_in_one_batch() {
    let database = TestDatabase::create().await;
    let (store, places) = (&database.store, PlaceSource::new(1, 0));
    let ours = new_task(&places);
    let theirs = NewTask { key: TaskKey::new(TenantNo(2), ours.key.task), ..new_task(&places) };
    let (first, second) = tokio::join!(store.accept(ours.clone()), store.accept(theirs.clone()));
    assert!(matches!((first.unwrap(), second.unwrap()), (Accepted::New, Accepted::New)));
    let (first, second) = tokio::join!(store.claim(ours.key, 1, "w"), store.claim(theirs.key, 5, "w"));
    assert!(matches!(first.unwrap(), Claimed::Mine(row) if row.key == ours.key && row.attempt == 1));
    assert!(matches!(second.unwrap(), Claimed::Mine(row) if row.key == theirs.key && row.attempt == 5));
    let failed = End { ending: Ending::failed(ErrorCode::Internal, "no"), ..end(theirs.key, 5, Status::Failed) };
    let (first, second) = tokio::join!(store.end(end(ours.key, 1, Status::Succeeded)), store.end(failed));
    assert!(matches!((first.unwrap(), second.unwrap()), (Ended::Mine, Ended::Mine)));
    assert_eq!(store.task(ours.key).await.unwrap().unwrap().status, Status::Succeeded);
    assert_eq!(store.task(theirs.key).await.unwrap().unwrap().status, Status::Failed);
    database.drop_database().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_tasks_at_once_do_not_outgrow_a_packet() {
    let database = TestDatabase::create().await;
    let (store, places) = (database.store.clone(), PlaceSource::new(1, 0));
    let large = "x".repeat(1 << 20);
    let tasks: Vec<_> = (0..24)
        .map(|at| {
            let mut task = new_task(&places);
            if at % 4 != 0 {
                task.spec.input = Input::Text(large.clone());
            }
            task
        })
        .collect();
    let accepts = tasks.iter().map(|task| {
        let (store, task) = (store.clone(), task.clone());
        tokio::spawn(async move { store.accept(task).await })
    });
    for accept in accepts.collect::<Vec<_>>() {
        let accepted = accept.await.unwrap();
        assert!(matches!(accepted, Ok(Accepted::New)), "{accepted:?}");
    }
    for task in &tasks {
        assert!(mine(&store, task.key, 1, "w").await);
    }
    let ends = tasks.iter().map(|task| {
        let (store, mut end) = (store.clone(), end(task.key, 1, Status::Succeeded));
        end.ending.result = Some(large.clone().into());
        tokio::spawn(async move { store.end(end).await })
    });
    for end in ends.collect::<Vec<_>>() {
        assert!(matches!(end.await.unwrap(), Ok(Ended::Mine)));
    }
    let row = store.task(tasks[1].key).await.unwrap().unwrap();
    assert_eq!(row.result.and_then(|result| result.as_str().map(str::len)), Some(1 << 20));
    database.drop_database().await;
}

/// Accepts a task of `agent` and lets its attempts run out.
async fn bury(store: &Store, places: &PlaceSource, agent: &str, code: ErrorCode) -> TaskKey {
    let task = NewTask { agent: agent.into(), ..new_task(places) };
    store.accept(task.clone()).await.unwrap();
    assert!(mine(store, task.key, 1, "w").await);
    let end = End { ending: Ending::failed(code, "no"), ..end(task.key, 1, Status::Failed) };
    assert!(matches!(store.end_as_dead_letter(end.clone()).await.unwrap(), Ended::Mine));
    assert!(matches!(store.end_as_dead_letter(end).await.unwrap(), Ended::Mine), "a repeated end is mine again");
    task.key
}

#[tokio::test]
async fn dead_letters_are_found_by_filter_and_page_until_they_are_replayed_or_purged() {
    let database = TestDatabase::create().await;
    let (store, places) = (&database.store, PlaceSource::new(1, 0));
    let all = DeadFilter::default();
    let mut letters = Vec::new();
    for agent in ["a", "b", "b", "b"] {
        letters.push(bury(store, &places, agent, ErrorCode::ProviderError).await);
    }
    // One that ended at once is none, and neither is one of another tenant's list.
    let failed = new_task(&places);
    store.accept(failed.clone()).await.unwrap();
    assert!(mine(store, failed.key, 1, "w").await);
    store.end(end(failed.key, 1, Status::Failed)).await.unwrap();
    assert!(store.dead(TenantNo(2), &all, None, 10).await.unwrap().is_empty());

    let mut seen = Vec::new();
    let mut page = None;
    loop {
        let rows = store.dead(TENANT, &all, page, 3).await.unwrap();
        let Some(last) = rows.last() else { break };
        page = Some(DeadPage { dead_ms: last.dead_ms.unwrap(), task: last.key.task });
        seen.extend(rows.into_iter().map(|row| row.key));
    }
    seen.sort();
    let mut expected = letters.clone();
    expected.sort();
    assert_eq!(seen, expected);
    let of_b = DeadFilter { agent: Some("b".into()), ..DeadFilter::default() };
    assert_eq!(store.dead(TENANT, &of_b, None, 10).await.unwrap().len(), 3);
    let other = DeadFilter { code: Some(ErrorCode::AttemptsExhausted), ..DeadFilter::default() };
    assert!(store.dead(TENANT, &other, None, 10).await.unwrap().is_empty());

    let replay = letters[0].replay_id();
    store.mark_replayed(letters[0], replay).await.unwrap();
    store.mark_replayed(letters[0], replay).await.unwrap();
    let row = store.task(letters[0]).await.unwrap().unwrap();
    assert_eq!((row.status, row.dead_ms, row.replayed_as), (Status::Failed, None, Some(replay)));
    assert_eq!(store.purge_dead(TENANT, &of_b, 2).await.unwrap(), 2);
    assert_eq!(store.purge_dead(TENANT, &of_b, 2).await.unwrap(), 1);
    assert_eq!(store.purge_dead(TENANT, &of_b, 2).await.unwrap(), 0);
    assert_eq!(store.task(letters[1]).await.unwrap().unwrap().status, Status::Failed, "law 4");
    database.drop_database().await;
}

#[tokio::test]
async fn a_closing_attempt_buries_a_task_and_a_batch_may_hold_both_kinds_of_ends() {
    let database = TestDatabase::create().await;
    let (store, places) = (&database.store, PlaceSource::new(1, 0));
    let lost = new_task(&places);
    store.accept(lost.clone()).await.unwrap();
    assert!(mine(store, lost.key, 1, "w").await);
    let ending = Ending::failed(ErrorCode::AttemptsExhausted, "three workers were lost");
    store.end_closing(lost.key, 2, &ending).await.unwrap();
    let row = store.task(lost.key).await.unwrap().unwrap();
    assert_eq!((row.dead_ms, row.crashes), (row.ended_ms, 1));
    let (good, bad) = (new_task(&places), new_task(&places));
    for task in [&good, &bad] {
        store.accept(task.clone()).await.unwrap();
        assert!(mine(store, task.key, 1, "w").await);
    }
    let failed = End { ending: Ending::failed(ErrorCode::ProviderError, "no"), ..end(bad.key, 1, Status::Failed) };
    let (first, second) =
        tokio::join!(store.end(end(good.key, 1, Status::Succeeded)), store.end_as_dead_letter(failed));
    assert!(matches!(first.unwrap(), Ended::Mine) && matches!(second.unwrap(), Ended::Mine));
    assert!(store.task(good.key).await.unwrap().unwrap().dead_ms.is_none());
    let row = store.task(bad.key).await.unwrap().unwrap();
    assert_eq!((row.dead_ms, row.model_calls), (row.ended_ms, 1));
    database.drop_database().await;
}

#[tokio::test]
async fn what_was_seen_of_a_cancelled_task_is_stored_once_and_its_cost_is_added_to_it() {
    let database = TestDatabase::create().await;
    let (store, places) = (&database.store, PlaceSource::new(1, 0));
    for door_is_first in [true, false] {
        let task = new_task(&places);
        store.accept(task.clone()).await.unwrap();
        assert!(mine(store, task.key, 1, "w").await);
        store.add_seen(task.key, &"too early".into()).await.unwrap();
        store.cancel(task.key).await.unwrap();
        let partial = End {
            ending: Ending { result: Some("from the worker".into()), ..cancelled() },
            ..end(task.key, 1, Status::Cancelled)
        };
        if door_is_first {
            store.add_seen(task.key, &"from the stream".into()).await.unwrap();
        }
        store.add_partial(&partial).await.unwrap();
        store.add_partial(&partial).await.unwrap();
        store.add_seen(task.key, &"too late".into()).await.unwrap();
        let row = store.task(task.key).await.unwrap().unwrap();
        let seen = if door_is_first { "from the stream" } else { "from the worker" };
        assert_eq!((row.result, row.model_calls), (Some(seen.into()), 1));
        assert_eq!(row.model.as_deref(), Some("fake/steady"));
    }
    database.drop_database().await;
}

fn cancelled() -> Ending {
    Ending { status: Status::Cancelled, result: None, error: None, usage: vec![] }
}
