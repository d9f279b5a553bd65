//! The floor: a door on a bare Redis Stream, with one worker and one relay in the same process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::streams::StreamReadReply;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use uuid::Uuid;

const STREAM: &str = "{penstock-floor}:ready";
const CHANNEL: &str = "{penstock-floor}:bell";

#[derive(Clone)]
struct Floor {
    redis: MultiplexedConnection,
    watchers: Watchers,
}

type Watchers = Arc<Mutex<HashMap<Uuid, Watched>>>;

/// What is known of a task: the floor has no log to read, so an end that comes before its watcher is kept.
enum Watched {
    By(mpsc::UnboundedSender<Uuid>),
    Ended,
}

#[derive(Deserialize)]
struct Task {
    task_id: Uuid,
}

/// Starts the floor on a free port and returns its address.
///
/// # Errors
/// When Redis cannot be reached.
pub async fn start(redis_url: &str) -> anyhow::Result<String> {
    let client = redis::Client::open(redis_url)?;
    let redis = client.get_multiplexed_async_connection().await.context("Redis of the floor")?;
    let mut setup = redis.clone();
    redis::cmd("DEL").arg(STREAM).exec_async(&mut setup).await?;
    redis::cmd("XGROUP").arg(&["CREATE", STREAM, "workers", "0", "MKSTREAM"]).exec_async(&mut setup).await?;
    let floor = Floor { redis, watchers: Watchers::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();

    tokio::spawn(work(client.get_multiplexed_async_connection().await?, floor.redis.clone()));
    tokio::spawn(relay(client.get_async_pubsub().await?, Arc::clone(&floor.watchers)));
    let routes = Router::new().route("/api/task", post(submit)).route("/api/ws", get(watch)).with_state(floor);
    tokio::spawn(async move {
        axum::serve(axum::serve::ListenerExt::tap_io(listener, |io| drop(io.set_nodelay(true))), routes).await
    });
    Ok(address)
}

async fn submit(State(mut floor): State<Floor>, axum::Json(task): axum::Json<Task>) -> StatusCode {
    let mut add = redis::cmd("XADD");
    add.arg(STREAM).arg("*").arg("t").arg(task.task_id.to_string());
    match add.exec_async(&mut floor.redis).await {
        Ok(()) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// Reads entries, acknowledges them and publishes their end, as one pipeline each.
async fn work(mut blocking: MultiplexedConnection, redis: MultiplexedConnection) -> redis::RedisResult<()> {
    loop {
        let mut read = redis::cmd("XREADGROUP");
        read.arg(&["GROUP", "workers", "floor", "COUNT", "50", "BLOCK", "400", "STREAMS", STREAM, ">"]);
        let Ok(reply) = read.query_async::<StreamReadReply>(&mut blocking).await else { continue };
        for entry in reply.keys.into_iter().flat_map(|key| key.ids) {
            let mut redis = redis.clone();
            tokio::spawn(async move {
                let id: String = entry.get("t").unwrap_or_default();
                let mut end = redis::pipe();
                end.cmd("XACK").arg(&[STREAM, "workers", &entry.id]).ignore();
                end.cmd("XDEL").arg(&[STREAM, &entry.id]).ignore();
                end.cmd("PUBLISH").arg(&[CHANNEL, &id]).ignore();
                end.exec_async(&mut redis).await
            });
        }
    }
}

async fn relay(mut bell: redis::aio::PubSub, watchers: Watchers) -> redis::RedisResult<()> {
    bell.subscribe(CHANNEL).await?;
    let mut rings = bell.into_on_message();
    while let Some(ring) = rings.next().await {
        let Ok(id) = ring.get_payload::<String>().unwrap_or_default().parse() else { continue };
        let mut watchers = watchers.lock().unwrap_or_else(PoisonError::into_inner);
        match watchers.remove(&id) {
            // A watcher that left needs to know nothing.
            Some(Watched::By(watcher)) => drop(watcher.send(id).ok()),
            _ => drop(watchers.insert(id, Watched::Ended)),
        }
    }
    Ok(())
}

async fn watch(State(floor): State<Floor>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(|socket| serve(socket, floor.watchers))
}

async fn serve(mut socket: WebSocket, watchers: Watchers) {
    let (ended, mut ends) = mpsc::unbounded_channel();
    loop {
        tokio::select! {
            frame = socket.recv() => {
                let Some(Ok(Message::Text(text))) = frame else { return };
                let Ok(task) = serde_json::from_str::<Task>(&text) else { continue };
                let mut watchers = watchers.lock().unwrap_or_else(PoisonError::into_inner);
                if watchers.remove(&task.task_id).is_some() {
                    let _ = ended.send(task.task_id);
                } else {
                    watchers.insert(task.task_id, Watched::By(ended.clone()));
                }
            }
            Some(id) = ends.recv() => {
                let frame = format!(r#"{{"task_id":"{id}","event":{{"type":"RUN_FINISHED"}}}}"#);
                if socket.send(Message::Text(frame.into())).await.is_err() {
                    return;
                }
            }
        }
    }
}
