//! `POST /api/agui/{agent}`: AG-UI's own way in, for the stock `HttpAgent`. The run's input goes in, its events come out.
//!
//! The run is a task like any other: a disconnect changes nothing unless it was asked to, and the same input again attaches to the same run.

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use penstock_protocol::message::{Message, RunAgentInput};
use penstock_protocol::{Input, RetryWish, TaskId, TaskKey, TaskSpec, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::metrics::Way;
use super::sse::Events;
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};
use crate::task::{OnBusyThread, OnDisconnect, Priority, Submission, UserName, allowed_ms, read_json, submit};

/// `forwardedProps.penstock`: what AG-UI has no member for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Knobs {
    user: Option<UserName>,
    #[serde(default)]
    priority: Priority,
    #[serde(default)]
    on_busy_thread: OnBusyThread,
    #[serde(default, deserialize_with = "allowed_ms")]
    max_wait_ms: Option<u64>,
    #[serde(default, deserialize_with = "allowed_ms")]
    deadline_ms: Option<u64>,
    #[serde(default)]
    on_disconnect: OnDisconnect,
    retry: Option<RetryWish>,
}

/// What a run's identity is judged by: the same run with another of these is another request.
#[derive(Serialize)]
struct Asked<'a> {
    agent: &'a str,
    thread_id: ThreadId,
    run_id: TaskId,
    messages: &'a [Message],
    tools: &'a [Value],
    context: &'a [Value],
    state: &'a Value,
    forwarded_props: &'a Value,
}

/// Run an agent over AG-UI.
///
/// `runId` is the task's id and `threadId` its conversation; both are UUIDs. `forwardedProps.penstock` may hold `user`,
/// `priority`, `on_busy_thread`, `max_wait_ms`, `deadline_ms`, `on_disconnect` and `retry`. The answer is the run's event
/// stream, with comments while it waits.
#[utoipa::path(
    post,
    path = "/api/agui/{agent}",
    tag = "events",
    params(("agent" = String, Path, description = "Agent of the settings")),
    request_body = RunAgentInput,
    security(("key" = ["submit", "read"])),
    responses(
        (status = 200, description = "Events", body = String, content_type = "text/event-stream"),
        (status = 400, description = "malformed_body", body = ProblemBody, content_type = "application/problem+json"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, description = "in_progress, thread_busy", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "body_too_large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "unsupported_media_type", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 422, description = "invalid_request, unknown_agent, body_differs", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 429, description = "As for POST /api/task, and too_many_sockets; `retryAfterMs` in the body",
            body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable, rebuilding, overloaded", body = ProblemBody,
            content_type = "application/problem+json"),
    )
)]
pub(super) async fn run_agent(State(app): State<App>, Path(agent): Path<String>, request: Request) -> Response {
    match run(&app, agent, request).await {
        Ok(events) => events.into_response(),
        // The stock client shows the body of an error and hides its headers.
        Err(problem) => problem.for_agui().into_response(),
    }
}

async fn run(app: &App, agent: String, request: Request) -> Result<Events, Problem> {
    let (parts, body) = request.into_parts();
    let input: RunAgentInput = read_json(&parts.headers, body, app.settings.now().api.body_bytes_max).await?;
    if !app.settings.now().agents.contains_key(&agent) {
        return Err(Problem::unknown_agent(&agent));
    }
    let task = input.run_id;
    let submission = submission(agent, input)?;
    let caller = Caller::authenticate(&app.keys, &parts.headers)?;
    caller.require(Scope::Submit)?;
    caller.require(Scope::Read)?;
    let mut events = Events::begin(app, &caller, Way::Agui)?;
    // Watched before it is submitted, so that the first event finds its reader.
    events.follow(app, TaskKey::new(caller.tenant, task), None);
    submit(app, &caller, submission).await?;
    Ok(events)
}

fn submission(agent: String, input: RunAgentInput) -> Result<Submission, Problem> {
    if input.messages.is_empty() {
        return Err(Problem::invalid("messages", "a run needs at least one message"));
    }
    let knobs = match input.forwarded_props.get("penstock") {
        Some(knobs) => serde_path_to_error::deserialize::<_, Knobs>(knobs).map_err(|error| {
            let path = format!("forwardedProps.penstock.{}", error.path());
            Problem::invalid(path, error.into_inner().to_string())
        })?,
        None => Knobs::default(),
    };
    let body_hash = Submission::hash_of(&Asked {
        agent: &agent,
        thread_id: input.thread_id,
        run_id: input.run_id,
        messages: &input.messages,
        tools: &input.tools,
        context: &input.context,
        state: &input.state,
        forwarded_props: &input.forwarded_props,
    })?;
    Ok(Submission {
        body_hash,
        agent,
        task_id: Some(input.run_id),
        idempotency_key: None,
        thread_id: Some(input.thread_id),
        user: knobs.user,
        priority: knobs.priority,
        on_busy_thread: knobs.on_busy_thread,
        wait_ms_max: knobs.max_wait_ms,
        deadline_in_ms: knobs.deadline_ms,
        on_disconnect: knobs.on_disconnect,
        replay_of: None,
        spec: TaskSpec {
            input: Input::Messages(input.messages),
            is_new_thread: false,
            metadata: input.forwarded_props,
            state: input.state,
            tools: input.tools,
            context: input.context,
            retry: knobs.retry,
            traceparent: None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(props: &str) -> RunAgentInput {
        let (thread, run) = (ThreadId::mint(), TaskId::mint());
        serde_json::from_str(&format!(
            r#"{{"threadId":"{thread}","runId":"{run}","messages":[{{"role":"user","id":"1","content":"hi"}}],
            "tools":[],"context":[],"state":{{}},"forwardedProps":{props},"protocolVersion":"1.0","unknown":1}}"#
        ))
        .unwrap()
    }

    #[test]
    fn the_knobs_are_read_and_what_is_wrong_with_them_is_named() {
        let read = |props| submission("a".to_owned(), input(props));
        let submission =
            read(r#"{"penstock":{"priority":3,"user":"u","on_busy_thread":"interrupt","deadline_ms":5,"max_wait_ms":7},"x":1}"#).unwrap();
        assert_eq!(
            (submission.priority.get(), submission.deadline_in_ms, submission.wait_ms_max),
            (3, Some(5), Some(7))
        );
        assert_eq!(submission.on_busy_thread, OnBusyThread::Interrupt);
        assert_eq!(submission.spec.metadata["x"], 1);
        assert!(read("{}").is_ok());
        for (props, path) in [
            (r#"{"penstock":{"priority":10}}"#, "forwardedProps.penstock.priority"),
            (r#"{"penstock":{"on_busy_thread":"wait"}}"#, "forwardedProps.penstock.on_busy_thread"),
            (r#"{"penstock":{"deadline_ms":0}}"#, "forwardedProps.penstock.deadline_ms"),
        ] {
            let body = serde_json::to_value(read(props).unwrap_err().into_body()).unwrap();
            assert_eq!(body["path"], path);
        }
    }

    #[test]
    fn the_same_run_asked_otherwise_is_another_request() {
        let mut run = input("{}");
        let first = submission("a".to_owned(), run.clone()).unwrap().body_hash;
        assert_eq!(first, submission("a".to_owned(), run.clone()).unwrap().body_hash);
        assert_ne!(first, submission("b".to_owned(), run.clone()).unwrap().body_hash);
        run.state = serde_json::json!({"a": 1});
        assert_ne!(first, submission("a".to_owned(), run).unwrap().body_hash);
    }
}
