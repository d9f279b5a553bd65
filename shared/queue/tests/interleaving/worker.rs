//! Workers: read, claim, start, emit, end, finish, hand back; beat, freeze, thaw, crash.
//!
//! A worker believes what it was last told. A frozen one does nothing and goes on with its old beliefs when it thaws.

use penstock_protocol::{Ending, ErrorCode, Event, Status, TaskKey};
use penstock_queue::{
    Adoption, AttemptVerdict, Emission, EmitVerdict, Finish, LeaseState, QueuedTask, ReadyEntry, ReadyReader, Retry,
    RetryCause, StartVerdict, WorkerId,
};
use penstock_store::{Claimed, End, Ended, TaskRow};
use std::time::Duration;

use crate::patience::sql;
use crate::replay::Call;
use crate::world::{Law, QUARANTINE_CRASHES_MIN, World, crashes_of};

pub(crate) const SLOTS: usize = 2;

pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    pub(crate) reader: ReadyReader,
    pub(crate) frozen_until_ms: u64,
    pub(crate) beaten_ms: u64,
    pub(crate) read: Vec<ReadyEntry>,
    pub(crate) claimed: Vec<(ReadyEntry, TaskRow)>,
    pub(crate) runs: Vec<Run>,
    /// Runs that were taken away or handed back, in threads that do not know it.
    pub(crate) ghosts: Vec<Run>,
}

#[derive(Clone, Copy)]
enum Act {
    Read,
    Claim,
    Start,
    Emit,
    End,
    Finish,
    HandBack,
    Haunt,
}

pub(crate) struct Run {
    pub(crate) key: TaskKey,
    pub(crate) attempt: u32,
    n: u64,
    seq: u64,
    /// The row is terminal with this event: only finish is left.
    end: Option<String>,
}

impl World {
    pub(crate) fn hire(&mut self) {
        self.worker_count += 1;
        let id = WorkerId::new(format!("w{}", self.worker_count)).unwrap();
        let reader = self.test.queue.ready_reader(id.clone());
        self.workers.push(Worker {
            id,
            reader,
            frozen_until_ms: 0,
            beaten_ms: 0,
            read: vec![],
            claimed: vec![],
            runs: vec![],
            ghosts: vec![],
        });
    }

    /// One step of a random worker that is not frozen.
    pub(crate) async fn work(&mut self) -> Law {
        let now = self.clock.now_ms();
        let awake: Vec<usize> = (0..self.workers.len()).filter(|at| self.workers[*at].frozen_until_ms <= now).collect();
        if awake.is_empty() {
            return Ok(());
        }
        let at = awake[self.random.below(awake.len())];
        if now >= self.workers[at].beaten_ms + crate::world::BEAT_MS {
            return self.beat(at).await;
        }
        let worker = &self.workers[at];
        let busy = worker.read.len() + worker.claimed.len() + worker.runs.len();
        let mut can: Vec<Act> = Vec::new();
        let mut may = |is_possible: bool, act: Act, weight: usize| {
            can.extend(std::iter::repeat_n(act, if is_possible { weight } else { 0 }));
        };
        may(busy < SLOTS, Act::Read, 2);
        may(!worker.read.is_empty(), Act::Claim, 4);
        may(!worker.claimed.is_empty(), Act::Start, 4);
        may(!worker.runs.is_empty(), Act::Emit, 3);
        may(!worker.runs.is_empty(), Act::End, 2);
        may(worker.runs.iter().any(|run| run.end.is_some()), Act::Finish, 3);
        may(!worker.runs.is_empty() && !self.is_calm, Act::HandBack, 1);
        may(!worker.ghosts.is_empty() && !self.is_calm, Act::Haunt, 2);
        if can.is_empty() {
            return Ok(());
        }
        match can[self.random.below(can.len())] {
            Act::Read => self.read(at, SLOTS - busy).await,
            Act::Claim => self.claim(at).await,
            Act::Start => self.start(at).await,
            Act::Emit => self.emit(at).await,
            Act::End => self.end(at).await,
            Act::Finish => self.finish(at).await,
            Act::HandBack => self.hand_back(at).await,
            Act::Haunt => self.haunt(at).await,
        }
    }

