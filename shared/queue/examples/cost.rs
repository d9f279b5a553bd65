//! What a task costs Redis: commands inside the verbs, CPU time, and memory while it waits.
//!
//! `cargo run --release -p penstock-queue --features fixture --example cost` starts a Redis of its own (AOF, everysec)
//! and prints one table. CPU is the server's own count (`INFO cpu`), so it holds on a busy machine too.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a tool for developers"
)]

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use penstock_protocol::{TenantNo, ThreadId};
use penstock_queue::fixture::task;
use penstock_queue::{
    AdmitLimits, AdmitRequest, Finish, Queue, QueueSettings, QueuedTask, Shard, TenantTerms, Terms, WorkerId,
};

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"0198c7a2-1111-7222-8333-123456789012","runId":"0198c7a2-1111-7222-8333-123456789012","protocolVersion":"1.0"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"0198c7a2-1111-7222-8333-123456789012","runId":"0198c7a2-1111-7222-8333-123456789012","outcome":{"type":"success"}}"#;

struct Server {
    process: Child,
    folder: std::path::PathBuf,
    queue: Queue,
}

impl Server {
    async fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let folder = std::env::temp_dir().join(format!("penstock-cost-{port}"));
        std::fs::create_dir_all(&folder).unwrap();
        let mut settings =
            QueueSettings::new(format!("redis://127.0.0.1:{port}/"), Shard::new("cost", "main", 0).unwrap());
        settings.admit_timeout = Duration::from_secs(10);
        settings.call_timeout = Duration::from_secs(10);
        let mut process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .args(["--stream-node-max-bytes", "1024"])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        for _ in 0..100 {
            if let Ok(queue) = Queue::connect(settings.clone()).await {
                return Self { process, folder, queue };
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(process.kill());
        drop(process.wait());
        panic!("redis-server did not come up");
    }

    async fn info(&self, section: &str) -> BTreeMap<String, String> {
        let text: String = penstock_queue::fixture::command(&self.queue, &["INFO", section]).await;
        text.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name.into(), value.into())).collect()
    }

    async fn cpu_us(&self) -> f64 {
        let cpu = self.info("cpu").await;
        let seconds = |name: &str| cpu[name].trim().parse::<f64>().unwrap();
        (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread")) * 1e6
    }

    async fn empty(&self) {
        let _: () = penstock_queue::fixture::command(&self.queue, &["FLUSHALL"]).await;
        let census = self.queue.census().await.unwrap();
        let token = self.queue.wipe(&census).await.unwrap().unwrap();
        assert!(self.queue.apply(token.book(), &penstock_queue::Terms::default()).await.unwrap());
        assert!(self.queue.open(&token).await.unwrap());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    /// Tasks in line before the run, over so many tenants.
    waiting: u64,
    tenants: u32,
    with_user: bool,
    with_thread: bool,
    slots: usize,
}

fn new_task(shape: Shape, number: u64) -> QueuedTask {
    let tenant = 1 + u32::try_from(number % u64::from(shape.tenants)).unwrap();
    QueuedTask {
        user: shape.with_user.then(|| format!("user-{number}")),
        agent: "assistant".to_owned(),
        thread: shape.with_thread.then(ThreadId::mint),
        ..task(tenant, number)
    }
}

async fn submit(queue: &Queue, task: &QueuedTask) {
    let limits = AdmitLimits { depth_max: 10_000_000, ..AdmitLimits::default() };
    let request = AdmitRequest { key: task.key, user: task.user.as_deref(), body_hash: &task.body_hash, limits };
    let verdict = queue.admit(&request).await.unwrap();
    assert!(matches!(verdict, penstock_queue::AdmitVerdict::Admitted(_)), "{verdict:?}");
    queue.enqueue(task).await.unwrap();
}

/// Serves `count` tasks that are handed out, `width` at a time.
async fn serve(queue: &Queue, count: usize, width: usize) {
    let worker = WorkerId::new("w").unwrap();
    let mut reader = queue.ready_reader(worker.clone());
    let mut served = 0;
    while served < count {
        let entries = reader.read_now(width).await.unwrap();
        served += entries.len();
        let worker = &worker;
        stream::iter(entries)
            .for_each_concurrent(width, |entry| async move {
                queue.start(&entry, worker, STARTED).await.unwrap();
                let finish = Finish {
                    key: entry.key,
                    attempt: entry.attempt,
                    worker,
                    cost_tokens: Some(150),
                    input_tokens: 100,
                    last_seq: 1,
                    event: FINISHED,
                };
                queue.finish(&finish).await.unwrap();
            })
            .await;
    }
}

async fn measure(server: &Server, shape: Shape, count: usize, width: usize) {
    server.empty().await;
    let queue = &server.queue;
    let before = server.info("memory").await["used_memory"].trim().parse::<f64>().unwrap();
    stream::iter(0..shape.waiting)
        .for_each_concurrent(64, |number| async move { submit(queue, &new_task(shape, number)).await })
        .await;
    let after = server.info("memory").await["used_memory"].trim().parse::<f64>().unwrap();
    let worker = WorkerId::new("w").unwrap();
    queue.beat(&worker, shape.slots, &[], 0).await.unwrap();

    let _: () = penstock_queue::fixture::command(queue, &["CONFIG", "RESETSTAT"]).await;
    let (cpu, begun) = (server.cpu_us().await, std::time::Instant::now());
    let mut left = count;
    let mut number = shape.waiting;
    while left > 0 {
        let now = left.min(width);
        stream::iter(number..number + now as u64)
            .for_each_concurrent(width, |number| async move { submit(queue, &new_task(shape, number)).await })
            .await;
        serve(queue, now, width).await;
        number += now as u64;
        left -= now;
    }
    let cpu = (server.cpu_us().await - cpu) / count as f64;
    let seconds = begun.elapsed().as_secs_f64();
    let stats = server.info("commandstats").await;
    let number = |line: &str, name: &str| {
        line.split(',').find_map(|part| part.strip_prefix(name)?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let outside = [
        "cmdstat_fcall",
        "cmdstat_xreadgroup",
        "cmdstat_info",
        "cmdstat_config|resetstat",
        "cmdstat_client|id",
        "cmdstat_client|setinfo",
    ];
    let calls: f64 = stats
        .iter()
        .filter(|(name, _)| !outside.contains(&name.as_str()))
        .map(|(_, line)| number(line, "calls="))
        .sum();
    let fcall_us = number(&stats["cmdstat_fcall"], "usec=") / count as f64;
    let bytes = if shape.waiting > 0 { (after - before) / shape.waiting as f64 } else { 0.0 };
    println!(
        "{:<44} {:>4} wide  {:>5.1} calls  {:>6.1} µs in verbs  {:>6.1} µs cpu  {:>6.0} tasks/s  {:>4.0} B waiting",
        shape.name,
        width,
        calls / count as f64,
        fcall_us,
        cpu,
        count as f64 / seconds,
        bytes
    );
}

/// What each verb costs by itself, 16 wide.
async fn measure_verbs(server: &Server, count: usize) {
    let shape = Shape { name: "", waiting: 0, tenants: 1, with_user: false, with_thread: true, slots: count };
    server.empty().await;
    let queue = &server.queue;
    let worker = WorkerId::new("w").unwrap();
    let worker = &worker;
    queue.beat(worker, count, &[], 0).await.unwrap();
    let tasks: Vec<_> = (0..count as u64).map(|number| new_task(shape, number)).collect();
    let limits = AdmitLimits { depth_max: 10_000_000, ..AdmitLimits::default() };
    let limits_full = AdmitLimits { depth_max: 1, ..limits };
    begin(queue).await;
    stream::iter(&tasks)
        .for_each_concurrent(16, |task| async move {
            let request = AdmitRequest { key: task.key, user: None, body_hash: &task.body_hash, limits };
            queue.admit(&request).await.unwrap();
        })
        .await;
    report(server, "admit", count).await;
    stream::iter(0..count)
        .for_each_concurrent(16, |_| async move {
            let task = task(1, 1);
            let request = AdmitRequest { key: task.key, user: None, body_hash: &task.body_hash, limits: limits_full };
            queue.admit(&request).await.unwrap();
        })
        .await;
    report(server, "admit, refused", count).await;
    stream::iter(&tasks)
        .for_each_concurrent(16, |task| async move { assert!(queue.enqueue(task).await.is_ok()) })
        .await;
    report(server, "enqueue", count).await;
    let entries = queue.ready_reader(worker.clone()).read_now(count).await.unwrap();
    begin(queue).await;
    stream::iter(&entries)
        .for_each_concurrent(16, |entry| async move { assert!(queue.start(entry, worker, STARTED).await.is_ok()) })
        .await;
    report(server, "start", count).await;
    let leases: Vec<_> = entries.iter().map(|entry| (entry.key, entry.attempt)).collect();
    queue.beat(worker, count, &leases, 0).await.unwrap();
    report(server, "beat, per lease", count).await;
    stream::iter(&entries)
        .for_each_concurrent(16, |entry| async move {
            let (key, attempt) = (entry.key, entry.attempt);
            let finish = Finish {
                key,
                attempt,
                worker,
                cost_tokens: Some(150),
                input_tokens: 100,
                last_seq: 1,
                event: FINISHED,
            };
            queue.finish(&finish).await.unwrap();
        })
        .await;
    report(server, "finish", count).await;
}

/// One dispatch that passes over a tenant at its cap with 100 000 tasks in line.
async fn measure_capped(server: &Server) {
    const ROUNDS: u64 = 1000;
    server.empty().await;
    let queue = &server.queue;
    let census = queue.census().await.unwrap();
    let capped = TenantTerms { running_max: Some(1), ..TenantTerms::usual(TenantNo(1)) };
    let terms = Terms { tenants: vec![capped], ..Terms::default() };
    assert!(queue.apply(&census.book, &terms).await.unwrap());
    stream::iter(0..100_000)
        .for_each_concurrent(64, |number| async move { submit(queue, &task(1, number)).await })
        .await;
    let worker = WorkerId::new("w").unwrap();
    queue.beat(&worker, 2, &[], 0).await.unwrap();
    let mut worst = Duration::ZERO;
    let mut reader = queue.ready_reader(worker.clone());
    let capped = reader.read_now(10).await.unwrap();
    assert_eq!(capped.len(), 1);
    begin(queue).await;
    for number in 0..ROUNDS {
        let other = task(2, number);
        let asked = std::time::Instant::now();
        queue.enqueue(&other).await.unwrap();
        worst = worst.max(asked.elapsed());
        let entry = reader.read_now(10).await.unwrap().pop().unwrap();
        assert_eq!(entry.key, other.key);
        queue.start(&entry, &worker, STARTED).await.unwrap();
        let (key, attempt, worker) = (entry.key, entry.attempt, &worker);
        let finish = Finish { key, attempt, worker, cost_tokens: None, input_tokens: 0, last_seq: 1, event: FINISHED };
        queue.finish(&finish).await.unwrap();
    }
    let stats = server.info("commandstats").await;
    let fcall = stats["cmdstat_fcall"].split(',').find_map(|part| part.strip_prefix("usec=")?.parse::<f64>().ok());
    println!(
        "{:<44} {:>6.2} µs in all verbs of a task past it, slowest enqueue and dispatch {:.2} ms with the round trip",
        "a capped tenant with 100 000 in line",
        fcall.unwrap() / ROUNDS as f64,
        worst.as_secs_f64() * 1000.0
    );
}

async fn begin(queue: &Queue) {
    let _: () = penstock_queue::fixture::command(queue, &["CONFIG", "RESETSTAT"]).await;
}

async fn report(server: &Server, name: &str, count: usize) {
    let stats = server.info("commandstats").await;
    let fcall = stats["cmdstat_fcall"].split(',').find_map(|part| part.strip_prefix("usec=")?.parse::<f64>().ok());
    println!("{name:<44} {:>6.2} µs in the verb", fcall.unwrap() / count as f64);
    begin(&server.queue).await;
}

#[tokio::main]
async fn main() {
    let server = Server::start().await;
    measure_verbs(&server, 10_000).await;
    let plain = Shape { name: "idle slots", waiting: 0, tenants: 1, with_user: false, with_thread: false, slots: 1000 };
    let shapes = [
        plain,
        Shape { name: "idle slots, thread", with_thread: true, ..plain },
        Shape { name: "idle slots, user and thread", with_thread: true, with_user: true, ..plain },
        Shape { name: "1 000 in line, thread", waiting: 1000, slots: 16, with_thread: true, ..plain },
        Shape {
            name: "1 000 in line, 10 tenants, user and thread",
            waiting: 1000,
            slots: 16,
            tenants: 10,
            with_thread: true,
            with_user: true,
        },
        Shape {
            name: "100 000 in line, 10 000 tenants, thread",
            waiting: 100_000,
            slots: 16,
            tenants: 10_000,
            with_thread: true,
            ..plain
        },
        Shape { name: "100 000 in line, 10 000 tenants", waiting: 100_000, slots: 16, tenants: 10_000, ..plain },
        Shape {
            name: "100 000 in line, 10 000 tenants, user and thread",
            waiting: 100_000,
            slots: 16,
            tenants: 10_000,
            with_thread: true,
            with_user: true,
        },
    ];
    measure_capped(&server).await;
    for shape in shapes {
        for width in [1, 16] {
            measure(&server, shape, if width == 1 { 3000 } else { 20_000 }, width).await;
        }
    }
}
