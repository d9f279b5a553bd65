//! Check 8, and the door while Redis or MySQL is silent, cut or slow.

use std::time::Duration;

use futures_util::future::join_all;
use penstock_protocol::TaskId;
use penstock_queue::State;
use penstock_store::fixture::TestDatabase;
use reqwest::{Method, StatusCode};

use super::harness::{Answer, Door, eventually, redis_url, settings_of, task, task_named};
use super::pipe::Pipe;

/// A door whose wires to both servers are in the test's hands.
struct Wired {
    door: Door,
    redis: Pipe,
    mysql: Pipe,
    database: TestDatabase,
}

impl Wired {
    async fn open(change: impl FnOnce(&mut penstock_config::Settings)) -> Self {
        let database = TestDatabase::create().await;
        let mut settings = settings_of(&database).await;
        let (redis, redis_through) = Pipe::to(&redis_url()).await;
        let (mysql, mysql_through) = Pipe::to(&database.url).await;
        settings.redis.url = redis_through.into();
        settings.mysql.url = mysql_through.into();
        change(&mut settings);
        let door = Door::start(settings, &database).await;
        Self { door, redis, mysql, database }
    }

    /// Rows, read past the wire.
    async fn rows(&self) -> usize {
        let filter = penstock_store::ListFilter::default();
        self.database.store.list(self.door.ann.tenant, &filter, None, 1000).await.unwrap().len()
    }