    /// A thread of a worker that did not hear that its attempt was taken away writes once more.
    async fn haunt(&mut self, at: usize) -> Law {
        let pick = self.random.below(self.workers[at].ghosts.len());
        let ghost = &self.workers[at].ghosts[pick];
        let (key, attempt) = (ghost.key, ghost.attempt);
        let events = [Event::TextMessageContent { message_id: "m".into(), delta: "boo".into() }.to_json()];
        let emission = Emission { key, attempt, first_n: ghost.n + 1, first_seq: ghost.seq + 1, events: &events };
        let verdict = self.test.queue.emit(&emission).await.unwrap();
        self.note(format!("ghost of {key} attempt {attempt}: {verdict:?}"));
        self.touched.push(key);
        self.workers[at].ghosts.remove(pick);
        let known = self.known(key);
        if verdict == EmitVerdict::Written && (attempt < known.fenced || !known.has_lost_events) {
            return Err(format!("attempt {attempt} of {key} wrote an event after it was given up"));
        }
        Ok(())
    }

    /// A worker lets go of a run; sometimes not all of it does.
    fn let_go(&mut self, at: usize, pick: usize) {
        let run = self.workers[at].runs.swap_remove(pick);
        if self.random.chance(50) && self.workers[at].ghosts.len() < 5 {
            self.workers[at].ghosts.push(run);
        }
    }

    async fn read(&mut self, at: usize, count: usize) -> Law {
        let entries = self.workers[at].reader.read_now(count).await.unwrap();
        if !entries.is_empty() {
            self.note(format!("{} reads {entries:?}", self.workers[at].id));
        }
        self.workers[at].read.extend(entries);
        Ok(())
    }

    async fn claim(&mut self, at: usize) -> Law {
        let entry = self.random.take(&mut self.workers[at].read).unwrap();
        let id = self.workers[at].id.clone();
        let claimed = sql!(self, claim(entry.key, entry.attempt, id.as_str()));
        let word = match &claimed {
            Claimed::Mine(_) => "mine",
            Claimed::Ended(_) => "ended",
            Claimed::Ahead(_) => "ahead",
            Claimed::Unknown => "unknown",
        };
        self.note(format!("{id} claims {} attempt {}: {word}", entry.key, entry.attempt));
        match claimed {
            Claimed::Mine(row) => self.workers[at].claimed.push((entry, *row)),
            Claimed::Ended(row) => self.close(&row).await,
            Claimed::Ahead(row) => {
                let quarantine = crashes_of(&row) >= QUARANTINE_CRASHES_MIN;
                let raised = self.test.queue.raise(&entry, row.attempt, quarantine).await.unwrap();
                self.note(format!("raise {} to {}: {raised}", entry.key, row.attempt));
                self.remember(Call::Raise(entry, row.attempt, quarantine));
            }
            Claimed::Unknown => return Err(format!("{} was queued without a row", entry.key)),
        }
        Ok(())
    }

    async fn start(&mut self, at: usize) -> Law {
        let (entry, row) = self.random.take(&mut self.workers[at].claimed).unwrap();
        let id = self.workers[at].id.clone();
        let started = Event::run_started(row.thread, row.key.task).to_json();
        let verdict = self.test.queue.start(&entry, &id, &started).await.unwrap();
        self.note(format!("{id} starts {} attempt {}: {verdict:?}", entry.key, entry.attempt));
        self.touched.push(entry.key);
        self.remember(Call::Start(entry.clone(), id.clone(), started));
        match verdict {
            StartVerdict::Running { seq } => {
                self.take_over(entry.key, entry.attempt)?;
                self.workers[at].runs.push(Run { key: entry.key, attempt: entry.attempt, n: 1, seq, end: None });
            }
            StartVerdict::Stale => {}
            StartVerdict::Sealed => {
                if let Some(row) = sql!(self, task(entry.key))
                    && row.status.is_terminal()
                {
                    self.close(&row).await;
                }
            }
        }
        Ok(())
    }

    /// An attempt became the valid one: no lower one may be it again.
    pub(crate) fn take_over(&mut self, key: TaskKey, attempt: u32) -> Law {
        let known = self.known(key);
        if attempt < known.fenced {
            return Err(format!("attempt {attempt} of {key} became valid after attempt {}", known.fenced));
        }
        known.fenced = attempt;
        Ok(())
    }

