//! Lean client for the queue bench: its `burst` and `seq` on Penstock's own API, with little CPU of its own.
//!
//! Measures what the bench's own client measures for the other queues, in the same way, so that both stand in one table:
//! the socket is open before the clock starts, each POST has a connection of its own, the clock runs from sending the POST
//! to the first event (RUN_STARTED, which the worker sends). Prints one JSON line with the bench's names.
//! Called by the copy of the bench that `make bench` fits (`loadtest/bench/fit.py`).

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, Subcommand};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use uuid::Uuid;

/// Longest wait for the end of a task.
const TASK_WAIT: Duration = Duration::from_secs(40);

#[derive(Parser)]
struct Arguments {
    /// File that holds the API key.
    #[arg(long)]
    key_file: PathBuf,
    #[command(subcommand)]
    scenario: Scenario,
}

#[derive(Subcommand)]
enum Scenario {
    /// All submit at one instant.
    Burst {
        #[arg(long)]
        port: u16,
        #[arg(long)]
        vus: usize,
        /// How long the model takes, in ms.
        #[arg(long)]
        sleep: u64,
        /// Time for all sockets to open, in ms.
        #[arg(long, default_value_t = 1500)]
        lead: u64,
    },
    /// One task after another.
    Seq {
        #[arg(long)]
        port: u16,
        #[arg(long)]
        n: usize,
        /// Pause between two tasks, in ms.
        #[arg(long, default_value_t = 10)]
        gap: u64,
    },
}

/// What one task showed, in ms since its POST was sent.
#[derive(Default)]
struct Seen {
    status: u16,
    answered: f64,
    first: Option<f64>,
    is_done: bool,
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

#[derive(Clone)]
struct Door {
    port: u16,
    key: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { key_file, scenario } = Arguments::parse();
    let key = std::fs::read_to_string(&key_file).with_context(|| key_file.display().to_string())?.trim().to_owned();
    let seen = match scenario {
        Scenario::Burst { port, vus, sleep, lead } => {
            burst(Door { port, key }, vus, sleep, Duration::from_millis(lead)).await?
        }
        Scenario::Seq { port, n, gap } => sequence(Door { port, key }, n, Duration::from_millis(gap)).await?,
    };
    report(&seen);
    Ok(())
}

async fn burst(door: Door, users: usize, model_ms: u64, lead: Duration) -> anyhow::Result<Vec<Seen>> {
    let start = Instant::now() + lead;
    let mut running = JoinSet::new();
    for _ in 0..users {
        let door = door.clone();
        running.spawn(async move {
            let id = Uuid::new_v4();
            let socket = door.connect(id).await?;
            sleep_until(start).await;
            door.run(socket, id, model_ms).await
        });
    }
    running.join_all().await.into_iter().collect()
}

async fn sequence(door: Door, tasks: usize, gap: Duration) -> anyhow::Result<Vec<Seen>> {
    let mut seen = Vec::new();
    for number in 0..tasks {
        let id = Uuid::new_v4();
        let socket = door.connect(id).await?;
        let one = door.run(socket, id, 0).await?;
        if number >= tasks / 10 {
            seen.push(one); // the first tenth is warm-up
        }
        sleep(gap).await;
    }
    Ok(seen)
}

impl Door {
    async fn connect(&self, id: Uuid) -> anyhow::Result<Socket> {
        let mut request = format!("ws://127.0.0.1:{}/api/task/{id}/ws", self.port).into_client_request()?;
        request.headers_mut().insert("authorization", format!("Bearer {}", self.key).parse()?);
        Ok(connect_async(request).await?.0)
    }

    /// Submits one task and follows it to its end, or to a no.
    ///
    /// The peers' job sends one event and sleeps: so does this model for `model_ms`, and then says one word.
    async fn run(&self, mut socket: Socket, id: Uuid, model_ms: u64) -> anyhow::Result<Seen> {
        let mut seen = Seen::default();
        let sent = Instant::now();
        let deadline = sent + TASK_WAIT;
        let input = format!("go [[fake: first_ms={model_ms},chunks=1]]");
        let body = json!({ "task_id": id, "agent": "instant", "input": input }).to_string();
        let post = self.post(&body);
        tokio::pin!(post);
        while seen.status == 0 || !seen.is_done {
            tokio::select! {
                status = &mut post, if seen.status == 0 => {
                    seen.status = status?;
                    seen.answered = ms(sent);
                    if seen.status >= 300 {
                        break;
                    }
                }
                frame = socket.next() => {
                    let Some(Ok(frame)) = frame else { break };
                    let Message::Text(text) = frame else { continue };
                    let event: Value = serde_json::from_str(&text)?;
                    match event["type"].as_str() {
                        Some("RUN_STARTED") => seen.first = Some(ms(sent)),
                        Some("RUN_FINISHED") => seen.is_done = true,
                        Some("RUN_ERROR") => break,
                        _ => {}
                    }
                }
                () = sleep_until(deadline) => break,
            }
        }
        let _ = socket.close(None).await; // the server may have closed it first
        Ok(seen)
    }

    /// One POST on a fresh connection; returns the status.
    async fn post(&self, body: &str) -> anyhow::Result<u16> {
        let Self { port, key } = self;
        let mut stream = TcpStream::connect(("127.0.0.1", *port)).await?;
        stream.set_nodelay(true)?;
        let request = format!(
            "POST /api/task HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status line")
    }
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

#[expect(clippy::print_stdout, reason = "the line on stdout is what this program is for")]
fn report(seen: &[Seen]) {
    let first: Vec<f64> = seen.iter().filter_map(|one| one.first).collect();
    let answered =
        |status: u16| seen.iter().filter(|one| one.status == status).map(|one| one.answered).collect::<Vec<_>>();
    let (accepted, rejected) = (answered(202), answered(429));
    let mut line = json!({
        "n": seen.len(), "admitted": accepted.len(), "rejected": rejected.len(),
        "done": seen.iter().filter(|one| one.is_done).count(), "first_n": first.len(),
        "first_p50": percentile(&first, 50), "first_p95": percentile(&first, 95), "first_p99": percentile(&first, 99),
        "first_max": percentile(&first, 100), "post_p50": percentile(&accepted, 50), "post_p95": percentile(&accepted, 95),
        "rej_p95": percentile(&rejected, 95),
    });
    // Parts that only a server in the bench's own dialect could tell.
    for part in ["http_in", "queue", "event", "ws"] {
        for rank in ["p50", "p95"] {
            line[format!("{part}_{rank}")] = Value::Null;
        }
    }
    println!("{line}");
}

/// Nearest rank, as the bench counts it.
fn percentile(values: &[f64], rank: usize) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((rank * last + 50) / 100).copied()
}
