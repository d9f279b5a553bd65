//! A front door of one's own: its own port, database and key prefix, and clients that speak to it.

use std::time::Duration;

use penstock_api::app::App;
use penstock_api::auth::{Scopes, SecretKey};
use penstock_api::{router, server, start};
use penstock_config::Settings;
use penstock_protocol::{TaskId, TaskKey, TenantNo};
use penstock_store::fixture::TestDatabase;
use penstock_store::{ListFilter, NewKey, TaskRow};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// States are waited for this long; an assertion then says what did not come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Door {
    pub(crate) app: App,
    pub(crate) url: String,
    pub(crate) ann: Customer,
    serving: JoinHandle<bool>,
    database: Option<TestDatabase>,
}

/// A tenant with a key that may do everything.
pub(crate) struct Customer {
    pub(crate) tenant: TenantNo,
    pub(crate) client: Client,
    url: String,
    key: String,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

/// Settings as in production, on a database and a prefix of their own.
pub(crate) async fn settings_of(database: &TestDatabase) -> Settings {
    let mut settings = penstock_config::load(None).expect("the defaults are consistent").settings;
    let random = uuid::Uuid::new_v4().simple().to_string();
    settings.deployment.id = format!("t-{}", &random[..20]);
    settings.redis.url = redis_url().into();
    settings.mysql.url = database.url.clone().into();
    settings.api.keys_refresh = Duration::from_millis(100);
    // A machine that is busy with other tests must not look like a Redis that is silent.
    settings.redis.admission_timeout = Duration::from_secs(1);
    settings.redis.script_timeout = Duration::from_secs(4);
    settings
}

impl Door {
    pub(crate) async fn open() -> Self {
        Self::open_with(|_| {}).await
    }

    /// A door with other settings.
    pub(crate) async fn open_with(change: impl FnOnce(&mut Settings)) -> Self {
        let database = TestDatabase::create().await;
        let mut settings = settings_of(&database).await;
        change(&mut settings);
        let mut door = Self::start(settings, &database).await;
        door.database = Some(database);
        door
    }

    /// A door on a database that is there.
    pub(crate) async fn start(settings: Settings, database: &TestDatabase) -> Self {
        let (ann, key) = (tenant(database, "ann").await, key(database, "ann", "submit,read,chat").await);
        let app = start::assemble(settings, CancellationToken::new()).await.expect("the door starts");
        let listener = server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn({
            let (app, router) = (app.clone(), router(&app).unwrap());
            async move { server::serve(&app, router, listener).await }
        });
        let ann = Customer { tenant: ann, client: client(), url: url.clone(), key };
        let door = Self { app, url, ann, serving, database: None };
        eventually("the door is ready", async || door.get("/readyz").await.status == StatusCode::OK).await;
        door
    }

    /// A customer of another tenant; waits until the door knows the key.
    pub(crate) async fn customer(&self, name: &str) -> Customer {
        let tenant = tenant_in(&self.app.store, name).await;
        let key = key_in(&self.app.store, name, "submit,read").await;
        let customer = Customer { tenant, client: client(), url: self.url.clone(), key };
        eventually("the new key is known", async || customer.get("/api/queue").await.status == StatusCode::OK).await;
        customer
    }

    /// A GET without a key.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::read(self.ann.client.get(format!("{}{path}", self.url)).send().await.unwrap()).await
    }

    /// All tasks of the first tenant, as MySQL has them.
    pub(crate) async fn rows(&self) -> Vec<TaskRow> {
        rows_of(&self.app, self.ann.tenant).await
    }

    pub(crate) async fn row(&self, id: TaskId) -> Option<TaskRow> {
        self.app.store.task(TaskKey::new(self.ann.tenant, id)).await.unwrap()
    }

    pub(crate) async fn depth(&self) -> u64 {
        self.app.queue.gauges().await.unwrap().depth()
    }

    /// Asserts that a request left nothing behind: no row, no registration.
    pub(crate) async fn assert_untouched(&self) {
        assert_eq!(self.rows().await.len(), 0, "no row was written");
        assert_eq!(self.depth().await, 0, "no place is taken");
    }

    /// Stops accepting and drains; the database stays.
    pub(crate) async fn stop(self) -> bool {
        self.app.shutdown.cancel();
        let is_drained = self.serving.await.unwrap();
        forget(self.app.queue.shard().prefix()).await;
        if let Some(database) = self.database {
            self.app.store.close().await;
            database.drop_database().await;
        }
        is_drained
    }
}

