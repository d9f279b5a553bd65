//! The answer as its caller reads it, under the timers that still run: idle, total, deadline.
//!
//! Law 7: a stream ends in `Finish` or in an error, never silently. Cancel is dropping it: that closes the connection, frees
//! the permit and counts the attempt as dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use penstock_protocol::TokenUsage;
use reqwest::Response;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::attempt::{Attempt, Tally, drain, read};
use crate::error::{CallFailed, failed};
use crate::gate::GatePermit;
use crate::provider::{Answer, Progress, Trouble};
use crate::settings::Exit;
use crate::{ModelChunk, Outcome};

/// A model's answer, arriving.
pub(crate) struct LiveStream {
    answer: Answer,
    /// Taken when the answer is over: dropping it closes the connection.
    response: Option<Response>,
    permit: Option<GatePermit>,
    tally: Tally,
    clock: Clock,
    attempts: u32,
    fallback: Option<Fallback>,
    provider: Arc<str>,
    model: Arc<str>,
    /// Bytes of the answer that were given out.
    received_bytes: usize,
}

/// Bytes of an answer for one token, where its vendor counted nothing.
const BYTES_PER_TOKEN: usize = 4;

/// That another hop than the first serves, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// `provider/model` of the chain's first hop.
    pub from: String,
    /// Why it was left.
    pub reason: Outcome,
}

impl LiveStream {
    pub(crate) fn new(attempt: Attempt, deadline: Option<Instant>, attempts: u32, fallback: Option<Fallback>) -> Self {
        let exit = attempt.tally.exit();
        let (provider, model) = (exit.labels.provider.clone(), exit.labels.model.clone());
        let timers = exit.timers;
        let clock = Clock::new(attempt.began + timers.total, deadline, timers.idle);
        let Attempt { response, answer, tally, permit, .. } = attempt;
        Self {
            answer,
            response: Some(response),
            permit: Some(permit),
            tally,
            clock,
            attempts,
            fallback,
            provider,
            model,
            received_bytes: 0,
        }
    }

    /// Name of the provider that serves.
    pub(crate) fn provider(&self) -> &str {
        &self.provider
    }

    /// The vendor's name of the model that serves.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    /// Provider and model that serve; what the model says for its own eyes belongs there.
    pub(crate) fn exit(&self) -> Exit {
        self.tally.exit().name.clone()
    }

    /// Whether another hop than the first serves.
    pub(crate) fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }

    /// Attempts sent until one gave its first token.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What the vendor has counted so far; after a failure, of what was received.
    pub(crate) fn usage(&self) -> Option<TokenUsage> {
        self.answer.usage().map(|usage| self.named(usage.clone()))
    }

    /// The next step of the answer; `None` after its end or its error.
    ///
    /// Cancel-safe: dropped while it waits, nothing is lost.
    ///
    /// # Errors
    /// When the answer broke off. What came before it has been given out and cannot be taken back, so nothing is
    /// retried here.
    pub(crate) async fn next(&mut self) -> Option<Result<ModelChunk, CallFailed>> {
        loop {
            if *self.answer.progress() == Progress::Whole && self.answer.pending_count() == 1 {
                self.close().await;
            }
            if let Some(chunk) = self.answer.next_chunk() {
                self.received_bytes = self.received_bytes.saturating_add(chunk.bytes_count());
                return Some(Ok(match chunk {
                    ModelChunk::Usage(usage) => ModelChunk::Usage(self.named(usage)),
                    other => other,
                }));
            }
            if let Some(trouble) = self.answer.take_trouble() {
                return Some(Err(self.fail(trouble)));
            }
            let response = self.response.as_mut()?;
            if let Some(outcome) = self.clock.over() {
                return Some(Err(self.fail(Trouble::own(outcome, ""))));
            }
            let pieces = self.answer.pieces_count();
            let fired = tokio::select! {
                biased;
                () = read(response, &mut self.answer) => None,
                outcome = self.clock.fired() => Some(outcome),
            };
            match fired {
                // The model had finished; only the end of the stream is missing.
                Some(Outcome::Broken) if self.answer.has_finish() => self.answer.end(),
                Some(outcome) => return Some(Err(self.fail(Trouble::own(outcome, "")))),
                None if self.answer.pieces_count() > pieces => self.clock.heard(),
                None => {}
            }
        }
    }

    /// A whole answer: lets the connection serve again, then frees the permit.
    async fn close(&mut self) {
        // Taken, so that a reader who leaves now frees both.
        let _permit = self.permit.take();
        if let Some(response) = self.response.take() {
            self.end(Outcome::CleanEnd, None);
            drain(response).await;
        }
    }

    fn fail(&mut self, trouble: Trouble) -> CallFailed {
        self.response = None;
        self.permit = None;
        let outcome = after_first_token(trouble.outcome);
        self.end(outcome, trouble.hint);
        let failed = failed(self.tally.exit(), Trouble { outcome, ..trouble }, self.attempts);
        tracing::warn!(
            provider = &*failed.provider,
            model = &*failed.model,
            outcome = outcome.as_str(),
            "a model stream failed after its first token"
        );
        failed
    }

    fn end(&mut self, outcome: Outcome, hint: Option<Duration>) {
        let received = u64::try_from(self.received_bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX);
        self.tally.settle(outcome, self.answer.usage(), received);
        self.tally.end(outcome, hint);
    }

    fn named(&self, usage: TokenUsage) -> TokenUsage {
        TokenUsage { provider: Some(self.provider.to_string()), model: Some(self.model.to_string()), ..usage }
    }
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        // After an end this changes nothing.
        self.end(Outcome::Dropped, None);
    }
}

