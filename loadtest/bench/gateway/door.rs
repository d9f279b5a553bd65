//! The door: one route before the gateway. A caller who leaves drops the stream, and so the call to the provider.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{Response, StatusCode, header};
use axum::response::{IntoResponse, Json};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use bytes::Bytes;
use futures_util::stream;
use penstock_gateway::{CallScope, FinishReason, Gateway, GatewayError, ModelChunk, ModelStream, OpenAiRequest, Said};
use penstock_protocol::{TaskId, TaskKey, TenantNo};
use serde_json::json;
use tokio::net::TcpListener;

use crate::wire::{Writer, completion, failure};

/// Largest request body.
const BODY_BYTES_MAX: usize = 32 << 20;

/// What every call of the door needs.
#[derive(Clone)]
struct Door {
    gateway: Arc<Gateway>,
    /// How long a call waits for limits.
    wait: Option<Duration>,
}

pub(crate) async fn serve(gateway: Arc<Gateway>, listen: SocketAddr, wait: Option<Duration>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    println!("{}", json!({"listening": listener.local_addr()?}));
    // Each event leaves at once; a socket that refuses is only slower.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let routes = Router::new()
        .route("/v1/chat/completions", post(complete))
        .route("/healthz", get(async || "ok"))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(Door { gateway, wait });
    axum::serve(listener, routes).await?;
    Ok(())
}

async fn complete(State(door): State<Door>, body: Bytes) -> Response<Body> {
    let read = match OpenAiRequest::read(&body) {
        Ok(read) => read,
        Err(mistake) => {
            let body = json!({"error": {"message": mistake.to_string(), "type": "invalid_request_error"}});
            return (StatusCode::BAD_REQUEST, Json(body)).into_response();
        }
    };
    let scope = CallScope { wait: door.wait, ..CallScope::of(TaskKey::new(TenantNo(1), TaskId::mint())) };
    let id = scope.task.task.to_string();
    match door.gateway.stream(&read.request, &scope).await {
        Ok(answer) if read.is_stream => {
            let writer = Writer::new(&id, answer.model(), read.includes_usage);
            let events = stream::unfold(Some((answer, writer)), |state| async move { next_events(state?).await });
            let mut response = Response::new(Body::from_stream(events));
            response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/event-stream"));
            response
        }
        Ok(answer) => match whole(&id, answer).await {
            Ok(body) => Json(body).into_response(),
            Err(error) => refusal(&error),
        },
        Err(error) => refusal(&error),
    }
}

type Answering = (ModelStream, Writer);

/// The next bytes of a stream. An error is its last event: no `[DONE]` follows.
async fn next_events((mut answer, mut writer): Answering) -> Option<(io::Result<String>, Option<Answering>)> {
    let mut out = String::with_capacity(256);
    loop {
        match answer.next().await? {
            Ok(chunk) => {
                let is_last = matches!(chunk, ModelChunk::Finish { .. });
                writer.write(chunk, &mut out);
                if is_last {
                    return Some((Ok(out), None));
                }
                if !out.is_empty() {
                    return Some((Ok(out), Some((answer, writer))));
                }
            }
            Err(failed) => {
                let (_, body, _) = failure(&GatewayError::Failed(failed));
                return Some((Ok(format!("data: {body}\n\n")), None));
            }
        }
    }
}

async fn whole(id: &str, mut answer: ModelStream) -> Result<serde_json::Value, GatewayError> {
    let (mut said, mut usage, mut reason) = (Said::by(answer.exit()), None, FinishReason::Stop);
    while let Some(chunk) = answer.next().await {
        match chunk? {
            ModelChunk::Usage(told) => usage = Some(told),
            ModelChunk::Finish { reason: told } => reason = told,
            chunk => said.add(chunk),
        }
    }
    Ok(completion(id, answer.model(), &said, usage.as_ref(), &reason))
}

fn refusal(error: &GatewayError) -> Response<Body> {
    let (status, body, wait) = failure(error);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(body)).into_response();
    if let Some(wait) = wait {
        response.headers_mut().insert(header::RETRY_AFTER, wait.into());
    }
    response
}
