//! `GET /api/ws`: many tasks on one socket, each event in an envelope that names its task.
//!
//! In: `{"op":"subscribe","task_id":"…","after":"1-3"}`, `{"op":"unsubscribe","task_id":"…"}`.
//! Out: `{"task_id":"…","event":{…}}`, `{"task_id":"…","end":true}` once the terminal event was sent, `"end":<code>` where a
//! socket of its own would have closed with that code, and `{"error":"<code>","detail":"…"}` for a word that was not
//! understood.

use std::collections::HashMap;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::HeaderMap;
use axum::response::Response;
use penstock_protocol::{TaskId, TaskKey, TenantNo};
use serde::Deserialize;
use serde_json::json;

use super::close::End;
use super::feed::{Delivery, Feed};
use super::identity::reader;
use super::line::{BATCH_BYTES_MAX, Heard, Line};
use super::metrics::Way;
use super::outbox::Ticket;
use super::socket::{cursor, open};
use super::stay::Stay;
use crate::app::App;
use crate::error::{Problem, ProblemBody};

/// Answers that may wait for a client to read.
const ANSWERS_MAX: u32 = 64;

/// What a client says.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Op {
    Subscribe { task_id: TaskId, after: Option<String> },
    Unsubscribe { task_id: TaskId },
}

/// Follow many tasks on one WebSocket.
///
/// Subscribe with `{"op":"subscribe","task_id":"…","after":"1-3"}`. Framing and close codes: docs/events.md.
#[utoipa::path(
    get,
    path = "/api/ws",
    tag = "events",
    security(("key" = ["read"])),
    responses(
        (status = 101, description = "WebSocket"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope, forbidden_origin", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 426, description = "upgrade_required", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "overloaded: no more sockets", body = ProblemBody,
            content_type = "application/problem+json"),
    )
)]
pub(super) async fn follow_many(
    State(app): State<App>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let caller = reader(&app, &headers).await?;
    let tenant = caller.tenant;
    open(&app, &headers, caller, upgrade, Way::Many, move |app, line, stay| relay(app, line, stay, tenant))
}

async fn relay(app: App, mut line: Line, mut stay: Stay, tenant: TenantNo) -> (Line, Stay, End) {
    let mut tasks = Tasks {
        feed: Feed::new(&app.hub),
        tenant,
        tasks_max: app.settings.now().events.tasks_per_socket_max,
        by_task: HashMap::new(),
        by_ticket: HashMap::new(),
    };
    let mut answers = 0;
    let end = loop {
        let is_flushed = line.is_flushed();
        tokio::select! {
            biased;
            end = stay.over() => break end,
            heard = line.hear() => {
                let done = match heard {
                    Heard::End(end) => Err(end),
                    Heard::Flushed => {
                        answers = 0;
                        Ok(())
                    }
                    // A client that talks and does not read would make us hold our answers.
                    Heard::Text(_) if answers >= ANSWERS_MAX => Err(End::Slow),
                    Heard::Text(text) => tasks.hear(&text).map_or(Ok(()), |answer| {
                        answers += 1;
                        line.write(answer.into())
                    }),
                };
                if let Err(end) = done {
                    break end;
                }
            }
            (ticket, delivery) = tasks.feed.next(is_flushed) => {
                if let Err(end) = tasks.write(&mut line, ticket, delivery) {
                    break end;
                }
            }
        }
    };
    (line, stay, end)
}

/// The subscriptions of one socket.
struct Tasks {
    feed: Feed,
    tenant: TenantNo,
    tasks_max: usize,
    by_task: HashMap<TaskId, Ticket>,
    by_ticket: HashMap<Ticket, TaskId>,
}

impl Tasks {
    /// Does what the client says; returns the answer, if it needs one.
    fn hear(&mut self, text: &str) -> Option<String> {
        let error = |code: &str, detail: &str| Some(json!({ "error": code, "detail": detail }).to_string());
        let about = |task: TaskId, code: &str, detail: &str| {
            Some(json!({ "task_id": task, "error": code, "detail": detail }).to_string())
        };
        match serde_json::from_str(text) {
            Ok(Op::Subscribe { task_id, after }) => {
                let Ok(after) = after.as_deref().map(cursor).transpose() else {
                    return about(task_id, "invalid_request", "`after` is the id of an event: `1-3`");
                };
                if self.by_task.contains_key(&task_id) {
                    return about(task_id, "already_subscribed", "unsubscribe first to read from another cursor");
                }
                if self.by_task.len() >= self.tasks_max {
                    return about(task_id, "too_many_tasks", "unsubscribe a task, or open another socket");
                }
                let ticket = self.feed.subscribe(TaskKey::new(self.tenant, task_id), after);
                self.by_task.insert(task_id, ticket);
                self.by_ticket.insert(ticket, task_id);
                None
            }
            Ok(Op::Unsubscribe { task_id }) => {
                if let Some(ticket) = self.by_task.remove(&task_id) {
                    self.by_ticket.remove(&ticket);
                    self.feed.unsubscribe(ticket);
                }
                None
            }
            Err(_) if text.starts_with(':') => None,
            Err(_) => error("invalid_request", r#"send {"op":"subscribe","task_id":"<uuid>"}"#),
        }
    }

    /// Writes a delivery and whatever else is there, up to a batch. Errors: how the socket ends.
    fn write(&mut self, line: &mut Line, ticket: Ticket, delivery: Delivery) -> Result<(), End> {
        let (mut next, mut bytes) = (Some((ticket, delivery)), 0);
        while let Some((ticket, delivery)) = next {
            let task = self.by_ticket.get(&ticket).copied();
            let text = match (task, delivery) {
                // Too slow is the socket, not one of its tasks.
                (_, Delivery::End(End::Slow)) => return Err(End::Slow),
                (None, _) => None,
                (Some(task), Delivery::Event(frame)) => {
                    Some(format!(r#"{{"task_id":"{task}","event":{}}}"#, frame.text))
                }
                (Some(task), Delivery::End(end)) => {
                    self.by_ticket.remove(&ticket);
                    self.by_task.remove(&task);
                    let code = if end == End::Done { json!(true) } else { json!(end.code()) };
                    Some(format!(r#"{{"task_id":"{task}","end":{code}}}"#))
                }
            };
            if let Some(text) = text {
                bytes += text.len();
                line.write(text.into())?;
            }
            next = if bytes < BATCH_BYTES_MAX { self.feed.try_next() } else { None };
        }
        Ok(())
    }
}
