//! What becomes of a task when its attempt is over: stored first, then published (law 4).
//!
//! Both steps are tried until they are answered or the lease is lost: a result is not given up because MySQL or Redis is
//! away. If this process dies between them, the reaper finds a terminal row and publishes it.

use std::sync::Arc;
use std::time::Duration;

use penstock_protocol::{Ending, ErrorCode, Status};
use penstock_queue::{Adoption, AttemptVerdict, Finish, QueueError, Retry, RetryCause};
use penstock_store::{End, Ended, Store, StoreError, TaskRow};

use super::retry::{may_fail_again, pause, random};
use super::{Claim, Lease, Stop};
use crate::agent::{Account, LastEvent, Outcome};
use crate::metrics::{AttemptEnd, LateWrite};
use crate::parts::Parts;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Ends, retries or hands back the task. `last` is the last event that the attempt wrote.
pub(crate) async fn conclude(
    parts: &Parts,
    claim: &Claim,
    lease: &Lease,
    outcome: Outcome,
    account: Account,
    last: LastEvent,
) -> AttemptEnd {
    let attempt = Attempt { parts, claim, lease, account, last };
    match outcome {
        Outcome::Succeeded(result) => attempt.end(Status::Succeeded, Some(result), None, Fate::Ends).await,
        Outcome::Failed { code, message, retry_in: Some(hint) } if attempt.may_fail_again() => {
            tracing::info!(task.id = %claim.row().key, attempt = claim.attempt(), code = code.as_str(), %message, "an attempt failed; the task is tried again");
            let delay = pause(&parts.settings.now().queue, claim.row().failures, hint, random());
            attempt.requeue(RetryCause::AttemptFailed, delay, None).await
        }
        Outcome::Failed { code, message, retry_in } => {
            let status = if code == ErrorCode::Deadline { Status::Expired } else { Status::Failed };
            let fate = if retry_in.is_some() { Fate::DeadLetter } else { Fate::Ends };
            attempt.end(status, None, Some((code, message)), fate).await
        }
        Outcome::Stopped(Stop::Cancelled, seen) => attempt.end(Status::Cancelled, seen, None, Fate::Ends).await,
        Outcome::Stopped(Stop::HandBack, seen) => attempt.requeue(RetryCause::HandedBack, Duration::ZERO, seen).await,
        Outcome::Stopped(Stop::Lost, _) => AttemptEnd::Lost,
    }
}

/// What a failed task is from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It has ended.
    Ends,
    /// Its attempts ran out: it has ended, and can be replayed.
    DeadLetter,
}

struct Attempt<'a> {
    parts: &'a Parts,
    claim: &'a Claim,
    lease: &'a Lease,
    account: Account,
    last: LastEvent,
}