    async fn emit(&mut self, at: usize) -> Law {
        let pick = self.random.below(self.workers[at].runs.len());
        let id = self.workers[at].id.clone();
        let run = &self.workers[at].runs[pick];
        let (key, attempt, first_n, first_seq) = (run.key, run.attempt, run.n + 1, run.seq + 1);
        let count = 1 + self.random.below(3);
        let events: Vec<_> = (0..count)
            .map(|_| Event::TextMessageContent { message_id: "m".into(), delta: format!("{id} ") }.to_json())
            .collect();
        let emission = Emission { key, attempt, first_n, first_seq, events: &events };
        let verdict = self.test.queue.emit(&emission).await.unwrap();
        self.note(format!("{id} emits {count} of {key} attempt {attempt} from {first_n}: {verdict:?}"));
        self.touched.push(key);
        self.remember(Call::Emit(key, attempt, first_n, first_seq, events.clone()));
        match verdict {
            EmitVerdict::Written => {
                let fenced = self.known(key).fenced;
                if attempt < fenced {
                    return Err(format!("attempt {attempt} of {key} wrote an event after attempt {fenced} had it"));
                }
                // Sometimes the answer is lost and the same call is made again.
                if self.random.chance(10) {
                    let again = self.test.queue.emit(&emission).await.unwrap();
                    if again != EmitVerdict::Written {
                        return Err(format!("a repeated emit was answered {again:?}"));
                    }
                }
                let run = &mut self.workers[at].runs[pick];
                run.n += count as u64;
                run.seq += count as u64;
            }
            EmitVerdict::Fenced => {
                self.workers[at].runs.remove(pick);
            }
            EmitVerdict::Gone => self.adopt(at, pick).await?,
        }
        Ok(())
    }

    /// Redis has forgotten a run: its row decides whose it is.
    async fn adopt(&mut self, at: usize, pick: usize) -> Law {
        let (key, attempt, last_n) = {
            let run = &self.workers[at].runs[pick];
            (run.key, run.attempt, run.n)
        };
        let id = self.workers[at].id.clone();
        let row = sql!(self, task(key)).ok_or_else(|| format!("{key} runs without a row"))?;
        if row.status.is_terminal() {
            self.workers[at].runs.remove(pick);
            self.close(&row).await;
        } else if row.status == Status::Running && row.attempt == attempt && row.worker.as_deref() == Some(id.as_str())
        {
            let is_quarantined = row.crashes >= QUARANTINE_CRASHES_MIN;
            let task = QueuedTask { is_quarantined, ..self.queued(&row) };
            let adoption = Adoption { task: &task, attempt, worker: &id, last_n };
            let adopted = self.test.queue.adopt(&adoption).await.unwrap();
            self.note(format!("{id} adopts {key} attempt {attempt}: {adopted}"));
            self.remember(Call::Adopt(task, attempt, id, last_n));
            if adopted {
                self.take_over(key, attempt)?;
            } else {
                self.workers[at].runs.remove(pick);
            }
        } else {
            self.workers[at].runs.remove(pick);
        }
        Ok(())
    }

    /// The run comes to its end: the row first.
    async fn end(&mut self, at: usize) -> Law {
        let pick = self.random.below(self.workers[at].runs.len());
        let run = &self.workers[at].runs[pick];
        if run.end.is_some() {
            return Ok(());
        }
        let (key, attempt) = (run.key, run.attempt);
        let ending = if self.random.chance(80) {
            Ending { status: Status::Succeeded, result: Some("done".into()), error: None, usage: vec![] }
        } else {
            Ending::failed(ErrorCode::ProviderError, "no")
        };
        let end = End { key, attempt, ending, model: None, model_calls: 1 };
        let ended = sql!(self, end(end.clone()));
        let row = sql!(self, task(key)).ok_or_else(|| format!("{key} ends without a row"))?;
        self.note(format!("{} ends {key} attempt {attempt}: {}", self.workers[at].id, row.status.as_str()));
        match (ended, row.terminal_event()) {
            (Ended::Mine, None) => return Err(format!("{key} was ended and has not ended")),
            (_, Some(event)) => self.workers[at].runs[pick].end = Some(event),
            // The attempt was taken away: nothing more to do here.
            (_, None) => drop(self.workers[at].runs.remove(pick)),
        }
        Ok(())
    }

