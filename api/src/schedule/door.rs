//! `/api/schedule`: cron entries of a tenant, and their fires.

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use penstock_protocol::TaskId;
use penstock_store::{FireRecord, ScheduleRow, ScheduleStatus};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use super::fire::submit_template;
use super::request::{Misfire, Overlap, ScheduleRequest, Status};
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody, ProblemCode};
use crate::task::{IdempotencyKey, SubmitAnswer, answer, judged, read_json, text_of};

/// A cron entry as it stands. Moments are milliseconds since the Unix epoch.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ScheduleView {
    /// Its id.
    id: Uuid,
    /// Label for people.
    name: String,
    /// Five fields.
    cron: String,
    /// Time zone.
    zone: String,
    /// What becomes of late fires.
    misfire: Misfire,
    /// What becomes of a fire while the task of the last one lives.
    overlap: Overlap,
    /// Whether it fires.
    status: Status,
    /// What each fire submits.
    #[schema(value_type = Object)]
    task: Value,
    /// The next fire; null while it is disabled.
    next_ms: Option<u64>,
    /// Task of the last fire that had one.
    #[schema(value_type = Option<Uuid>)]
    last_task_id: Option<TaskId>,
    /// When it was created.
    created_ms: u64,
    /// When it was last changed.
    changed_ms: u64,
}

/// All entries of a tenant, the oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ScheduleList {
    schedules: Vec<ScheduleView>,
}

/// The latest fires of an entry, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FireList {
    fires: Vec<FireView>,
}

/// What became of one fire.
#[derive(Debug, Serialize, ToSchema)]
struct FireView {
    /// The fire time; of a fire by hand, its moment.
    fire_ms: u64,
    /// `accepted`, `missed`, `skipped`, `refused`, `manual`.
    outcome: String,
    /// Its task.
    #[schema(value_type = Option<Uuid>)]
    task_id: Option<TaskId>,
    /// Why it has none.
    detail: Option<String>,
    /// When that was known.
    at_ms: u64,
}

