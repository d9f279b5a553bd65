//! `GET /api/queue`: the sums that a client or an autoscaler looks at, and where the caller's own tenant stands.
//!
//! The sums name no tenant. Of pauses, a caller sees those of the queue, of agents and of its own tenant; an operator all.

use axum::Json;
use axum::extract::State;
use penstock_queue::{Gauges, Standing};
use penstock_store::Paused;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};
use crate::pause::Pause;

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
    /// Whether an operator paused the queue.
    is_paused: bool,
    /// The caller's own tenant.
    tenant: TenantState,
    /// What operators paused, as far as it concerns the caller; all of it for a key with the scope `admin`.
    pauses: Vec<Pause>,
}

/// Where the caller's tenant stands.
#[derive(Debug, Serialize, ToSchema)]
struct TenantState {
    /// Its tasks that wait: registered, in line, held, put aside, delayed.
    waiting: u64,
    /// In line.
    in_line: u64,
    /// Running, or handed to a slot.
    running: u64,
    /// Most of its tasks that may wait.
    depth_max: u64,
    /// Most of its tasks that run at once; null = any number.
    running_max: Option<u64>,
    /// Its share of the slots among tenants that wait.
    weight: u64,
    /// Least time from one start to the next, in ms; 0 = any.
    start_gap_ms: u64,
    /// Whether the tenant, or the whole queue, is paused.
    is_paused: bool,
    /// Estimate of the tasks that are served before one more of its tasks.
    position: u64,
    /// Estimate of the wait of one more of its tasks, in ms; null while nothing is known, or paused.
    estimated_wait_ms: Option<u64>,
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
    let asked = tokio::try_join!(app.queue.gauges(), app.queue.standing(caller.tenant));
    let (gauges, standing) = asked.map_err(|_| Problem::unavailable("the queue does not answer"))?;
    let concerns = |what: &Paused| match what {
        Paused::Queue | Paused::Agent(_) => true,
        Paused::Tenant(name) => **name == *caller.tenant_name || caller.scopes.has(Scope::Admin),
    };
    let pauses = app.keys.pauses().into_iter().filter(|pause| concerns(&pause.what)).map(Pause::from).collect();
    let settings = app.settings.now();
    let queue = &settings.queue;
    let depth_max = caller.allowance.depth_max.map_or(queue.tenant_depth_max, u64::from);
    Ok(Json(QueueState::new(gauges, queue.depth_max, TenantState::new(standing, depth_max), pauses)))
}

impl QueueState {
    fn new(gauges: Gauges, depth_max: u64, tenant: TenantState, pauses: Vec<Pause>) -> Self {
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
            is_paused: gauges.is_paused,
            tenant,
            pauses,
        }
    }
}

impl TenantState {
    fn new(standing: Standing, depth_max: u64) -> Self {
        Self {
            waiting: standing.admitted + standing.waiting,
            in_line: standing.line,
            running: standing.running,
            depth_max,
            running_max: (standing.running_max > 0).then_some(standing.running_max),
            weight: standing.weight,
            start_gap_ms: standing.start_gap_ms,
            is_paused: standing.is_paused,
            position: standing.ahead,
            estimated_wait_ms: standing.wait_ms,
        }
    }
}