    async fn finish(&mut self, at: usize) -> Law {
        let pick = self.workers[at].runs.iter().position(|run| run.end.is_some()).unwrap();
        let run = self.workers[at].runs.swap_remove(pick);
        let id = self.workers[at].id.clone();
        let event = run.end.unwrap();
        let cost_tokens = self.random.chance(50).then(|| self.random.next() % 5000);
        let finish = Finish {
            key: run.key,
            attempt: run.attempt,
            worker: &id,
            cost_tokens,
            input_tokens: 0,
            last_seq: run.seq,
            event: &event,
        };
        let verdict = self.test.queue.finish(&finish).await.unwrap();
        self.note(format!("{id} finishes {} attempt {}: {verdict:?}", run.key, run.attempt));
        self.touched.push(run.key);
        self.remember(Call::Finish(run.key, run.attempt, id, run.seq, event));
        if matches!(verdict, AttemptVerdict::Unknown | AttemptVerdict::Stale)
            && let Some(row) = sql!(self, task(run.key))
            && row.status.is_terminal()
        {
            self.close(&row).await;
        }
        Ok(())
    }

    async fn hand_back(&mut self, at: usize) -> Law {
        let Some(pick) = self.workers[at].runs.iter().position(|run| run.end.is_none()) else { return Ok(()) };
        let run = self.workers[at].runs.swap_remove(pick);
        let id = self.workers[at].id.clone();
        let failed = self.random.chance(40);
        if !sql!(self, requeue(run.key, run.attempt, failed)) {
            return Ok(());
        }
        if self.random.chance(10) {
            self.note(format!("{id} requeues {} and forgets to say so", run.key));
            return Ok(());
        }
        let delay = Duration::from_millis(if failed { self.random.next() % 5000 } else { 0 });
        let cause = if failed { RetryCause::AttemptFailed } else { RetryCause::HandedBack };
        let retry = Retry { key: run.key, attempt: run.attempt, worker: &id, delay, cost_tokens: None, cause };
        let verdict = self.test.queue.retry(&retry).await.unwrap();
        self.note(format!("{id} hands back {} attempt {} for {delay:?}: {verdict:?}", run.key, run.attempt));
        self.touched.push(run.key);
        self.remember(Call::Retry(run.key, run.attempt, id));
        if verdict == AttemptVerdict::Done {
            self.take_over(run.key, run.attempt + 1)?;
            self.workers[at].runs.push(run);
            self.let_go(at, self.workers[at].runs.len() - 1);
        }
        Ok(())
    }

    pub(crate) async fn beat(&mut self, at: usize) -> Law {
        let id = self.workers[at].id.clone();
        self.workers[at].beaten_ms = self.clock.now_ms();
        let worker = &self.workers[at];
        let leases: Vec<_> = worker.runs.iter().chain(&worker.ghosts).map(|run| (run.key, run.attempt)).collect();
        let lost_max = if !self.is_calm && self.random.chance(30) { 5 } else { 0 };
        let beat = self.test.queue.beat(&id, SLOTS, &leases, lost_max).await.unwrap();
        if !leases.is_empty() || !beat.lost.is_empty() {
            self.note(format!("{id} beats {leases:?}: {beat:?}"));
        }
        for ((key, attempt), state) in leases.into_iter().zip(&beat.leases) {
            let fenced = self.known(key).fenced;
            if *state == LeaseState::Held && attempt < fenced {
                return Err(format!("attempt {attempt} of {key} kept its lease after attempt {fenced} had it"));
            }
            let Some(pick) = self.workers[at].runs.iter().position(|run| run.key == key && run.attempt == attempt)
            else {
                continue;
            };
            match state {
                LeaseState::Held => {}
                LeaseState::CancelAsked => {
                    let row = sql!(self, task(key)).unwrap();
                    self.workers[at].runs[pick].end = row.terminal_event();
                }
                LeaseState::Lost => self.let_go(at, pick),
                LeaseState::Unknown => self.adopt(at, pick).await?,
            }
        }
        self.recover(&beat.lost).await
    }

    pub(crate) async fn close(&mut self, row: &TaskRow) {
        let event = row.terminal_event().unwrap();
        let closed = self.test.queue.close(row.key, row.attempt, &event).await.unwrap();
        self.note(format!("close {}: {closed}", row.key));
        self.touched.push(row.key);
        self.remember(Call::Close(row.key, row.attempt, event));
    }
}
