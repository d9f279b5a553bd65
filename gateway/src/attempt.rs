//! One try on one exit, up to its first token, under its timers.
//!
//! Law: a try that ends for whatever reason (timer, cancel, error) closes its connection, because everything that holds it
//! is dropped here. Each try is counted once, by the [`Tally`] that travels with it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use penstock_protocol::TokenUsage;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Body, Method, Request, Response};
use tokio::time::{Instant, timeout, timeout_at};

use crate::bucket::Debit;
use crate::call::ms;
use crate::endpoint::{Endpoint, Passage};
use crate::exit::Exit;
use crate::gate::GatePermit;
use crate::metrics::GatewayMetrics;
use crate::provider::{Answer, Progress, Trouble};
use crate::verdict::{Debit as Fate, verdict};
use crate::{CallScope, Outcome};

/// The id of the task at the vendor's, for its support and for operators.
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-client-request-id");

/// Longest error body that is read, and for how long: the status alone says enough.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
const ERROR_BODY_WAIT: Duration = Duration::from_secs(2);

/// How long the end of a whole answer's connection is waited for.
const DRAIN: Duration = Duration::from_millis(20);

/// An attempt whose answer has begun.
pub(crate) struct Attempt {
    pub(crate) response: Response,
    pub(crate) answer: Answer,
    pub(crate) tally: Tally,
    /// When it got its permit.
    pub(crate) began: Instant,
    pub(crate) permit: GatePermit,
}

/// Ends one attempt exactly once: its metric, its breaker, its gate's push-back, its debit. Dropped without an outcome, by a
/// cancel or a panic, the attempt counts as dropped by the caller.
#[derive(Debug)]
pub(crate) struct Tally {
    exit: Arc<Exit>,
    passage: Passage,
    /// Dropped with the tally: given back where nothing was sent, kept where nothing settled it.
    debit: Debit,
    metrics: GatewayMetrics,
    is_ended: bool,
}

impl Tally {
    pub(crate) fn new(exit: Arc<Exit>, passage: Passage, metrics: GatewayMetrics) -> Self {
        Self { exit, passage, debit: Debit::none(), metrics, is_ended: false }
    }

    pub(crate) fn exit(&self) -> &Arc<Exit> {
        &self.exit
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        self.passage.endpoint()
    }

    /// The attempt has its tokens.
    pub(crate) fn hold(&mut self, debit: Debit) {
        self.debit = debit;
    }

    /// The attempt has passed the gate.
    pub(crate) fn enter(&mut self) {
        self.debit.enter();
    }

    /// Settles the debit of an answer that has begun, as the verdict on its end says. Before [`Tally::end`].
    pub(crate) fn settle(&mut self, outcome: Outcome, usage: Option<&TokenUsage>, received_tokens: u64) {
        if matches!(verdict(outcome).debit, Fate::Settled | Fate::Received) {
            self.debit.settle(usage, received_tokens);
        }
    }

    /// Asks the breaker again, just before the send. Tripped meanwhile: another way in, or the attempt ends unsent.
    pub(crate) fn admit_again(&mut self, avoided: Option<&Arc<Endpoint>>) -> Result<(), Trouble> {
        if self.passage.breaker.still() {
            return Ok(());
        }
        match self.exit.admit(avoided) {
            Ok(passage) => self.passage = passage,
            Err(trouble) => {
                self.end(trouble.outcome, None);
                return Err(trouble);
            }
        }
        Ok(())
    }

    /// The first token is there.
    pub(crate) fn first_token(&self, waited: Duration) {
        self.passage.breaker.first_token();
        self.metrics.first_token(&self.exit.labels, waited);
    }

    /// The attempt is over; `hint`: the wait that the vendor asked for. Only the first end counts.
    pub(crate) fn end(&mut self, outcome: Outcome, hint: Option<Duration>) {
        if !self.is_ended {
            self.is_ended = true;
            self.metrics.count(&self.exit.labels, outcome);
            self.exit.ended(&mut self.passage, outcome, hint);
        }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.end(Outcome::Dropped, None);
    }
}