    async fn close(self) {
        self.redis.thaw();
        self.mysql.thaw();
        self.door.stop().await;
        self.database.drop_database().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_or_broken_redis_is_a_503_before_any_sql() {
    let wired = Wired::open(|settings| {
        settings.api.keys_refresh = Duration::from_secs(600);
        settings.queue.reconcile_every = Duration::from_secs(600);
    })
    .await;
    let door = &wired.door;
    // Nothing else speaks to MySQL now: no poll of keys, no comparison of rows.
    wired.redis.freeze();
    door.ann.submit(&task()).await.assert_problem(503, "unavailable");
    let before = wired.mysql.bytes();
    for answer in join_all((0..20).map(|_| async { door.ann.submit(&task()).await })).await {
        answer.assert_problem(503, "unavailable");
        assert_eq!(answer.header("retry-after"), Some("2"));
        assert!(answer.json().get("outcome").is_none(), "nothing was accepted, and the answer knows it");
    }
    assert_eq!(wired.mysql.bytes(), before, "no statement was sent");
    wired.redis.cut();
    door.ann.submit(&task()).await.assert_problem(503, "unavailable");
    assert_eq!(wired.rows().await, 0);
    wired.redis.thaw();
    eventually("submits are taken again", async || door.ann.submit(&task()).await.status == StatusCode::ACCEPTED).await;
    wired.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_is_not_answered_has_an_unknown_outcome_and_the_same_request_tells() {
    let wired = Wired::open(|settings| settings.mysql.timeout = Duration::from_millis(700)).await;
    let (door, body) = (&wired.door, task_named(TaskId::mint()));
    wired.mysql.freeze();
    let answer = door.ann.submit(&body).await;
    answer.assert_problem(503, "unavailable");
    assert_eq!(answer.json()["outcome"], "unknown");
    assert_eq!(answer.json()["task_id"], body["task_id"]);
    wired.mysql.thaw();
    eventually("the same request is answered 202", async || {
        door.ann.submit(&body).await.status == StatusCode::ACCEPTED
    })
    .await;
    assert_eq!(wired.rows().await, 1);
    wired.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_found_and_queued_by_its_door() {
    let wired = Wired::open(|settings| {
        settings.mysql.timeout = Duration::from_millis(700);
        settings.mysql.pool_max = 1;
        // Nobody else uses the one connection, and nobody else mends.
        settings.api.keys_refresh = Duration::from_secs(600);
        settings.queue.reconcile_every = Duration::from_secs(600);
    })
    .await;
    let door = &wired.door;
    let id = unanswered_commit(&wired).await;
    let key = penstock_protocol::TaskKey::new(door.ann.tenant, id);
    wired.mysql.thaw();
    let state = async || door.app.queue.position(key).await.unwrap().state;
    eventually("the task is in line", async || state().await == Some(State::InLine)).await;
    door.ann.submit(&task_named(id)).await.assert_accepted();
    wired.close().await;
}

/// Submits until a commit takes place whose answer is held: a connection must be at rest and have the statement prepared,
/// or the statement is not even sent.
async fn unanswered_commit(wired: &Wired) -> TaskId {
    let door = &wired.door;
    for _ in 0..50 {
        let accepted = async || door.ann.submit(&task()).await.status == StatusCode::ACCEPTED;
        eventually("the statement is prepared", accepted).await;
        wired.mysql.hold_answers();
        let id = TaskId::mint();
        let answer = door.ann.submit(&task_named(id)).await;
        assert_eq!(answer.json()["outcome"], "unknown", "{}", answer.text);
        let key = penstock_protocol::TaskKey::new(door.ann.tenant, id);
        if wired.database.store.task(key).await.unwrap().is_some() {
            return id;
        }
        wired.mysql.thaw();
    }
    panic!("no commit took place in fifty tries");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_finds_too_many_waiting_gives_its_place_back() {
    let wired = Wired::open(|settings| {
        settings.mysql.batch_rows_max = 1;
        settings.mysql.batch_waiting_max = 1;
        settings.mysql.timeout = Duration::from_secs(3);
    })
    .await;
    let door = &wired.door;
    wired.mysql.freeze();
    let answers = join_all((0..20).map(|_| async { door.ann.submit(&task()).await })).await;
    let busy: Vec<_> = answers.iter().filter(|answer| answer.json().get("outcome").is_none()).collect();
    assert!(busy.len() >= 16, "two are written and one waits: {}", busy.len());
    for answer in &busy {
        answer.assert_problem(503, "unavailable");
    }
    let held = u64::try_from(answers.len() - busy.len()).unwrap();
    eventually("only unknown outcomes hold a place", async || door.depth().await <= held).await;
    wired.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_redis_does_not_answer_for_is_accepted_and_queued_later() {
    let wired = Wired::open(|settings| {
        settings.queue.reconcile_age_min = Duration::from_secs(2);
        settings.queue.reconcile_every = Duration::from_secs(1);
    })
    .await;
    let (door, id) = (&wired.door, TaskId::mint());
    let beside = beside(door).await;
    let body = task_named(id);
    wired.mysql.freeze();
    let (answer, ()) = tokio::join!(door.ann.submit(&body), async {
        let key = penstock_protocol::TaskKey::new(door.ann.tenant, id);
        let state = async || beside.position(key).await.unwrap().state;
        eventually("the task is admitted", async || state().await == Some(State::Registered)).await;
        wired.redis.freeze();
        wired.mysql.thaw();
    });
    answer.assert_accepted();
    assert_eq!(answer.json()["position"], serde_json::Value::Null);
    assert_eq!(wired.rows().await, 1);
    wired.redis.thaw();
    let key = penstock_protocol::TaskKey::new(door.ann.tenant, id);
    eventually("the task is in line", async || beside.position(key).await.unwrap().state == Some(State::InLine)).await;
    assert_eq!(beside.gauges().await.unwrap().depth(), 1);
    wired.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_after_admission_leaves_nothing_half_done() {
    // The reconciler, which would mend it, does not come into play.
    let wired = Wired::open(|settings| settings.queue.reconcile_every = Duration::from_secs(600)).await;
    let (door, id) = (&wired.door, TaskId::mint());
    let key = penstock_protocol::TaskKey::new(door.ann.tenant, id);
    let state = async || door.app.queue.position(key).await.unwrap().state;
    wired.mysql.freeze();
    let request = tokio::spawn(door.ann.request(Method::POST, "/api/task").json(&task_named(id)).send());
    eventually("the task is admitted", async || state().await == Some(State::Registered)).await;
    request.abort();
    let _ = request.await;
    wired.mysql.thaw();
    eventually("the task is in line all the same", async || state().await == Some(State::InLine)).await;
    assert_eq!(wired.rows().await, 1);
    wired.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_without_mysql_are_503_and_a_cancel_without_redis_stands() {
    let wired = Wired::open(|settings| settings.mysql.timeout = Duration::from_millis(700)).await;
    let door = &wired.door;
    let path = format!("/api/task/{}", door.ann.submit(&task()).await.task_id());
    wired.mysql.freeze();
    door.ann.get(&path).await.assert_problem(503, "unavailable");
    door.ann.get("/api/task").await.assert_problem(503, "unavailable");
    door.ann.delete(&path).await.assert_problem(503, "unavailable");
    wired.mysql.thaw();
    eventually("reads work again", async || door.ann.get(&path).await.status == StatusCode::OK).await;
    wired.redis.freeze();
    let answer: Answer = door.ann.get(&path).await;
    if answer.json()["status"] == "queued" {
        assert_eq!(answer.json()["waiting_reason"], "queue_silent");
    }
    let answer = door.ann.delete(&path).await;
    assert_eq!((answer.status, answer.json()["status"].as_str()), (StatusCode::OK, Some("cancelled")));
    wired.close().await;
}

/// A look at the queue past the wire.
async fn beside(door: &Door) -> penstock_queue::Queue {
    let settings = penstock_queue::QueueSettings { url: redis_url(), ..door.app.queue.settings().clone() };
    penstock_queue::Queue::connect(settings).await.unwrap()
}
