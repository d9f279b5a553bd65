//! Error responses, written as each vendor writes them.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode};
use serde_json::json;

use super::behaviour::{Behaviour, ErrorShape};
use super::wire::Dialect;

/// The response of a behaviour that has a `status`.
pub(super) fn error_response(status: StatusCode, behaviour: &Behaviour, dialect: Dialect) -> Response<Body> {
    let mut response = Response::new(Body::from(error_body(status.as_u16(), behaviour, dialect)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let content_type = match behaviour.shape {
        Some(ErrorShape::Html) => "text/html",
        _ => "application/json",
    };
    headers.insert("content-type", HeaderValue::from_static(content_type));
    for (name, value) in [("retry-after", &behaviour.retry_after), ("retry-after-ms", &behaviour.retry_after_ms)] {
        if let Some(value) = value.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(name, value);
        }
    }
    response
}

/// The error frame inside a stream that began with 200.
pub(super) fn error_frame(behaviour: &Behaviour, dialect: Dialect) -> String {
    error_body(behaviour.status.unwrap_or(500), behaviour, dialect)
}

fn error_body(status: u16, behaviour: &Behaviour, dialect: Dialect) -> String {
    let code = behaviour.code.as_deref();
    let message = format!("the fake provider was asked to fail with {status}");
    let error_type = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        529 => "overloaded_error",
        _ if dialect == Dialect::Anthropic => "api_error",
        _ => "server_error",
    };
    let google = || {
        let delay = behaviour.retry_after.as_ref().map(|seconds| format!("{seconds}s"));
        let details =
            delay.map(|delay| json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}));
        let details: Vec<_> = details.into_iter().collect();
        json!({"error": {"code": status, "message": message, "status": code.unwrap_or(google_status(status)), "details": details}})
    };
    let body = match behaviour.shape.unwrap_or(dialect.error_shape()) {
        ErrorShape::Openai => json!({"error": {"message": message, "type": error_type, "param": null, "code": code}}),
        ErrorShape::Anthropic => {
            json!({"type": "error", "error": {"type": code.unwrap_or(error_type), "message": message}, "request_id": "req_fake"})
        }
        ErrorShape::Google => google(),
        ErrorShape::GoogleArray => json!([google()]),
        ErrorShape::Vllm => {
            json!({"object": "error", "message": message, "type": code.unwrap_or(error_type), "param": null, "code": status})
        }
        ErrorShape::Openrouter => {
            json!({"error": {"code": status, "message": message, "metadata": {"provider_name": "fake"}}})
        }
        ErrorShape::Html => {
            return format!("<html><head><title>{status}</title></head><body><h1>{message}</h1></body></html>");
        }
        ErrorShape::Empty => return String::new(),
    };
    body.to_string()
}

fn google_status(status: u16) -> &'static str {
    match status {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        500 => "INTERNAL",
        504 => "DEADLINE_EXCEEDED",
        _ => "UNAVAILABLE",
    }
}
