//! The house itself: what stands, and how it is set up.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use penstock_store::fixture::TestDatabase;
use tokio::time::Instant;

use super::client::Client;
use super::proxy::Proxy;
use super::servers::{Process, free_port, listening, wait_until};
use penstock_loadtest::client::Door;

/// Settings of every house; agents whose model is chosen by the prompt (`[[fake: …]]`).
const SETTINGS: &str = r#"
[providers.fake]
dialect = "openai"
base_url = "http://127.0.0.1:1/v1"
[chains]
steady.hops = ["fake/steady"]
instant.hops = ["fake/instant"]
slow-3s.hops = ["fake/slow-3s"]
slow-30s.hops = ["fake/slow-30s"]
backup.hops = ["fake/down,status=503", "fake/instant"]
pair.hops = ["fake/steady", "fake/instant"]
[agents]
assistant = { chain = "steady", instructions = "You are a helpful assistant." }
instant = { chain = "instant" }
slow-3s = { chain = "slow-3s" }
slow-30s = { chain = "slow-30s" }
backup = { chain = "backup" }
pair = { chain = "pair" }
"#;

/// What a house is to have.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Doors.
    pub(crate) apis: usize,
    /// Workers.
    pub(crate) workers: usize,
    /// Settings as environment variables, `PENSTOCK_…`.
    pub(crate) settings: Vec<(String, String)>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { apis: 1, workers: 1, settings: Vec::new() }
    }
}

impl Plan {
    /// Sets `section.key`.
    #[must_use]
    pub(crate) fn set(mut self, path: &str, value: impl ToString) -> Self {
        let name = format!("PENSTOCK_{}", path.to_uppercase().replace('.', "__"));
        self.settings.push((name, value.to_string()));
        self
    }

    /// Sets the number of workers.
    #[must_use]
    pub(crate) fn workers(mut self, count: usize) -> Self {
        self.workers = count;
        self
    }

    /// Sets the number of doors.
    #[must_use]
    pub(crate) fn apis(mut self, count: usize) -> Self {
        self.apis = count;
        self
    }
}

/// A running Penstock.
#[derive(Debug)]
pub(crate) struct House {
    /// The doors, with their ports.
    pub(crate) apis: Vec<(Process, u16)>,
    /// The workers, with their health ports.
    pub(crate) workers: Vec<(Process, u16)>,
    /// The fake provider.
    pub(crate) provider: Process,
    /// Port of the fake provider.
    pub(crate) provider_port: u16,
    /// Redis, of this house alone.
    pub(crate) redis: Process,
    /// Port of Redis.
    pub(crate) redis_port: u16,
    /// Between all processes and MySQL.
    pub(crate) mysql: Proxy,
    /// Between all processes and Redis.
    pub(crate) redis_link: Proxy,
    /// Between workers and the provider.
    pub(crate) provider_link: Proxy,
    /// The database.
    pub(crate) database: TestDatabase,
    /// A key with every scope of tenant `acme`.
    pub(crate) key: String,
    folder: PathBuf,
    env: Vec<(String, String)>,
}

impl House {
    /// Builds a house and waits until it is ready.
    pub(crate) async fn build(plan: Plan) -> Self {
        let folder = std::env::temp_dir().join(format!("penstock-house-{}", uuid::Uuid::now_v7().simple()));
        std::fs::create_dir_all(&folder).expect("a folder for the house");
        let settings = folder.join("penstock.toml");
        std::fs::write(&settings, SETTINGS).expect("a settings file");
        let database = TestDatabase::create().await;
        let (server, name) = mysql_port_and_rest(&database.url);
        let mysql = Proxy::to(server).await;
        let (redis, redis_port) = start_redis(&folder).await;
        let provider_port = free_port();
        let listen = format!("127.0.0.1:{provider_port}");
        let provider =
            Process::start(&folder, "provider", &binary("penstock-fake-provider"), &["--listen", &listen], &[]);
        listening(provider_port, "the fake provider").await;
        let (redis_link, provider_link) = (Proxy::to(redis_port).await, Proxy::to(provider_port).await);
        let mut env = vec![
            ("PENSTOCK_CONFIG".to_owned(), settings.display().to_string()),
            ("REDIS_URL".to_owned(), format!("redis://127.0.0.1:{}/", redis_link.port)),
            ("DATABASE_URL".to_owned(), name.replace("{port}", &mysql.port.to_string())),
            ("PENSTOCK_PROVIDERS__FAKE__BASE_URL".to_owned(), format!("http://127.0.0.1:{}/v1", provider_link.port)),
        ];
        env.extend(plan.settings.iter().cloned());
        let key = make_key(&env, "acme");
        let mut house = Self {
            apis: Vec::new(),
            workers: Vec::new(),
            provider,
            provider_port,
            redis,
            redis_port,
            mysql,
            redis_link,
            provider_link,
            database,
            key,
            folder,
            env,
        };
        for _ in 0..plan.apis {
            house.add_api().await;
        }
        for _ in 0..plan.workers {
            house.add_worker().await;
        }
        house
    }

