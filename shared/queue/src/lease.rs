//! Leases: a worker's right to its attempts, kept by beats in Redis time (law 11).
//!
//! One call serves all leases of a worker, and the tick and the search for lost tasks ride on it, so that an idle fleet
//! costs few commands.

use penstock_protocol::TaskKey;

use crate::{LostTask, Queue, QueueError, QueuedTask, WorkerId};

/// What a beat says of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Extended.
    Held,
    /// Extended, and the caller asked to cancel: stop the attempt.
    CancelAsked,
    /// Another attempt has the task, or it ended: stop at once, write nothing.
    Lost,
    /// Redis has forgotten the task: if the row says that attempt and worker are the caller's, adopt it.
    Unknown,
}

/// Answer to a beat.
#[derive(Clone, Debug, Default)]
pub struct Beat {
    /// One state per lease, in the order given.
    pub leases: Vec<LeaseState>,
    /// Tasks of silent workers for the caller to recover.
    pub lost: Vec<LostTask>,
}

/// A live worker's claim to a task that Redis forgot.
#[derive(Clone, Debug)]
pub struct Adoption<'a> {
    /// The task, from its row.
    pub task: &'a QueuedTask,
    /// The attempt that runs, as the row says too.
    pub attempt: u32,
    /// Its worker, as the row says too.
    pub worker: &'a WorkerId,
    /// `n` of the last event that the worker wrote.
    pub last_n: u64,
}

/// Leases in one call; the script's stack bounds it.
const LEASES_PER_CALL: usize = 1000;

impl Queue {
    /// Says that `worker` lives, with how many slots and which attempts. Call it every third of a lease or sooner.
    ///
    /// Where nobody did for a second it also ticks, and then returns at most `lost_max` tasks of silent workers.
    pub async fn beat(
        &self,
        worker: &WorkerId,
        slots: usize,
        leases: &[(TaskKey, u32)],
        lost_max: usize,
    ) -> Result<Beat, QueueError> {
        let mut beat = Beat::default();
        let mut is_tick_due = false;
        let mut rest = leases;
        loop {
            let (now, later) = rest.split_at(rest.len().min(LEASES_PER_CALL));
            let mut verb = self.verb("beat", None).arg(worker.as_str()).arg(slots).arg_ms(self.settings().lease);
            for (key, attempt) in now {
                verb = verb.arg(key.to_string()).arg(*attempt);
            }
            let answer: Vec<i64> = self.call(&verb).await?;
            let [due, states @ ..] = &answer[..] else {
                return Err(QueueError::Answer { call: "beat", answer: "nothing".to_owned() });
            };
            is_tick_due |= *due == 1;
            for state in states {
                beat.leases.push(match state {
                    0 => LeaseState::Held,
                    1 => LeaseState::CancelAsked,
                    2 => LeaseState::Lost,
                    _ => LeaseState::Unknown,
                });
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        if is_tick_due {
            self.tick().await?;
            if lost_max > 0 {
                beat.lost = self.lost(lost_max).await?;
            }
        }
        Ok(beat)
    }

    /// Says that `worker` goes: its slots do not count any more. What it still runs keeps its lease.
    pub async fn leave(&self, worker: &WorkerId) -> Result<(), QueueError> {
        let verb = self.verb("beat", None).arg(worker.as_str()).arg(-1).arg_ms(self.settings().lease);
        self.call::<Vec<i64>>(&verb).await.map(drop)
    }

    /// Takes back a task that the caller runs and Redis forgot. Returns whether it runs here; else stop it.
    pub async fn adopt(&self, adoption: &Adoption<'_>) -> Result<bool, QueueError> {
        let events = self.shard().events(adoption.task.key);
        let verb = adoption
            .task
            .args(self.verb("adopt", Some(&events)), adoption.attempt, self.settings())
            .arg(adoption.worker.as_str())
            .arg_ms(self.settings().lease)
            .arg(adoption.last_n)
            .arg(u8::from(adoption.task.is_quarantined));
        self.call(&verb).await
    }
}
