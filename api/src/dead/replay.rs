//! `POST /api/dead/replay`: many letters again, each a task like any other.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use penstock_protocol::TaskId;
use penstock_store::{DeadFilter, DeadPage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::filter::{behind, code, limit, named, page};
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody, ProblemCode};
use crate::page::cut_to_page;
use crate::task::{read_json, replay};

/// Which letters to replay. At least one of the filter's fields is needed.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayRequest {
    /// Only this agent.
    agent: Option<String>,
    /// Only this reason, an error code.
    code: Option<String>,
    /// Only this end user.
    user: Option<String>,
    /// Only those that died at this moment or later, in ms since the Unix epoch.
    after_ms: Option<u64>,
    /// Only those that died before this moment.
    before_ms: Option<u64>,
    /// `next` of the answer before: goes on behind letters that were refused.
    cursor: Option<String>,
    /// How many at most; `queue.dead_batch_max` when absent.
    #[schema(minimum = 1)]
    limit: Option<u32>,
}

/// What became of the letters, newest first.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Replays {
    /// Letters that are tasks again.
    pub(crate) replayed: Vec<Replayed>,
    /// Letters that stay on the list, and why.
    pub(crate) refused: Vec<Refused>,
    /// Cursor behind the last letter that was dealt with; null when none is left. Letters that the queue rejected for
    /// now are not behind it: they come again.
    pub(crate) next: Option<String>,
}

/// A letter and its task.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Replayed {
    /// The letter.
    #[schema(value_type = uuid::Uuid)]
    pub(crate) task_id: TaskId,
    /// The new task.
    #[schema(value_type = uuid::Uuid)]
    pub(crate) replayed_as: TaskId,
}

/// A letter that was not replayed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Refused {
    /// The letter.
    #[schema(value_type = uuid::Uuid)]
    pub(crate) task_id: TaskId,
    /// Why.
    pub(crate) code: ProblemCode,
    /// When to try again; null where trying again is useless.
    pub(crate) retry_after_ms: Option<u64>,
}

/// Replay dead letters: each becomes a new task that names it, and leaves the list. Law and limits are those of
/// `POST /api/task`; the first letter that the queue rejects for now ends the call.
#[utoipa::path(
    post,
    path = "/api/dead/replay",
    tag = "dead",
    request_body = ReplayRequest,
    security(("key" = ["submit"])),
    responses(
        (status = 200, description = "What was replayed, and what was not", body = Replays),
        (status = 400, description = "malformed_body", body = ProblemBody, content_type = "application/problem+json"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "invalid_request: the filter names nothing", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn replay_dead(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Replays>, Problem> {
    caller.require(Scope::Submit)?;
    let settings = app.settings.now();
    let request: ReplayRequest = read_json(&headers, body, settings.api.body_bytes_max).await?;
    let limit = limit(request.limit, settings.queue.dead_batch_max)?;
    let from = page(request.cursor.as_deref())?;
    let filter = named(DeadFilter {
        agent: request.agent,
        code: code(request.code.as_deref())?,
        user: request.user,
        after_ms: request.after_ms,
        before_ms: request.before_ms,
    })?;
    replay_many(&app, &caller, &filter, from, limit).await.map(Json)
}

/// Replays at most `limit` letters, one by one. Errors: the list cannot be read.
pub(crate) async fn replay_many(
    app: &App,
    caller: &Caller,
    filter: &DeadFilter,
    from: Option<DeadPage>,
    limit: u32,
) -> Result<Replays, Problem> {
    let rows = app.store.dead(caller.tenant, filter, from, limit + 1).await;
    let mut rows = rows.map_err(|error| Problem::of_store(&error))?;
    let mut has_more = cut_to_page(&mut rows, limit);
    let (mut replays, mut last) = (Replays::default(), None);
    for row in &rows {
        let task_id = row.key.task;
        let refusal = match replay(app, caller, row).await {
            Ok(task) => {
                replays.replayed.push(Replayed { task_id, replayed_as: task.key.task });
                None
            }
            Err(problem) => Some(problem),
        };
        let is_rejected = refusal.as_ref().is_some_and(|problem| problem.retry_after_ms().is_some());
        if let Some(problem) = refusal {
            let (code, retry_after_ms) = (problem.code(), problem.retry_after_ms());
            replays.refused.push(Refused { task_id, code, retry_after_ms });
        }
        if is_rejected {
            has_more = true;
            break;
        }
        last = behind(row);
    }
    // With nothing dealt with, the same call again is where to go on.
    replays.next = last.filter(|_| has_more);
    Ok(replays)
}
