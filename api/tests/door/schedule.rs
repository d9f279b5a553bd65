//! Cron entries: one task for each fire time, whatever dies and however many doors look.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use penstock_api::schedule::{Scheduler, Step};
use penstock_protocol::TaskId;
use penstock_store::{ScheduleStatus, ScheduleWrite, Store};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::harness::{Answer, Customer, Door, eventually, rows_of, task};

const MINUTE: u64 = 60_000;

fn entry(cron: &str, misfire: Value) -> Value {
    json!({"name": "report", "cron": cron, "zone": "UTC", "misfire": misfire, "task": task()})
}

async fn create(customer: &Customer, body: &Value) -> Value {
    let answer = Answer::read(customer.request(Method::POST, "/api/schedule").json(body).send().await.unwrap()).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
    assert!(answer.header("location").unwrap().starts_with("/api/schedule/"));
    answer.json()
}

async fn put(customer: &Customer, id: Uuid, body: &Value) -> Answer {
    let request = customer.request(Method::PUT, &format!("/api/schedule/{id}")).json(body);
    Answer::read(request.send().await.unwrap()).await
}

fn id_of(entry: &Value) -> Uuid {
    entry["id"].as_str().unwrap().parse().unwrap()
}

async fn fires(door: &Door, id: Uuid) -> Vec<Value> {
    let fires = door.ann.get(&format!("/api/schedule/{id}/fires")).await.json();
    fires["fires"].as_array().unwrap().clone()
}

