//! What every door submits, and the one way that it takes: queue, row, place in line (checks 3 to 8).
//!
//! It goes on to its end when the client leaves: nothing half-done stays behind.

use penstock_protocol::{Status, TaskId, TaskKey, TaskSpec, TenantNo, ThreadId};
use penstock_store::TaskRow;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::acceptance::{Acceptance, accept};
use super::admission::{Admission, admit};
use super::interrupt::interrupt;
use super::{IdempotencyKey, OnBusyThread, OnDisconnect, Priority, UserName};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Problem;

/// A request that passed checks 1 and 2.
#[derive(Clone, Debug)]
pub struct Submission {
    /// SHA-256 of what was asked, see [`Submission::hash_of`].
    pub body_hash: [u8; 32],
    /// An agent of the settings.
    pub agent: String,
    /// Id minted by the client.
    pub task_id: Option<TaskId>,
    /// `Idempotency-Key` of the request.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Conversation to go on with.
    pub thread_id: Option<ThreadId>,
    /// End user.
    pub user: Option<UserName>,
    /// Head start in the tenant's own line.
    pub priority: Priority,
    /// What happens while its thread is busy.
    pub on_busy_thread: OnBusyThread,
    /// Longest predicted wait that the client accepts.
    pub wait_ms_max: Option<u64>,
    /// Time from acceptance to the deadline.
    pub deadline_in_ms: Option<u64>,
    /// What becomes of it when nobody watches it any more.
    pub on_disconnect: OnDisconnect,
    /// The ended task that it repeats.
    pub replay_of: Option<TaskId>,
    /// What is stored for the worker.
    pub spec: TaskSpec,
}

/// An accepted task, accepted now or before.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// Tenant and id.
    pub key: TaskKey,
    /// Conversation.
    pub thread: ThreadId,
    /// Present status.
    pub status: Status,
    /// Estimate of the tasks that are served before it; `None` when the queue did not answer, or it waits no more.
    pub position: Option<u64>,
    /// Estimate of its wait for a worker.
    pub wait_ms: Option<u64>,
    /// Depth of the queue with this task, when it is new.
    pub depth: Option<u64>,
}

/// Takes a submission through the queue and MySQL. Any door calls it; the agent must be one of the settings.
///
/// Cancel-safe: the work goes on when the caller is dropped.
pub async fn submit(app: &App, caller: &Caller, submission: Submission) -> Result<Submitted, Problem> {
    let work = carry_out(app.clone(), caller.clone(), submission);
    // A panic on the way is a fault of ours; its message is in the log.
    app.tracker.spawn(work).await.unwrap_or_else(|_| Err(Problem::internal()))
}

async fn carry_out(app: App, caller: Caller, submission: Submission) -> Result<Submitted, Problem> {
    let key = submission.key(caller.tenant);
    let (thread, body_hash) = (submission.thread(key.task), submission.body_hash);
    let interrupts = submission.on_busy_thread == OnBusyThread::Interrupt && submission.thread_id.is_some();
    let admitted = match admit(&app, &caller, key, &submission).await? {
        Admission::New(admitted) => admitted,
        // The rare ways out are boxed: reads of MySQL are large futures, and each submission is a task of its own.
        Admission::Seen => return Box::pin(seen(&app, key, &body_hash, interrupts)).await,
        Admission::Pending => return Box::pin(pending(&app, key, &body_hash, interrupts)).await,
    };
    let accepted = match accept(&app, admitted, submission).await? {
        Acceptance::New(accepted) => accepted,
        Acceptance::Before(row) => return Box::pin(answer_again(&app, &row, &body_hash, interrupts)).await,
    };
    let is_queued = accepted.enqueue(&app).await;
    if interrupts {
        Box::pin(interrupt(&app, key, thread, accepted.accepted_ms())).await?;
    }
    let proof = &accepted.proof;
    Ok(Submitted {
        key,
        thread,
        status: Status::Queued,
        position: is_queued.then(|| proof.ahead()),
        wait_ms: proof.wait_ms().filter(|_| is_queued),
        depth: Some(proof.depth()),
    })
}

/// The queue knows the task, so its row is there.
async fn seen(app: &App, key: TaskKey, body_hash: &[u8; 32], interrupts: bool) -> Result<Submitted, Problem> {
    match app.store.task(key).await {
        Ok(Some(row)) => answer_again(app, &row, body_hash, interrupts).await,
        // Only between a flush of one of the two stores and its repair.
        Ok(None) => Err(Problem::outcome_unknown(key.task)),
        Err(error) => Err(Problem::of_store(&error)),
    }
}

/// Another door is storing the task, or died over it. Its row, if it is there, is the truth.
async fn pending(app: &App, key: TaskKey, body_hash: &[u8; 32], interrupts: bool) -> Result<Submitted, Problem> {
    match app.store.task(key).await {
        Ok(Some(row)) => answer_again(app, &row, body_hash, interrupts).await,
        Ok(None) | Err(_) => Err(Problem::in_progress(key.task)),
    }
}

/// The answer of before, with the present status. Not enqueued: the door that accepted it did, or the reconciler does.
async fn answer_again(app: &App, row: &TaskRow, body_hash: &[u8; 32], interrupts: bool) -> Result<Submitted, Problem> {
    if row.body_hash != *body_hash {
        return Err(Problem::body_differs(row.key.task));
    }
    // The door that accepted it may have died before it could.
    if interrupts && !row.status.is_terminal() {
        interrupt(app, row.key, row.thread, row.accepted_ms).await?;
    }
    let waits = row.status == Status::Queued;
    let position = if waits { app.queue.position(row.key).await.ok() } else { None };
    Ok(Submitted {
        key: row.key,
        thread: row.thread,
        status: row.status,
        position: position.and_then(|position| position.ahead),
        wait_ms: position.and_then(|position| position.wait_ms),
        depth: None,
    })
}

impl Submission {
    /// SHA-256 of a request's meaning: its parsed form, written out again.
    ///
    /// Errors: 500 when it cannot be written, which no parsed JSON meets.
    pub fn hash_of(request: &impl Serialize) -> Result<[u8; 32], Problem> {
        let text = serde_json::to_vec(request).map_err(|error| {
            tracing::error!(%error, "a request could not be written out");
            Problem::internal()
        })?;
        Ok(Sha256::digest(text).into())
    }

    /// The task: named by the client, derived from its idempotency key, or new.
    fn key(&self, tenant: TenantNo) -> TaskKey {
        let derived = || self.idempotency_key.as_ref().map(|key| key.task_id(tenant));
        TaskKey::new(tenant, self.task_id.or_else(derived).unwrap_or_else(TaskId::mint))
    }

    /// Tokens of what is asked, by rule of thumb: four bytes each. What it really cost is settled when it ends.
    pub(super) fn input_tokens(&self) -> u32 {
        let bytes = serde_json::to_vec(&self.spec.input).map_or(0, |input| input.len());
        u32::try_from(bytes / 4).unwrap_or(u32::MAX).max(1)
    }

    /// The conversation. A new one is named like its first task, so a repeated request gets the same answer.
    pub(super) fn thread(&self, task: TaskId) -> ThreadId {
        self.thread_id.unwrap_or(ThreadId(task.0))
    }
}
