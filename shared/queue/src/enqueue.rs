//! Putting an accepted task in its place. Called by the door after its commit, by the reconciler for rows that Redis
//! does not know, and by a rebuild for every row.

use penstock_protocol::{Place, TaskKey, ThreadId};

use crate::queue::Verb;
use crate::{Queue, QueueError, QueueSettings, State, field};

/// What Redis needs to know of an accepted task; all of it stands in the task's row.
#[derive(Clone, Debug)]
pub struct QueuedTask {
    /// Tenant and id.
    pub key: TaskKey,
    /// End user.
    pub user: Option<String>,
    /// Conversation whose order is kept; `None` = no order.
    pub thread: Option<ThreadId>,
    /// SHA-256 of the request body.
    pub body_hash: [u8; 32],
    /// Place in its tenant's line.
    pub place: Place,
    /// When it was accepted: the order inside its thread.
    pub accepted_ms: u64,
    /// Tokens of its input. What its agent's tasks use beyond theirs is added where it is queued.
    pub cost_tokens: u64,
    /// Latest attempt that MySQL knows.
    pub attempt: u32,
    /// It lost workers before: it runs in the quarantine lane only.
    pub is_quarantined: bool,
    /// Agent that runs it; empty = none, and nothing is added to the cost.
    pub agent: String,
}

/// What became of a task that was put in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnqueueVerdict {
    /// It waits, or went straight to an idle slot.
    Queued {
        /// It came without a registration (recovery, rebuild, resume): it was not refused, whatever the depth.
        returned: bool,
    },
    /// It was here already; nothing changed.
    Known(State),
}

impl Queue {
    /// Puts an accepted task in its place. Never refused; repeats change nothing.
    pub async fn enqueue(&self, task: &QueuedTask) -> Result<EnqueueVerdict, QueueError> {
        let events = self.shard().events(task.key);
        let verb = task
            .args(self.verb("enqueue", Some(&events)), task.attempt, self.settings())
            .arg(u8::from(task.is_quarantined));
        let (code, detail): (i64, String) = self.call(&verb).await?;
        match (code, State::from_letter(&detail)) {
            (1, _) => Ok(EnqueueVerdict::Queued { returned: detail == "1" }),
            (2, Some(state)) => Ok(EnqueueVerdict::Known(state)),
            _ => Err(QueueError::Answer { call: "enqueue", answer: format!("{code} {detail}") }),
        }
    }
}

impl QueuedTask {
    pub(crate) fn args(&self, verb: Verb, attempt: u32, settings: &QueueSettings) -> Verb {
        verb.arg(self.key.to_string())
            .arg(field::user(self.user.as_deref()))
            .arg(field::thread(self.thread))
            .arg(field::body_hash(&self.body_hash))
            .arg(field::place(self.place.as_str()))
            .arg(field::turn(&self.place, self.accepted_ms))
            .arg(self.cost_tokens)
            .arg(attempt)
            .arg(field::agent(&self.agent))
            .arg(settings.cost_unknown_tokens)
            .arg(settings.cost_max_tokens)
    }
}
