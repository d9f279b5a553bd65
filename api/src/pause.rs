//! `POST /api/pause` and `POST /api/resume`: stop the queue, a tenant or an agent, and let it go on.
//!
//! The row in MySQL is the truth: it survives restarts, deploys and a flush of Redis. Recovery brings the queue in line
//! within two seconds. What runs goes on; what is paused keeps its place.

use axum::Json;
use axum::extract::{Request, State};
use penstock_store::{PauseRow, Paused};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};
use crate::task::read_json;

/// The routes of pauses.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(pause)).routes(routes!(resume))
}

/// What is paused: `{"kind":"queue"}`, `{"kind":"tenant","name":"acme"}` or `{"kind":"agent","name":"planner"}`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub(crate) enum Target {
    /// The whole queue.
    Queue,
    /// A tenant, by its name.
    Tenant(String),
    /// An agent, by its name, for all tenants.
    Agent(String),
}

/// A pause in force.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Pause {
    #[serde(flatten)]
    target: Target,
    /// Since when, in ms since the Unix epoch.
    since_ms: u64,
}

/// Everything that is paused.
#[derive(Debug, Serialize, ToSchema)]
struct Pauses {
    pauses: Vec<Pause>,
}

/// Pause the queue, a tenant or an agent. May be repeated.
///
/// No task of it starts from two seconds after the answer at the latest; what runs goes on, and new tasks are accepted.
#[utoipa::path(
    post,
    path = "/api/pause",
    tag = "queue",
    request_body = Target,
    security(("key" = ["admin"])),
    responses(
        (status = 200, description = "Everything that is paused now", body = Pauses),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "invalid_request, unknown_agent", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
async fn pause(State(app): State<App>, caller: Caller, request: Request) -> Result<Json<Pauses>, Problem> {
    change(&app, &caller, request, true).await
}

/// Let the queue, a tenant or an agent go on. May be repeated.
#[utoipa::path(
    post,
    path = "/api/resume",
    tag = "queue",
    request_body = Target,
    security(("key" = ["admin"])),
    responses(
        (status = 200, description = "Everything that is still paused", body = Pauses),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "invalid_request", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
async fn resume(State(app): State<App>, caller: Caller, request: Request) -> Result<Json<Pauses>, Problem> {
    change(&app, &caller, request, false).await
}

async fn change(app: &App, caller: &Caller, request: Request, is_paused: bool) -> Result<Json<Pauses>, Problem> {
    caller.require(Scope::Admin)?;
    let (parts, body) = request.into_parts();
    let target: Target = read_json(&parts.headers, body, app.settings.now().api.body_bytes_max).await?;
    let what = match target {
        Target::Queue => Paused::Queue,
        Target::Tenant(name) => Paused::Tenant(name),
        Target::Agent(name) if is_paused && !app.settings.now().agents.contains_key(&name) => {
            return Err(Problem::unknown_agent(&name));
        }
        Target::Agent(name) => Paused::Agent(name),
    };
    app.store.set_paused(&what, is_paused).await.map_err(|error| match error {
        penstock_store::StoreError::Conflict(reason) => Problem::invalid("name", reason),
        error => Problem::of_store(&error),
    })?;
    tracing::info!(kind = what.kind(), name = what.name(), is_paused, "an operator changed what is paused");
    let pauses = app.store.pauses().await.map_err(|error| Problem::of_store(&error))?;
    Ok(Json(Pauses { pauses: pauses.into_iter().map(Pause::from).collect() }))
}

impl From<PauseRow> for Pause {
    fn from(row: PauseRow) -> Self {
        let target = match row.what {
            Paused::Queue => Target::Queue,
            Paused::Tenant(name) => Target::Tenant(name),
            Paused::Agent(name) => Target::Agent(name),
        };
        Self { target, since_ms: row.since_ms }
    }
}
