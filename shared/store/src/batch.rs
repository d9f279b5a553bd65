//! Batches writes: whatever waits while a commit is on its way goes into the next one, together.
//!
//! A single write on an idle system is not delayed; a hundred at once cost two or three commits. Bounded in rows and in
//! waiters. Each waiter hears its own outcome. One writer for each kind, on a connection that it keeps: two would halve
//! the batches and double the commits.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use sqlx::MySqlConnection;
use tokio::sync::{mpsc, oneshot};

use crate::StoreError;
use crate::pool::Database;

/// One write of a kind, and how many of them are written.
pub(crate) trait BatchRow: Send + Sync + Sized + fmt::Debug + 'static {
    /// What became of one.
    type Outcome: Send + 'static;

    /// Writes all rows; one outcome each, in order. May be called again with the same rows after it failed.
    fn write(
        connection: &mut MySqlConnection,
        rows: &[Self],
    ) -> impl Future<Output = Result<Vec<Self::Outcome>, sqlx::Error>> + Send;
}

type Answer<T> = oneshot::Sender<Result<T, Arc<StoreError>>>;

/// A handle to the writer of one kind. It ends when the last handle is dropped.
#[derive(Debug)]
pub(crate) struct Batcher<R: BatchRow> {
    queue: mpsc::Sender<(R, Answer<R::Outcome>)>,
}

impl<R: BatchRow> Clone for Batcher<R> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<R: BatchRow> Batcher<R> {
    /// Starts the writer: at most `rows_max` rows a batch, at most `waiting_max` waiting.
    pub(crate) fn start(database: &Database, rows_max: usize, waiting_max: usize) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(R, Answer<R::Outcome>)>(waiting_max);
        let database = database.clone();
        tokio::spawn(async move {
            let (mut kept, mut batch) = (None, Vec::with_capacity(rows_max));
            loop {
                let count = tokio::select! {
                    count = waiting.recv_many(&mut batch, rows_max) => count,
                    // The pool waits for its connections: the kept one goes back with this task.
                    () = database.closing() => 0,
                };
                if count == 0 {
                    return;
                }
                let (rows, answers): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
                deliver(database.write(&mut kept, &rows).await, answers);
            }
        });
        Self { queue }
    }

    /// Writes `row` with whatever else waits.
    ///
    /// Cancel-safe in that the write goes on: a caller that leaves does not know its outcome.
    pub(crate) async fn write(&self, row: R) -> Result<R::Outcome, Arc<StoreError>> {
        let (answer, outcome) = oneshot::channel();
        self.queue.try_send((row, answer)).map_err(|_| Arc::new(StoreError::Busy))?;
        outcome.await.unwrap_or_else(|_| Err(Arc::new(StoreError::Unavailable("the writer stopped".to_owned()))))
    }
}

fn deliver<T>(outcomes: Result<Vec<T>, StoreError>, answers: Vec<Answer<T>>) {
    // A caller that left does not need to know its outcome.
    match outcomes {
        Ok(outcomes) => {
            for (outcome, answer) in outcomes.into_iter().zip(answers) {
                let _ = answer.send(Ok(outcome));
            }
        }
        Err(error) => {
            let error = Arc::new(error);
            for answer in answers {
                let _ = answer.send(Err(Arc::clone(&error)));
            }
        }
    }
}