/// Sends `body` and reads the answer up to its first token, or says what went wrong.
///
/// `give_up` bounds the try from outside: the end of the call's time box.
pub(crate) async fn open(
    client: &reqwest::Client,
    body: Bytes,
    scope: &CallScope,
    give_up: Instant,
    mut tally: Tally,
    permit: GatePermit,
) -> Result<Attempt, Trouble> {
    tally.debit.send();
    let began = Instant::now();
    let timers = tally.exit().timers;
    let bounds = [
        (began + timers.first_token, Outcome::FirstToken),
        (give_up, Outcome::TimeBox),
        (began + timers.total, Outcome::Total),
        (scope.deadline.unwrap_or(began + timers.total), Outcome::Deadline),
    ];
    // Of equal moments the first named counts.
    let (until, outcome) = bounds.into_iter().min_by_key(|(moment, _)| *moment).unwrap_or((give_up, Outcome::TimeBox));
    let opened = match timeout_at(until, first_token(client, tally.exit(), tally.endpoint(), body, scope)).await {
        Ok(opened) => opened,
        Err(_) => Err(Trouble::own(outcome, "")),
    };
    match opened {
        Ok((response, answer)) => {
            tally.first_token(began.elapsed());
            tracing::debug!(waited_ms = ms(began.elapsed()), "first token");
            Ok(Attempt { response, answer, tally, began, permit })
        }
        Err(trouble) => {
            tally.end(trouble.outcome, trouble.hint);
            Err(trouble)
        }
    }
}

async fn first_token(
    client: &reqwest::Client,
    exit: &Exit,
    endpoint: &Endpoint,
    body: Bytes,
    scope: &CallScope,
) -> Result<(Response, Answer), Trouble> {
    let mut request = Request::new(Method::POST, endpoint.url.clone());
    *request.headers_mut() = endpoint.headers.clone();
    if let Ok(id) = HeaderValue::try_from(scope.task.to_string()) {
        request.headers_mut().insert(CLIENT_REQUEST_ID, id);
    }
    *request.body_mut() = Some(Body::from(body));
    let mut response = client.execute(request).await.map_err(|cause| {
        let outcome = if cause.is_connect() { Outcome::Connect } else { Outcome::Server };
        Trouble::own(outcome, reason(cause))
    })?;
    if !response.status().is_success() {
        return Err(error_answer(response, exit).await);
    }
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut answer = exit.dialect.answer(content_type, exit.is_quota_throttle, exit.answer_bounds);
    while *answer.progress() == Progress::Waiting {
        read(&mut response, &mut answer).await;
    }
    match answer.progress() {
        // Trouble behind the first token, in the same read, is told after it.
        Progress::Failed if answer.pending_count() == 0 => {
            Err(answer.take_trouble().unwrap_or_else(|| Trouble::own(Outcome::Server, "")))
        }
        _ => Ok((response, answer)),
    }
}

/// Reads once from the body into the answer. Cancel-safe: nothing is lost when it is dropped.
pub(crate) async fn read(response: &mut Response, answer: &mut Answer) {
    match response.chunk().await {
        Ok(Some(bytes)) => answer.push(&bytes),
        Ok(None) => answer.end(),
        Err(cause) => answer.break_off(reason(cause)),
    }
}

async fn error_answer(mut response: Response, exit: &Exit) -> Trouble {
    let mut body = Vec::new();
    let until = Instant::now() + ERROR_BODY_WAIT;
    while let Ok(Ok(Some(bytes))) = timeout_at(until, response.chunk()).await {
        let room = ERROR_BODY_BYTES_MAX - body.len();
        body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        if body.len() == ERROR_BODY_BYTES_MAX {
            break;
        }
    }
    exit.dialect.trouble(response.status(), response.headers(), &body, exit.is_quota_throttle)
}

/// The innermost cause in words, without the URL.
fn reason(cause: reqwest::Error) -> String {
    let cause = cause.without_url();
    let mut innermost: &dyn std::error::Error = &cause;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Reads the connection of a whole answer to its end, for a moment, so that it can serve the next call.
pub(crate) async fn drain(mut response: Response) {
    // Some servers leave the connection open after `[DONE]`; then it is closed.
    let to_the_end = async { while let Ok(Some(_)) = response.chunk().await {} };
    drop(timeout(DRAIN, to_the_end).await);
}
