//! `GET /api/queue`: the sums that a client or an autoscaler looks at. They name no tenant.

use axum::Json;
use axum::extract::State;
use penstock_queue::Gauges;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};

/// The routes of the queue.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(read_queue))
}

/// Sums over all tenants.
#[derive(Debug, Serialize, ToSchema)]
struct QueueState {
    /// Tasks that wait: what admission compares with its limit.
    depth: u64,
    /// The limit.
    depth_max: u64,
    /// In line.
    in_line: u64,
    /// Waiting for another task of their thread.
    held: u64,
    /// Handed to idle slots, not started.
    handed_out: u64,
    /// Waiting to be tried again.
    delayed: u64,
    /// Running.
    running: u64,
    /// Slots of all workers that are alive.
    slots: u64,
    /// Workers that are alive.
    workers: u64,
    /// Mean time of a task on a slot, over about two minutes; null while nothing is known.
    mean_service_ms: Option<u64>,
    /// Whether tasks are taken; not while the queue is rebuilt.
    is_open: bool,
}

/// Read the state of the queue.
#[utoipa::path(
    get,
    path = "/api/queue",
    tag = "queue",
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "The queue now", body = QueueState),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
async fn read_queue(State(app): State<App>, caller: Caller) -> Result<Json<QueueState>, Problem> {
    caller.require(Scope::Read)?;
    let gauges = app.queue.gauges().await.map_err(|_| Problem::unavailable("the queue does not answer"))?;
    Ok(Json(QueueState::new(gauges, app.settings.now().queue.depth_max)))
}

impl QueueState {
    fn new(gauges: Gauges, depth_max: u64) -> Self {
        Self {
            depth: gauges.depth(),
            depth_max,
            in_line: gauges.line,
            held: gauges.held,
            handed_out: gauges.handed_out,
            delayed: gauges.delayed,
            running: gauges.running,
            slots: gauges.slots,
            workers: gauges.workers,
            mean_service_ms: gauges.mean_service_ms,
            is_open: gauges.is_open,
        }
    }
}
