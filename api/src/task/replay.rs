//! `POST /api/task/{id}/replay`: what an ended task asked, asked again.
//!
//! Law 4: the ended task stays as it ended. A replay is a new task that names it, and it passes admission like any other.
//! Its id is derived from the ended one's, so a replay that is asked for twice is one task.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use penstock_store::TaskRow;

use super::door::{SubmitAnswer, answer};
use super::read::{key_of, text_of};
use super::{OnBusyThread, OnDisconnect, Priority, Submission, Submitted, UserName, submit};
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};

/// Run an ended task again, as a new task.
///
/// The new task has the agent, input, user, thread and priority of the ended one, and no deadline. Each task is replayed
/// once: the same request again gets the same answer, and a replay that failed is replayed itself.
#[utoipa::path(
    post,
    path = "/api/task/{id}/replay",
    tag = "task",
    params(("id" = uuid::Uuid, Path, description = "The ended task")),
    security(("key" = ["submit"])),
    responses(
        (status = 202, description = "Accepted and stored", body = SubmitAnswer),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, description = "task_not_found", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "not_ended, in_progress", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 422, description = "unknown_agent", body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, description = "As for POST /api/task", body = ProblemBody,
            content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds"))),
        (status = 503, description = "unavailable, rebuilding, overloaded", body = ProblemBody,
            content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds"))),
    )
)]
pub(super) async fn replay_task(
    State(app): State<App>,
    caller: Caller,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(Scope::Submit)?;
    let key = key_of(&caller, &text_of(id))?;
    let row = app.store.task(key).await.map_err(|error| Problem::of_store(&error))?;
    let row = row.ok_or_else(Problem::task_not_found)?;
    let submitted = replay(&app, &caller, &row).await?;
    Ok(answer(&app, &headers, &submitted))
}

/// Submits what an ended task asked as a new task, and takes it off the list of dead letters.
pub(crate) async fn replay(app: &App, caller: &Caller, row: &TaskRow) -> Result<Submitted, Problem> {
    if !row.status.is_terminal() {
        return Err(Problem::not_ended(row.key.task));
    }
    if !app.settings.now().agents.contains_key(&row.agent) {
        return Err(Problem::unknown_agent(&row.agent));
    }
    let submitted = submit(app, caller, submission(row)?).await?;
    // Should this fail, the letter stays on the list, and its next replay is the same task.
    app.store
        .mark_replayed(row.key, submitted.key.task)
        .await
        .map_err(|_| Problem::outcome_unknown(submitted.key.task))?;
    Ok(submitted)
}

fn submission(row: &TaskRow) -> Result<Submission, Problem> {
    let unreadable = |error: &dyn std::fmt::Display| {
        tracing::error!(task.id = %row.key, %error, "a task cannot be replayed");
        Problem::internal().task(row.key.task)
    };
    let mut spec = row.spec().map_err(|error| unreadable(&error))?;
    // Its thread may have gone on without it.
    spec.is_new_thread = false;
    Ok(Submission {
        body_hash: row.body_hash,
        agent: row.agent.clone(),
        task_id: Some(row.key.replay_id()),
        idempotency_key: None,
        thread_id: Some(row.thread),
        user: row.user.clone().map(UserName::try_from).transpose().map_err(|error| unreadable(&error))?,
        priority: Priority::try_from(row.priority).map_err(|error| unreadable(&error))?,
        on_busy_thread: OnBusyThread::Queue,
        wait_ms_max: None,
        deadline_in_ms: None,
        on_disconnect: OnDisconnect::Continue,
        replay_of: Some(row.key.task),
        spec,
    })
}
