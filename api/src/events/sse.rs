//! Events as server-sent events, and `GET /api/task/{id}/events`.
//!
//! Lines end with LF only, since the stock AG-UI client knows nothing else; there is no `[DONE]`. `id:` is the cursor, so
//! a browser comes back by itself where it was. Law 7: a stream that stops before its terminal event says so in an event
//! `close`, which AG-UI readers do not get.

use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use penstock_protocol::{EventId, TaskKey};
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::close::End;
use super::feed::{Delivery, Feed};
use super::frame::Frame;
use super::jitter::spread;
use super::line::BATCH_BYTES_MAX;
use super::metrics::Way;
use super::seats::Full;
use super::socket::{After, cursor, cursor_of};
use super::standing::Standing;
use super::stay::Stay;
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody, ProblemCode};
use crate::task::key_of;

const LAST_EVENT_ID: &str = "last-event-id";

/// Follow a task as server-sent events.
///
/// `data:` is one AG-UI event, `id:` its cursor. Comments keep the connection alive. Ends after the terminal event;
/// answers 204 to a cursor behind which nothing comes, so that a browser stops asking.
#[utoipa::path(
    get,
    path = "/api/task/{id}/events",
    tag = "events",
    params(
        ("id" = uuid::Uuid, Path, description = "The task"),
        ("after" = Option<String>, Query, description = "Resume after the event with this id"),
        ("Last-Event-ID" = Option<String>, Header, description = "The same, as browsers send it; it comes first"),
    ),
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 204, description = "The cursor is that of the terminal event"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "task_not_found: the id is no UUID", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 410, description = "cursor_gone", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "invalid_request: the cursor is none", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 429, description = "too_many_sockets", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "overloaded", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn follow_events(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    after: Result<Query<After>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(Scope::Read)?;
    let key = key_of(&caller, &id)?;
    let after = match last_event_id(&headers)? {
        None => cursor_of(after)?,
        seen => seen,
    };
    let mut events = Events::begin(&app, &caller, Way::Sse)?;
    events.follow(&app, key, after);
    events.feed.opened().await;
    match events.feed.ends_at_once() {
        Some(End::Done) => return Ok(StatusCode::NO_CONTENT.into_response()),
        Some(End::CursorGone) => {
            let detail = "the events after this cursor cannot be served; read without a cursor";
            return Err(Problem::new(ProblemCode::CursorGone, detail));
        }
        _ => {}
    }
    Ok(events.into_response())
}

/// A browser sends an empty id where it has none.
fn last_event_id(headers: &HeaderMap) -> Result<Option<EventId>, Problem> {
    let text = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?")).filter(|text| !text.is_empty());
    text.map(cursor).transpose()
}

/// A stream of server-sent events under way.
pub(super) struct Events {
    pub(super) feed: Feed,
    stay: Stay,
    standing: Option<Standing>,
    way: Way,
    ping_every: Duration,
    ping_at: Pin<Box<Sleep>>,
    is_over: bool,
    _token: TaskTrackerToken,
}

impl Events {
    /// Takes a seat. Errors: 429 when the key has no more, 503 when the process has none or stops.
    pub(super) fn begin(app: &App, caller: &Caller, way: Way) -> Result<Self, Problem> {
        if app.shutdown.is_cancelled() {
            return Err(Problem::draining());
        }
        let seats = &app.hub.inner().seats;
        let seat = seats.take(caller.key).map_err(|full| match full {
            Full::Process => Problem::overloaded(),
            Full::Key => Problem::too_many_sockets(seats.per_key_max()),
        })?;
        let ping_every = app.settings.now().events.ping_every;
        Ok(Self {
            feed: Feed::new(&app.hub),
            stay: Stay::begin(app, caller, way, Some(seat)),
            standing: None,
            way,
            ping_every,
            ping_at: Box::pin(sleep(spread(ping_every, 0.1, 1.0))),
            is_over: false,
            _token: app.tracker.token(),
        })
    }

    /// Follows a task, and says where it stands while it waits. A reader that comes back has seen it begin.
    pub(super) fn follow(&mut self, app: &App, key: TaskKey, after: Option<EventId>) {
        self.feed.subscribe(key, after);
        self.standing = after.is_none().then(|| Standing::new(app, key));
    }

    /// The answer: a comment at once, so that the client knows that it is connected, then the events.
    pub(super) fn into_response(self) -> Response {
        let first = stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from_static(b": connected\n\n"))]);
        let rest = stream::unfold(self, async |mut events| Some((Ok(events.next().await?), events)));
        let body = Body::from_stream(stream::StreamExt::chain(first, rest));
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
            (header::HeaderName::from_static("x-accel-buffering"), "no"),
        ];
        (headers, body).into_response()
    }

    /// The next piece of the body; `None` after the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        tokio::select! {
            biased;
            end = self.stay.over() => self.end(end),
            (_, delivery) = self.feed.next(true) => self.piece(delivery),
            told = told(&mut self.standing) => Some(format!(": {told}\n\n").into()),
            () = self.ping_at.as_mut() => {
                self.ping_at.as_mut().reset(Instant::now() + spread(self.ping_every, 0.8, 1.0));
                Some(Bytes::from_static(b": ping\n\n"))
            }
        }
    }

    /// Writes `first` and whatever else is there, up to a batch.
    fn piece(&mut self, first: Delivery) -> Option<Bytes> {
        self.standing = None;
        let (mut next, mut text) = (Some(first), String::new());
        while let Some(delivery) = next {
            match delivery {
                Delivery::Event(frame) => write(&mut text, &frame),
                Delivery::End(end) => {
                    text.extend(self.end(end).and_then(|last| String::from_utf8(last.into()).ok()));
                    break;
                }
            }
            next = if text.len() < BATCH_BYTES_MAX { self.feed.try_next().map(|(_, delivery)| delivery) } else { None };
        }
        (!text.is_empty()).then(|| text.into())
    }

    /// Ends the stream; returns the last words.
    fn end(&mut self, end: End) -> Option<Bytes> {
        self.is_over = true;
        self.stay.ended(end);
        if end == End::Done {
            return None;
        }
        let (code, reason) = (end.code(), end.reason());
        let words = match self.way {
            // An AG-UI reader takes every `data:` for an event, so it gets a comment.
            Way::Agui => format!(": close {code} {reason}\n\n"),
            Way::Sse | Way::Socket | Way::Many => {
                format!("event: close\ndata: {{\"code\":{code},\"reason\":\"{reason}\"}}\n\n")
            }
        };
        Some(words.into())
    }
}

/// What there is to tell of a task that waits; waits for ever where there is nothing to tell.
pub(super) async fn told(standing: &mut Option<Standing>) -> String {
    match standing {
        Some(standing) => standing.next().await,
        None => std::future::pending().await,
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if !self.is_over {
            self.stay.ended(End::Left);
        }
    }
}

fn write(text: &mut String, frame: &Frame) {
    use std::fmt::Write;
    // Writing to a String does not fail.
    let _ = write!(text, "id: {}\ndata: {}\n\n", frame.id, frame.text.as_str());
}
