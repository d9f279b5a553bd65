//! `GET /api/task/{id}/ws`: the events of one task, one bare AG-UI event a text frame.
//!
//! Law 7: a clean end is the terminal event and close code 1000; anything else means "come back with your cursor".

use axum::extract::rejection::QueryRejection;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use penstock_protocol::{EventId, TaskKey};
use serde::Deserialize;

use super::close::End;
use super::feed::{Delivery, Feed};
use super::identity::{SUBPROTOCOL, reader, speaks_subprotocol};
use super::line::{BATCH_BYTES_MAX, Heard, Line, bound};
use super::metrics::Way;
use super::seats::Full;
use super::sse::told;
use super::standing::Standing;
use super::stay::Stay;
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Problem, ProblemBody, ProblemCode};
use crate::task::key_of;

/// Where to begin.
#[derive(Debug, Deserialize)]
pub(super) struct After {
    after: Option<String>,
}

/// The cursor of a query. Errors: 422 when it is none.
pub(super) fn cursor_of(after: Result<Query<After>, QueryRejection>) -> Result<Option<EventId>, Problem> {
    let Query(After { after }) = after.map_err(|_| Problem::invalid("after", "give one cursor"))?;
    after.as_deref().map(cursor).transpose()
}

/// Reads a cursor, the `id` of an event. Errors: 422.
pub(super) fn cursor(text: &str) -> Result<EventId, Problem> {
    let reason = "a cursor is the id of an event, as `metadata.penstock.id` gives it: `1-3`";
    text.parse().map_err(|_| Problem::invalid("after", reason))
}

/// Follow a task on a WebSocket.
///
/// One AG-UI event a text frame, with its cursor in `metadata.penstock`. Connecting before the task is submitted is fine.
/// Browsers offer the subprotocols `penstock.agui.v1` and `penstock.ticket.<ticket>`. Close codes: docs/events.md.
#[utoipa::path(
    get,
    path = "/api/task/{id}/ws",
    tag = "events",
    params(
        ("id" = uuid::Uuid, Path, description = "The task"),
        ("after" = Option<String>, Query, description = "Resume after the event with this id"),
    ),
    security(("key" = ["read"])),
    responses(
        (status = 101, description = "WebSocket"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope, forbidden_origin", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 404, description = "task_not_found: the id is no UUID", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 422, description = "invalid_request: the cursor is none", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 426, description = "upgrade_required", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "overloaded: no more sockets", body = ProblemBody,
            content_type = "application/problem+json"),
    )
)]
pub(super) async fn follow_task(
    State(app): State<App>,
    Path(id): Path<String>,
    after: Result<Query<After>, QueryRejection>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let caller = reader(&app, &headers).await?;
    let (key, after) = (key_of(&caller, &id)?, cursor_of(after)?);
    open(&app, &headers, caller, upgrade, Way::Socket, move |app, line, stay| relay(app, line, stay, key, after))
}

/// Upgrades to a socket with a seat, and runs `work` on it until it says how the socket ends.
pub(super) fn open<W, F>(
    app: &App,
    headers: &HeaderMap,
    caller: Caller,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
    way: Way,
    work: W,
) -> Result<Response, Problem>
where
    W: FnOnce(App, Line, Stay) -> F + Send + 'static,
    F: Future<Output = (Line, Stay, End)> + Send + 'static,
{
    let mut upgrade = bound(
        upgrade
            .map_err(|_| Problem::new(ProblemCode::UpgradeRequired, "open a WebSocket here: `Upgrade: websocket`"))?,
    );
    if app.shutdown.is_cancelled() {
        return Err(Problem::draining());
    }
    let seat = match app.hub.inner().seats.take(caller.key) {
        Err(Full::Process) => return Err(Problem::overloaded()),
        // A page cannot read an HTTP answer to an upgrade; it can read a close code.
        Err(Full::Key) => None,
        Ok(seat) => Some(seat),
    };
    let has_comments = speaks_subprotocol(headers);
    if has_comments {
        upgrade.set_selected_protocol(HeaderValue::from_static(SUBPROTOCOL));
    }
    let (app, ping_every) = (app.clone(), app.settings.now().events.ping_every);
    let token = app.tracker.token();
    Ok(upgrade.on_upgrade(move |socket| async move {
        let line = Line::new(socket, ping_every, has_comments);
        let is_seated = seat.is_some();
        let stay = Stay::begin(&app, &caller, way, seat);
        let (line, stay, end) = if is_seated { work(app, line, stay).await } else { (line, stay, End::TooMany) };
        stay.ended(end);
        line.close(end).await;
        drop((stay, token));
    }))
}

async fn relay(app: App, mut line: Line, mut stay: Stay, key: TaskKey, after: Option<EventId>) -> (Line, Stay, End) {
    let mut feed = Feed::new(&app.hub);
    feed.subscribe(key, after);
    let mut standing = (line.takes_comments() && after.is_none()).then(|| Standing::new(&app, key));
    let end = loop {
        let is_flushed = line.is_flushed();
        tokio::select! {
            biased;
            end = stay.over() => break end,
            heard = line.hear() => match heard {
                Heard::End(end) => break end,
                // Nothing is expected of a client here, and nothing is lost by ignoring it.
                Heard::Text(_) | Heard::Flushed => {}
            },
            (_, delivery) = feed.next(is_flushed) => {
                standing = None;
                if let Err(end) = write(&mut line, &mut feed, delivery) {
                    break end;
                }
            }
            told = told(&mut standing), if is_flushed => {
                if let Err(end) = line.write(format!(": {told}").into()) {
                    break end;
                }
            }
        }
    };
    (line, stay, end)
}

/// Writes `first` and whatever else is there, up to a batch. Errors: how the socket ends.
fn write(line: &mut Line, feed: &mut Feed, first: Delivery) -> Result<(), End> {
    let (mut next, mut bytes) = (Some(first), 0);
    while let Some(delivery) = next {
        match delivery {
            Delivery::Event(frame) => {
                bytes += frame.text.len();
                line.write(frame.text.clone())?;
            }
            Delivery::End(end) => return Err(end),
        }
        next = if bytes < BATCH_BYTES_MAX { feed.try_next().map(|(_, delivery)| delivery) } else { None };
    }
    Ok(())
}
