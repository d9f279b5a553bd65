//! The reaper and the reconciler, step by step, with deaths in between.

use penstock_protocol::{Ending, ErrorCode, Place, Status, TaskKey};
use penstock_queue::{
    AttemptVerdict, CensusState, EnqueueVerdict, Fate, Finish, LostTask, ReapVerdict, RebuildToken, WorkerId,
};

use penstock_store::TaskRow;

use crate::patience::sql;
use crate::replay::Call;
use crate::world::{BEAT_MS, LEASE_MS, Law, QUARANTINE_CRASHES_MIN, World, crashes_of};

const CRASHES_MAX: u32 = 3;

/// A rebuild under way.
pub(crate) struct Rebuild {
    token: RebuildToken,
    after: Option<(Place, TaskKey)>,
    is_read: bool,
    has_terms: bool,
    /// Rows that were queued when it began: it may not open before all are in the book.
    owed: Vec<TaskKey>,
}

impl World {
    /// Takes care of lost tasks, as a worker does after a beat.
    pub(crate) async fn recover(&mut self, lost: &[LostTask]) -> Law {
        if lost.is_empty() {
            return Ok(());
        }
        let reaper = WorkerId::new("reaper").unwrap();
        let keys: Vec<_> = lost.iter().map(|lost| lost.key).collect();
        let rows = sql!(self, tasks(&keys));
        for lost in lost {
            if !self.is_calm && self.random.chance(10) {
                self.note("the reaper dies");
                return Ok(());
            }
            // In virtual time every entry that was read counts as lost: leave most of them to their readers.
            if !lost.has_started && !self.is_calm && self.random.chance(70) {
                continue;
            }
            let Some(row) = rows.iter().find(|row| row.key == lost.key) else {
                return Err(format!("{} was lost and has no row", lost.key));
            };
            let fate = match crashes_of(row) {
                CRASHES_MAX.. => Fate::Closes,
                _ if row.status.is_terminal() => Fate::Closes,
                QUARANTINE_CRASHES_MIN.. => Fate::WaitsInQuarantine,
                _ => Fate::Waits,
            };
            let verdict = self.test.queue.reap(lost, &reaper, fate).await.unwrap();
            self.note(format!("reap {lost:?}, {fate:?}: {verdict:?}"));
            self.touched.push(lost.key);
            self.remember(Call::Reap(*lost, fate));
            if verdict == ReapVerdict::Requeued && fate == Fate::WaitsInQuarantine {
                self.must_be_quarantined(lost.key).await?;
            }
            match verdict {
                ReapVerdict::NotLost => {}
                ReapVerdict::Requeued if lost.has_started => self.take_over(lost.key, lost.attempt + 1)?,
                ReapVerdict::Requeued => {}
                ReapVerdict::Closing { attempt } => {
                    // A row that ended long ago may be met again under a low number; its stream is sealed.
                    if !row.status.is_terminal() && lost.has_started {
                        self.take_over(lost.key, attempt)?;
                    }
                    if !self.is_calm && self.random.chance(10) {
                        self.note("the reaper dies");
                        return Ok(());
                    }
                    let ending = Ending::failed(ErrorCode::AttemptsExhausted, "lost too often");
                    sql!(self, end_closing(lost.key, attempt, &ending));
                    if !self.is_calm && self.random.chance(10) {
                        self.note("the reaper dies");
                        return Ok(());
                    }
                    let row = sql!(self, task(lost.key)).unwrap();
                    let Some(event) = row.terminal_event() else { continue };
                    let finish = Finish {
                        key: lost.key,
                        attempt,
                        worker: &reaper,
                        cost_tokens: None,
                        input_tokens: 0,
                        last_seq: 0,
                        event: &event,
                    };
                    let finished = self.test.queue.finish(&finish).await.unwrap();
                    self.note(format!("reaper finishes {}: {finished:?}", lost.key));
                    if finished == AttemptVerdict::Stale {
                        return Err(format!("the closing attempt {attempt} of {} was taken away", lost.key));
                    }
                    self.remember(Call::Finish(lost.key, attempt, reaper.clone(), 0, event));
                }
            }
        }
        Ok(())
    }

    /// One look of the reaper outside of a beat.
    pub(crate) async fn reap(&mut self) -> Law {
        let lost = self.test.queue.lost(5).await.unwrap();
        self.recover(&lost).await
    }

