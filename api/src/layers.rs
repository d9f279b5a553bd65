//! What surrounds every request: an id, a bound in time and number, a net under panics, and a count.
//!
//! Law 12: a request that has not been answered after `api.request_timeout_ms` is answered 503, and the one over
//! `api.requests_max` at once. A socket or an event stream is no open request once its head is sent.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::app::App;
use crate::error::{Problem, ProblemCode};
use crate::metrics::Route;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_LENGTH_MAX: usize = 64;

/// Counts the request, gives it an id, and answers 500 if its handler panics. The outermost layer.
pub(crate) async fn observe(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let route = Route::of(request.extensions().get::<MatchedPath>().map(MatchedPath::as_str));
    let id = request_id(&request);
    let span =
        tracing::debug_span!("request", request.id = ?id, method = %request.method(), path = request.uri().path());
    app.counts.requests_open.inc();
    let handled = AssertUnwindSafe(next.run(request).instrument(span)).catch_unwind().await;
    app.counts.requests_open.dec();
    let mut response = handled.unwrap_or_else(|_| Problem::internal().into_response());
    if let Some(code) = response.extensions().get::<ProblemCode>().copied() {
        app.counts.problem(code);
        if code == ProblemCode::Internal {
            tracing::error!(request.id = ?id, ?route, "a request met a fault of our own");
        }
    }
    app.counts.answered(route, response.status().into(), began.elapsed());
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Bounds the requests of one process in number and in time.
pub(crate) async fn bound(
    State((app, permits)): State<(App, Arc<Semaphore>)>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(_permit) = permits.try_acquire() else { return Problem::overloaded().into_response() };
    let limit = app.settings.now().api.request_timeout;
    match timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::timed_out(limit.as_millis()).into_response(),
    }
}

/// The caller's id of the request, if it can be taken, else a new one.
fn request_id(request: &Request) -> HeaderValue {
    let given = request
        .headers()
        .get(REQUEST_ID)
        .filter(|id| (1..=REQUEST_ID_LENGTH_MAX).contains(&id.len()) && id.as_bytes().iter().all(u8::is_ascii_graphic));
    given.cloned().unwrap_or_else(|| {
        let mut text = uuid::Uuid::encode_buffer();
        let text = uuid::Uuid::now_v7().simple().encode_lower(&mut text);
        HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static("-"))
    })
}
