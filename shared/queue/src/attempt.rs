//! The life of an attempt: start, and the three ways to let go of it.
//!
//! Law 5: every call names the attempt and its worker, and a call of another attempt changes nothing.

use std::time::Duration;

use penstock_protocol::TaskKey;

use crate::{Queue, QueueError, ReadyEntry, WorkerId};

/// What became of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartVerdict {
    /// It runs here. The first event is `<attempt>-1`; the next one is `<attempt>-2` with number `seq + 1`.
    Running {
        /// Dense number of the event that `start` wrote.
        seq: u64,
    },
    /// The entry does not stand for this task any more: drop it.
    Stale,
    /// The task ended, or a higher attempt is under way: read the row, then close or drop it.
    Sealed,
}

/// What became of an attempt that was let go of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptVerdict {
    /// Done, and published.
    Done,
    /// The task had ended already.
    Already,
    /// The attempt was another worker's by then. Nothing changed.
    Stale,
    /// Redis has forgotten the task: adopt it, or close it from its row.
    Unknown,
}

impl AttemptVerdict {
    fn of(call: &'static str, code: i64) -> Result<Self, QueueError> {
        match code {
            1 => Ok(Self::Done),
            2 => Ok(Self::Already),
            0 => Ok(Self::Stale),
            3 => Ok(Self::Unknown),
            other => Err(QueueError::Answer { call, answer: format!("code {other}") }),
        }
    }
}

/// The end of an attempt, published after the row was ended.
#[derive(Clone, Debug)]
pub struct Finish<'a> {
    /// Tenant and id.
    pub key: TaskKey,
    /// The attempt, or the closing attempt of a reaper.
    pub attempt: u32,
    /// Its worker, or the reaper.
    pub worker: &'a WorkerId,
    /// Real cost in tokens, where it is known: settles the estimate in the fair order.
    pub cost_tokens: Option<u64>,
    /// Tokens of its input, as its row has them: what it used beyond them is learned for its agent.
    pub input_tokens: u64,
    /// Dense number of the last event that the worker wrote, 0 for a reaper.
    pub last_seq: u64,
    /// Terminal event, built from the row.
    pub event: &'a str,
}

/// An attempt that is given up.
#[derive(Clone, Debug)]
pub struct Retry<'a> {
    /// Tenant and id.
    pub key: TaskKey,
    /// The attempt.
    pub attempt: u32,
    /// Its worker.
    pub worker: &'a WorkerId,
    /// When the next attempt may begin; zero = at once.
    pub delay: Duration,
    /// Real cost so far in tokens, where it is known.
    pub cost_tokens: Option<u64>,
    /// Why.
    pub cause: RetryCause,
}

/// Why an attempt was given up; named in its fence event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCause {
    /// The worker leaves.
    HandedBack,
    /// The attempt failed, and another one may succeed.
    AttemptFailed,
}

impl Queue {
    /// Begins a claimed attempt: its first event (`run_started`, or a retry note in an open run), lease, entry gone.
    pub async fn start(
        &self,
        entry: &ReadyEntry,
        worker: &WorkerId,
        run_started: &str,
    ) -> Result<StartVerdict, QueueError> {
        let events = self.shard().events(entry.key);
        let verb = self
            .verb("start", Some(&events))
            .arg(entry.key.to_string())
            .arg(&entry.entry)
            .arg(worker.as_str())
            .arg_ms(self.settings().lease)
            .arg(entry.attempt)
            .arg(run_started);
        let (code, seq): (i64, u64) = self.call(&verb).await?;
        match code {
            1 => Ok(StartVerdict::Running { seq }),
            0 => Ok(StartVerdict::Stale),
            -1 => Ok(StartVerdict::Sealed),
            other => Err(QueueError::Answer { call: "start", answer: format!("code {other}") }),
        }
    }

    /// Puts a task back whose claim found MySQL ahead of the entry: `attempt` is MySQL's, `quarantine` sends it to the
    /// quarantine lane. Returns whether it fitted.
    pub async fn raise(&self, entry: &ReadyEntry, attempt: u32, quarantine: bool) -> Result<bool, QueueError> {
        let events = self.shard().events(entry.key);
        let verb = self
            .verb("raise", Some(&events))
            .arg(entry.key.to_string())
            .arg(&entry.entry)
            .arg(attempt)
            .arg(u8::from(quarantine));
        self.call(&verb).await
    }

    /// Publishes the end of an attempt and frees its slot. Law 4: the row was ended before.
    pub async fn finish(&self, finish: &Finish<'_>) -> Result<AttemptVerdict, QueueError> {
        let events = self.shard().events(finish.key);
        let verb = self
            .verb("finish", Some(&events))
            .arg(finish.key.to_string())
            .arg(finish.attempt)
            .arg(finish.worker.as_str())
            .arg(cost(finish.cost_tokens))
            .arg(finish.last_seq)
            .arg_ms(self.settings().events_keep)
            .arg(self.settings().debt_max_tokens)
            .arg(finish.input_tokens)
            .arg(finish.event);
        AttemptVerdict::of("finish", self.call(&verb).await?)
    }

    /// Gives an attempt up; the row was put back to `queued` before. The task returns to its old place.
    pub async fn retry(&self, retry: &Retry<'_>) -> Result<AttemptVerdict, QueueError> {
        let events = self.shard().events(retry.key);
        let verb = self
            .verb("retry", Some(&events))
            .arg(retry.key.to_string())
            .arg(retry.attempt)
            .arg(retry.worker.as_str())
            .arg_ms(retry.delay)
            .arg(cost(retry.cost_tokens))
            .arg(match retry.cause {
                RetryCause::HandedBack => "handed_back",
                RetryCause::AttemptFailed => "attempt_failed",
            })
            .arg(self.settings().debt_max_tokens);
        AttemptVerdict::of("retry", self.call(&verb).await?)
    }

    /// Closes the run with an interrupt; the row was set to `paused` before. `event` is RUN_FINISHED with outcome
    /// interrupt. Redis forgets the task; the answer enqueues it again.
    pub async fn pause(
        &self,
        key: TaskKey,
        attempt: u32,
        worker: &WorkerId,
        event: &str,
    ) -> Result<AttemptVerdict, QueueError> {
        let events = self.shard().events(key);
        let verb = self
            .verb("pause", Some(&events))
            .arg(key.to_string())
            .arg(attempt)
            .arg(worker.as_str())
            .arg(event)
            .arg_ms(self.settings().paused_keep);
        AttemptVerdict::of("pause", self.call(&verb).await?)
    }
}

fn cost(tokens: Option<u64>) -> i64 {
    tokens.map_or(-1, |tokens| i64::try_from(tokens).unwrap_or(i64::MAX))
}
