//! The client: submits tasks over kept connections and hears their ends on a few sockets.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::client::{Door, Socket};

/// Longest wait for the end of one task.
const TASK_MAX: Duration = Duration::from_secs(30);

/// What is loaded, and how.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where.
    pub door: Door,
    /// Agent of each task.
    pub agent: String,
    /// Tasks in all.
    pub tasks: usize,
    /// Tasks under way at once; each has its own connection.
    pub in_flight: usize,
    /// Sockets on which ends are heard.
    pub sockets: usize,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// From the first POST to the last end.
    pub took: Duration,
    /// POST to end, sorted.
    pub ends: Vec<Duration>,
}

impl Loaded {
    /// Tasks a second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.ends.len() as f64 / self.took.as_secs_f64()
    }

    /// The `percent`th percentile from POST to end, in ms.
    #[must_use]
    pub fn end_ms(&self, percent: usize) -> f64 {
        let last = self.ends.len().saturating_sub(1);
        self.ends.get(last * percent / 100).map_or(0.0, |end| end.as_secs_f64() * 1000.0)
    }
}

/// A frame of `/api/ws`, as far as it matters here.
#[derive(Deserialize)]
struct Frame {
    task_id: Uuid,
    #[serde(default)]
    event: Option<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
}

type Subscribe = (Uuid, oneshot::Sender<bool>);

/// Runs a load to its end.
///
/// # Errors
/// When a task is refused, fails, or does not end in time: a benchmark of a system that fails is none.
pub async fn run(load: &Load) -> anyhow::Result<Loaded> {
    let mut listeners = Vec::new();
    for _ in 0..load.sockets {
        let socket = load.door.socket("/api/ws").await.context("the door refused a socket")?;
        let (subscribe, subscriptions) = mpsc::channel(load.in_flight);
        tokio::spawn(listen(socket, subscriptions));
        listeners.push(subscribe);
    }
    let (next, began) = (Arc::new(AtomicUsize::new(0)), Instant::now());
    let mut clients = JoinSet::new();
    for client in 0..load.in_flight {
        let (load, next) = (load.clone(), Arc::clone(&next));
        let listener = listeners.get(client % load.sockets).context("at least one socket")?.clone();
        clients.spawn(async move {
            let (mut connection, mut ends) = (load.door.connection(), Vec::new());
            while next.fetch_add(1, Ordering::Relaxed) < load.tasks {
                let (id, sent) = (Uuid::now_v7(), Instant::now());
                let (ended, end) = oneshot::channel();
                listener.send((id, ended)).await.ok().context("a socket closed")?;
                let body = format!(r#"{{"agent":"{}","input":"go","task_id":"{id}"}}"#, load.agent);
                let answer = connection.request("POST", "/api/task", "", &body).await?;
                if answer.status != 202 {
                    bail!("task {id} was answered {}: {}", answer.status, answer.text);
                }
                if !timeout(TASK_MAX, end).await.context("a task did not end in time")?? {
                    bail!("task {id} did not succeed");
                }
                ends.push(sent.elapsed());
            }
            anyhow::Ok(ends)
        });
    }
    let mut ends = Vec::new();
    while let Some(client) = clients.join_next().await {
        ends.extend(client??);
    }
    ends.sort_unstable();
    Ok(Loaded { took: began.elapsed(), ends })
}

/// Subscribes to tasks on one socket and tells each waiter of its end.
async fn listen(mut socket: Socket, mut subscriptions: mpsc::Receiver<Subscribe>) -> anyhow::Result<()> {
    let mut waiting = HashMap::new();
    loop {
        tokio::select! {
            subscription = subscriptions.recv() => {
                let Some((id, ended)) = subscription else { return Ok(()) };
                waiting.insert(id, ended);
                socket.send(Message::text(format!(r#"{{"op":"subscribe","task_id":"{id}"}}"#))).await?;
            }
            frame = socket.next() => {
                let Message::Text(text) = frame.context("a socket closed")?? else { continue };
                let Ok(frame) = serde_json::from_str::<Frame>(&text) else { continue };
                let has_succeeded = match frame.event.as_ref().map(|event| event.r#type.as_str()) {
                    Some("RUN_FINISHED") => true,
                    Some("RUN_ERROR") => false,
                    _ => continue,
                };
                if let Some(ended) = waiting.remove(&frame.task_id) {
                    // A client that gave up has reported it.
                    let _ = ended.send(has_succeeded);
                }
            }
        }
    }
}
