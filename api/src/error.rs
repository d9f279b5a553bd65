//! What a caller reads when the answer is no: RFC 9457 problem details with a stable `code`.
//!
//! The only place that maps reasons to HTTP. `Rejected` reasons (429, 503) carry Retry-After, in whole seconds rounded
//! up, and repeat it in the body as `retry_after_ms`; refusals (4xx) never do, since trying again is useless.

use std::borrow::Cow;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use penstock_protocol::TaskId;
use penstock_store::StoreError;
use serde::Serialize;

mod code;

pub use code::{ProblemCode, reference};

/// Most tasks that the limit behind an answer lets wait.
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// How many more would be taken now.
pub const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// Whole seconds until another one is worth trying.
pub const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Time after which a client should come back when Redis or MySQL is away.
const UNAVAILABLE_MS: u64 = 2000;

/// An answer of no.
#[derive(Clone, Debug)]
pub struct Problem {
    code: ProblemCode,
    detail: Cow<'static, str>,
    path: Option<String>,
    retry_after_ms: Option<u64>,
    limit: Option<u64>,
    task_id: Option<TaskId>,
    is_outcome_unknown: bool,
    is_agui: bool,
}

/// The body of a problem, `application/problem+json`.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody {
    /// `urn:penstock:problem:<code>`.
    #[serde(rename = "type")]
    kind: String,
    /// What the code means, the same for every problem of that code.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// The stable reason, for programs.
    code: ProblemCode,
    /// What happened and what to do, for people.
    detail: Cow<'static, str>,
    /// The offending field of the request: `input[0].content`.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// When to try again; absent where trying again is useless.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The same for AG-UI clients, which do not see headers.
    #[serde(rename = "retryAfterMs", skip_serializing_if = "Option::is_none")]
    retry_after_ms_agui: Option<u64>,
    /// The task that the request named or would have made.
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<TaskId>,
    /// `unknown`: the task may have been accepted. The same request again, with this `task_id`, tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
}