    /// The reconciler: a census, then a wipe if it must be, or a comparison with the rows.
    pub(crate) async fn reconcile(&mut self) -> Law {
        let census = self.test.queue.census().await.unwrap();
        let is_abandoned = census.state == CensusState::Closed && census.since_wipe_ms > 30_000;
        if census.state == CensusState::Broken || is_abandoned {
            self.note(format!("{census:?}: wipe"));
            let owed = self.open_rows(Status::Queued).await;
            if let Some(token) = self.test.queue.wipe(&census).await.unwrap() {
                self.is_broken = false;
                self.known.values_mut().for_each(|known| known.may_be_silent = true);
                self.rebuilds.push(Rebuild { token, after: None, is_read: false, has_terms: false, owed });
            }
            return Ok(());
        }
        if census.state == CensusState::Closed {
            return Ok(());
        }
        let may_adopt = census.since_wipe_ms < LEASE_MS + BEAT_MS;
        let rows = sql!(self, open_tasks(None, 500));
        let rows: Vec<_> = rows
            .into_iter()
            .filter(|row| match row.status {
                Status::Queued => self.clock.now_ms() - row.accepted_ms >= 5_000,
                Status::Running => !may_adopt,
                _ => false,
            })
            .collect();
        let keys: Vec<_> = rows.iter().map(|row| row.key).collect();
        let known = self.test.queue.known(&keys).await.unwrap();
        for (row, is_known) in rows.iter().zip(known) {
            if !is_known {
                let task = self.queued(row);
                let verdict = self.test.queue.enqueue(&task).await.unwrap();
                self.note(format!("reconciler enqueues {} attempt {}: {verdict:?}", row.key, row.attempt));
                self.came_back(row, verdict).await?;
                self.remember(Call::Enqueue(task));
            }
        }
        Ok(())
    }

    /// A rebuild goes on by a few rows, opens, or is left lying.
    pub(crate) async fn rebuild(&mut self) -> Law {
        let Some(mut rebuild) = self.random.take(&mut self.rebuilds) else { return Ok(()) };
        if !self.is_calm && self.random.chance(5) {
            self.note("a rebuild is left lying");
            return Ok(());
        }
        if !rebuild.has_terms {
            self.set_terms(rebuild.token.book()).await;
            rebuild.has_terms = true;
            self.rebuilds.push(rebuild);
            return Ok(());
        }
        if !rebuild.is_read {
            let rows = sql!(self, open_tasks(rebuild.after.as_ref(), 10));
            rebuild.is_read = rows.len() < 10;
            for row in &rows {
                rebuild.after = Some((row.place.clone(), row.key));
                if row.status == Status::Queued {
                    let task = self.queued(row);
                    let verdict = self.test.queue.enqueue(&task).await.unwrap();
                    self.note(format!("rebuild enqueues {}: {verdict:?}", row.key));
                    self.came_back(row, verdict).await?;
                    self.remember(Call::Enqueue(task));
                }
            }
            self.rebuilds.push(rebuild);
            return Ok(());
        }
        let is_open = self.test.queue.open(&rebuild.token).await.unwrap();
        self.note(format!("open: {is_open}"));
        if is_open && !self.is_broken {
            // Law 1: what opens has put everything back, else the depth would be too small.
            let known = self.test.queue.known(&rebuild.owed).await.unwrap();
            for (key, is_known) in rebuild.owed.iter().zip(known) {
                let row = sql!(self, task(*key)).unwrap();
                if row.status == Status::Queued && !is_known {
                    return Err(format!("admission was opened without {key}"));
                }
            }
        }
        Ok(())
    }

    /// A task that came back has taken itself from the attempt that it had, if that one left a stream.
    async fn came_back(&mut self, row: &TaskRow, verdict: EnqueueVerdict) -> Law {
        let events = self.test.queue.shard().events(row.key);
        let exists: i64 = self.test.command(&["EXISTS", &events]).await;
        if matches!(verdict, EnqueueVerdict::Queued { .. }) && row.attempt > 0 && exists == 1 {
            self.touched.push(row.key);
            self.take_over(row.key, row.attempt + 1)?;
        }
        Ok(())
    }

    async fn open_rows(&self, status: Status) -> Vec<TaskKey> {
        let rows = sql!(self, open_tasks(None, 500));
        rows.into_iter().filter(|row| row.status == status).map(|row| row.key).collect()
    }
}
