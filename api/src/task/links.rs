//! Where a client goes on with a task: absolute URLs, from the setting `api.public_url` or the request's own host.

use axum::http::{HeaderMap, header};
use penstock_protocol::TaskId;
use serde::Serialize;
use utoipa::ToSchema;

/// URLs of one task.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Links {
    /// Status and result.
    #[serde(rename = "self")]
    this: String,
    /// Events over a WebSocket.
    ws: String,
    /// Events as server-sent events.
    sse: String,
    /// `DELETE` cancels.
    cancel: String,
    #[serde(skip)]
    path: String,
}

impl Links {
    /// The URLs of `task` under `public_url`, or under the host that the request was sent to.
    #[must_use]
    pub fn of(public_url: &str, headers: &HeaderMap, task: TaskId) -> Self {
        let base = if public_url.is_empty() { base_of(headers) } else { public_url.trim_end_matches('/').to_owned() };
        let path = format!("/api/task/{task}");
        let this = format!("{base}{path}");
        let socket = match base.strip_prefix("http") {
            Some(rest) => format!("ws{rest}{path}/ws"),
            None => format!("{path}/ws"),
        };
        Self { ws: socket, sse: format!("{this}/events"), cancel: this.clone(), this, path }
    }

    /// The path of the task, for `Location`.
    #[must_use]
    pub fn path(&self) -> String {
        self.path.clone()
    }
}

/// `http(s)://host`, or nothing where the request names no host: the links are then relative.
fn base_of(headers: &HeaderMap) -> String {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let Some(host) = text(header::HOST) else { return String::new() };
    let is_https = text(header::HeaderName::from_static("x-forwarded-proto")) == Some("https");
    format!("{}://{host}", if is_https { "https" } else { "http" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_where_the_request_was_sent_or_to_the_public_url() {
        let (mut headers, task) = (HeaderMap::new(), TaskId::mint());
        headers.insert(header::HOST, "door:8080".parse().unwrap());
        assert_eq!(Links::of("", &headers, task).ws, format!("ws://door:8080/api/task/{task}/ws"));
        let public = Links::of("https://tasks.example/p/", &headers, task);
        assert_eq!(public.ws, format!("wss://tasks.example/p/api/task/{task}/ws"));
        assert_eq!(public.this, format!("https://tasks.example/p/api/task/{task}"));
        assert_eq!(Links::of("", &HeaderMap::new(), task).this, format!("/api/task/{task}"));
    }
}
