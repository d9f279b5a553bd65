//! `DELETE /api/task/{id}`: cancel.
//!
//! Law 4: the conditional UPDATE decides; Redis only publishes. So a cancel is final once the row says so, even while
//! Redis is away: then the worker's claim or result is refused, and whoever meets the task publishes its end.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{self, Path};
use axum::http::HeaderMap;
use penstock_protocol::{Status, TaskKey};
use penstock_queue::{CancelVerdict, State};
use penstock_recovery::{RecoveryError, store_seen};
use penstock_store::TaskRow;
use tokio::time::sleep;

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
    extract::State(app): extract::State<App>,
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

/// Cancels a task unless it has ended. Returns the row as it stands then.
pub(crate) async fn carry_out(app: App, key: TaskKey) -> Result<TaskRow, Problem> {
    let row = app.store.cancel(key).await.map_err(|error| Problem::of_store(&error))?;
    let row = row.ok_or_else(Problem::task_not_found)?;
    let (Status::Cancelled, Some(event)) = (row.status, row.terminal_event()) else { return Ok(row) };
    match publish(&app, &row, &event).await {
        Ok(CancelVerdict::Flagged) => {
            app.tracker.spawn(insist(app.clone(), row.clone(), event));
        }
        Ok(CancelVerdict::Ended | CancelVerdict::Already | CancelVerdict::Unknown) => {}
        Err(error) => {
            tracing::debug!(task.id = %key, %error, "a cancel was stored; its publication is left to the reconciler");
        }
    }
    Ok(row)
}

/// Publishes the end of a task that no worker runs, or tells the worker that does.
async fn publish(app: &App, row: &TaskRow, event: &str) -> Result<CancelVerdict, RecoveryError> {
    // An earlier attempt of a task that waits again may have shown something.
    if row.attempt > 0 && row.result.is_none() {
        match app.queue.position(row.key).await?.state {
            Some(State::InLine | State::Held | State::Parked | State::Delayed | State::Quarantined) => {
                store_seen(&app.queue, &app.store, row.key, row.attempt).await?;
            }
            // Its worker knows, or the reaper looks.
            Some(State::Registered | State::HandedOut | State::Running | State::Ended) | None => {}
        }
    }
    Ok(app.queue.cancel(row.key, row.attempt, event).await?)
}

/// Ends what its worker does not: it is gone and its lease has not passed yet, or it is stuck. A worker that is only slow
/// finds the end published, and adds to the row what the calls cost.
async fn insist(app: App, row: TaskRow, event: String) {
    sleep(app.settings.now().queue.cancel_grace).await;
    let (key, attempt) = (row.key, row.attempt);
    let ended = async {
        if app.queue.position(key).await?.state == Some(State::Running) {
            store_seen(&app.queue, &app.store, key, attempt).await?;
            if app.queue.close(key, attempt, &event).await? {
                tracing::info!(task.id = %key, "a cancelled task whose worker did not end it was ended");
            }
        }
        Ok::<_, RecoveryError>(())
    };
    if let Err(error) = ended.await {
        tracing::debug!(task.id = %key, %error, "the end of a cancelled task is left to its worker and the reaper");
    }
}
