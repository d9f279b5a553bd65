//! The server: routes, and the way of one call from its request to its response.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Query, State};
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
use super::frame::Frames;
use super::pace::paced;
use super::record::{Call, ReceivedCall, Recorder, Stats};
use super::request::ChatRequest;
use super::script::Script;

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
            .route("/v1/chat/completions", post(complete))
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

    /// Base URL for a client of OpenAI's dialect.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
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

async fn complete(State(house): State<Arc<House>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let started = Instant::now();
    let request: ChatRequest<'_> = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(cause) => return mistake(&cause.to_string()),
    };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let tag = header("x-request-tag").or_else(|| header("x-client-request-id"));
    let last_user_text = request.last_user_text();
    let mut call = house.recorder.receive(&request.model, tag, body.clone());
    let choice =
        Choice { model: &request.model, tag, last_user_text: &last_user_text, header: header("x-fake-behaviour") };
    let chosen = house.chooser().choose(&choice);
    let behaviour = match chosen {
        Ok(_) if request.stream_options.is_some() && !request.is_stream() => {
            call.complete();
            return mistake("stream_options without stream: true");
        }
        Ok(behaviour) => behaviour,
        Err(cause) => {
            call.complete();
            return mistake(&cause.to_string());
        }
    };
    let answer =
        Answer { messages_count: request.messages.len(), prompt_tokens: request.prompt_tokens(), last_user_text };
    let has_usage_null = request.is_stream() && request.wants_usage();
    let frames = Frames::new(call.number, &request.model, has_usage_null);
    respond(behaviour, answer, frames, call, started, request.is_stream()).await
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
        return error_response(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &behaviour);
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

fn mistake(message: &str) -> Response<Body> {
    let body = json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": null}});
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
        Err(cause) => mistake(&cause.to_string()),
    }
}

/// Empties the books, and goes back to the script of the start.
async fn reset(State(house): State<Arc<House>>) -> StatusCode {
    house.recorder.reset();
    *house.chooser() = Chooser::new(house.script.clone());
    StatusCode::NO_CONTENT
}
