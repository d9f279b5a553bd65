//! The stable reasons of problems, one closed list. `docs/errors.md` is printed from it.

use std::fmt::Write;

use axum::http::StatusCode;
use prometheus_client::encoding::EncodeLabelValue;
use serde::Serialize;

macro_rules! problem_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal, $status:ident, $title:literal;)+) => {
        /// Why the answer is no.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum ProblemCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl ProblemCode {
            /// Every code, in the order of the checks.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The text on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The HTTP status.
            #[must_use]
            pub fn status(self) -> StatusCode {
                match self { $(Self::$name => StatusCode::$status,)+ }
            }

            /// The `title` of the problem.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)+ }
            }

            fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }
        }
    };
}

problem_codes! {
    /// The body is larger than `api.body_bytes_max`. Send less.
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "Body too large";
    /// The content type is not `application/json`.
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "Unsupported media type";
    /// The body is not JSON. Mend the syntax.
    MalformedBody = "malformed_body", BAD_REQUEST, "Malformed body";
    /// A field is missing, unknown or out of range; `path` names it.
    InvalidRequest = "invalid_request", UNPROCESSABLE_ENTITY, "Invalid request";
    /// The settings name no such agent.
    UnknownAgent = "unknown_agent", UNPROCESSABLE_ENTITY, "Unknown agent";
    /// The key is missing, unknown, expired or revoked, or its tenant is. Take another key.
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "No valid key";
    /// The key is in force but lacks the scope of this route.
    MissingScope = "missing_scope", FORBIDDEN, "Scope missing";
    /// A browser page of an origin that `api.allowed_origins` does not name.
    ForbiddenOrigin = "forbidden_origin", FORBIDDEN, "Origin not allowed";
    /// Another request with the same id is being stored. Send the same request again.
    InProgress = "in_progress", CONFLICT, "The same request is in progress";
    /// The task has not ended, so it cannot be replayed.
    NotEnded = "not_ended", CONFLICT, "The task has not ended";
    /// Another task of the thread has not ended, and the request says `on_busy_thread: reject`.
    ThreadBusy = "thread_busy", CONFLICT, "The thread is busy";
    /// The id or `Idempotency-Key` belongs to a request with another body.
    BodyDiffers = "body_differs", UNPROCESSABLE_ENTITY, "The id belongs to another request";
    /// `queue.depth_max` tasks wait. Come back after `retry_after_ms`.
    QueueFull = "queue_full", TOO_MANY_REQUESTS, "The queue is full";
    /// As many of the tenant's tasks wait as its bound allows.
    TenantQueueFull = "tenant_queue_full", TOO_MANY_REQUESTS, "The tenant's share of the queue is full";
    /// The user or tenant has as many live tasks as it may have.
    ConcurrencyLimit = "concurrency_limit", TOO_MANY_REQUESTS, "Too many live tasks";
    /// The predicted wait is longer than `max_wait_ms` or the time to the deadline.
    WaitTooLong = "wait_too_long", TOO_MANY_REQUESTS, "The wait would be too long";
    /// Redis or MySQL is away, or the process is stopping. With `outcome: unknown` the task may have been accepted:
    /// the same request again, with the `task_id` given, tells.
    Unavailable = "unavailable", SERVICE_UNAVAILABLE, "Unavailable";
    /// The queue is being rebuilt from MySQL; nothing that was accepted is lost.
    Rebuilding = "rebuilding", SERVICE_UNAVAILABLE, "The queue is being rebuilt";
    /// The process handles `api.requests_max` requests, or holds `events.sockets_max` sockets.
    Overloaded = "overloaded", SERVICE_UNAVAILABLE, "Too many requests at once";
    /// The key holds as many sockets and event streams as it may. Close some, or follow many tasks on one socket.
    TooManySockets = "too_many_sockets", TOO_MANY_REQUESTS, "Too many sockets";
    /// No such task, or one of another tenant.
    TaskNotFound = "task_not_found", NOT_FOUND, "No such task";
    /// The events before the cursor are gone. Read without a cursor.
    CursorGone = "cursor_gone", GONE, "The cursor cannot be served";
    /// No such route.
    RouteNotFound = "route_not_found", NOT_FOUND, "No such route";
    /// The route does not know the method.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "Method not allowed";
    /// The route is a WebSocket.
    UpgradeRequired = "upgrade_required", UPGRADE_REQUIRED, "WebSocket required";
    /// A fault of Penstock itself.
    Internal = "internal", INTERNAL_SERVER_ERROR, "Internal error";
}

impl EncodeLabelValue for ProblemCode {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        encoder.write_str(self.as_str())
    }
}

/// The page `docs/errors.md`.
#[must_use]
pub fn reference() -> String {
    let mut page = String::from(PAGE_HEAD);
    for code in ProblemCode::ALL {
        let _ = writeln!(page, "| `{}` | {} |{} |", code.as_str(), code.status().as_u16(), code.meaning());
    }
    page
}

const PAGE_HEAD: &str = "# Errors of the API

Printed by `penstock-api errors`; do not edit.

Every error is `application/problem+json` (RFC 9457) with `type`, `title`, `status`, `code`, `detail` and, where they
help, `path` (the offending field), `retry_after_ms`, `task_id` and `outcome`. Programs decide by `code`, which does not
change. An answer that is worth repeating carries `Retry-After` (whole seconds) and `retry_after_ms`; without them,
repeating the same request is useless. On the AG-UI route the time is also in `retryAfterMs`.

`X-RateLimit-Limit` is the bound that the answer was judged by: places in the queue on a 202 and on `queue_full`, the
tenant's places on `tenant_queue_full`, live tasks on `concurrency_limit`. `X-RateLimit-Remaining` is how many more it
would take now, `X-RateLimit-Reset` the whole seconds after which another try is worth it (0 = now).

| code | status | meaning |
|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_code_is_its_json() {
        for code in ProblemCode::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        }
    }
}
