//! Runs the agent of one claimed task to its outcome.

use std::sync::Arc;
use std::time::Duration;

use penstock_config::Agent;
use penstock_gateway::{CallScope, ModelRequest};
use penstock_protocol::{ErrorCode, Event, EventId, OpenItems};
use serde_json::Value;
use tokio::time::Instant;

use super::transcript::{Transcript, result};
use super::turn::{Answer, Interrupted, Turn};
use super::{Account, Output};
use crate::claim::{Claim, Lease, Stop};
use crate::parts::Parts;

/// Pages in which the events of earlier attempts are read.
const EVENTS_PER_PAGE: usize = 200;

/// How an attempt came out.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The agent did what was asked; the result is stored.
    Succeeded(Value),
    /// It failed.
    Failed {
        /// Reason code.
        code: ErrorCode,
        /// For people.
        message: String,
        /// Whether another attempt may succeed, and the least time until it is worth trying.
        retry_in: Option<Duration>,
    },
    /// It had to stop; of a cancelled task the text that its client saw is kept.
    Stopped(Stop, Option<Value>),
}

/// Runs `claim`. Everything that the client saw is in Redis when this returns, except after [`Stop::Lost`].
pub(crate) async fn run(
    parts: &Parts,
    claim: &Claim,
    lease: &Lease,
    agent: &Agent,
    last_moment: Instant,
    output: &mut Output<'_>,
    account: &mut Account,
) -> Outcome {
    let spec = match claim.row().spec() {
        Ok(spec) => spec,
        Err(error) => return failed(ErrorCode::Internal, error.to_string()),
    };
    let transcript = match Transcript::of(claim.row(), &spec, &parts.store, &parts.settings.now().worker).await {
        Ok(transcript) => transcript,
        // MySQL is away: the task is tried again later.
        Err(error) => {
            return Outcome::Failed {
                code: ErrorCode::Internal,
                message: error.to_string(),
                retry_in: Some(Duration::ZERO),
            };
        }
    };
    if claim.is_resumed() {
        let earlier = tokio::select! {
            why = lease.stopped() => return Outcome::Stopped(why, None),
            items = left_open(parts, claim) => items,
        };
        for event in earlier.closing() {
            output.push(event);
        }
        output.push(Event::MessagesSnapshot { messages: transcript.for_client() });
    }
    let request = ModelRequest {
        chain: agent.chain.clone(),
        messages: transcript.for_model(&agent.instructions),
        ..ModelRequest::default()
    };
    let limit = parts.settings.now().worker.answer_bytes_max;
    let turn = Turn {
        gateway: &parts.gateway,
        scope: CallScope {
            deadline: Some(last_moment),
            cache: agent.cache,
            fallback_answer: Some(agent.fallback_answer.as_str()).filter(|text| !text.is_empty()).map(Arc::from),
            ..CallScope::of(claim.row().key)
        },
        lease,
        answer_bytes_max: limit,
    };
    let mut answer = Answer::new(format!("{}-{}", claim.row().key.task, claim.attempt()));
    let called = turn.call(&request, output, account, &mut answer).await;
    let outcome = match called {
        Ok(()) => Outcome::Succeeded(result(&answer.message_id, &answer.text, answer.origin)),
        Err(Interrupted::Stop(why)) => {
            let seen = (!answer.text.is_empty()).then(|| result(&answer.message_id, &answer.text, answer.origin));
            Outcome::Stopped(why, seen)
        }
        Err(Interrupted::TooLong) => {
            failed(ErrorCode::LimitReached, format!("the answer is longer than worker.answer_bytes_max = {limit}"))
        }
        Err(Interrupted::Failed(error)) => match error.code() {
            ErrorCode::Deadline => out_of_time(parts, claim),
            code => Outcome::Failed { code, message: error.to_string(), retry_in: error.retry_in() },
        },
    };
    // A failed run is closed by RUN_ERROR and a retried one by its next attempt; every other end closes its items here.
    if matches!(outcome, Outcome::Succeeded(_) | Outcome::Stopped(Stop::Cancelled, _)) {
        answer.close(output);
    }
    match output.flush().await {
        Err(Stop::Lost) => Outcome::Stopped(Stop::Lost, None),
        _ => outcome,
    }
}

/// What earlier attempts left open on the stream.
async fn left_open(parts: &Parts, claim: &Claim) -> OpenItems {
    let (mut items, mut after) = (OpenItems::default(), EventId::default());
    loop {
        match parts.queue.read_events(claim.row().key, after, EVENTS_PER_PAGE).await {
            Ok(page) => {
                for event in &page {
                    items.take(&event.event);
                }
                match page.last() {
                    Some(last) if page.len() == EVENTS_PER_PAGE => after = last.id,
                    _ => return items,
                }
            }
            Err(error) => {
                tracing::debug!(task = %claim.row().key, %error, "an earlier attempt's events are read again");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// The end of an attempt whose time is over: the task's own deadline, or the longest life of an attempt.
pub(crate) fn out_of_time(parts: &Parts, claim: &Claim) -> Outcome {
    let longest = parts.settings.now().worker.attempt_max;
    match claim.row().deadline_left_ms {
        Some(left) if Duration::from_millis(left) <= longest => {
            failed(ErrorCode::Deadline, "the deadline passed while it ran".to_owned())
        }
        _ => {
            let message = format!("it ran longer than worker.attempt_ms_max = {}", longest.as_millis());
            failed(ErrorCode::LimitReached, message)
        }
    }
}

fn failed(code: ErrorCode, message: String) -> Outcome {
    Outcome::Failed { code, message, retry_in: None }
}
