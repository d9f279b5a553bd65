//! Late and doubled calls: whatever was called once may arrive again, at any time.

use penstock_protocol::TaskKey;
use penstock_queue::{
    AdmitRequest, Admitted, Adoption, Emission, Fate, Finish, LostTask, QueuedTask, ReadyEntry, Retry, RetryCause,
    WorkerId,
};
use std::time::Duration;

use crate::world::{Law, World};

#[derive(Clone)]
pub(crate) enum Call {
    Admit(QueuedTask),
    Release(Admitted),
    Enqueue(QueuedTask),
    Start(ReadyEntry, WorkerId, String),
    Raise(ReadyEntry, u32, bool),
    Emit(TaskKey, u32, u64, u64, Vec<String>),
    Finish(TaskKey, u32, WorkerId, u64, String),
    Retry(TaskKey, u32, WorkerId),
    Cancel(TaskKey, u32, String),
    Close(TaskKey, u32, String),
    Reap(LostTask, Fate),
    Adopt(QueuedTask, u32, WorkerId, u64),
}

impl World {
    /// Makes a remembered call again. What it answers is of no interest; the laws are.
    pub(crate) async fn replay(&mut self) -> Law {
        if self.calls.is_empty() {
            return Ok(());
        }
        let at = self.random.below(self.calls.len());
        let call = self.calls[at].clone();
        let queue = self.test.queue.clone();
        match call {
            Call::Admit(task) => {
                // A repeat that is let in again leaves a registration without a door.
                let request = AdmitRequest {
                    key: task.key,
                    user: task.user.as_deref(),
                    body_hash: &task.body_hash,
                    limits: self.limits(),
                };
                let verdict = queue.admit(&request).await.unwrap();
                self.note(format!("late admit {} {verdict:?}", task.key));
            }
            Call::Release(admitted) => {
                let released = queue.release(&admitted).await.unwrap();
                self.note(format!("late release {}: {released}", admitted.key()));
            }
            Call::Enqueue(task) => {
                let verdict = queue.enqueue(&task).await.unwrap();
                self.note(format!("late enqueue {}: {verdict:?}", task.key));
            }
            Call::Start(entry, worker, event) => {
                let verdict = queue.start(&entry, &worker, &event).await.unwrap();
                self.note(format!("late start {} attempt {}: {verdict:?}", entry.key, entry.attempt));
                self.touched.push(entry.key);
            }
            Call::Raise(entry, attempt, quarantine) => {
                let raised = queue.raise(&entry, attempt, quarantine).await.unwrap();
                self.note(format!("late raise {}: {raised}", entry.key));
            }
            Call::Emit(key, attempt, first_n, first_seq, events) => {
                let emission = Emission { key, attempt, first_n, first_seq, events: &events };
                let verdict = queue.emit(&emission).await.unwrap();
                self.note(format!("late emit {key} attempt {attempt} from {first_n}: {verdict:?}"));
                self.touched.push(key);
            }
            Call::Finish(key, attempt, worker, last_seq, event) => {
                let finish = Finish {
                    key,
                    attempt,
                    worker: &worker,
                    cost_tokens: None,
                    input_tokens: 0,
                    last_seq,
                    event: &event,
                };
                let verdict = queue.finish(&finish).await.unwrap();
                self.note(format!("late finish {key} attempt {attempt}: {verdict:?}"));
                self.touched.push(key);
            }
            Call::Retry(key, attempt, worker) => {
                let cause = RetryCause::HandedBack;
                let retry = Retry { key, attempt, worker: &worker, delay: Duration::ZERO, cost_tokens: None, cause };
                let verdict = queue.retry(&retry).await.unwrap();
                self.note(format!("late retry {key} attempt {attempt}: {verdict:?}"));
                self.touched.push(key);
            }
            Call::Cancel(key, attempt, event) => {
                let verdict = queue.cancel(key, attempt, &event).await.unwrap();
                self.note(format!("late cancel {key}: {verdict:?}"));
                self.touched.push(key);
            }
            Call::Close(key, attempt, event) => {
                let closed = queue.close(key, attempt, &event).await.unwrap();
                self.note(format!("late close {key}: {closed}"));
                self.touched.push(key);
            }
            Call::Reap(lost, fate) => {
                let reaper = WorkerId::new("late-reaper").unwrap();
                let verdict = queue.reap(&lost, &reaper, fate).await.unwrap();
                self.note(format!("late reap {lost:?}: {verdict:?}"));
                self.touched.push(lost.key);
            }
            Call::Adopt(task, attempt, worker, last_n) => {
                let adoption = Adoption { task: &task, attempt, worker: &worker, last_n };
                let adopted = queue.adopt(&adoption).await.unwrap();
                self.note(format!("late adopt {} attempt {attempt}: {adopted}", task.key));
            }
        }
        Ok(())
    }
}
