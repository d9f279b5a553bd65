//! `GET /api/task/{id}`: the row, and what the queue says of a task that waits.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use penstock_protocol::{TaskId, TaskKey};

use super::waiting::Waiting;
use super::{Links, TaskDetail};
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};

/// Read a task: status, why it is not progressing, attempts, usage, result.
#[utoipa::path(
    get,
    path = "/api/task/{id}",
    tag = "task",
    params(("id" = uuid::Uuid, Path, description = "The task")),
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "The task", body = TaskDetail),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "task_not_found", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read_task(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Json<TaskDetail>, Problem> {
    caller.require(Scope::Read)?;
    let key = key_of(&caller, &text_of(id))?;
    let row = app.store.task(key).await.map_err(|error| Problem::of_store(&error))?;
    let row = row.ok_or_else(Problem::task_not_found)?;
    let waiting = Waiting::of(&app, row.key, row.status).await;
    let links = Links::of(&app.settings.now().api.public_url, &headers, key.task);
    Ok(Json(TaskDetail::new(&row, waiting, links)))
}

/// The caller's task of this id. A text that is no id names no task, like any other unknown one.
pub(crate) fn key_of(caller: &Caller, id: &str) -> Result<TaskKey, Problem> {
    let id = uuid::Uuid::parse_str(id).map_err(|_| Problem::task_not_found())?;
    Ok(TaskKey::new(caller.tenant, TaskId(id)))
}

/// The `{id}` of the path; one that cannot be decoded is no id.
pub(super) fn text_of(id: Result<Path<String>, PathRejection>) -> String {
    id.map(|Path(id)| id).unwrap_or_default()
}