impl Customer {
    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url)).bearer_auth(&self.key)
    }

    pub(crate) async fn submit(&self, body: &Value) -> Answer {
        Answer::read(self.request(Method::POST, "/api/task").json(body).send().await.unwrap()).await
    }

    pub(crate) async fn submit_keyed(&self, body: &Value, key: &str) -> Answer {
        let request = self.request(Method::POST, "/api/task").header("idempotency-key", key).json(body);
        Answer::read(request.send().await.unwrap()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::read(self.request(Method::GET, path).send().await.unwrap()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::read(self.request(Method::DELETE, path).send().await.unwrap()).await
    }
}

impl Answer {
    pub(crate) async fn read(response: Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        Self { status, headers, text: response.text().await.unwrap() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{} is not JSON: {}", self.status, self.text))
    }

    pub(crate) fn task_id(&self) -> TaskId {
        TaskId(self.json()["task_id"].as_str().expect("the answer names its task").parse().unwrap())
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Asserts a problem: status, code, and that it says when to come back exactly where that is useful.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let body = self.json();
        assert_eq!((body["code"].as_str(), body["status"].as_u64()), (Some(code), Some(u64::from(status))), "{body}");
        let may_retry = status == 429 || status == 503 || status == 409;
        let seconds = self.header("retry-after").map(|text| text.parse::<u64>().unwrap());
        assert_eq!(seconds.is_some(), may_retry, "Retry-After of {status}: {seconds:?}");
        if let Some(seconds) = seconds {
            assert!(seconds >= 1);
            assert_eq!(body["retry_after_ms"].as_u64().unwrap().div_ceil(1000), seconds);
        }
    }

    #[track_caller]
    pub(crate) fn assert_accepted(&self) {
        assert_eq!(self.status, StatusCode::ACCEPTED, "{}", self.text);
    }
}

/// The smallest task.
pub(crate) fn task() -> Value {
    json!({"agent": "assistant", "input": "hello"})
}

/// The smallest task, with an id minted by the client.
pub(crate) fn task_named(id: TaskId) -> Value {
    json!({"agent": "assistant", "input": "hello", "task_id": id})
}

/// Waits for a state; panics with its name when it does not come.
pub(crate) async fn eventually(what: &str, state: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !state().await {
        assert!(Instant::now() < deadline, "in {} s it did not come that {what}", PATIENCE.as_secs());
        sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn rows_of(app: &App, tenant: TenantNo) -> Vec<TaskRow> {
    app.store.list(tenant, &ListFilter::default(), None, 10_000).await.unwrap()
}

pub(crate) async fn tenant(database: &TestDatabase, name: &str) -> TenantNo {
    tenant_in(&database.store, name).await
}

pub(crate) async fn key(database: &TestDatabase, tenant: &str, scopes: &str) -> String {
    key_in(&database.store, tenant, scopes).await
}

/// The tenant of this name; created when it is not there.
async fn tenant_in(store: &penstock_store::Store, name: &str) -> TenantNo {
    let tenants = store.tenants().await.unwrap();
    match tenants.iter().find(|tenant| tenant.name == name) {
        Some(tenant) => tenant.no,
        None => store.create_tenant(name).await.unwrap(),
    }
}

pub(crate) async fn key_in(store: &penstock_store::Store, tenant: &str, scopes: &str) -> String {
    let key = SecretKey::mint().unwrap();
    let scopes = Scopes::from_stored(scopes).to_string();
    let row = NewKey { tenant: tenant.into(), name: String::new(), hash: key.hash().0, scopes, expires_ms: None };
    store.create_key(&row).await.unwrap();
    key.expose().to_owned()
}

pub(crate) fn client() -> Client {
    // The provider is the process's; another test may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().pool_max_idle_per_host(256).timeout(Duration::from_secs(40)).build().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the test harness hands over its servers in the environment")]
pub(crate) fn redis_url() -> String {
    std::env::var("PENSTOCK_TEST_REDIS_URL")
        .unwrap_or_else(|_| panic!("PENSTOCK_TEST_REDIS_URL is not set: run `make test`, which starts the servers"))
}

/// Deletes everything under a prefix: what a test leaves, or a flush that concerns one deployment only.
pub(crate) async fn forget(prefix: &str) {
    let client = redis::Client::open(redis_url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{prefix}*")).query_async(&mut connection).await.unwrap();
    if !keys.is_empty() {
        redis::cmd("DEL").arg(keys).query_async::<()>(&mut connection).await.unwrap();
    }
}
