//! What becomes of a task when its attempt is over: stored first, then published (law 4).
//!
//! Both steps are tried until they are answered or the lease is lost: a result is not given up because MySQL or Redis is
//! away. If this process dies between them, the reaper finds a terminal row and publishes it.

use std::sync::Arc;
use std::time::Duration;

use penstock_protocol::{Ending, ErrorCode, Status};
use penstock_queue::{Adoption, AttemptVerdict, Finish, QueueError, Retry, RetryCause};
use penstock_recovery::queued_task;
use penstock_store::{End, Ended, Store, StoreError, TaskRow};

use super::{Claim, Lease, Stop};
use crate::agent::{Account, LastEvent, Outcome};
use crate::metrics::AttemptEnd;
use crate::parts::Parts;

const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Back-off of a failed task: full jitter under a bound that doubles with each failure.
const BACK_OFF: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(60);

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
        Outcome::Succeeded(result) => attempt.end(Status::Succeeded, Some(result), None).await,
        Outcome::Failed { code, message, retry_in: Some(least) } if attempt.may_fail_again() => {
            tracing::info!(task.id = %claim.row().key, attempt = claim.attempt(), code = code.as_str(), %message, "an attempt failed; the task is tried again");
            let delay = back_off(claim.row().failures).max(least);
            attempt.requeue(RetryCause::AttemptFailed, delay).await
        }
        Outcome::Failed { code, message, .. } => {
            let status = if code == ErrorCode::Deadline { Status::Expired } else { Status::Failed };
            attempt.end(status, None, Some((code, message))).await
        }
        Outcome::Stopped(Stop::Cancelled, seen) => attempt.end(Status::Cancelled, seen, None).await,
        Outcome::Stopped(Stop::HandBack, _) => attempt.requeue(RetryCause::HandedBack, Duration::ZERO).await,
        Outcome::Stopped(Stop::Lost, _) => AttemptEnd::Lost,
    }
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
        self.claim.row().failures + 1 < self.parts.settings.now().queue.failures_max
    }

    /// Stores the end, then publishes what the row says: this end, or the one that came first.
    async fn end(
        &self,
        status: Status,
        result: Option<serde_json::Value>,
        error: Option<(ErrorCode, String)>,
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
        let stored = self.until_answered(|| store_end(store, written));
        let ending = match stored.await {
            Some(Ended::Mine) => end.ending,
            Some(Ended::Other(row)) => match row.ending() {
                Some(ending) => ending,
                None => return AttemptEnd::Lost,
            },
            Some(Ended::Unknown) | None => return AttemptEnd::Lost,
        };
        self.publish(row, &ending).await;
        match ending.status {
            Status::Succeeded => AttemptEnd::Succeeded,
            Status::Cancelled => AttemptEnd::Cancelled,
            Status::Expired => AttemptEnd::Expired,
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
                    let (task, attempt, worker) = (&queued_task(row), finish.attempt, finish.worker);
                    self.parts.queue.adopt(&Adoption { task, attempt, worker, last_n: self.last.n }).await?;
                    self.parts.queue.finish(finish).await
                }
                verdict => Ok(verdict),
            }
        })
        .await;
    }

    /// Puts the task back in line, in the row first.
    async fn requeue(&self, cause: RetryCause, delay: Duration) -> AttemptEnd {
        let (key, attempt) = (self.claim.row().key, self.claim.attempt());
        let is_failure = cause == RetryCause::AttemptFailed;
        let requeued =
            self.until_answered(async || self.parts.store.requeue(key, attempt, is_failure).await.map_err(Arc::new));
        match requeued.await {
            Some(true) => {}
            // Cancelled meanwhile: its end is to be published, with what was seen so far.
            Some(false) => return Box::pin(self.end(Status::Cancelled, None, None)).await,
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
async fn store_end(store: &Store, end: &End) -> Result<Ended, Arc<StoreError>> {
    match store.end(end.clone()).await? {
        Ended::Other(row) if row.status == Status::Cancelled && row.attempt == end.attempt => {
            store.add_partial(end).await?;
            Ok(Ended::Other(Box::new(store.task(row.key).await?.unwrap_or(*row))))
        }
        stored => Ok(stored),
    }
}

/// A random part of 1 s × 2^failures, at most 60 s.
fn back_off(failures: u32) -> Duration {
    let bound = BACK_OFF.saturating_mul(1 << failures.min(10)).min(BACK_OFF_MAX);
    // The low bits of a v4 id are as random as any.
    let random = uuid::Uuid::new_v4().as_u128() & 0xFFFF;
    bound.mul_f64(f64::from(u16::try_from(random).unwrap_or(0)) / 65_536.0)
}