impl Attempt<'_> {
    fn may_fail_again(&self) -> bool {
        let row = self.claim.row();
        let wish = row.spec().ok().and_then(|spec| spec.retry);
        may_fail_again(&self.parts.settings.now().queue, row.failures, wish)
    }

    /// Stores the end, then publishes what the row says: this end, or the one that came first.
    async fn end(
        &self,
        status: Status,
        result: Option<serde_json::Value>,
        error: Option<(ErrorCode, String)>,
        fate: Fate,
    ) -> AttemptEnd {
        let row = self.claim.row();
        let ending = Ending { status, result, error, usage: self.account.usage.clone() };
        let end = End {
            key: row.key,
            attempt: self.claim.attempt(),
            ending,
            model: self.account.model.clone(),
            model_calls: self.account.calls,
        };
        let (store, written) = (&self.parts.store, &end);
        let stored = self.until_answered(|| store_end(store, written, fate));
        let ending = match stored.await {
            Some(Ended::Mine) => end.ending,
            Some(Ended::Other(row)) => match row.ending() {
                Some(ending) => ending,
                None => {
                    self.parts.metrics.refused(LateWrite::End);
                    return AttemptEnd::Lost;
                }
            },
            Some(Ended::Unknown) | None => return AttemptEnd::Lost,
        };
        self.publish(row, &ending).await;
        match ending.status {
            Status::Succeeded => AttemptEnd::Succeeded,
            Status::Cancelled => AttemptEnd::Cancelled,
            Status::Expired => AttemptEnd::Expired,
            _ if fate == Fate::DeadLetter => AttemptEnd::Dead,
            _ => AttemptEnd::Failed,
        }
    }

    async fn publish(&self, row: &TaskRow, ending: &Ending) {
        let event = ending.event(row.thread, row.key.task).to_json();
        let finish = Finish {
            key: row.key,
            attempt: self.claim.attempt(),
            worker: &self.parts.worker,
            cost_tokens: self.account.tokens(),
            input_tokens: u64::from(row.cost_tokens),
            last_seq: self.last.seq,
            event: &event,
        };
        let finish = &finish;
        self.until_published(|| async move {
            match self.parts.queue.finish(finish).await? {
                AttemptVerdict::Unknown => {
                    // Redis was flushed since the last beat: take the task back, so that the end follows its events.
                    let (task, attempt, worker) =
                        (&self.parts.recovery.queued_task(row, row.crashes), finish.attempt, finish.worker);
                    self.parts.queue.adopt(&Adoption { task, attempt, worker, last_n: self.last.n }).await?;
                    self.parts.queue.finish(finish).await
                }
                verdict => Ok(verdict),
            }
        })
        .await;
    }

    /// Puts the task back in line, in the row first. `seen` is what its client saw, should it be cancelled by then.
    async fn requeue(&self, cause: RetryCause, delay: Duration, seen: Option<serde_json::Value>) -> AttemptEnd {
        let (key, attempt) = (self.claim.row().key, self.claim.attempt());
        let is_failure = cause == RetryCause::AttemptFailed;
        let requeued =
            self.until_answered(async || self.parts.store.requeue(key, attempt, is_failure).await.map_err(Arc::new));
        match requeued.await {
            Some(true) => {}
            // Cancelled meanwhile: its end is to be published, with what was seen so far.
            Some(false) => return Box::pin(self.end(Status::Cancelled, seen, None, Fate::Ends)).await,
            None => return AttemptEnd::Lost,
        }
        let worker = &self.parts.worker;
        let retry = Retry { key, attempt, worker, delay, cost_tokens: self.account.tokens(), cause };
        let (queue, retry) = (&self.parts.queue, &retry);
        self.until_published(|| queue.retry(retry)).await;
        if is_failure { AttemptEnd::Retried } else { AttemptEnd::HandedBack }
    }

    /// Repeats a write until MySQL answers; `None` once the lease is lost, or when MySQL refuses.
    async fn until_answered<T, W>(&self, write: impl Fn() -> W) -> Option<T>
    where
        W: Future<Output = Result<T, Arc<StoreError>>>,
    {
        let mut pause = PAUSE_MIN;
        loop {
            match write().await {
                Ok(answer) => return Some(answer),
                Err(error) => match &*error {
                    StoreError::Unavailable(_) | StoreError::Busy => {
                        tracing::debug!(task.id = %self.claim.row().key, %error, "an end waits for MySQL");
                    }
                    _ => {
                        tracing::error!(task.id = %self.claim.row().key, %error, "MySQL refused an end");
                        return None;
                    }
                },
            }
            tokio::select! {
                () = self.lease.lost() => return None,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
            }
        }
    }

    /// Repeats a call until Redis answers or the lease is lost: then the reaper publishes.
    async fn until_published<C>(&self, call: impl Fn() -> C)
    where
        C: Future<Output = Result<AttemptVerdict, QueueError>>,
    {
        let mut pause = PAUSE_MIN;
        loop {
            match call().await {
                Ok(_) => return,
                Err(error) if error.is_transient() => {
                    tracing::debug!(task.id = %self.claim.row().key, %error, "an end waits for Redis");
                }
                Err(error) => {
                    tracing::error!(task.id = %self.claim.row().key, %error, "an end could not be published");
                    return;
                }
            }
            tokio::select! {
                () = self.lease.lost() => return,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
            }
        }
    }
}

/// Stores an end. Where a cancel came first, what the client saw and its cost are stored beside it.
async fn store_end(store: &Store, end: &End, fate: Fate) -> Result<Ended, Arc<StoreError>> {
    let ended = match fate {
        Fate::Ends => store.end(end.clone()).await?,
        Fate::DeadLetter => store.end_as_dead_letter(end.clone()).await?,
    };
    match ended {
        Ended::Other(row) if row.status == Status::Cancelled && row.attempt == end.attempt => {
            store.add_partial(end).await?;
            Ok(Ended::Other(Box::new(store.task(row.key).await?.unwrap_or(*row))))
        }
        stored => Ok(stored),
    }
}
