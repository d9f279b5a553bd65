//! `DELETE /api/dead`: takes letters off the list. Their tasks stay as they ended, until retention removes them.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Serialize;
use utoipa::ToSchema;

use super::filter::{limit, named};
use super::list::DeadQuery;
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};

/// What a purge did.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Purged {
    /// Letters that are no longer listed.
    purged: u64,
    /// Whether others may be left that the filter names: call again.
    has_more: bool,
}

/// Purge dead letters. The filter is mandatory; at most `queue.dead_batch_max` go in one call, newest first.
#[utoipa::path(
    delete,
    path = "/api/dead",
    tag = "dead",
    params(DeadQuery),
    security(("key" = ["submit"])),
    responses(
        (status = 200, description = "What was purged", body = Purged),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 422, description = "invalid_request: the filter names nothing", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 503, description = "unavailable", body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn purge_dead(
    State(app): State<App>,
    caller: Caller,
    query: Result<Query<DeadQuery>, QueryRejection>,
) -> Result<Json<Purged>, Problem> {
    caller.require(Scope::Submit)?;
    let Query(query) = query.map_err(|rejection| Problem::invalid("query", rejection.body_text()))?;
    if query.cursor.is_some() {
        return Err(Problem::invalid("cursor", "a purge has no pages: call it again"));
    }
    let filter = named(query.filter()?)?;
    let limit = limit(query.limit, app.settings.now().queue.dead_batch_max)?;
    let purged = app.store.purge_dead(caller.tenant, &filter, limit).await;
    let purged = purged.map_err(|error| Problem::of_store(&error))?;
    tracing::info!(tenant = %caller.tenant_name, purged, "dead letters were purged");
    Ok(Json(Purged { purged, has_more: purged == u64::from(limit) }))
}