impl Problem {
    /// A problem of `code` with `detail` for people. Prefer a constructor that names the situation.
    pub fn new(code: ProblemCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            path: None,
            retry_after_ms: None,
            limit: None,
            task_id: None,
            is_outcome_unknown: false,
            is_agui: false,
        }
    }

    /// The body is not JSON.
    pub fn malformed(reason: impl std::fmt::Display) -> Self {
        Self::new(ProblemCode::MalformedBody, format!("the body is not valid JSON: {reason}"))
    }

    /// A field of the request cannot be taken; `path` names it.
    pub fn invalid(path: impl Into<String>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { path: Some(path.into()), ..Self::new(ProblemCode::InvalidRequest, reason) }
    }

    /// The agent named is not in the settings.
    pub fn unknown_agent(agent: &str) -> Self {
        let detail = format!("there is no agent named `{}`; the settings name the agents", shortened(agent));
        Self { path: Some("agent".to_owned()), ..Self::new(ProblemCode::UnknownAgent, detail) }
    }

    /// The body is larger than `bytes_max`.
    pub fn body_too_large(bytes_max: usize) -> Self {
        Self::new(ProblemCode::BodyTooLarge, format!("send at most {bytes_max} bytes (setting api.body_bytes_max)"))
    }

    /// The content type is not JSON.
    pub fn not_json() -> Self {
        Self::new(ProblemCode::UnsupportedMediaType, "send `Content-Type: application/json`")
    }

    /// No key, or one that is unknown, expired or revoked: the caller cannot tell which.
    pub fn unauthenticated() -> Self {
        Self::new(ProblemCode::Unauthenticated, "send `Authorization: Bearer <key>` with a key that is in force")
    }

    /// The key lacks `scope`.
    pub fn missing_scope(scope: &str) -> Self {
        Self::new(ProblemCode::MissingScope, format!("the key needs the scope `{scope}`; make one that has it"))
    }

    /// A browser page of an origin that the settings do not name.
    pub fn forbidden_origin() -> Self {
        Self::new(ProblemCode::ForbiddenOrigin, "add the page's origin to the setting api.allowed_origins")
    }

    /// No such task, or another tenant's: the answers are the same, byte for byte (law 13).
    pub fn task_not_found() -> Self {
        Self::new(ProblemCode::TaskNotFound, "there is no task with this id")
    }

    /// No such cron entry, or another tenant's: the answers are the same (law 13).
    pub fn schedule_not_found() -> Self {
        Self::new(ProblemCode::ScheduleNotFound, "there is no schedule with this id")
    }

    /// No such route.
    pub fn route_not_found() -> Self {
        Self::new(ProblemCode::RouteNotFound, "there is nothing here; /openapi.json lists the routes")
    }

    /// The route does not know the method.
    pub fn method_not_allowed() -> Self {
        Self::new(ProblemCode::MethodNotAllowed, "the header `Allow` lists the methods of this route")
    }

    /// Another request with the same task id is being stored right now.
    pub fn in_progress(task_id: TaskId) -> Self {
        Self::new(ProblemCode::InProgress, "another request with this id is being stored; send this one again")
            .after(1000)
            .task(task_id)
    }

    /// The task has not ended, so there is nothing to repeat.
    pub fn not_ended(task_id: TaskId) -> Self {
        Self::new(ProblemCode::NotEnded, "the task has not ended; replay it afterwards").after(5000).task(task_id)
    }

    /// The id or idempotency key belongs to a task with another body.
    pub fn body_differs(task_id: TaskId) -> Self {
        let detail = "this task_id or Idempotency-Key was used with another body; take a new one for a new task";
        Self::new(ProblemCode::BodyDiffers, detail).task(task_id)
    }

    /// Another task of the conversation has not ended, and the request does not wait for it.
    pub fn thread_busy(retry_after_ms: u64) -> Self {
        let detail =
            "another task of this thread has not ended; wait for it, or send `on_busy_thread` queue or interrupt";
        Self::new(ProblemCode::ThreadBusy, detail).after(retry_after_ms)
    }

    /// The queue holds all that it may.
    pub fn queue_full(limit: u64, retry_after_ms: u64) -> Self {
        Self::new(ProblemCode::QueueFull, "the queue is full; send the same request again after the time given")
            .limited(limit)
            .after(retry_after_ms)
    }

    /// The tenant has all the waiting tasks that it may have.
    pub fn tenant_queue_full(limit: u64, retry_after_ms: u64) -> Self {
        Self::new(
            ProblemCode::TenantQueueFull,
            "too many of your tasks wait; send the request again after the time given",
        )
        .limited(limit)
        .after(retry_after_ms)
    }

    /// The user or tenant has all the live tasks that it may have.
    pub fn concurrency_limit(limit: u64, retry_after_ms: u64) -> Self {
        Self::new(ProblemCode::ConcurrencyLimit, "too many live tasks; wait for one to end, or cancel one")
            .limited(limit)
            .after(retry_after_ms)
    }

    /// The predicted wait is longer than the caller's `wait_ms_max`.
    pub fn wait_too_long(wait_ms_max: u64, retry_after_ms: u64) -> Self {
        let detail = format!("the predicted wait is longer than {wait_ms_max} ms; come back later or allow more");
        Self::new(ProblemCode::WaitTooLong, detail).after(retry_after_ms)
    }

    /// As many tasks as may do so wait for a start time.
    pub fn delayed_full(limit: u64, retry_after_ms: u64) -> Self {
        let detail = "too many tasks wait for their start time; come back after the time given, or cancel some";
        Self::new(ProblemCode::DelayedFull, detail).limited(limit).after(retry_after_ms)
    }

    /// Redis or MySQL is away; nothing was accepted.
    pub fn unavailable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ProblemCode::Unavailable, reason).after(UNAVAILABLE_MS)
    }

    /// A read or write of MySQL that gave no answer; not for accept records, whose outcome matters.
    pub fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Busy => Self::unavailable("the database does not answer"),
            StoreError::Conflict(_) | StoreError::Refused(_) | StoreError::Corrupt { .. } => {
                tracing::error!(%error, "the database refused a statement");
                Self::internal()
            }
        }
    }

    /// Redis or MySQL is away, and whether the task was accepted is not known.
    pub fn outcome_unknown(task_id: TaskId) -> Self {
        let detail = "the task may have been accepted; send the same request with this task_id to learn the truth";
        Self { is_outcome_unknown: true, ..Self::unavailable(detail).task(task_id) }
    }

    /// The queue is being rebuilt from MySQL.
    pub fn rebuilding(retry_after_ms: u64) -> Self {
        Self::new(ProblemCode::Rebuilding, "the queue is being rebuilt; nothing that was accepted is lost")
            .after(retry_after_ms)
    }

    /// This process handles all the requests, or holds all the sockets, that it may.
    pub fn overloaded() -> Self {
        Self::new(
            ProblemCode::Overloaded,
            "this process handles all that it may at once; come back, or ask another one",
        )
        .after(1000)
    }

    /// The key holds all the sockets and event streams that it may.
    pub fn too_many_sockets(limit: usize) -> Self {
        let detail = format!("at most {limit} sockets and event streams; close some, or subscribe many tasks on one");
        Self::new(ProblemCode::TooManySockets, detail).after(UNAVAILABLE_MS)
    }

    /// The process is stopping.
    pub fn draining() -> Self {
        Self::unavailable("this process is stopping; another one will answer")
    }

    /// The request was not answered in time.
    pub fn timed_out(timeout_ms: u128) -> Self {
        Self::unavailable(format!("the request was not answered within {timeout_ms} ms"))
    }

    /// A fault of Penstock itself; the log has the cause.
    pub fn internal() -> Self {
        Self::new(ProblemCode::Internal, "a fault of Penstock itself; the log tells more under the request's id")
    }

    /// Adds the time after which trying again is worth it.
    #[must_use]
    pub fn after(self, retry_after_ms: u64) -> Self {
        Self { retry_after_ms: Some(retry_after_ms), ..self }
    }

    /// Adds the task that it is about.
    #[must_use]
    pub fn task(self, task_id: TaskId) -> Self {
        Self { task_id: Some(task_id), ..self }
    }

    /// Repeats `retry_after_ms` as `retryAfterMs`, where AG-UI clients look for it.
    #[must_use]
    pub fn for_agui(self) -> Self {
        Self { is_agui: true, ..self }
    }

    /// When to try again; `None` where trying again is useless.
    #[must_use]
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after_ms
    }

    /// The stable reason.
    #[must_use]
    pub fn code(&self) -> ProblemCode {
        self.code
    }

    fn limited(self, limit: u64) -> Self {
        Self { limit: Some(limit), ..self }
    }

    pub(crate) fn into_body(self) -> ProblemBody {
        ProblemBody {
            kind: format!("urn:penstock:problem:{}", self.code.as_str()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            code: self.code,
            detail: self.detail,
            path: self.path,
            retry_after_ms: self.retry_after_ms,
            retry_after_ms_agui: self.retry_after_ms.filter(|_| self.is_agui),
            task_id: self.task_id,
            outcome: self.is_outcome_unknown.then_some("unknown"),
        }
    }
}

