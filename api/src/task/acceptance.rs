//! The accept record, and the place in line that follows it (check 8).
//!
//! Law 3: 202 is sent once the row is committed; being queued follows, by this door or by the reconciler. Only
//! [`accept`] makes an [`Accepted`], out of an [`Admitted`]; only an `Accepted` is enqueued.

use std::time::Duration;

use penstock_protocol::clock;
use penstock_queue::QueuedTask;
use penstock_store::{NewTask, StoreError, TaskRow};
use tokio::time::{Instant, sleep, timeout_at};

use super::Submission;
use super::admission::Admitted;
use crate::app::App;
use crate::error::Problem;

/// No commit later than this after the admission: its registration holds the place for 30 s only.
const COMMIT_MAX: Duration = Duration::from_secs(10);

/// How often, and how long after that, a door looks what became of a commit that was not answered.
const SETTLE_LOOK_EVERY: Duration = Duration::from_millis(500);
const SETTLE_MAX: Duration = Duration::from_secs(15);

/// Whose row stands under the id.
pub(super) enum Acceptance {
    /// This call's.
    New(Box<Accepted>),
    /// One that was there before: its client is answered from it.
    Before(Box<TaskRow>),
}

/// A task whose row is committed.
pub(super) struct Accepted {
    task: QueuedTask,
    /// What the queue said when it let the task in.
    pub(super) proof: penstock_queue::Admitted,
}

/// Commits the accept record of an admitted task.
///
/// Errors: 503, with `outcome: unknown` where the row may have been written. The registration is taken back wherever
/// nothing was.
pub(super) async fn accept(app: &App, admitted: Admitted, submission: Submission) -> Result<Acceptance, Problem> {
    let Admitted { proof, since } = admitted;
    let deadline = since + COMMIT_MAX;
    if Instant::now() >= deadline {
        release(app, &proof).await;
        return Err(Problem::unavailable("the request was held up too long; nothing was accepted"));
    }
    let (task, queued) = records(app, &proof, submission);
    let began = Instant::now();
    let outcome = timeout_at(deadline, app.store.accept(task)).await;
    app.counts.accepted(began.elapsed());
    let id = queued.key.task;
    match outcome {
        Ok(Ok(penstock_store::Accepted::New)) => Ok(Acceptance::New(Box::new(Accepted { task: queued, proof }))),
        Ok(Ok(penstock_store::Accepted::Before(row))) => {
            release(app, &proof).await;
            Ok(Acceptance::Before(row))
        }
        Ok(Err(error)) if !matches!(*error, StoreError::Unavailable(_)) => Err(failed(app, &proof, &error).await),
        // Not answered in time. Whether it is committed shows later; the client need not wait for it.
        Ok(Err(_)) | Err(_) => {
            app.tracker.spawn(settle(app.clone(), Accepted { task: queued, proof }, deadline));
            Err(Problem::outcome_unknown(id))
        }
    }
}

/// Finds out what became of a commit that was not answered: the row is there and is queued, or it is not and the place
/// is given back. So the same request, sent again, soon gets the truth.
///
/// Gives up with the registration's life, and at a stop; the reconciler and the purge do the same, later.
async fn settle(app: App, unknown: Accepted, deadline: Instant) {
    let look = Box::pin(async {
        while Instant::now() < deadline + SETTLE_MAX {
            sleep(SETTLE_LOOK_EVERY).await;
            match app.store.task(unknown.task.key).await {
                Ok(Some(row)) if row.place == unknown.task.place => {
                    unknown.enqueue(&app).await;
                    return;
                }
                Ok(Some(_)) => return release(&app, &unknown.proof).await,
                // Before the deadline it may still come.
                Ok(None) if Instant::now() >= deadline => return release(&app, &unknown.proof).await,
                Ok(None) | Err(_) => {}
            }
        }
    });
    app.shutdown.run_until_cancelled(look).await;
}

impl Accepted {
    /// When it was accepted.
    pub(super) fn accepted_ms(&self) -> u64 {
        self.task.accepted_ms
    }

    /// Puts the task in its place. Returns whether Redis answered; if not, the reconciler does it.
    pub(super) async fn enqueue(&self, app: &App) -> bool {
        match app.queue.enqueue(&self.task).await {
            Ok(_) => true,
            Err(error) => {
                app.counts.left_to_reconciler.inc();
                tracing::debug!(task.id = %self.task.key, %error, "an accepted task was left to the reconciler");
                false
            }
        }
    }
}

/// The row, and what the queue needs to know of it.
fn records(app: &App, proof: &penstock_queue::Admitted, submission: Submission) -> (NewTask, QueuedTask) {
    let key = proof.key();
    let cost_tokens = submission.input_tokens();
    let (thread, accepted_ms) = (submission.thread(key.task), clock::wall_ms());
    let priority = submission.priority.get();
    let place = app.places.next(accepted_ms, priority);
    let user = submission.user.map(super::UserName::into_string);
    let queued = QueuedTask {
        key,
        user: user.clone(),
        thread: Some(thread),
        body_hash: submission.body_hash,
        place: place.clone(),
        accepted_ms,
        cost_tokens: u64::from(cost_tokens),
        attempt: 0,
        is_quarantined: false,
        agent: submission.agent.clone(),
    };
    let task = NewTask {
        key,
        thread,
        agent: submission.agent,
        user,
        place,
        priority,
        cost_tokens,
        body_hash: submission.body_hash,
        idempotency_key: submission.idempotency_key.map(super::IdempotencyKey::into_string),
        accepted_ms,
        deadline_in_ms: submission.deadline_in_ms,
        cancel_on_disconnect: submission.on_disconnect == super::OnDisconnect::Cancel,
        replay_of: submission.replay_of,
        spec: submission.spec,
    };
    (task, queued)
}

/// A write that surely did not take place.
async fn failed(app: &App, proof: &penstock_queue::Admitted, error: &StoreError) -> Problem {
    release(app, proof).await;
    match error {
        StoreError::Busy => Problem::unavailable("too many writes wait for the database; nothing was accepted"),
        error => {
            tracing::error!(task.id = %proof.key(), %error, "an accept record was not written");
            Problem::internal().task(proof.key().task)
        }
    }
}

/// Gives the place back at once; a registration that is left behind is purged after 30 s.
async fn release(app: &App, proof: &penstock_queue::Admitted) {
    if let Err(error) = app.queue.release(proof).await {
        tracing::debug!(task.id = %proof.key(), %error, "a registration was left to be purged");
    }
}
