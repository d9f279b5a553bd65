//! `GET /api/task`: a tenant's tasks, newest first, in keyset pages.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use penstock_protocol::{Status, ThreadId};
use penstock_store::ListFilter;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{TaskSummary, cursor};
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};
use crate::page::cut_to_page;

const LIMIT_MAX: u32 = 100;
const LIMIT_USUAL: u32 = 50;

/// What a list is narrowed to, and where it goes on.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only this status.
    status: Option<Status>,
    /// Only this conversation.
    #[param(value_type = Option<uuid::Uuid>)]
    thread_id: Option<ThreadId>,
    /// Only this agent.
    agent: Option<String>,
    /// Only this end user.
    user: Option<String>,
    /// `next` of the page before.
    cursor: Option<String>,
    /// Tasks on a page, 1 to 100; 50 when absent.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// One page.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TaskPage {
    /// Newest first.
    tasks: Vec<TaskSummary>,
    /// Cursor of the next page; null on the last one.
    next: Option<String>,
}

/// List tasks, newest first. Results are read one by one.
#[utoipa::path(
    get,
    path = "/api/task",
    tag = "task",
    params(ListQuery),
    security(("key" = ["read"])),
    responses(
        (status = 200, description = "One page", body = TaskPage),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "invalid_request", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn list_tasks(
    State(app): State<App>,
    caller: Caller,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<TaskPage>, Problem> {
    caller.require(Scope::Read)?;
    let Query(query) = query.map_err(|rejection| Problem::invalid("query", rejection.body_text()))?;
    let limit = query.limit.unwrap_or(LIMIT_USUAL);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Problem::invalid("limit", format!("ask for 1 to {LIMIT_MAX} tasks")));
    }
    let not_a_cursor = || Problem::invalid("cursor", "pass `next` of the page before, unchanged");
    let page = query.cursor.map(|text| cursor::read(&text).ok_or_else(not_a_cursor)).transpose()?;
    let filter = ListFilter { status: query.status, thread: query.thread_id, agent: query.agent, user: query.user };
    let rows = app.store.list(caller.tenant, &filter, page, limit + 1).await;
    let mut rows = rows.map_err(|error| Problem::of_store(&error))?;
    let has_next = cut_to_page(&mut rows, limit);
    let next = rows.last().filter(|_| has_next).map(cursor::behind);
    Ok(Json(TaskPage { tasks: rows.iter().map(TaskSummary::from).collect(), next }))
}
