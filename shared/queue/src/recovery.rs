//! What mends: lost tasks, the tick, the census, and the frame of a rebuild.
//!
//! Nothing depends on a single leader; each call may be made by any process, twice, and late.

use penstock_protocol::TaskKey;
use uuid::Uuid;

use crate::{Queue, QueueError, WorkerId, field};

/// A task whose worker fell silent. Read its row first, then [`Queue::reap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostTask {
    /// Tenant and id.
    pub key: TaskKey,
    /// The attempt that was lost.
    pub attempt: u32,
    /// It ran (its lease passed); else it was read and not started.
    pub has_started: bool,
}

/// What is to become of a lost task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits again at its old place.
    Waits,
    /// It waits again, for the quarantine lane: it has lost too many workers to run beside others of its kind.
    WaitsInQuarantine,
    /// It ends: its attempts are used up, or its row is terminal.
    Closes,
}

/// What became of a lost task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReapVerdict {
    /// Back in line at its old place.
    Requeued,
    /// The reaper owns it under this attempt: end the row if it is not terminal, then `finish` with the row's event.
    Closing {
        /// The closing attempt.
        attempt: u32,
    },
    /// It is not lost any more.
    NotLost,
}

/// Whether the book in Redis is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Its state.
    pub state: CensusState,
    /// Generation of the rebuild that made it; `None` while admission is closed.
    pub generation: Option<String>,
    /// Time since the last wipe.
    pub since_wipe_ms: u64,
    /// The book that was judged.
    pub book: BookId,
    /// Revision of the terms in force; `None` = none were confirmed yet.
    pub terms_revision: Option<u64>,
}

/// One book, from a wipe to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookId(String);

impl BookId {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Result of a census.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CensusState {
    /// Whole, and admission is open.
    Open,
    /// Whole, and admission is closed: a rebuild is under way, or its process died.
    Closed,
    /// Something was lost: wipe and rebuild.
    Broken,
}

/// Proof of a wipe; opens admission again unless somebody else wiped since.
#[derive(Clone, Debug)]
pub struct RebuildToken(BookId);

impl RebuildToken {
    /// The new book.
    #[must_use]
    pub fn book(&self) -> &BookId {
        &self.0
    }
}

/// Work of one kind in one tick; the rest waits for the next round.
const TICK_COUNT: usize = 1000;
const TICK_ROUNDS_MAX: usize = 20;

impl Queue {
    /// Finds at most `count` tasks of each kind that lost their worker. Changes nothing.
    pub async fn lost(&self, count: usize) -> Result<Vec<LostTask>, QueueError> {
        let verb = self.verb("lost", None).arg(count).arg(self.idle_ms());
        let flat: Vec<String> = self.call(&verb).await?;
        let tasks = flat.chunks_exact(3).filter_map(|task| match task {
            [id, attempt, status] => {
                Some(LostTask { key: id.parse().ok()?, attempt: attempt.parse().ok()?, has_started: status == "X" })
            }
            _ => None,
        });
        Ok(tasks.collect())
    }

    /// Takes a lost task from its worker.
    pub async fn reap(&self, lost: &LostTask, reaper: &WorkerId, fate: Fate) -> Result<ReapVerdict, QueueError> {
        let events = self.shard().events(lost.key);
        let verb = self
            .verb("reap", Some(&events))
            .arg(lost.key.to_string())
            .arg(lost.attempt)
            .arg(reaper.as_str())
            .arg_ms(self.settings().lease)
            .arg(self.idle_ms())
            .arg(u8::from(fate == Fate::Closes))
            .arg(u8::from(fate == Fate::WaitsInQuarantine));
        let (code, attempt): (i64, u32) = self.call(&verb).await?;
        match code {
            1 => Ok(ReapVerdict::Requeued),
            2 => Ok(ReapVerdict::Closing { attempt }),
            0 => Ok(ReapVerdict::NotLost),
            other => Err(QueueError::Answer { call: "reap", answer: format!("code {other}") }),
        }
    }

    /// Does what is due: delayed tasks, old registrations and tombstones, silent workers, sums. Beats call it; a
    /// process without a worker calls it while no worker beats.
    pub async fn tick(&self) -> Result<(), QueueError> {
        let verb = self
            .verb("tick", None)
            .arg(TICK_COUNT)
            .arg_ms(self.settings().lease)
            .arg(self.settings().quarantine_running_max);
        for _ in 0..TICK_ROUNDS_MAX {
            let done: usize = self.call(&verb).await?;
            if done < 100 {
                break;
            }
        }
        Ok(())
    }

    /// Hands out at most `count` waiting tasks to idle slots; a safety net.
    pub async fn dispatch(&self, count: usize) -> Result<u64, QueueError> {
        self.call(&self.verb("dispatch", None).arg(count)).await
    }

    /// Judges whether the book is whole, in O(1). Ask once a second.
    pub async fn census(&self) -> Result<Census, QueueError> {
        let (code, generation, since_wipe_ms, token, terms): (i64, String, u64, String, String) =
            self.call(&self.verb("census", None)).await?;
        let state = match code {
            1 => CensusState::Open,
            2 => CensusState::Closed,
            0 => CensusState::Broken,
            other => return Err(QueueError::Answer { call: "census", answer: format!("code {other}") }),
        };
        Ok(Census {
            state,
            generation: (!generation.is_empty()).then_some(generation),
            since_wipe_ms,
            book: BookId(token),
            terms_revision: terms.parse().ok(),
        })
    }

    /// Begins a rebuild: an empty book, admission closed. `census` is what the caller saw.
    ///
    /// Then [`Queue::apply`] the terms, before which nothing is handed out, enqueue every row that has not ended, in order of place, except `running` ones (their workers adopt them
    /// within a lease), and [`Queue::open`]. `None`: somebody else has rebuilt meanwhile.
    pub async fn wipe(&self, census: &Census) -> Result<Option<RebuildToken>, QueueError> {
        let token = Uuid::new_v4().simple().to_string();
        let verb = self.verb("wipe", None).arg(census.generation.as_deref().unwrap_or_default()).arg(&token);
        let wiped: bool = self.call(&verb).await?;
        Ok(wiped.then_some(RebuildToken(BookId(token))))
    }

    /// Ends a rebuild: admission is open. False: somebody else wiped since, and opens.
    pub async fn open(&self, token: &RebuildToken) -> Result<bool, QueueError> {
        let generation = field::hex(&Uuid::new_v4().into_bytes()[..8]);
        self.call(&self.verb("open", None).arg(token.0.as_str()).arg(generation)).await
    }

    /// An entry that was read and not started for this long is lost. Redis measures it by its own clock, so a test in
    /// virtual time takes every one.
    fn idle_ms(&self) -> u64 {
        if self.settings().virtual_clock.is_some() { 0 } else { crate::settings::ms(self.settings().lease) }
    }
}