/// What an outcome means once part of the answer was given out: whatever breaks it off is one row of the table.
fn after_first_token(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Connect | Outcome::Server | Outcome::Undecodable | Outcome::Empty => Outcome::Broken,
        other => other,
    }
}

/// The timers after the first token. One sleep serves all; it is set anew only when it fires, not at each piece.
struct Clock {
    total: Instant,
    deadline: Option<Instant>,
    idle: Duration,
    /// When the last piece came.
    heard: Instant,
    sleep: Pin<Box<Sleep>>,
}

impl Clock {
    fn new(total: Instant, deadline: Option<Instant>, idle: Duration) -> Self {
        let heard = Instant::now();
        let mut clock = Self { total, deadline, idle, heard, sleep: Box::pin(sleep_until(heard)) };
        let (due, _) = clock.due();
        clock.sleep.as_mut().reset(due);
        clock
    }

    fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Whether the call's time is over, however much the vendor has ready to be read.
    fn over(&self) -> Option<Outcome> {
        let now = Instant::now();
        match self.deadline {
            Some(deadline) if now >= deadline => Some(Outcome::Deadline),
            _ if now >= self.total => Some(Outcome::Total),
            _ => None,
        }
    }

    /// The next timer. Of equal moments the first named counts.
    fn due(&self) -> (Instant, Outcome) {
        let mut due = (self.total, Outcome::Total);
        if let Some(deadline) = self.deadline.filter(|deadline| *deadline <= due.0) {
            due = (deadline, Outcome::Deadline);
        }
        let idle = self.heard + self.idle;
        if idle < due.0 { (idle, Outcome::Broken) } else { due }
    }

    /// Waits until a timer fires.
    async fn fired(&mut self) -> Outcome {
        loop {
            let (due, outcome) = self.due();
            if Instant::now() >= due {
                return outcome;
            }
            if self.sleep.is_elapsed() || self.sleep.deadline() > due {
                self.sleep.as_mut().reset(due);
            }
            self.sleep.as_mut().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(30);

    fn clock(total_s: u64, deadline_s: Option<u64>) -> Clock {
        let from_now = |seconds| Instant::now() + Duration::from_secs(seconds);
        Clock::new(from_now(total_s), deadline_s.map(from_now), IDLE)
    }

    #[tokio::test(start_paused = true)]
    async fn the_nearest_timer_fires() {
        for (total_s, deadline_s, outcome, at_s) in [
            (60, None, Outcome::Broken, 30),
            (20, None, Outcome::Total, 20),
            (20, Some(10), Outcome::Deadline, 10),
            (20, Some(20), Outcome::Deadline, 20),
            (60, Some(40), Outcome::Broken, 30),
        ] {
            let began = Instant::now();
            let mut clock = clock(total_s, deadline_s);
            assert_eq!(clock.fired().await, outcome);
            assert_eq!(began.elapsed().as_secs(), at_s);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_piece_puts_the_idle_timer_off_but_no_other() {
        let (began, mut clock) = (Instant::now(), clock(100, None));
        for _ in 0..4 {
            tokio::time::advance(Duration::from_secs(20)).await;
            clock.heard();
        }
        assert_eq!(clock.over(), None);
        assert_eq!(clock.fired().await, Outcome::Total);
        assert_eq!(began.elapsed().as_secs(), 100);
        assert_eq!(clock.over(), Some(Outcome::Total), "said without waiting, too");
    }

    #[tokio::test(start_paused = true)]
    async fn a_passed_deadline_is_said_without_waiting() {
        let clock = clock(100, Some(10));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(clock.over(), Some(Outcome::Deadline));
    }
}