    /// Starts one more door and waits until it is ready.
    pub(crate) async fn add_api(&mut self) {
        let (port, name) = (free_port(), format!("api-{}", self.apis.len()));
        let env = self.env_with("PENSTOCK_API__LISTEN", format!("127.0.0.1:{port}"));
        let process = Process::start(&self.folder, &name, &binary("penstock-api"), &["serve"], &env);
        self.apis.push((process, port));
        ready(port, &name).await;
    }

    /// Starts one more worker and waits until it is ready.
    pub(crate) async fn add_worker(&mut self) {
        let (port, name) = (free_port(), format!("worker-{}", self.workers.len()));
        let env = self.env_with("PENSTOCK_WORKER__LISTEN", format!("127.0.0.1:{port}"));
        let process = Process::start(&self.folder, &name, &binary("penstock-worker"), &[], &env);
        self.workers.push((process, port));
        ready(port, &name).await;
    }

    /// Ends Redis as its operator would, and starts it again after `pause`, with its data.
    pub(crate) async fn restart_redis(&mut self, pause: Duration) {
        self.redis.signal("TERM");
        self.redis.ended(Duration::from_secs(20)).await;
        tokio::time::sleep(pause).await;
        self.redis = launch_redis(&self.folder, self.redis_port);
        listening(self.redis_port, "Redis").await;
    }

    /// Writes another settings file; running processes follow it.
    pub(crate) fn write_settings(&self, more: &str) {
        std::fs::write(self.folder.join("penstock.toml"), format!("{SETTINGS}\n{more}")).expect("a settings file");
    }

    /// Runs `penstock-api` with `arguments`; returns whether it succeeded, and all that it said.
    #[must_use]
    pub(crate) fn try_command(&self, arguments: &[&str]) -> (bool, String) {
        let output = Command::new(binary("penstock-api"))
            .args(arguments)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .output()
            .expect("penstock-api runs");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        (output.status.success(), said)
    }

    /// A page of the process that listens on `port`: `/readyz`, `/metrics`.
    pub(crate) async fn page(&self, port: u16, path: &str) -> String {
        let door = Door { address: format!("127.0.0.1:{port}"), key: String::new() };
        door.request("GET", path, "", "").await.map_or_else(|error| error.to_string(), |answer| answer.text)
    }

    /// Lines that doors and workers have logged so far.
    #[must_use]
    pub(crate) fn log_lines(&self) -> usize {
        self.apis.iter().chain(&self.workers).map(|(process, _)| process.log().lines().count()).sum()
    }

    /// A client of the first door.
    #[must_use]
    pub(crate) fn client(&self) -> Client {
        self.client_of(0, &self.key)
    }

    /// A client of door `at` with `key`.
    #[must_use]
    pub(crate) fn client_of(&self, at: usize, key: &str) -> Client {
        let port = self.apis.get(at).map_or(0, |(_, port)| *port);
        Client::new(Door { address: format!("127.0.0.1:{port}"), key: key.to_owned() })
    }

    /// Runs `penstock-api` with `arguments`; returns what it printed.
    #[must_use]
    pub(crate) fn command(&self, arguments: &[&str]) -> String {
        command(&self.env, arguments)
    }

    /// Makes another tenant and returns a key of it.
    #[must_use]
    pub(crate) fn tenant(&self, name: &str) -> String {
        make_key(&self.env, name)
    }

    /// What the fake provider says of itself.
    pub(crate) async fn provider_stats(&self) -> serde_json::Value {
        let door = Door { address: format!("127.0.0.1:{}", self.provider_port), key: String::new() };
        door.request("GET", "/fake/stats", "", "").await.expect("the provider answers").body
    }

    /// The bodies that the fake provider received, oldest first.
    pub(crate) async fn provider_calls(&self) -> Vec<serde_json::Value> {
        let door = Door { address: format!("127.0.0.1:{}", self.provider_port), key: String::new() };
        let calls = door.request("GET", "/fake/calls?last=1000", "", "").await.expect("the provider answers").body;
        calls.as_array().or_else(|| calls["calls"].as_array()).cloned().unwrap_or_default()
    }

