//! What operators and clients may look at: sums of the queue, and where a task stands.

use penstock_protocol::{TaskKey, TenantNo};

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
    /// Whether an operator paused the queue.
    pub is_paused: bool,
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
    /// What keeps it there, other than tasks that come first.
    pub obstacle: Option<Obstacle>,
}

/// What keeps a task from a slot, whoever is before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// The queue is being rebuilt.
    Rebuilding,
    /// The queue, the tenant or the agent is paused.
    Paused,
    /// There are no workers.
    NoWorkers,
    /// As many of the tenant's tasks run as may.
    TenantCap,
    /// The tenant has started as many tasks as its rate allows.
    StartRate,
}

impl Obstacle {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "rebuilding" => Some(Self::Rebuilding),
            "paused" => Some(Self::Paused),
            "no_workers" => Some(Self::NoWorkers),
            "tenant_cap" => Some(Self::TenantCap),
            "start_rate" => Some(Self::StartRate),
            _ => None,
        }
    }
}

/// Where a tenant stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Registered by a door, not committed yet.
    pub admitted: u64,
    /// Waiting: in line, held, put aside, delayed.
    pub waiting: u64,
    /// In line.
    pub line: u64,
    /// Running, or handed to a slot.
    pub running: u64,
    /// Share of the slots among tenants that wait.
    pub weight: u64,
    /// Most tasks that run at once; 0 = any number.
    pub running_max: u64,
    /// Least time between two starts; 0 = any.
    pub start_gap_ms: u64,
    /// Whether the tenant or the whole queue is paused.
    pub is_paused: bool,
    /// Estimate of the wait of one more task; `None` while nothing is known, or paused.
    pub wait_ms: Option<u64>,
    /// Estimate of the tasks served before one more task.
    pub ahead: u64,
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
            is_paused: count(11) == 1,
            quarantined: count(12),
            quarantine_running: count(13),
        })
    }

    /// Where a task stands and when it may start. An estimate.
    pub async fn position(&self, key: TaskKey) -> Result<Position, QueueError> {
        let verb = self.verb("position", None).arg(key.to_string());
        let (letter, ahead, wait_ms, obstacle): (String, i64, i64, String) = self.call(&verb).await?;
        Ok(Position {
            state: State::from_letter(&letter),
            ahead: u64::try_from(ahead).ok(),
            wait_ms: u64::try_from(wait_ms).ok(),
            obstacle: Obstacle::from_name(&obstacle),
        })
    }

    /// Where a tenant stands, and how long one more of its tasks would wait.
    pub async fn standing(&self, tenant: TenantNo) -> Result<Standing, QueueError> {
        let sums: Vec<i64> = self.call(&self.verb("standing", None).arg(tenant.to_string())).await?;
        let sum = |index: usize| sums.get(index).and_then(|sum| u64::try_from(*sum).ok());
        let count = |index: usize| sum(index).unwrap_or(0);
        Ok(Standing {
            admitted: count(0),
            waiting: count(1),
            line: count(2),
            running: count(3),
            weight: count(4),
            running_max: count(5),
            start_gap_ms: count(6),
            is_paused: count(7) == 1,
            wait_ms: sum(8),
            ahead: count(9),
        })
    }
}
