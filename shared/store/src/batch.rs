//! Batches writes: whatever waits while a commit is on its way goes into the next one, together.
//!
//! A single write on an idle system is not delayed; a hundred at once cost two or three commits. Bounded in rows and in
//! waiters. Each waiter hears its own outcome.

use std::sync::Arc;

use tokio::sync::{Mutex, mpsc, oneshot};

use crate::StoreError;
use crate::pool::Write;

/// Writers of one kind: while one waits for its commit, another fills. Two keep MySQL busy without splitting batches.
const WRITERS: usize = 2;

type Answer<T> = oneshot::Sender<Result<T, Arc<StoreError>>>;

/// A handle to the writers of one kind. They end when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Batcher<W: Write> {
    queue: mpsc::Sender<(W::Item, Answer<W::Outcome>)>,
}

impl<W: Write> Clone for Batcher<W> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<W: Write> Batcher<W> {
    /// Starts the writers: at most `rows_max` items a batch, at most `waiting_max` waiting.
    pub(crate) fn start(write: W, rows_max: usize, waiting_max: usize) -> Self {
        let (queue, items) = mpsc::channel(waiting_max);
        let (items, write) = (Arc::new(Mutex::new(items)), Arc::new(write));
        for _ in 0..WRITERS {
            let (items, write) = (Arc::clone(&items), Arc::clone(&write));
            tokio::spawn(async move {
                loop {
                    let mut batch = Vec::new();
                    // The lock is held only while a batch is taken, so the other writer takes the next one.
                    if items.lock().await.recv_many(&mut batch, rows_max).await == 0 {
                        return;
                    }
                    let (items, answers): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
                    deliver(write.write(items).await, answers);
                }
            });
        }
        Self { queue }
    }

    /// Writes `item` with whatever else waits.
    ///
    /// Cancel-safe in that the write goes on: a caller that leaves does not know its outcome.
    pub(crate) async fn write(&self, item: W::Item) -> Result<W::Outcome, Arc<StoreError>> {
        let (answer, outcome) = oneshot::channel();
        self.queue.try_send((item, answer)).map_err(|_| Arc::new(StoreError::Busy))?;
        outcome.await.unwrap_or_else(|_| Err(Arc::new(StoreError::Unavailable("the writer stopped".to_owned()))))
    }
}

fn deliver<T>(outcomes: Result<Vec<T>, Arc<StoreError>>, answers: Vec<Answer<T>>) {
    match outcomes {
        Ok(outcomes) => {
            for (outcome, answer) in outcomes.into_iter().zip(answers) {
                // A caller that left does not need to know.
                let _ = answer.send(Ok(outcome));
            }
        }
        Err(error) => {
            for answer in answers {
                let _ = answer.send(Err(Arc::clone(&error)));
            }
        }
    }
}
