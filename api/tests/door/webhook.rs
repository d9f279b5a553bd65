//! Ends told to webhooks: signed, at least once under one id, to targets that may be reached.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode as Status};
use penstock_config::Settings;
use penstock_protocol::{Ending, Status as TaskStatus, TaskKey};
use penstock_store::{Claimed, End};
use penstock_webhook::signature;
use reqwest::Method;
use serde_json::{Value, json};

use super::harness::{Answer, Door, eventually, task};

/// What a target was told.
#[derive(Clone, Debug)]
struct Told {
    headers: HeaderMap,
    body: String,
}

/// A target on a port of its own; it answers with the statuses given, the last one for ever.
#[derive(Clone)]
struct Receiver {
    url: String,
    told: Arc<Mutex<Vec<Told>>>,
    answers: Arc<Mutex<Vec<u16>>>,
}

impl Receiver {
    async fn open(answers: &[u16]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let receiver = Self { url, told: Arc::default(), answers: Arc::new(Mutex::new(answers.to_vec())) };
        let router = Router::new().fallback(take).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    fn told(&self) -> Vec<Told> {
        self.told.lock().unwrap().clone()
    }
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: String) -> (Status, HeaderMap) {
    receiver.told.lock().unwrap().push(Told { headers, body });
    let mut answers = receiver.answers.lock().unwrap();
    let status = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
    let mut headers = HeaderMap::new();
    if (300..400).contains(&status) {
        headers.insert("location", receiver.url.parse().unwrap());
    }
    (Status::from_u16(status).unwrap(), headers)
}

fn open_to_loopback(settings: &mut Settings) {
    settings.webhook.allow_http = true;
    settings.webhook.allowed_networks = vec!["127.0.0.0/8".parse().unwrap()];
    settings.webhook.back_off = Duration::from_millis(100);
}

async fn with_secret(door: &Door) -> [u8; 32] {
    let secret = [9; 32];
    door.app.store.rotate_webhook_secret("ann", &secret, 60_000).await.unwrap();
    eventually("the door knows that there is a secret", async || {
        door.app.keys.tenant(door.ann.tenant).is_some_and(|tenant| tenant.webhook.is_some())
    })
    .await;
    secret
}

async fn record(door: &Door, id: penstock_protocol::TaskId) -> Value {
    door.ann.get(&format!("/api/task/{id}/webhooks")).await.json()["deliveries"][0].clone()
}

async fn until(door: &Door, id: penstock_protocol::TaskId, state: &str) -> Value {
    eventually(&format!("the delivery is {state}"), async || record(door, id).await["state"] == state).await;
    record(door, id).await
}

fn hooked(url: &str) -> Value {
    let mut body = task();
    body["webhook"] = json!({"url": url});
    body["metadata"] = json!({"order": 17});
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_told_once_it_is_there_signed_and_under_one_id() {
    let door = Door::open_with(open_to_loopback).await;
    let receiver = Receiver::open(&[500, 429, 204]).await;
    let secret = with_secret(&door).await;
    let id = door.ann.submit(&hooked(&receiver.url)).await.task_id();
    assert_eq!(record(&door, id).await["state"], "armed");
    assert!(receiver.told().is_empty());

    let key = TaskKey::new(door.ann.tenant, id);
    assert!(matches!(door.app.store.claim(key, 1, "w").await.unwrap(), Claimed::Mine(_)));
    let ending = Ending { status: TaskStatus::Succeeded, result: Some("done".into()), error: None, usage: vec![] };
    door.app.store.end(End { key, attempt: 1, ending, model: None, model_calls: 1 }).await.unwrap();
    let delivered = until(&door, id, "delivered").await;
    assert_eq!(delivered["tries"], 3, "{delivered}");
    let statuses: Vec<_> = delivered["log"].as_array().unwrap().iter().map(|each| each["status"].clone()).collect();
    assert_eq!(statuses, [500, 429, 204]);

    let told = receiver.told();
    assert_eq!(told.len(), 3);
    let header = |told: &Told, name: &str| told.headers[name].to_str().unwrap().to_owned();
    for told in &told {
        assert_eq!(header(told, signature::ID), delivered["id"].as_str().unwrap(), "the id is stable");
        let body: Value = serde_json::from_str(&told.body).unwrap();
        assert_eq!((&body["type"], &body["data"]["task_id"]), (&json!("task.succeeded"), &json!(id)), "{body}");
        assert_eq!((&body["data"]["result"], &body["data"]["metadata"]["order"]), (&json!("done"), &json!(17)));
        let timestamp: u64 = header(told, signature::TIMESTAMP).parse().unwrap();
        let secrets = penstock_store::WebhookSecrets(vec![secret]);
        let expected = signature::sign(&secrets, &header(told, signature::ID), timestamp, &told.body);
        assert_eq!(header(told, signature::SIGNATURE), expected);
    }

    // Told again on demand, under the same id; and after a rotation by both secrets.
    door.app.store.rotate_webhook_secret("ann", &[8; 32], 60_000).await.unwrap();
    let path = format!("/api/task/{id}/webhooks/redeliver");
    let again = Answer::read(door.ann.request(Method::POST, &path).send().await.unwrap()).await;
    assert_eq!(again.status, reqwest::StatusCode::OK, "{}", again.text);
    eventually("it is told again", async || receiver.told().len() == 4).await;
    let last = receiver.told().pop().unwrap();
    assert_eq!(header(&last, signature::ID), delivered["id"].as_str().unwrap());
    assert_eq!(header(&last, signature::SIGNATURE).split(' ').count(), 2);
    // Another tenant sees what it would see of a task that does not exist.
    let bob = door.customer("bob").await;
    bob.get(&format!("/api/task/{id}/webhooks")).await.assert_problem(404, "task_not_found");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_never_takes_it_is_given_up_and_redirects_are_not_followed() {
    let door = Door::open_with(|settings| {
        open_to_loopback(settings);
        settings.webhook.tries_max = 2;
    })
    .await;
    with_secret(&door).await;
    let (elsewhere, gone) = (Receiver::open(&[302]).await, Receiver::open(&[410]).await);
    let mut ids = Vec::new();
    for receiver in [&elsewhere, &gone] {
        let id = door.ann.submit(&hooked(&receiver.url)).await.task_id();
        door.ann.delete(&format!("/api/task/{id}")).await;
        ids.push(id);
    }
    assert_eq!(until(&door, ids[0], "failed").await["tries"], 2);
    assert_eq!(until(&door, ids[1], "failed").await["tries"], 1, "410 wants nothing any more");
    assert_eq!((elsewhere.told().len(), gone.told().len()), (2, 1));
    // Only the ends that were asked for are told.
    let mut other = hooked(&gone.url);
    other["webhook"]["events"] = json!(["succeeded"]);
    let id = door.ann.submit(&other).await.task_id();
    door.ann.delete(&format!("/api/task/{id}")).await;
    until(&door, id, "skipped").await;
    assert_eq!(gone.told().len(), 1);
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_private_target_is_refused_by_its_text_and_by_the_address_behind_its_name() {
    let door = Door::open_with(|settings| {
        settings.webhook.allow_http = true;
        settings.webhook.tries_max = 1;
    })
    .await;
    let receiver = Receiver::open(&[200]).await;
    // Without a secret nothing could be signed.
    let refused = door.ann.submit(&hooked("https://example.org/")).await;
    refused.assert_problem(422, "invalid_request");
    with_secret(&door).await;
    for url in [&receiver.url[..], "http://[::1]/", "http://169.254.169.254/latest/meta-data", "http://2130706433/"] {
        let refused = door.ann.submit(&hooked(url)).await;
        refused.assert_problem(422, "invalid_request");
        assert_eq!(refused.json()["path"], "webhook.url", "{}", refused.text);
    }
    for url in ["ftp://example.org/", "https://user:password@example.org/", "nonsense"] {
        door.ann.submit(&hooked(url)).await.assert_problem(422, "invalid_request");
    }
    assert!(door.rows().await.is_empty());
    // A name is judged by what it resolves to, when it is connected to.
    let named = receiver.url.replace("127.0.0.1", "localhost");
    let id = door.ann.submit(&hooked(&named)).await.task_id();
    door.ann.delete(&format!("/api/task/{id}")).await;
    let failed = until(&door, id, "failed").await;
    let error = failed["log"][0]["error"].as_str().unwrap();
    assert!(error.contains("private"), "{error}");
    assert!(receiver.told().is_empty(), "nothing was sent");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tenants_default_holds_where_a_request_says_nothing() {
    let door = Door::open_with(open_to_loopback).await;
    with_secret(&door).await;
    let receiver = Receiver::open(&[200]).await;
    let default = penstock_store::NewWebhook { url: receiver.url.clone(), events: "cancelled".into() };
    door.app.store.set_webhook_default("ann", Some(&default)).await.unwrap();
    eventually("the door knows the default", async || {
        let tenant = door.app.keys.tenant(door.ann.tenant).unwrap();
        tenant.webhook.is_some_and(|webhook| webhook.url.is_some())
    })
    .await;
    let id = door.ann.submit(&task()).await.task_id();
    let mut silent = task();
    silent["webhook"] = json!({"events": []});
    let unheard = door.ann.submit(&silent).await.task_id();
    for id in [id, unheard] {
        door.ann.delete(&format!("/api/task/{id}")).await;
    }
    until(&door, id, "delivered").await;
    assert_eq!(record(&door, unheard).await, Value::Null);
    assert_eq!(receiver.told().len(), 1);
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_whose_process_died_comes_due_again_and_a_late_word_changes_nothing() {
    let database = penstock_store::fixture::TestDatabase::create().await;
    let store = database.store.clone();
    let mut settings = super::harness::settings_of(&database).await;
    open_to_loopback(&mut settings);
    // A door that accepts and is gone before the end: nobody but the database knows of the delivery.
    let receiver = Receiver::open(&[200]).await;
    let door = Door::start(settings.clone(), &database).await;
    with_secret(&door).await;
    let id = door.ann.submit(&hooked(&receiver.url)).await.task_id();
    let key = TaskKey::new(door.ann.tenant, id);
    door.stop().await;
    store.cancel(key).await.unwrap().unwrap();
    let due = store.next_webhooks(10).await.unwrap();
    assert_eq!(due.iter().map(|due| due.key).collect::<Vec<_>>(), [key]);
    // A process claims it and dies; its claim runs out, and another one delivers.
    let claimed = store.claim_webhook(&due[0], 1).await.unwrap().unwrap();
    assert!(store.claim_webhook(&due[0], 1).await.unwrap().is_none(), "a claim is one process's");
    let door = Door::start(settings, &database).await;
    until(&door, id, "delivered").await;
    let late = penstock_store::WebhookSettle::Done { state: "failed", log: None };
    store.settle_webhook(&claimed, &late).await.unwrap();
    assert_eq!(record(&door, id).await["state"], "delivered");
    assert_eq!(receiver.told().len(), 1);
    // Old records go.
    assert_eq!(store.sweep_webhooks(3_600_000, 10).await.unwrap(), 0);
    eventually("a record of yesterday is swept", async || store.sweep_webhooks(0, 10).await.unwrap() == 1).await;
    door.stop().await;
    database.drop_database().await;
}
