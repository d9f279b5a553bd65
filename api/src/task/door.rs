//! `POST /api/task`: checks 1 and 2, the submission, and the 202.

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use penstock_protocol::{Status, TaskId, ThreadId};
use serde::Serialize;
use utoipa::ToSchema;

use super::{IdempotencyKey, Links, Submission, SubmitRequest, Submitted, read_json, submit};
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody, RATE_LIMIT, RATE_REMAINING, RATE_RESET};

/// An accepted task. It is stored: it runs, whatever dies.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct SubmitAnswer {
    /// Its id.
    #[schema(value_type = uuid::Uuid)]
    task_id: TaskId,
    /// Its conversation.
    #[schema(value_type = uuid::Uuid)]
    thread_id: ThreadId,
    /// Its present status; of a repeated request it may be any.
    status: Status,
    /// Estimate of the tasks that are served before it; null while it is not known.
    position: Option<u64>,
    /// Estimate of its wait for a worker, in ms; null while nothing is known.
    estimated_wait_ms: Option<u64>,
    /// Where to go on.
    links: Links,
}

/// Submit a task.
///
/// The same `task_id` or `Idempotency-Key` with the same body gets the same answer, with the present status.
#[utoipa::path(
    post,
    path = "/api/task",
    tag = "task",
    request_body = SubmitRequest,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 visible ASCII characters")),
    security(("key" = ["submit"])),
    responses(
        (status = 202, description = "Accepted and stored", body = SubmitAnswer, headers(
            ("Location" = String, description = "The task"),
            ("X-RateLimit-Limit" = u64, description = "Places in the queue"),
            ("X-RateLimit-Remaining" = u64, description = "Places left"),
            ("X-RateLimit-Reset" = u64, description = "Seconds until another submission is worth trying"),
        )),
        (status = 400, description = "malformed_body", body = ProblemBody, content_type = "application/problem+json"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "in_progress, thread_busy", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "body_too_large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "unsupported_media_type", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 422, description = "invalid_request, unknown_agent, body_differs", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 429, description = "queue_full, tenant_queue_full, concurrency_limit, wait_too_long",
            body = ProblemBody, content_type = "application/problem+json",
            headers(("Retry-After" = u64, description = "Seconds"))),
        (status = 503, description = "unavailable, rebuilding, overloaded", body = ProblemBody,
            content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds"))),
    )
)]
pub(super) async fn submit_task(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let submission = read(&app, &parts.headers, body).await?;
    let caller = Caller::authenticate(&app.keys, &parts.headers)?;
    caller.require(Scope::Submit)?;
    let submitted = submit(&app, &caller, submission).await?;
    Ok(answer(&app, &parts.headers, &submitted))
}

/// Check 1: a body within the limit, well formed, for an agent that exists.
async fn read(app: &App, headers: &HeaderMap, body: Body) -> Result<Submission, Problem> {
    let request: SubmitRequest = read_json(headers, body, app.settings.now().api.body_bytes_max).await?;
    let idempotency_key = IdempotencyKey::read(headers)?;
    if !app.settings.now().agents.contains_key(&request.agent) {
        return Err(Problem::unknown_agent(&request.agent));
    }
    request.into_submission(idempotency_key)
}

pub(super) fn answer(app: &App, headers: &HeaderMap, submitted: &Submitted) -> Response {
    let links = Links::of(&app.settings.now().api.public_url, headers, submitted.key.task);
    let location = links.path();
    let body = SubmitAnswer {
        task_id: submitted.key.task,
        thread_id: submitted.thread,
        status: submitted.status,
        position: submitted.position,
        estimated_wait_ms: submitted.wait_ms,
        links,
    };
    let mut response = (StatusCode::ACCEPTED, Json(body)).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    if let Some(depth) = submitted.depth {
        places_left(response.headers_mut(), app.settings.now().queue.depth_max, depth, submitted.wait_ms);
    }
    response
}

/// The queue's places as `X-RateLimit-*`: how many there are, how many are left, and when another one is worth a try.
fn places_left(headers: &mut HeaderMap, depth_max: u64, depth: u64, wait_ms: Option<u64>) {
    let left = depth_max.saturating_sub(depth);
    let reset_s = if left > 0 { 0 } else { wait_ms.unwrap_or(1000).div_ceil(1000).max(1) };
    headers.insert(RATE_LIMIT, HeaderValue::from(depth_max));
    headers.insert(RATE_REMAINING, HeaderValue::from(left));
    headers.insert(RATE_RESET, HeaderValue::from(reset_s));
}
