//! What operators and clients may look at: sums of the queue, and where a task stands.

use penstock_protocol::TaskKey;

use crate::{Queue, QueueError, State};

/// Sums of one shard, all O(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Registered by a door, not committed yet.
    pub admitted: u64,
    /// In line.
    pub line: u64,
    /// Waiting for another task of their thread, or for the quarantine lane.
    pub held: u64,
    /// Handed to idle slots, not started.
    pub handed_out: u64,
    /// Waiting for a time.
    pub delayed: u64,
    /// Running under a lease.
    pub running: u64,
    /// Live slots of all workers.
    pub slots: u64,
    /// Ended within the last 30 s.
    pub tombstones: u64,
    /// Workers that beat.
    pub workers: u64,
    /// Mean slot time of a task, over about 2 minutes; `None` while nothing is known.
    pub mean_service_ms: Option<u64>,
    /// Waiting for the quarantine lane.
    pub quarantined: u64,
    /// Running in the quarantine lane, or handed to a slot for it.
    pub quarantine_running: u64,
    /// Whether tasks can be admitted.
    pub is_open: bool,
}

impl Gauges {
    /// What admission compares with its limit.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.admitted + self.line + self.held + self.handed_out
    }
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Its state in Redis; `None` = unknown there.
    pub state: Option<State>,
    /// Estimate of the tasks served before it, while it is in line.
    pub ahead: Option<u64>,
    /// Estimate of its wait, while it is in line and something is known.
    pub wait_ms: Option<u64>,
}

impl Queue {
    /// The sums of the queue.
    pub async fn gauges(&self) -> Result<Gauges, QueueError> {
        let sums: Vec<i64> = self.call(&self.verb("gauges", None)).await?;
        let sum = |index: usize| sums.get(index).and_then(|sum| u64::try_from(*sum).ok());
        let count = |index: usize| sum(index).unwrap_or(0);
        Ok(Gauges {
            admitted: count(0),
            line: count(1),
            held: count(2),
            handed_out: count(3),
            delayed: count(4),
            running: count(5),
            slots: count(6),
            tombstones: count(7),
            workers: count(8),
            mean_service_ms: sum(9),
            is_open: count(10) == 1,
            quarantined: count(11),
            quarantine_running: count(12),
        })
    }

    /// Where a task stands and when it may start. An estimate.
    pub async fn position(&self, key: TaskKey) -> Result<Position, QueueError> {
        let verb = self.verb("position", None).arg(key.to_string());
        let (letter, ahead, wait_ms): (String, i64, i64) = self.call(&verb).await?;
        Ok(Position {
            state: State::from_letter(&letter),
            ahead: u64::try_from(ahead).ok(),
            wait_ms: u64::try_from(wait_ms).ok(),
        })
    }
}
