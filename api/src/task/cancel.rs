//! `DELETE /api/task/{id}`: cancel.
//!
//! Law 4: the conditional UPDATE decides; Redis only publishes. So a cancel is final once the row says so, even while
//! Redis is away: then the worker's claim or result is refused, and whoever meets the task publishes its end.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use penstock_protocol::{Status, TaskKey};
use penstock_store::TaskRow;

use super::read::{key_of, text_of};
use super::{Links, TaskDetail};
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};

/// Cancel a task. May be repeated; a task that has ended stays as it ended.
#[utoipa::path(
    delete,
    path = "/api/task/{id}",
    tag = "task",
    params(("id" = uuid::Uuid, Path, description = "The task")),
    security(("key" = ["submit"])),
    responses(
        (status = 200, description = "The task as it stands now: cancelled, or as it had ended", body = TaskDetail),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "task_not_found", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn cancel_task(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Json<TaskDetail>, Problem> {
    caller.require(Scope::Submit)?;
    let key = key_of(&caller, &text_of(id))?;
    // It goes on when the client leaves: the row and its publication belong together.
    let work = carry_out(app.clone(), key);
    let row = app.tracker.spawn(work).await.unwrap_or_else(|_| Err(Problem::internal()))?;
    let links = Links::of(&app.settings.now().api.public_url, &headers, key.task);
    Ok(Json(TaskDetail::new(&row, None, links)))
}

/// Stores the cancel, then publishes it.
pub(super) async fn carry_out(app: App, key: TaskKey) -> Result<TaskRow, Problem> {
    let row = app.store.cancel(key).await.map_err(|error| Problem::of_store(&error))?;
    let row = row.ok_or_else(Problem::task_not_found)?;
    if let (Status::Cancelled, Some(event)) = (row.status, row.terminal_event())
        && let Err(error) = app.queue.cancel(key, row.attempt, &event).await
    {
        tracing::debug!(task.id = %key, %error, "a cancel was stored; its publication is left to the reconciler");
    }
    Ok(row)
}