/// Create a cron entry.
#[utoipa::path(
    post,
    path = "/api/schedule",
    tag = "schedule",
    request_body = ScheduleRequest,
    security(("key" = ["submit"])),
    responses(
        (status = 201, description = "Created", body = ScheduleView, headers(("Location" = String, description = "The entry"))),
        (status = 400, description = "malformed_body", body = ProblemBody, content_type = "application/problem+json"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "body_too_large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "unsupported_media_type", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 422, description = "invalid_request, unknown_agent, too_many_schedules", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn create_schedule(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let caller = Caller::authenticate(&app.keys, &parts.headers)?;
    let row = put(&app, &caller, &parts.headers, body, Uuid::now_v7()).await?;
    let location = HeaderValue::from_str(&format!("/api/schedule/{}", row.id));
    let mut response = (StatusCode::CREATED, Json(ScheduleView::from(row))).into_response();
    if let Ok(location) = location {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

/// Write a cron entry whole: change it, or create it under an id of the caller's. May be repeated.
#[utoipa::path(
    put,
    path = "/api/schedule/{id}",
    tag = "schedule",
    params(("id" = Uuid, Path, description = "The entry")),
    request_body = ScheduleRequest,
    security(("key" = ["submit"])),
    responses(
        (status = 200, description = "The entry as it stands now", body = ScheduleView),
        (status = 400, description = "malformed_body", body = ProblemBody, content_type = "application/problem+json"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "schedule_not_found", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 422, description = "invalid_request, unknown_agent, too_many_schedules", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn put_schedule(
    State(app): State<App>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Json<ScheduleView>, Problem> {
    let (parts, body) = request.into_parts();
    let caller = Caller::authenticate(&app.keys, &parts.headers)?;
    let id = id_of(id)?;
    Ok(Json(put(&app, &caller, &parts.headers, body, id).await?.into()))
}

/// List the cron entries.
#[utoipa::path(
    get,
    path = "/api/schedule",
    tag = "schedule",
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "All entries", body = ScheduleList),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list_schedules(State(app): State<App>, caller: Caller) -> Result<Json<ScheduleList>, Problem> {
    caller.require(Scope::Read)?;
    let rows = app.store.schedules(caller.tenant).await.map_err(|error| Problem::of_store(&error))?;
    Ok(Json(ScheduleList { schedules: rows.into_iter().map(ScheduleView::from).collect() }))
}

/// Read a cron entry.
#[utoipa::path(
    get,
    path = "/api/schedule/{id}",
    tag = "schedule",
    params(("id" = Uuid, Path, description = "The entry")),
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "The entry", body = ScheduleView),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "schedule_not_found", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read_schedule(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<ScheduleView>, Problem> {
    caller.require(Scope::Read)?;
    Ok(Json(find(&app, &caller, id_of(id)?).await?.into()))
}

/// Delete a cron entry and the record of its fires. Tasks that it submitted go on.
#[utoipa::path(
    delete,
    path = "/api/schedule/{id}",
    tag = "schedule",
    params(("id" = Uuid, Path, description = "The entry")),
    security(("key" = ["submit"])),
    responses(
        (status = 204, description = "It is gone"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "schedule_not_found", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn delete_schedule(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<StatusCode, Problem> {
    caller.require(Scope::Submit)?;
    let gone = app.store.delete_schedule(caller.tenant, id_of(id)?).await;
    let gone = gone.map_err(|error| Problem::of_store(&error))?;
    if gone { Ok(StatusCode::NO_CONTENT) } else { Err(Problem::schedule_not_found()) }
}

/// Submit the task of a cron entry now. Its fire times stay as they are.
#[utoipa::path(
    post,
    path = "/api/schedule/{id}/fire",
    tag = "schedule",
    params(
        ("id" = Uuid, Path, description = "The entry"),
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters"),
    ),
    security(("key" = ["submit"])),
    responses(
        (status = 202, description = "As for POST /api/task", body = SubmitAnswer),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "schedule_not_found", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 429, description = "As for POST /api/task", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 503, description = "unavailable, rebuilding, overloaded", body = ProblemBody,
            content_type = "application/problem+json"),
    )
)]
pub(super) async fn fire_now(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Problem> {
    caller.require(Scope::Submit)?;
    let row = find(&app, &caller, id_of(id)?).await?;
    let key = IdempotencyKey::read(request.headers())?;
    let task = key.map_or_else(TaskId::mint, |key| key.task_id(caller.tenant));
    let submitted = submit_template(&app, &caller, &row.template, task).await?;
    let record = FireRecord {
        fire_ms: row.now_ms,
        outcome: "manual".to_owned(),
        task: Some(task),
        detail: None,
        at_ms: row.now_ms,
    };
    let keep = app.settings.now().schedule.history_max;
    if let Err(error) = app.store.record_fire(caller.tenant, row.id, &record, keep).await {
        tracing::debug!(schedule.id = %row.id, %error, "a fire by hand was not recorded");
    }
    Ok(answer(&app, request.headers(), &submitted))
}

/// List the latest fires of a cron entry, newest first.
#[utoipa::path(
    get,
    path = "/api/schedule/{id}/fires",
    tag = "schedule",
    params(("id" = Uuid, Path, description = "The entry")),
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "At most schedule.history_max fires", body = FireList),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "schedule_not_found", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list_fires(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<FireList>, Problem> {
    caller.require(Scope::Read)?;
    let row = find(&app, &caller, id_of(id)?).await?;
    let most = app.settings.now().schedule.history_max;
    let fires = app.store.schedule_fires(caller.tenant, row.id, most).await;
    let fires = fires.map_err(|error| Problem::of_store(&error))?;
    Ok(Json(FireList { fires: fires.into_iter().map(FireView::from).collect() }))
}

fn id_of(id: Result<Path<String>, PathRejection>) -> Result<Uuid, Problem> {
    Uuid::parse_str(&text_of(id)).map_err(|_| Problem::schedule_not_found())
}

async fn find(app: &App, caller: &Caller, id: Uuid) -> Result<ScheduleRow, Problem> {
    let row = app.store.schedule(caller.tenant, id).await.map_err(|error| Problem::of_store(&error))?;
    row.ok_or_else(Problem::schedule_not_found)
}

async fn put(
    app: &App,
    caller: &Caller,
    headers: &axum::http::HeaderMap,
    body: Body,
    id: Uuid,
) -> Result<ScheduleRow, Problem> {
    caller.require(Scope::Submit)?;
    let settings = app.settings.now();
    let request: ScheduleRequest = read_json(headers, body, settings.api.body_bytes_max).await?;
    // What a fire submits is judged now as it will be then.
    let submission = judged(app, request.task.clone(), None)?;
    crate::webhook::resolve(&settings.webhook, caller, submission.webhook.as_ref())?;
    let of_store = |error| Problem::of_store(&error);
    let old = app.store.schedule(caller.tenant, id).await.map_err(of_store)?;
    let now_ms = match &old {
        Some(old) => old.now_ms,
        None => app.store.now_ms().await.map_err(of_store)?,
    };
    let mut write = request.into_write(&settings.schedule, caller.tenant, id, now_ms)?;
    if let Some(old) = &old {
        write.keep_cursor(old);
    }
    let written = app.store.put_schedule(&write, settings.schedule.tenant_max).await.map_err(of_store)?;
    written.ok_or_else(|| {
        let most = settings.schedule.tenant_max;
        let detail = format!("a tenant has at most {most} cron entries (schedule.tenant_max); delete some");
        Problem::new(ProblemCode::TooManySchedules, detail)
    })
}

impl From<ScheduleRow> for ScheduleView {
    fn from(row: ScheduleRow) -> Self {
        Self {
            id: row.id,
            name: row.name,
            cron: row.cron,
            zone: row.zone,
            misfire: Misfire::from_stored(row.misfire_max),
            overlap: if row.is_overlap_skipped { Overlap::Skip } else { Overlap::Allow },
            status: row.status.into(),
            task: serde_json::from_str(&row.template).unwrap_or_default(),
            next_ms: row.next_ms.filter(|_| row.status != ScheduleStatus::Disabled),
            last_task_id: row.last_task,
            created_ms: row.created_ms,
            changed_ms: row.changed_ms,
        }
    }
}

impl From<FireRecord> for FireView {
    fn from(record: FireRecord) -> Self {
        Self {
            fire_ms: record.fire_ms,
            outcome: record.outcome,
            task_id: record.task,
            detail: record.detail,
            at_ms: record.at_ms,
        }
    }
}
