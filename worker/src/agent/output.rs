//! Writes an attempt's events to its stream: dense, fenced, text merged.
//!
//! Law 5: ids are `<attempt>-<n>`; Redis refuses them once the attempt is taken away. Law 7: `seq` is dense over the
//! stream. The first piece of text leaves at once, later ones are merged for `events.merge_ms` or up to
//! `events.merge_bytes_max`. A batch that was sent is never changed: sent again after a time-out, it has the same ids.

use std::time::Duration;

use penstock_protocol::{Event, TaskKey};
use penstock_queue::{Emission, EmitVerdict, Queue};
use tokio::time::Instant;

use crate::claim::{Claim, Lease, Stop};
use crate::metrics::{LateWrite, WorkerMetrics};
use crate::parts::Parts;

/// Pause before a batch that Redis did not take is sent again.
const RETRY_EVERY: Duration = Duration::from_millis(200);

/// Numbers of the last event that Redis has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastEvent {
    /// Number inside the attempt.
    pub(crate) n: u64,
    /// Dense number over the stream.
    pub(crate) seq: u64,
}

/// The writer of one attempt.
pub(crate) struct Output<'a> {
    queue: &'a Queue,
    metrics: &'a WorkerMetrics,
    lease: &'a Lease,
    key: TaskKey,
    attempt: u32,
    merge: Duration,
    merge_bytes_max: usize,
    last: LastEvent,
    /// Not sent yet; the last one may still grow.
    waiting: Vec<Event>,
    waiting_bytes: usize,
    /// When what waits must leave; `None` while nothing waits or nothing was sent yet.
    due: Option<Instant>,
    has_sent_text: bool,
}

impl<'a> Output<'a> {
    /// Goes on after the event that `start` wrote.
    pub(crate) fn new(parts: &'a Parts, claim: &Claim, lease: &'a Lease) -> Self {
        let settings = parts.settings.now();
        Self {
            queue: &parts.queue,
            metrics: &parts.metrics,
            lease,
            key: claim.row().key,
            attempt: claim.attempt(),
            merge: settings.events.merge,
            merge_bytes_max: settings.events.merge_bytes_max,
            last: LastEvent { n: 1, seq: claim.started_seq() },
            waiting: Vec::new(),
            waiting_bytes: 0,
            due: None,
            has_sent_text: false,
        }
    }

    /// Adds an event; it leaves with the next batch.
    pub(crate) fn push(&mut self, event: Event) {
        self.waiting.push(event);
        self.due.get_or_insert_with(|| Instant::now() + self.merge);
    }

    /// Adds a piece of the answer's text, and sends what waits when it is due.
    pub(crate) async fn text(&mut self, message_id: &str, delta: String) -> Result<(), Stop> {
        self.waiting_bytes += delta.len();
        match self.waiting.last_mut() {
            Some(Event::TextMessageContent { message_id: open, delta: text }) if open == message_id => {
                text.push_str(&delta);
            }
            _ => self.push(Event::TextMessageContent { message_id: message_id.to_owned(), delta }),
        }
        self.merged().await
    }

    /// Adds a piece of reasoning, and sends what waits when it is due.
    pub(crate) async fn reasoning(&mut self, message_id: &str, delta: String) -> Result<(), Stop> {
        self.waiting_bytes += delta.len();
        match self.waiting.last_mut() {
            Some(Event::ReasoningMessageContent { message_id: open, delta: text }) if open == message_id => {
                text.push_str(&delta);
            }
            _ => self.push(Event::ReasoningMessageContent { message_id: message_id.to_owned(), delta }),
        }
        self.merged().await
    }

    /// Waits until what waits must leave; for ever while nothing does. Cancel-safe.
    pub(crate) async fn due(&self) {
        match self.due {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Sends everything that waits and returns once Redis has it.
    ///
    /// While Redis does not answer, or lost the stream and the task is not adopted yet, it is tried again until the
    /// attempt must stop. Errors: why it must stop.
    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        self.due = None;
        if self.waiting.is_empty() {
            return Ok(());
        }
        let events: Vec<_> = self.waiting.drain(..).map(|event| event.to_json()).collect();
        self.waiting_bytes = 0;
        let (first_n, first_seq) = (self.last.n + 1, self.last.seq + 1);
        let batch = Emission { key: self.key, attempt: self.attempt, first_n, first_seq, events: &events };
        loop {
            match self.queue.emit(&batch).await {
                Ok(EmitVerdict::Written) => break,
                Ok(EmitVerdict::Fenced) => {
                    self.metrics.refused(LateWrite::Event);
                    return Err(Stop::Lost);
                }
                Ok(EmitVerdict::Gone) => tracing::debug!(task = %self.key, "the stream is gone; waits to be adopted"),
                Err(error) => tracing::debug!(task = %self.key, %error, "events wait for Redis"),
            }
            tokio::select! {
                // A cancelled or handed-back attempt still shows what it has; only a lost one must not write.
                () = self.lease.lost() => return Err(Stop::Lost),
                () = tokio::time::sleep(RETRY_EVERY) => {}
            }
        }
        let count = events.len() as u64;
        self.last = LastEvent { n: self.last.n + count, seq: self.last.seq + count };
        self.lease.wrote(self.last.n);
        Ok(())
    }

    /// The last event that Redis has.
    pub(crate) fn last(&self) -> LastEvent {
        self.last
    }

    async fn merged(&mut self) -> Result<(), Stop> {
        let is_due = self.due.is_some_and(|at| at <= Instant::now());
        if self.has_sent_text && !is_due && self.waiting_bytes < self.merge_bytes_max {
            return Ok(());
        }
        self.has_sent_text = true;
        self.flush().await
    }
}
