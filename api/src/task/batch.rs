//! `POST /api/tasks`: many submissions in one request, a verdict for each, in their order.
//!
//! An item takes the way of the single door, with its checks, answers and laws. Items are carried out side by side, a
//! bounded number at a time, so that they share commits; those of one conversation or one id go one after the other.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use futures_util::{StreamExt, stream};
use penstock_protocol::{TaskKey, ThreadId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::body::parse;
use super::door::{SubmitAnswer, judged};
use super::{IdempotencyKey, Submission, SubmitRequest, read_json, submit};
use crate::app::App;
use crate::auth::{Caller, Scope};
use crate::error::{Problem, ProblemBody};

/// Tasks to be run. Each has a verdict of its own: one that is refused stops no other.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchRequest {
    /// The bodies of `POST /api/task`; at most `api.batch_items_max`. An item may bring its `idempotency_key`.
    #[schema(value_type = Vec<SubmitRequest>)]
    tasks: Vec<Box<RawValue>>,
}

/// One verdict for each item, in the order of the items.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BatchAnswer {
    verdicts: Vec<ItemAnswer>,
}

/// What `POST /api/task` would have answered.
#[derive(Debug, Serialize, ToSchema)]
struct ItemAnswer {
    /// Its status.
    status: u16,
    /// Its body.
    body: ItemBody,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ItemBody {
    Accepted(SubmitAnswer),
    Problem(ProblemBody),
}

/// Items that wait for each other.
#[derive(PartialEq, Eq, Hash)]
enum Lane {
    Thread(ThreadId),
    Task(TaskKey),
}

/// Submit many tasks.
#[utoipa::path(
    post,
    path = "/api/tasks",
    tag = "task",
    request_body = BatchRequest,
    security(("key" = ["submit"])),
    responses(
        (status = 200, description = "A verdict for each item", body = BatchAnswer),
        (status = 400, description = "malformed_body", body = ProblemBody, content_type = "application/problem+json"),
        (status = 401, description = "unauthenticated", body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, description = "missing_scope", body = ProblemBody, content_type = "application/problem+json"),
        (status = 413, description = "body_too_large", body = ProblemBody, content_type = "application/problem+json"),
        (status = 415, description = "unsupported_media_type", body = ProblemBody,
            content_type = "application/problem+json"),
        (status = 422, description = "invalid_request", body = ProblemBody, content_type = "application/problem+json"),
        (status = 503, description = "unavailable, overloaded", body = ProblemBody,
            content_type = "application/problem+json", headers(("Retry-After" = u64, description = "Seconds"))),
    )
)]
pub(super) async fn submit_tasks(State(app): State<App>, request: Request) -> Result<Json<BatchAnswer>, Problem> {
    let (parts, body) = request.into_parts();
    let settings = app.settings.now();
    let batch: BatchRequest = read_json(&parts.headers, body, settings.api.batch_bytes_max).await?;
    let items_max = settings.api.batch_items_max;
    if batch.tasks.is_empty() || batch.tasks.len() > items_max {
        return Err(Problem::invalid("tasks", format!("send 1 to {items_max} tasks (api.batch_items_max)")));
    }
    if IdempotencyKey::read(&parts.headers)?.is_some() {
        return Err(Problem::invalid("Idempotency-Key", "a batch has an `idempotency_key` in each item"));
    }
    let caller = Caller::authenticate(&app.keys, &parts.headers)?;
    caller.require(Scope::Submit)?;

    let count = batch.tasks.len();
    let lanes = lanes(&app, &caller, &batch.tasks);
    let (app, caller, headers) = (&app, &caller, &parts.headers);
    let mut verdicts: Vec<(usize, ItemAnswer)> = stream::iter(lanes)
        .map(|lane| async move {
            let mut answers = Vec::with_capacity(lane.len());
            for (at, item) in lane {
                answers.push((at, answer(app, caller, headers, item).await));
            }
            answers
        })
        .buffer_unordered(settings.api.batch_concurrency)
        .flat_map(stream::iter)
        .collect()
        .await;
    verdicts.sort_by_key(|(at, _)| *at);
    debug_assert_eq!(verdicts.len(), count);
    Ok(Json(BatchAnswer { verdicts: verdicts.into_iter().map(|(_, verdict)| verdict).collect() }))
}

type Item = (usize, Result<Submission, Problem>);

/// Items by what they must not overtake, each with its number.
fn lanes(app: &App, caller: &Caller, items: &[Box<RawValue>]) -> Vec<Vec<Item>> {
    let (mut lanes, mut named): (Vec<Vec<Item>>, HashMap<Lane, usize>) = (Vec::new(), HashMap::new());
    for (at, item) in items.iter().enumerate() {
        let item = read(app, item.get());
        let name = item.as_ref().ok().and_then(|submission| lane(caller, submission));
        match name.map(|name| *named.entry(name).or_insert(lanes.len())) {
            Some(lane) if lane < lanes.len() => lanes[lane].push((at, item)),
            _ => lanes.push(vec![(at, item)]),
        }
    }
    lanes
}

fn lane(caller: &Caller, submission: &Submission) -> Option<Lane> {
    let is_named = submission.task_id.is_some() || submission.idempotency_key.is_some();
    let by_id = || is_named.then(|| Lane::Task(submission.key(caller.tenant)));
    submission.thread_id.map(Lane::Thread).or_else(by_id)
}

/// Check 1 of the single door.
fn read(app: &App, item: &str) -> Result<Submission, Problem> {
    let bytes_max = app.settings.now().api.body_bytes_max;
    if item.len() > bytes_max {
        return Err(Problem::body_too_large(bytes_max));
    }
    judged(app, parse::<SubmitRequest>(item.as_bytes())?, None)
}

async fn answer(app: &App, caller: &Caller, headers: &HeaderMap, item: Result<Submission, Problem>) -> ItemAnswer {
    let submitted = match item {
        Ok(submission) => submit(app, caller, submission).await,
        Err(problem) => Err(problem),
    };
    match submitted {
        Ok(submitted) => ItemAnswer {
            status: StatusCode::ACCEPTED.as_u16(),
            body: ItemBody::Accepted(SubmitAnswer::new(app, headers, &submitted)),
        },
        Err(problem) => {
            let code = problem.code();
            app.counts.problem(code);
            ItemAnswer { status: code.status().as_u16(), body: ItemBody::Problem(problem.into_body()) }
        }
    }
}
