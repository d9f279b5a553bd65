//! Events of tasks to clients: AG-UI 1.0 over WebSocket and server-sent events (`docs/events.md` is for clients).
//!
//! One task's stream in Redis → `hub` (a watch per task, fed by the bell) → `feed` (what one reader reads) → a
//! `socket`, `many` tasks on one, `sse` or `agui`. The stream is the only truth and the bell says "look again"; what
//! the stream cannot tell any more, `ending` builds from the row in MySQL.
//!
//! Invariant: nothing here writes to a stream, and reading never consumes.

mod agui;
mod bells;
mod close;
mod departure;
mod ending;
mod feed;
mod frame;
mod hub;
mod identity;
mod jitter;
mod line;
mod many;
mod metrics;
mod open_items;
mod outbox;
mod progress;
mod seats;
mod socket;
mod sse;
mod standing;
mod stay;
mod sweep;
mod ticket;
mod watch;

pub(crate) use departure::run as serve_departures;
pub use hub::Hub;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

/// The routes of events.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(socket::follow_task))
        .routes(routes!(many::follow_many))
        .routes(routes!(sse::follow_events))
        .routes(routes!(agui::run_agent))
        .routes(routes!(ticket::make_ticket))
}
