//! `GET /api/task/{id}/webhooks` and `POST /api/task/{id}/webhooks/redeliver`.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use penstock_protocol::TaskKey;
use penstock_store::WebhookRow;
use penstock_webhook::Try;
use serde::Serialize;
use utoipa::ToSchema;

use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};
use crate::task::{key_of, text_of};

/// The deliveries of one task.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct WebhookRecord {
    /// One for each target.
    deliveries: Vec<DeliveryView>,
}

/// A delivery. Moments are milliseconds since the Unix epoch.
#[derive(Debug, Serialize, ToSchema)]
struct DeliveryView {
    /// `webhook-id` of every try.
    id: String,
    /// Target.
    url: String,
    /// The ends that are told.
    events: Vec<String>,
    /// `armed` (the task has not ended), `pending`, `delivered`, `failed`, `skipped` (nobody asked for this end).
    state: String,
    /// Tries so far.
    tries: u32,
    /// When it is tried or looked at next.
    next_ms: Option<u64>,
    /// When it was delivered or given up.
    done_ms: Option<u64>,
    /// The latest tries, newest last.
    log: Vec<TryView>,
}

/// One try.
#[derive(Debug, Serialize, ToSchema)]
struct TryView {
    /// When it ended.
    at_ms: u64,
    /// How long it took.
    took_ms: u64,
    /// The target's HTTP status, if it answered.
    status: Option<u16>,
    /// What went wrong, if it did not.
    error: Option<String>,
}

/// Read how a task's end was told.
#[utoipa::path(
    get,
    path = "/api/task/{id}/webhooks",
    tag = "task",
    params(("id" = uuid::Uuid, Path, description = "The task")),
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "Its deliveries", body = WebhookRecord),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "task_not_found", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read_webhooks(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<WebhookRecord>, Problem> {
    caller.require(Scope::Read)?;
    record(&app, key_of(&caller, &text_of(id))?).await
}

/// Tell a task's end again, under the id of before. One that is still to be told stays as it is.
#[utoipa::path(
    post,
    path = "/api/task/{id}/webhooks/redeliver",
    tag = "task",
    params(("id" = uuid::Uuid, Path, description = "The task")),
    security(("key" = ["submit"])),
    responses(
        (status = 200, description = "Its deliveries as they stand now", body = WebhookRecord),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "task_not_found", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn redeliver(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<WebhookRecord>, Problem> {
    caller.require(Scope::Submit)?;
    let key = key_of(&caller, &text_of(id))?;
    app.store.redeliver_webhook(key).await.map_err(|error| Problem::of_store(&error))?;
    record(&app, key).await
}

async fn record(app: &App, key: TaskKey) -> Result<Json<WebhookRecord>, Problem> {
    let of_store = |error| Problem::of_store(&error);
    let row = app.store.webhook(key).await.map_err(of_store)?;
    if row.is_none() && app.store.task(key).await.map_err(of_store)?.is_none() {
        return Err(Problem::task_not_found());
    }
    Ok(Json(WebhookRecord { deliveries: row.into_iter().map(DeliveryView::from).collect() }))
}

impl From<WebhookRow> for DeliveryView {
    fn from(row: WebhookRow) -> Self {
        let log = Try::read(row.log.as_deref()).into_iter();
        Self {
            id: penstock_webhook::signature::message_id(row.id),
            url: row.url,
            events: row.events.split(',').map(str::to_owned).collect(),
            state: row.state,
            tries: row.tries,
            next_ms: row.due_ms,
            done_ms: row.done_ms,
            log: log
                .map(|each| TryView {
                    at_ms: each.at_ms,
                    took_ms: each.took_ms,
                    status: each.status,
                    error: each.error,
                })
                .collect(),
        }
    }
}
