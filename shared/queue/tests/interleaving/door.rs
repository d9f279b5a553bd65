//! Doors and clients: submit, repeat, die between any two steps, cancel.

use penstock_protocol::Status;
use penstock_queue::{AdmitRequest, AdmitVerdict, Admitted, QueuedTask};
use penstock_store::{Accepted, NewTask};

use crate::patience::sql;
use crate::replay::Call;
use crate::world::{DEPTH_MAX, Law, World};

/// A request that a door is busy with.
pub(crate) struct Registered {
    row: NewTask,
    task: QueuedTask,
    admitted: Admitted,
    since_ms: u64,
    is_committed: bool,
}

impl World {
    /// A client posts a new task, or the same one again.
    pub(crate) async fn submit(&mut self) -> Law {
        let repeated = if self.random.chance(20) && !self.order.is_empty() {
            let at = self.order.len() - 1 - self.random.below(self.order.len().min(10));
            self.known[&self.order[at]].task.clone()
        } else {
            None
        };
        let (row, task) = match repeated {
            Some(task) => {
                let (mut row, _) = self.new_task();
                self.order.pop();
                self.known.remove(&row.key);
                // The same request at another door gets another place.
                (row.key, row.body_hash, row.thread, row.user) =
                    (task.key, task.body_hash, task.thread.unwrap(), task.user.clone());
                let task = QueuedTask { place: row.place.clone(), cost_tokens: u64::from(row.cost_tokens), ..task };
                (row, task)
            }
            None => self.new_task(),
        };
        let thread_free = task.thread.filter(|_| self.random.chance(30));
        let limits = penstock_queue::AdmitLimits { thread_free, ..self.limits() };
        let request = AdmitRequest { key: task.key, user: task.user.as_deref(), body_hash: &task.body_hash, limits };
        let verdict = self.test.queue.admit(&request).await.unwrap();
        self.note(format!("admit {} {verdict:?}", task.key));
        self.remember(Call::Admit(task.clone()));
        if let AdmitVerdict::Admitted(admitted) = verdict {
            // Law 1, judged by the records and not by the sums that the verb added up itself.
            let depth = self.depth_by_records().await;
            if !self.is_broken && depth > DEPTH_MAX {
                return Err(format!("admission brought the depth to {depth}, above {DEPTH_MAX}"));
            }
            let since_ms = self.clock.now_ms();
            self.doors.push(Registered { row, task, admitted, since_ms, is_committed: false });
        }
        Ok(())
    }

    /// A door goes on with a request: commit, then enqueue. Or it dies.
    pub(crate) async fn go_on_at_a_door(&mut self) -> Law {
        let Some(mut door) = self.random.take(&mut self.doors) else { return Ok(()) };
        let key = door.task.key;
        if !self.is_calm && self.random.chance(8) {
            self.note(format!("door of {key} dies"));
            return Ok(());
        }
        if !door.is_committed {
            // No commit later than 10 s after admission.
            let is_late = self.clock.now_ms() - door.since_ms > 10_000;
            if is_late || self.random.chance(5) {
                self.note(format!("release {key}"));
                self.remember(Call::Release(door.admitted.clone()));
                self.test.queue.release(&door.admitted).await.unwrap();
                return Ok(());
            }
            let outcome = sql!(self, accept(door.row.clone()));
            self.note(format!("accept {key} {}", if matches!(outcome, Accepted::New) { "new" } else { "before" }));
            match outcome {
                Accepted::New => {
                    let task = door.task.clone();
                    let known = self.known(key);
                    known.is_accepted = true;
                    known.task = Some(task);
                    door.is_committed = true;
                    self.doors.push(door);
                }
                Accepted::Before(_) => {
                    self.test.queue.release(&door.admitted).await.unwrap();
                }
            }
            return Ok(());
        }
        let verdict = self.test.queue.enqueue(&door.task).await.unwrap();
        self.note(format!("enqueue {key} {verdict:?}"));
        self.remember(Call::Enqueue(door.task));
        Ok(())
    }

    /// A client cancels a task of any state.
    pub(crate) async fn cancel(&mut self) -> Law {
        if self.order.is_empty() {
            return Ok(());
        }
        let at = self.order.len() - 1 - self.random.below(self.order.len().min(30));
        let key = self.order[at];
        let Some(row) = sql!(self, cancel(key)) else { return Ok(()) };
        self.note(format!("cancel {key}: row {:?}", row.status));
        if row.status != Status::Cancelled {
            return Ok(());
        }
        let event = row.terminal_event().unwrap();
        if !self.is_calm && self.random.chance(15) {
            self.note("… and the door dies");
            self.known(key).may_be_silent = true;
            self.remember(Call::Cancel(key, row.attempt, event));
            return Ok(());
        }
        let verdict = self.test.queue.cancel(key, row.attempt, &event).await.unwrap();
        self.note(format!("cancel {key} {verdict:?}"));
        self.touched.push(key);
        self.remember(Call::Cancel(key, row.attempt, event));
        Ok(())
    }
}
