//! The server: routes, and the way of one call from its request to its response.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::response::{IntoResponse, Json};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::answer::Answer;
use super::behaviour::{Behaviour, PRESETS, Stall};
use super::choose::{Choice, Chooser};
use super::failure::error_response;
use super::pace::paced;
use super::record::{Call, ReceivedCall, Recorder, Stats};
use super::script::Script;
use super::wire::{Dialect, Frames};

/// Largest request body.
const BODY_BYTES_MAX: usize = 32 << 20;
/// Calls that `GET /fake/calls` gives without `?last=`.
const CALLS_DEFAULT: usize = 100;

/// A running fake provider. Dropped, it takes no more connections.
#[derive(Debug)]
pub struct FakeProvider {
    address: SocketAddr,
    house: Arc<House>,
    serving: JoinHandle<std::io::Result<()>>,
}

#[derive(Debug)]
struct House {
    recorder: Arc<Recorder>,
    chooser: Mutex<Chooser>,
    script: Script,
}

impl FakeProvider {
    /// Listens on a free port of the loopback interface.
    ///
    /// # Errors
    /// When no port can be bound.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        Self::listen(SocketAddr::from(([127, 0, 0, 1], 0)), script).await
    }

    /// Listens on `address`.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn listen(address: SocketAddr, script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let recorder = Arc::new(Recorder::new());
        let books = Arc::clone(&recorder);
        let listener = listener.tap_io(move |socket| {
            books.connect();
            // Each write of a stream leaves at once. A socket that refuses is only slower.
            drop(socket.set_nodelay(true));
        });
        let house = Arc::new(House { recorder, chooser: Mutex::new(Chooser::new(script.clone())), script });
        let routes = Router::new()
            .route("/v1/chat/completions", post(chat_completions))
            .route("/v1/messages", post(messages))
            .route("/v1beta/models/{call}", post(generate_content))
            .route("/v1/models", get(models))
            .route("/fake/stats", get(async |State(house): State<Arc<House>>| Json(house.recorder.stats())))
            .route("/fake/calls", get(calls))
            .route("/fake/script", post(set_script))
            .route("/fake/reset", post(reset))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(Arc::clone(&house));
        let serving = tokio::spawn(axum::serve(listener, routes).into_future());
        Ok(Self { address, house, serving })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Base URL for a gateway that speaks OpenAI's dialect or Anthropic's.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Base URL for a gateway that speaks Google's dialect.
    #[must_use]
    pub fn gemini_base_url(&self) -> String {
        format!("http://{}/v1beta", self.address)
    }

    /// What `GET /fake/stats` answers.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.house.recorder.stats()
    }

    /// What `GET /fake/calls` answers.
    #[must_use]
    pub fn calls(&self, last: usize) -> Vec<ReceivedCall> {
        self.house.recorder.calls(last)
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl House {
    fn chooser(&self) -> MutexGuard<'_, Chooser> {
        self.chooser.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn chat_completions(State(house): State<Arc<House>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    complete(&house, Dialect::OpenAi, "", &headers, body).await
}

async fn messages(State(house): State<Arc<House>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    if !headers.contains_key("anthropic-version") {
        return mistake(Dialect::Anthropic, "anthropic-version: header is required");
    }
    complete(&house, Dialect::Anthropic, "", &headers, body).await
}

async fn generate_content(
    State(house): State<Arc<House>>,
    Path(call): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    complete(&house, Dialect::Gemini, &call, &headers, body).await
}

async fn complete(house: &House, dialect: Dialect, path: &str, headers: &HeaderMap, body: Bytes) -> Response<Body> {
    let started = Instant::now();
    let request = match dialect.read(&body, path) {
        Ok(request) => request,
        Err(message) => return mistake(dialect, &message),
    };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let tag = header("x-request-tag").or_else(|| header("x-client-request-id"));
    let mut call = house.recorder.receive(&request.model, tag, body);
    let choice = Choice {
        model: &request.model,
        tag,
        last_user_text: &request.last_user_text,
        header: header("x-fake-behaviour"),
    };
    let chosen = house.chooser().choose(&choice);
    let behaviour = match chosen {
        Ok(behaviour) => behaviour,
        Err(cause) => {
            call.complete();
            return mistake(dialect, &cause.to_string());
        }
    };
    let frames = dialect.frames(call.number, &request);
    let answer = Answer {
        messages_count: request.messages_count,
        prompt_tokens: request.prompt_tokens,
        last_user_text: request.last_user_text,
    };
    respond(behaviour, answer, frames, call, started, request.is_stream).await
}

async fn respond(
    behaviour: Behaviour,
    answer: Answer,
    frames: Frames,
    mut call: Call,
    started: Instant,
    is_stream: bool,
) -> Response<Body> {
    if !behaviour.first_byte.is_zero() {
        sleep_until(started + behaviour.first_byte).await;
    }
    if behaviour.stall == Some(Stall::Byte) {
        std::future::pending::<()>().await;
    }
    if let Some(status) = behaviour.status.filter(|_| behaviour.error_chunks.is_none()) {
        call.complete();
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        return error_response(status, &behaviour, frames.dialect());
    }
    if !is_stream || behaviour.is_json {
        sleep_until(started + behaviour.total.unwrap_or(behaviour.first + behaviour.gap * behaviour.chunks)).await;
        let whole = frames.whole(&behaviour, &answer);
        call.complete();
        return typed("application/json", Body::from(whole));
    }
    typed("text/event-stream", Body::from_stream(paced(behaviour, answer, frames, call, started)))
}

fn typed(content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", HeaderValue::from_static(content_type));
    response
}

/// What the caller did wrong, in its dialect's words.
fn mistake(dialect: Dialect, message: &str) -> Response<Body> {
    let body = match dialect {
        Dialect::OpenAi => {
            json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}})
        }
        Dialect::Anthropic => json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}}),
        Dialect::Gemini => json!({"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}),
    };
    (StatusCode::BAD_REQUEST, Json(body)).into_response()
}

async fn models() -> impl IntoResponse {
    let models = PRESETS.map(|(name, _)| json!({"id": name, "object": "model", "created": 0, "owned_by": "fake"}));
    Json(json!({"object": "list", "data": models}))
}

#[derive(Deserialize)]
struct CallsQuery {
    last: Option<usize>,
}

async fn calls(State(house): State<Arc<House>>, Query(query): Query<CallsQuery>) -> Json<Vec<ReceivedCall>> {
    Json(house.recorder.calls(query.last.unwrap_or(CALLS_DEFAULT)))
}

async fn set_script(State(house): State<Arc<House>>, body: Bytes) -> Response<Body> {
    match Script::from_json(&body) {
        Ok(script) => {
            *house.chooser() = Chooser::new(script);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(cause) => mistake(Dialect::OpenAi, &cause.to_string()),
    }
}

/// Empties the books, and goes back to the script of the start.
async fn reset(State(house): State<Arc<House>>) -> StatusCode {
    house.recorder.reset();
    *house.chooser() = Chooser::new(house.script.clone());
    StatusCode::NO_CONTENT
}