/// The cursor of an entry that fires each minute, `back` minutes before the last full one.
async fn rewind(door: &Door, id: Uuid, back: u64) -> u64 {
    let now_ms = door.app.store.now_ms().await.unwrap();
    let cursor_ms = now_ms - now_ms % MINUTE - back * MINUTE;
    door.app.store.rewind_schedule(door.ann.tenant, id, cursor_ms).await.unwrap();
    cursor_ms
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_at_every_step_neither_loses_nor_doubles_a_fire() {
    let door = Door::open().await;
    // The door's own scheduler is kept away: it has no turn, and does not hear of the entry.
    let (tenant, id) = (door.ann.tenant, Uuid::now_v7());
    eventually("the door's own scheduler has no turn", async || {
        door.app.queue.take_turn("schedule", Duration::from_secs(600)).await.unwrap()
    })
    .await;
    let quiet = Store::connect(&door.app.settings.now().mysql).unwrap();
    let now_ms = quiet.now_ms().await.unwrap();
    let first_ms = now_ms - now_ms % MINUTE - 49 * MINUTE;
    let write = ScheduleWrite {
        tenant,
        id,
        name: String::new(),
        cron: "* * * * *".into(),
        zone: "UTC".into(),
        misfire_max: 100,
        is_overlap_skipped: false,
        status: ScheduleStatus::Active,
        template: task().to_string(),
        next_ms: Some(first_ms),
    };
    quiet.put_schedule(&write, 1).await.unwrap().expect("the first entry");

    let restarts = Arc::new(AtomicUsize::new(0));
    eventually("every fire was settled", async || {
        let count = Arc::clone(&restarts);
        // 50 fires are to be made up for. Each process dies at the next point, in turn; one in five lives.
        let fault = Arc::new(move |step: Step| {
            let turn = count.load(Ordering::Relaxed) % (Step::ALL.len() + 1);
            Step::ALL.get(turn) == Some(&step)
        });
        let process = Scheduler::with_fault(door.app.clone(), Duration::from_millis(1), fault);
        // Two of them at once: whoever claims, the other finds nothing.
        let (one, other) = tokio::join!(Box::pin(process.look()), Box::pin(process.look()));
        one.unwrap();
        other.unwrap();
        restarts.fetch_add(1, Ordering::Relaxed);
        door.rows().await.len() >= 50 && fires(&door, id).await.len() >= 50
    })
    .await;
    assert!(restarts.load(Ordering::Relaxed) >= 50, "{restarts:?} restarts");
    let rows = door.rows().await;
    let ids: HashSet<_> = rows.iter().map(|row| row.key.task).collect();
    for minute in 0..50 {
        let fire_ms = first_ms + minute * MINUTE;
        let task = TaskId::from_fire(door.ann.tenant, id, fire_ms);
        assert!(ids.contains(&task), "the fire of minute {minute} is lost");
        let records: Vec<_> =
            fires(&door, id).await.into_iter().filter(|fire| fire["fire_ms"] == json!(fire_ms)).collect();
        assert_eq!(records.len(), 1, "minute {minute}: {records:?}");
        assert_eq!((&records[0]["outcome"], &records[0]["task_id"]), (&json!("accepted"), &json!(task)));
    }
    // A minute may have come meanwhile.
    assert!((50..=52).contains(&rows.len()), "{} tasks", rows.len());
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_that_is_due_is_fired_by_one_of_two_doors() {
    let database = penstock_store::fixture::TestDatabase::create().await;
    let settings = super::harness::settings_of(&database).await;
    let (one, other) = (Door::start(settings.clone(), &database).await, Door::start(settings, &database).await);
    let id = id_of(&create(&one.ann, &entry("* * * * *", json!("once"))).await);
    let cursor_ms = rewind(&one, id, 0).await;
    eventually("it is fired", async || !fires(&other, id).await.is_empty()).await;
    let task = TaskId::from_fire(one.ann.tenant, id, cursor_ms);
    let found = fires(&one, id).await;
    assert_eq!((&found[0]["outcome"], &found[0]["task_id"]), (&json!("accepted"), &json!(task)), "{found:?}");
    assert_eq!(found.iter().filter(|fire| fire["fire_ms"] == json!(cursor_ms)).count(), 1);
    assert!(one.row(task).await.is_some());
    let shown = one.ann.get(&format!("/api/schedule/{id}")).await.json();
    assert!(shown["next_ms"].as_u64().unwrap() > cursor_ms, "{shown}");
    other.stop().await;
    one.stop().await;
    database.drop_database().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_fires_go_by_the_policy_of_their_entry() {
    let door = Door::open().await;
    for (misfire, least, most) in [(json!("skip"), 0, 2), (json!("once"), 1, 3), (json!({"all": 3}), 3, 5)] {
        let id = id_of(&create(&door.ann, &entry("* * * * *", misfire.clone())).await);
        let cursor_ms = rewind(&door, id, 30).await;
        eventually("the cursor has passed the moment", async || {
            let shown = door.ann.get(&format!("/api/schedule/{id}")).await.json();
            shown["next_ms"].as_u64().unwrap() > cursor_ms + 30 * MINUTE
        })
        .await;
        let found = fires(&door, id).await;
        let accepted = found.iter().filter(|fire| fire["outcome"] == "accepted").count();
        assert!((least..=most).contains(&accepted), "{misfire}: {found:?}");
        let missed: Vec<_> = found.iter().filter(|fire| fire["outcome"] == "missed").collect();
        assert!((1..=2).contains(&missed.len()), "{misfire}: those left out are one record: {found:?}");
        let deleted = door.ann.delete(&format!("/api/schedule/{id}")).await;
        assert_eq!(deleted.status, StatusCode::NO_CONTENT);
    }
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_is_left_out_while_the_last_one_lives_if_the_entry_says_so() {
    let door = Door::open().await;
    let mut body = entry("* * * * *", json!({"all": 10}));
    body["overlap"] = json!("skip");
    let id = id_of(&create(&door.ann, &body).await);
    let cursor_ms = rewind(&door, id, 3).await;
    // No worker is there: the task of the first fire lives.
    eventually("all were settled", async || fires(&door, id).await.len() >= 4).await;
    let found = fires(&door, id).await;
    let outcomes: Vec<_> = found.iter().rev().take(4).map(|fire| fire["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["accepted", "skipped", "skipped", "skipped"]);
    let first = TaskId::from_fire(door.ann.tenant, id, cursor_ms);
    door.ann.delete(&format!("/api/task/{first}")).await;
    rewind(&door, id, 0).await;
    eventually("it fires again", async || {
        fires(&door, id).await.iter().filter(|fire| fire["outcome"] == "accepted").count() >= 2
    })
    .await;
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_refused_for_now_is_tried_again_and_one_refused_for_too_long_is_missed() {
    let door = Door::open_with(|settings| {
        settings.queue.depth_max = 1;
        settings.queue.tenant_depth_max = 1;
        settings.schedule.retry_for = Duration::from_secs(600);
    })
    .await;
    let filler = door.ann.submit(&task()).await;
    filler.assert_accepted();
    // Once a year, so that no other fire comes in between.
    let now_ms = door.app.store.now_ms().await.unwrap();
    let id = id_of(&create(&door.ann, &entry("0 0 1 1 *", json!("once"))).await);
    door.app.store.rewind_schedule(door.ann.tenant, id, now_ms).await.unwrap();
    eventually("it was refused", async || {
        door.app.store.schedule(door.ann.tenant, id).await.unwrap().unwrap().tries > 0
    })
    .await;
    assert!(fires(&door, id).await.is_empty(), "nothing is settled yet");
    door.ann.delete(&format!("/api/task/{}", filler.task_id())).await;
    eventually("it is accepted", async || !fires(&door, id).await.is_empty()).await;
    assert_eq!(fires(&door, id).await[0]["outcome"], "accepted");
    assert!(door.row(TaskId::from_fire(door.ann.tenant, id, now_ms)).await.is_some());
    door.stop().await;

    let door = Door::open_with(|settings| {
        settings.queue.depth_max = 1;
        settings.queue.tenant_depth_max = 1;
        settings.schedule.retry_for = Duration::ZERO;
    })
    .await;
    door.ann.submit(&task()).await.assert_accepted();
    let id = id_of(&create(&door.ann, &entry("0 0 1 1 *", json!("once"))).await);
    let now_ms = door.app.store.now_ms().await.unwrap();
    door.app.store.rewind_schedule(door.ann.tenant, id, now_ms).await.unwrap();
    eventually("it is missed", async || !fires(&door, id).await.is_empty()).await;
    let found = fires(&door, id).await;
    assert_eq!((&found[0]["outcome"], &found[0]["detail"]), (&json!("missed"), &json!("queue_full")));
    assert_eq!(door.rows().await.len(), 1);
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_created_changed_fired_by_hand_and_deleted() {
    let door = Door::open_with(|settings| settings.schedule.tenant_max = 2).await;
    let body = entry("0 9 * * MON-FRI", json!("skip"));
    let id = Uuid::now_v7();
    let made = put(&door.ann, id, &body).await;
    assert_eq!(made.status, StatusCode::OK, "{}", made.text);
    let made = made.json();
    assert_eq!(
        (&made["misfire"], &made["status"], &made["task"]["agent"]),
        (&json!("skip"), &json!("active"), &json!("assistant"))
    );
    let mut changed = body.clone();
    changed["status"] = json!("disabled");
    changed["zone"] = json!("Europe/Berlin");
    let changed = put(&door.ann, id, &changed).await.json();
    assert_eq!((&changed["next_ms"], &changed["zone"]), (&Value::Null, &json!("Europe/Berlin")));

    let fire = door.ann.request(Method::POST, &format!("/api/schedule/{id}/fire")).header("idempotency-key", "now");
    let fired = Answer::read(fire.try_clone().unwrap().send().await.unwrap()).await;
    fired.assert_accepted();
    let again = Answer::read(fire.send().await.unwrap()).await;
    assert_eq!((again.task_id(), door.rows().await.len()), (fired.task_id(), 1), "one key is one task");
    assert_eq!(fires(&door, id).await[0]["outcome"], "manual");

    create(&door.ann, &body).await;
    let third = Answer::read(door.ann.request(Method::POST, "/api/schedule").json(&body).send().await.unwrap()).await;
    third.assert_problem(422, "too_many_schedules");
    // Another tenant sees none of it.
    let bob = door.customer("bob").await;
    for path in [format!("/api/schedule/{id}"), format!("/api/schedule/{id}/fires")] {
        bob.get(&path).await.assert_problem(404, "schedule_not_found");
    }
    bob.delete(&format!("/api/schedule/{id}")).await.assert_problem(404, "schedule_not_found");
    assert_eq!(bob.get("/api/schedule").await.json()["schedules"], json!([]));
    assert!(rows_of(&door.app, bob.tenant).await.is_empty());
    assert_eq!(door.ann.get("/api/schedule").await.json()["schedules"].as_array().unwrap().len(), 2);
    assert_eq!(door.ann.delete(&format!("/api/schedule/{id}")).await.status, StatusCode::NO_CONTENT);
    door.ann.get(&format!("/api/schedule/{id}")).await.assert_problem(404, "schedule_not_found");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_cannot_be_is_refused_with_its_field() {
    let door = Door::open().await;
    let with = |path: &str, value: Value| {
        let mut body = entry("* * * * *", json!("skip"));
        match path.split_once('.') {
            Some((outer, inner)) => body[outer][inner] = value,
            None => body[path] = value,
        }
        body
    };
    let mut without = entry("* * * * *", json!("skip"));
    without.as_object_mut().unwrap().remove("misfire");
    for (body, path) in [
        (without, "misfire"),
        (with("cron", json!("* * * *")), "cron"),
        (with("cron", json!("0 0 30 2 *")), "cron"),
        (with("zone", json!("Mars/Olympus")), "zone"),
        (with("misfire", json!({"all": 0})), "misfire.all"),
        (with("misfire", json!({"all": 100_000})), "misfire.all"),
        (with("task.task_id", json!(TaskId::mint())), "task.task_id"),
        (with("task.run_at", json!(1)), "task.run_at"),
    ] {
        let answer =
            Answer::read(door.ann.request(Method::POST, "/api/schedule").json(&body).send().await.unwrap()).await;
        answer.assert_problem(422, "invalid_request");
        assert_eq!(answer.json()["path"], path, "{}", answer.text);
    }
    let unknown = with("task.agent", json!("nobody"));
    let answer =
        Answer::read(door.ann.request(Method::POST, "/api/schedule").json(&unknown).send().await.unwrap()).await;
    answer.assert_problem(422, "unknown_agent");
    door.stop().await;
}