    /// The value of a metric of worker `at`; 0 while it has none.
    pub(crate) async fn worker_metric(&self, at: usize, name: &str) -> f64 {
        metric(self.workers.get(at).map_or(0, |(_, port)| *port), name).await
    }

    /// The value of a metric of the first door; 0 while it has none.
    pub(crate) async fn door_metric(&self, name: &str) -> f64 {
        metric(self.apis.first().map_or(0, |(_, port)| *port), name).await
    }

    /// Lets processes that are started from now on use the Redis of `other`.
    pub(crate) fn borrow_redis(&mut self, other: &Self) {
        self.env.push(("REDIS_URL".to_owned(), format!("redis://127.0.0.1:{}/", other.redis_port)));
    }

    /// A connection to this house's Redis.
    pub(crate) async fn redis_connection(&self) -> redis::aio::MultiplexedConnection {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/", self.redis_port)).expect("a URL");
        client.get_multiplexed_async_connection().await.expect("Redis answers")
    }

    /// Takes the house down and drops its database.
    pub(crate) async fn take_down(self) {
        let Self { apis, workers, provider, redis, database, folder, .. } = self;
        drop((apis, workers, provider, redis));
        database.drop_database().await;
        // A folder that is left is in the temporary directory.
        let _ = std::fs::remove_dir_all(folder);
    }

    fn env_with(&self, name: &str, value: String) -> Vec<(String, String)> {
        let mut env = self.env.clone();
        env.push((name.to_owned(), value));
        env
    }
}

async fn start_redis(folder: &Path) -> (Process, u16) {
    let port = free_port();
    std::fs::create_dir_all(folder.join("redis")).expect("a folder for Redis");
    let redis = launch_redis(folder, port);
    listening(port, "Redis").await;
    (redis, port)
}

fn launch_redis(folder: &Path, port: u16) -> Process {
    let (port, data) = (port.to_string(), folder.join("redis").display().to_string());
    let arguments = [
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--dir",
        &data,
        "--save",
        "",
        "--appendonly",
        "yes",
        "--appendfsync",
        "everysec",
        "--maxmemory-policy",
        "noeviction",
        "--stream-node-max-bytes",
        "1024",
    ];
    Process::start(folder, "redis", Path::new("redis-server"), &arguments, &[])
}

async fn ready(port: u16, name: &str) {
    let door = Door { address: format!("127.0.0.1:{port}"), key: String::new() };
    wait_until(&format!("{name} is ready"), Duration::from_secs(30), async || {
        door.request("GET", "/readyz", "", "").await.is_ok_and(|answer| answer.status == 200)
    })
    .await;
}

async fn metric(port: u16, name: &str) -> f64 {
    let door = Door { address: format!("127.0.0.1:{port}"), key: String::new() };
    let Ok(answer) = door.request("GET", "/metrics", "", "").await else { return 0.0 };
    let value = answer.text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
}

/// Makes tenant `name` and a key with every scope.
fn make_key(env: &[(String, String)], name: &str) -> String {
    command(env, &["tenant", "create", name]);
    command(env, &["key", "create", "--tenant", name, "--scopes", "submit,read,chat,admin"]).trim().to_owned()
}

fn command(env: &[(String, String)], arguments: &[&str]) -> String {
    let began = Instant::now();
    let output = Command::new(binary("penstock-api"))
        .args(arguments)
        .envs(env.iter().map(|(key, value)| (key, value)))
        .output()
        .expect("penstock-api runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "penstock-api {arguments:?} failed after {:?}: {error}", began.elapsed());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A program of the workspace, as the test harness built it.
#[expect(clippy::disallowed_methods, reason = "the test harness says where it built the programs")]
fn binary(name: &str) -> PathBuf {
    let folder = std::env::var("PENSTOCK_BIN_DIR").unwrap_or_else(|_| {
        panic!("PENSTOCK_BIN_DIR is not set: run `make test`, which builds the programs and starts the servers")
    });
    let folder = PathBuf::from(folder);
    // Tests run in their package's folder; the harness names the folder from the workspace's.
    let folder =
        if folder.is_absolute() { folder } else { Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder) };
    folder.join(name)
}

/// The port in a MySQL URL, and the URL with `{port}` in its place.
fn mysql_port_and_rest(url: &str) -> (u16, String) {
    let (head, tail) = url.rsplit_once('/').expect("a database in the URL");
    let (head, port) = head.rsplit_once(':').expect("a port in the URL");
    (port.parse().expect("a number"), format!("{head}:{{port}}/{tail}"))
}
