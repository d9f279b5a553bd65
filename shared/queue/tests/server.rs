//! What a server may do to a queue: lose its functions, its group or everything, be full, hang, restart. Each test has a
//! Redis of its own.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on must fail")]

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use penstock_protocol::EventId;
use penstock_queue::fixture::task;
use penstock_queue::{
    AdmitLimits, AdmitRequest, AdmitVerdict, AttemptVerdict, BellSignal, CensusState, ConnectError, Emission,
    EmitVerdict, Finish, Library, Queue, QueueError, QueueSettings, QueuedTask, Reason, Shard, Start, StartVerdict,
    Terms, WorkerId, library_source,
};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}"#;
/// How long a state is waited for before it counts as missed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis that ends with the test.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    async fn start() -> Self {
        Self::start_with(&[]).await
    }

    async fn start_with(arguments: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { process: launch(port, arguments), port };
        server.wait_until_up().await;
        server
    }

    async fn wait_until_up(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.cli(&["PING"]) != "PONG" {
            assert!(Instant::now() < deadline, "redis-server did not come up");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends the server at once and starts an empty one in its place.
    async fn restart_empty(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = launch(self.port, &[]);
        self.wait_until_up().await;
    }

    fn cli(&self, words: &[&str]) -> String {
        let port = self.port.to_string();
        let output =
            Command::new("redis-cli").args(["-p", &port]).args(words).output().expect("redis-cli is installed");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn signal(&self, signal: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    fn settings(&self) -> QueueSettings {
        let url = format!("redis://127.0.0.1:{}/", self.port);
        let mut settings = QueueSettings::new(url, Shard::new("test", "main", 0).unwrap());
        // A loaded test machine is no slow Redis, but a hanging one must be noticed.
        settings.admit_timeout = Duration::from_millis(500);
        settings.call_timeout = Duration::from_secs(3);
        settings
    }

    async fn queue(&self) -> Queue {
        let queue = Queue::connect(self.settings()).await.unwrap();
        rebuild(&queue).await;
        queue
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn launch(port: u16, arguments: &[&str]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(arguments)
        .current_dir(std::env::temp_dir())
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

async fn rebuild(queue: &Queue) {
    let census = queue.census().await.unwrap();
    let token = queue.wipe(&census).await.unwrap().unwrap();
    assert!(queue.apply(token.book(), &Terms::default()).await.unwrap());
    assert!(queue.open(&token).await.unwrap());
}

fn worker() -> WorkerId {
    WorkerId::new("w").unwrap()
}

async fn admit(queue: &Queue, task: &QueuedTask) -> Result<AdmitVerdict, QueueError> {
    let limits = AdmitLimits { depth_max: 100, ..AdmitLimits::default() };
    queue
        .admit(&AdmitRequest { key: task.key, user: None, body_hash: &task.body_hash, start: Start::Now, limits })
        .await
}

/// Waits until `probe` is true.
async fn eventually<F: Future<Output = bool>>(what: &str, probe: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !probe().await {
        assert!(Instant::now() < deadline, "{what} did not come");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_server_that_lost_the_verbs_gets_them_again_with_the_next_call() {
    let server = Server::start().await;
    let queue = server.queue().await;
    server.cli(&["FUNCTION", "FLUSH"]);
    assert!(matches!(admit(&queue, &task(1, 1)).await.unwrap(), AdmitVerdict::Admitted(_)));
    // FLUSHALL keeps functions.
    server.cli(&["FLUSHALL"]);
    assert_eq!(queue.census().await.unwrap().state, CensusState::Broken);
    assert_eq!(server.cli(&["FUNCTION", "LIST"]).matches("penstock_queue_").count(), 1);
}

#[tokio::test]
async fn two_versions_of_the_verbs_run_side_by_side() {
    let server = Server::start().await;
    let old = server.queue().await;
    let newer = Library::new(&format!("{}\n-- a newer version\n", library_source()));
    let new = Queue::connect_with(server.settings(), newer).await.unwrap();
    let task = task(1, 1);
    assert!(matches!(admit(&old, &task).await.unwrap(), AdmitVerdict::Admitted(_)));
    new.enqueue(&task).await.unwrap();
    assert_eq!(old.gauges().await.unwrap().line, 1);
    assert_eq!(server.cli(&["FUNCTION", "LIST"]).matches("penstock_queue_").count(), 2);
}

#[tokio::test]
async fn a_server_that_may_evict_tasks_is_refused() {
    let server = Server::start().await;
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let refused = Queue::connect(server.settings()).await.unwrap_err();
    assert!(matches!(&refused, ConnectError::Eviction { policy } if policy == "allkeys-lru"), "{refused:?}");
    assert!(refused.to_string().contains("noeviction"));
}

#[tokio::test]
async fn a_replica_that_takes_no_writes_is_refused() {
    let (primary, replica) = (Server::start().await, Server::start().await);
    replica.cli(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()]);
    let refused = Queue::connect(replica.settings()).await.unwrap_err();
    assert!(matches!(&refused, ConnectError::Replica { primary: said } if said.ends_with(&primary.port.to_string())));
    replica.cli(&["REPLICAOF", "NO", "ONE"]);
    Queue::connect(replica.settings()).await.unwrap();
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused() {
    let nodes = std::env::temp_dir().join(format!("penstock-nodes-{}.conf", uuid::Uuid::new_v4().simple()));
    let arguments = ["--cluster-enabled", "yes", "--cluster-config-file", nodes.to_str().unwrap()];
    let server = Server::start_with(&arguments).await;
    assert!(matches!(Queue::connect(server.settings()).await, Err(ConnectError::Cluster)));
    drop(server);
    let _ = std::fs::remove_file(nodes);
}

#[tokio::test]
async fn a_server_tells_whether_it_keeps_its_data() {
    let server = Server::start().await;
    let queue = server.queue().await;
    assert_eq!(queue.judge_server().await.unwrap().is_persistent, Some(false));
    server.cli(&["CONFIG", "SET", "save", "3600 1"]);
    assert_eq!(queue.judge_server().await.unwrap().is_persistent, Some(true));
    server.cli(&["CONFIG", "SET", "save", ""]);
    server.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    assert_eq!(queue.judge_server().await.unwrap().is_persistent, Some(true));
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    assert!(matches!(queue.judge_server().await, Err(ConnectError::Eviction { .. })), "it may change while we run");
}

#[tokio::test]
async fn verbs_of_earlier_builds_go_once_no_process_claims_them() {
    let server = Server::start().await;
    let old = server.queue().await;
    let newer = Library::new(&format!("{}\n-- a newer version\n", library_source()));
    let new = Queue::connect_with(server.settings(), newer).await.unwrap();
    for queue in [&old, &new] {
        queue.claim_library(Duration::from_secs(60)).await.unwrap();
    }
    assert_eq!(new.remove_unclaimed_libraries().await.unwrap(), 0, "two builds run side by side");
    // The old build is gone: its claim runs out.
    let names = server.cli(&["KEYS", "penstock:claim:*"]);
    let claim = names.lines().find(|name| name.ends_with(&Library::new(&library_source()).name())).unwrap();
    server.cli(&["DEL", claim]);
    assert_eq!(new.remove_unclaimed_libraries().await.unwrap(), 1);
    assert_eq!(server.cli(&["FUNCTION", "LIST"]).matches("penstock_queue_").count(), 1);
    // It was not gone after all: its next call brings the verbs back.
    assert!(matches!(admit(&old, &task(1, 1)).await.unwrap(), AdmitVerdict::Admitted(_)));
    assert_eq!(new.gauges().await.unwrap().admitted, 1);
}

#[tokio::test]
async fn full_memory_refuses_new_tasks_and_lets_running_ones_finish() {
    let server = Server::start().await;
    let queue = server.queue().await;
    queue.beat(&worker(), 1, &[], 0).await.unwrap();
    let (running, late) = (task(1, 1), task(1, 2));
    queue.enqueue(&running).await.unwrap();
    let entry = queue.ready_reader(worker()).read_now(1).await.unwrap().remove(0);
    assert!(matches!(queue.start(&entry, &worker(), STARTED).await.unwrap(), StartVerdict::Running { .. }));
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(matches!(admit(&queue, &late).await, Err(QueueError::MemoryFull(_))));
    assert!(matches!(queue.enqueue(&late).await, Err(QueueError::MemoryFull(_))));
    // What the running task says, its client hears; said again, it is there once.
    let events = [r#"{"type":"STEP_STARTED","stepName":"a"}"#.to_owned()];
    let emission = Emission { key: running.key, attempt: 1, first_n: 2, first_seq: 2, events: &events };
    for _ in 0..2 {
        assert_eq!(queue.emit(&emission).await.unwrap(), EmitVerdict::Written);
    }
    let stale = Emission { attempt: 0, ..emission };
    assert_eq!(queue.emit(&stale).await.unwrap(), EmitVerdict::Fenced);
    let other = Emission { key: late.key, ..emission };
    assert_eq!(queue.emit(&other).await.unwrap(), EmitVerdict::Gone);
    let beat = queue.beat(&worker(), 1, &[(running.key, 1)], 5).await.unwrap();
    assert_eq!(beat.leases, [penstock_queue::LeaseState::Held]);
    let w = worker();
    let finish = Finish {
        key: running.key,
        attempt: 1,
        worker: &w,
        cost_tokens: None,
        input_tokens: 0,
        last_seq: 2,
        event: FINISHED,
    };
    assert_eq!(queue.finish(&finish).await.unwrap(), AttemptVerdict::Done);
    let told = queue.read_events(running.key, EventId::default(), 10).await.unwrap();
    assert_eq!(told.iter().map(|event| event.seq).collect::<Vec<_>>(), [1, 2, 3]);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(matches!(admit(&queue, &late).await.unwrap(), AdmitVerdict::Admitted(_)));
}

#[tokio::test]
async fn a_reader_that_waits_in_redis_can_be_stopped_and_loses_nothing() {
    let server = Server::start().await;
    let queue = server.queue().await;
    queue.beat(&worker(), 1, &[], 0).await.unwrap();
    let stop = CancellationToken::new();
    let mut reader = queue.ready_reader(worker());
    let stopper = stop.clone();
    let waiting = tokio::spawn(async move { (reader.read(1, &stopper).await.unwrap(), reader) });
    eventually("the blocked reader", || async { server.cli(&["INFO", "clients"]).contains("blocked_clients:1") }).await;
    stop.cancel();
    let (entries, mut reader) = timeout(Duration::from_secs(1), waiting).await.expect("it stops").unwrap();
    assert!(entries.is_empty());
    // The same reader goes on, and a blocked one wakes for a task.
    queue.enqueue(&task(1, 1)).await.unwrap();
    assert_eq!(reader.read(1, &CancellationToken::new()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_destroyed_group_is_made_anew_by_the_reader() {
    let server = Server::start().await;
    let queue = server.queue().await;
    queue.beat(&worker(), 2, &[], 0).await.unwrap();
    queue.enqueue(&task(1, 1)).await.unwrap();
    assert_eq!(server.cli(&["XGROUP", "DESTROY", "{test:main/0}:ready", "workers"]), "1");
    let mut reader = queue.ready_reader(worker());
    let deadline = Instant::now() + PATIENCE;
    let mut read = Vec::new();
    while read.is_empty() {
        assert!(Instant::now() < deadline, "the entry did not come");
        read = reader.read_now(1).await.unwrap();
    }
    assert_eq!(queue.census().await.unwrap().state, CensusState::Open);
}

#[tokio::test]
async fn cut_connections_are_made_anew_and_subscribers_are_told() {
    let server = Server::start().await;
    let queue = server.queue().await;
    queue.beat(&worker(), 1, &[], 0).await.unwrap();
    let mut bells = queue.bells().await.unwrap();
    let stop = CancellationToken::new();
    let mut reader = queue.ready_reader(worker());
    let reading = tokio::spawn(async move {
        loop {
            match reader.read(1, &stop).await {
                Ok(entries) if !entries.is_empty() => return entries,
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
    });
    eventually("the blocked reader", || async { server.cli(&["INFO", "clients"]).contains("blocked_clients:1") }).await;
    for kind in ["normal", "pubsub"] {
        server.cli(&["CLIENT", "KILL", "TYPE", kind]);
    }
    assert_eq!(timeout(PATIENCE, bells.next()).await.unwrap(), BellSignal::Reconnected);
    // No caller sees the cut: the call is sent again.
    let task = task(1, 1);
    queue.enqueue(&task).await.unwrap();
    let entry = timeout(PATIENCE, reading).await.expect("the reader came back").unwrap().remove(0);
    queue.start(&entry, &worker(), STARTED).await.unwrap();
    let BellSignal::Bell(bell) = timeout(PATIENCE, bells.next()).await.unwrap() else { panic!("a bell") };
    assert_eq!((bell.key, bell.id), (task.key, EventId { attempt: 1, n: 1 }));
}

#[tokio::test]
async fn a_server_that_comes_back_empty_is_used_again_and_admits_nothing_before_a_rebuild() {
    let mut server = Server::start().await;
    let queue = server.queue().await;
    server.restart_empty().await;
    let verdict = admit(&queue, &task(1, 1)).await.unwrap();
    assert!(
        matches!(verdict, AdmitVerdict::Rejected(rejected) if rejected.reason == Reason::Rebuilding),
        "{verdict:?}"
    );
    assert_eq!(queue.census().await.unwrap().state, CensusState::Broken);
    rebuild(&queue).await;
    assert!(matches!(admit(&queue, &task(1, 1)).await.unwrap(), AdmitVerdict::Admitted(_)));
}

#[tokio::test]
async fn a_hanging_server_is_an_error_within_the_time_limit_and_no_error_afterwards() {
    let server = Server::start().await;
    let queue = server.queue().await;
    server.signal("-STOP");
    let refused = timeout(PATIENCE, admit(&queue, &task(1, 1))).await.expect("no hang");
    assert!(matches!(refused, Err(QueueError::Slow { .. })), "{refused:?}");
    assert!(refused.unwrap_err().is_transient());
    server.signal("-CONT");
    eventually("an answer", || async { admit(&queue, &task(1, 2)).await.is_ok() }).await;
    // The admission that was not answered may have worked: it holds a place until it is purged, no more.
    let gauges = queue.gauges().await.unwrap();
    assert!((1..=2).contains(&gauges.admitted), "{gauges:?}");
}

#[tokio::test]
async fn an_event_whose_stream_is_gone_or_fenced_is_told_apart() {
    let server = Server::start().await;
    let queue = server.queue().await;
    let events = ["{}".to_owned()];
    let emission = Emission { key: task(1, 1).key, attempt: 1, first_n: 2, first_seq: 2, events: &events };
    assert_eq!(queue.emit(&emission).await.unwrap(), EmitVerdict::Gone);
}