/// For the command line: path and what to do.
impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.detail),
            None => f.write_str(&self.detail),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, limit) = (self.code, self.limit);
        let retry_after_s = self.retry_after_ms.map(|ms| ms.div_ceil(1000));
        let mut response = (code.status(), Json(self.into_body())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(limit) = limit {
            headers.insert(RATE_LIMIT, HeaderValue::from(limit));
            headers.insert(RATE_REMAINING, HeaderValue::from(0_u16));
            headers.insert(RATE_RESET, HeaderValue::from(retry_after_s.unwrap_or(0)));
        }
        if code.status() == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(code);
        response
    }
}

/// A caller's text, cut so that it cannot fill an answer or a log line.
fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_rejection_says_when_to_come_back_in_header_and_body() {
        let response = Problem::queue_full(8, 1001).into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        assert_eq!(response.headers()[RATE_LIMIT], "8");
        let body = axum::body::to_bytes(response.into_body(), 4096).await.unwrap();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((body["code"].as_str(), body["retry_after_ms"].as_u64()), (Some("queue_full"), Some(1001)));
        assert!(body.get("retryAfterMs").is_none(), "{body}");
    }

    #[tokio::test]
    async fn a_refusal_never_invites_a_retry() {
        for problem in [Problem::unauthenticated(), Problem::body_differs(TaskId::mint()), Problem::task_not_found()] {
            let response = problem.into_response();
            assert!(response.headers().get(header::RETRY_AFTER).is_none());
        }
    }
}
