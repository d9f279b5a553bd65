//! Admission: the yes or no at the door, and the registration that a yes leaves behind.
//!
//! Law 1: one step judges and registers; depth never passes the limit by an admission. Only [`Queue::admit`] builds an
//! [`Admitted`].

use penstock_protocol::{TaskKey, ThreadId};
use uuid::Uuid;

use crate::{Queue, QueueError, field};

/// Who asks to be let in.
#[derive(Clone, Debug)]
pub struct AdmitRequest<'a> {
    /// Tenant and id.
    pub key: TaskKey,
    /// End user.
    pub user: Option<&'a str>,
    /// SHA-256 of the request body.
    pub body_hash: &'a [u8; 32],
    /// Bounds to judge by.
    pub limits: AdmitLimits,
}

/// The bounds of one admission; hot settings, so they come with each call. 0 = none, except `depth_max`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmitLimits {
    /// Tasks that wait, of all tenants: registered, in line, held, handed out.
    pub depth_max: u64,
    /// Tasks of the tenant that are registered or wait.
    pub tenant_depth_max: u64,
    /// Tasks of the tenant that have not ended.
    pub tenant_live_max: u64,
    /// Tasks of the user that have not ended.
    pub user_live_max: u64,
    /// Longest predicted wait that the caller accepts.
    pub wait_ms_max: u64,
    /// Conversation that must be free: it is taken together with the registration. `None` = the task may wait for it.
    pub thread_free: Option<ThreadId>,
}

/// The answer at the door.
#[derive(Clone, Debug)]
pub enum AdmitVerdict {
    /// Let in: commit the accept record, then enqueue; or release.
    Admitted(Admitted),
    /// The same request was let in before: answer from its row.
    Seen,
    /// Another door is just storing the same request.
    Pending,
    /// The id belongs to a request with another body.
    Differs,
    /// Try again later.
    Rejected(Rejected),
}

/// Proof of a registration. It holds a place in the queue for 30 s.
#[derive(Clone, Debug)]
pub struct Admitted {
    key: TaskKey,
    registrant: String,
    depth: u64,
    ahead: u64,
    wait_ms: Option<u64>,
}

impl Admitted {
    /// The task.
    #[must_use]
    pub fn key(&self) -> TaskKey {
        self.key
    }

    /// Depth of the queue, this task included.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// Estimate of the tasks that will be served before it.
    #[must_use]
    pub fn ahead(&self) -> u64 {
        self.ahead
    }

    /// Estimate of the wait for a slot; `None` while nothing is known.
    #[must_use]
    pub fn wait_ms(&self) -> Option<u64> {
        self.wait_ms
    }
}

/// A no that may become a yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Why.
    pub reason: Reason,
    /// Depth of the queue.
    pub depth: u64,
    /// When the tenant's next free moment is expected, 1 000 to 60 000.
    pub retry_after_ms: u64,
}

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The queue is full.
    Full,
    /// The tenant's part of it is full.
    TenantFull,
    /// The tenant has too many tasks that have not ended.
    TenantLive,
    /// The user has too many tasks that have not ended.
    UserLive,
    /// Another task of the conversation has not ended, and the request does not wait for it.
    ThreadBusy,
    /// The predicted wait is longer than the caller accepts.
    WaitTooLong,
    /// The book is being rebuilt from MySQL.
    Rebuilding,
}

impl Queue {
    /// Judges and registers a request in one step.
    ///
    /// Errors: `Slow` after `admit_timeout` × (1 + `admit_retries`); nothing may be written to MySQL then. A
    /// registration that was made all the same is purged after 30 s.
    pub async fn admit(&self, request: &AdmitRequest<'_>) -> Result<AdmitVerdict, QueueError> {
        // The name of this call: its own repeat finds its registration and is not told to wait for another door.
        let registrant = field::hex(&Uuid::new_v4().into_bytes()[..8]);
        let limits = request.limits;
        let verb = self
            .verb("admit", None)
            .arg(request.key.to_string())
            .arg(&registrant)
            .arg(field::user(request.user))
            .arg(field::body_hash(request.body_hash))
            .arg(limits.depth_max)
            .arg(limits.tenant_depth_max)
            .arg(limits.tenant_live_max)
            .arg(limits.user_live_max)
            .arg(limits.wait_ms_max)
            .arg(field::thread(limits.thread_free));
        let mut tries = self.settings().admit_retries;
        let (code, depth, wait_ms, ahead): (i64, u64, i64, u64) = loop {
            match self.call_within(&verb, self.settings().admit_timeout).await {
                Err(QueueError::Slow { .. }) if tries > 0 => tries -= 1,
                other => break other?,
            }
        };
        let rejected = |reason| {
            let retry_after_ms = u64::try_from(wait_ms).unwrap_or(0);
            Ok(AdmitVerdict::Rejected(Rejected { reason, depth, retry_after_ms }))
        };
        match code {
            1 => {
                let wait_ms = u64::try_from(wait_ms).ok();
                Ok(AdmitVerdict::Admitted(Admitted { key: request.key, registrant, depth, ahead, wait_ms }))
            }
            2 => Ok(AdmitVerdict::Seen),
            3 => Ok(AdmitVerdict::Pending),
            -1 => Ok(AdmitVerdict::Differs),
            -2 => rejected(Reason::Full),
            -3 => rejected(Reason::TenantFull),
            -4 => rejected(Reason::TenantLive),
            -5 => rejected(Reason::WaitTooLong),
            -6 => rejected(Reason::Rebuilding),
            -7 => rejected(Reason::ThreadBusy),
            -8 => rejected(Reason::UserLive),
            other => Err(QueueError::Answer { call: "admit", answer: format!("code {other}") }),
        }
    }

    /// Takes a registration back: nothing was committed under it, and nothing will be. Returns whether it was there.
    pub async fn release(&self, admitted: &Admitted) -> Result<bool, QueueError> {
        let verb = self.verb("release", None).arg(admitted.key.to_string()).arg(&admitted.registrant);
        self.call(&verb).await
    }
}
