//! `GET /api/dead`: the dead letters of a tenant, newest first, in keyset pages.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use penstock_store::DeadFilter;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::filter::{behind, code, limit, page};
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};
use crate::page::cut_to_page;
use crate::task::TaskSummary;

const LIMIT_MAX: u32 = 100;

/// Which letters, and where to go on.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct DeadQuery {
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
    /// `next` of the page before; not for a purge.
    pub(super) cursor: Option<String>,
    /// How many; as many as may be when absent.
    #[param(minimum = 1)]
    pub(super) limit: Option<u32>,
}

/// One page.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeadPageBody {
    /// Newest first; `error` is the reason, `dead_ms` when the attempts ran out.
    tasks: Vec<TaskSummary>,
    /// Cursor of the next page; null on the last one.
    next: Option<String>,
}

impl DeadQuery {
    /// The filter. Errors: 422 for an unknown code.
    pub(super) fn filter(&self) -> Result<DeadFilter, Problem> {
        Ok(DeadFilter {
            agent: self.agent.clone(),
            code: code(self.code.as_deref())?,
            user: self.user.clone(),
            after_ms: self.after_ms,
            before_ms: self.before_ms,
        })
    }
}

/// List dead letters: tasks that failed because their attempts ran out, and were neither replayed nor purged.
#[utoipa::path(
    get,
    path = "/api/dead",
    tag = "dead",
    params(DeadQuery),
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "One page", body = DeadPageBody),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "invalid_request", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list_dead(
    State(app): State<App>,
    caller: Caller,
    query: Result<Query<DeadQuery>, QueryRejection>,
) -> Result<Json<DeadPageBody>, Problem> {
    caller.require(Scope::Read)?;
    let Query(query) = query.map_err(|rejection| Problem::invalid("query", rejection.body_text()))?;
    let (filter, page) = (query.filter()?, page(query.cursor.as_deref())?);
    let limit = limit(query.limit, LIMIT_MAX)?;
    let rows = app.store.dead(caller.tenant, &filter, page, limit + 1).await;
    let mut rows = rows.map_err(|error| Problem::of_store(&error))?;
    let has_next = cut_to_page(&mut rows, limit);
    let next = rows.last().filter(|_| has_next).and_then(behind);
    Ok(Json(DeadPageBody { tasks: rows.iter().map(TaskSummary::from).collect(), next }))
}
