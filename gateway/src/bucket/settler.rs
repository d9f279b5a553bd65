//! Sends what need not be waited for: settlements, and tickets of heads that left. One task a process, in batches.
//!
//! Settling is a message, so that it can be said from a drop. Each settlement is sent once: while Redis rests it goes to the
//! twin; one whose answer was lost is counted and not repeated, since a repeated one would debit twice.

use std::sync::{Arc, OnceLock};

use tokio::sync::{mpsc, oneshot};

use super::Change;
use super::ledger::{Ledger, Office};
use super::link::LinkError;
use super::metrics::BucketMetrics;

/// Most messages that wait; more settlements are counted as lost. Far beyond what Redis falls behind in its 50 ms.
const WAITING_MAX: usize = 16_384;
/// Most messages of one round trip.
const BATCH_MAX: usize = 64;

/// A handle on the task; it is started by the first message.
#[derive(Debug)]
pub(crate) struct Settler {
    office: Arc<Office>,
    metrics: BucketMetrics,
    sender: OnceLock<mpsc::Sender<Message>>,
}

enum Message {
    Settle { ledger: Arc<Ledger>, change: Change, slot_ms: u64 },
    Leave { ledger: Arc<Ledger> },
    Flush(oneshot::Sender<()>),
}

impl Settler {
    pub(crate) fn new(office: Arc<Office>, metrics: BucketMetrics) -> Self {
        Self { office, metrics, sender: OnceLock::new() }
    }

    /// Starts the task if it does not run. Called where a runtime is.
    pub(crate) fn start(&self) {
        self.sender.get_or_init(|| {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            tokio::spawn(run(receiver, Arc::clone(&self.office), self.metrics.clone()));
            sender
        });
    }

    pub(crate) fn settle(&self, ledger: &Arc<Ledger>, change: Change, slot_ms: u64) {
        if !self.send(Message::Settle { ledger: Arc::clone(ledger), change, slot_ms }) {
            self.metrics.settle_lost.inc();
        }
    }

    /// Removes this process's ticket; one that is not removed is passed over soon.
    pub(crate) fn leave(&self, ledger: &Arc<Ledger>) {
        self.send(Message::Leave { ledger: Arc::clone(ledger) });
    }

    /// Waits until everything said so far is sent.
    pub(crate) async fn flush(&self) {
        let Some(sender) = self.sender.get() else { return };
        let (done, is_done) = oneshot::channel();
        if sender.send(Message::Flush(done)).await.is_ok() {
            drop(is_done.await);
        }
    }

    fn send(&self, message: Message) -> bool {
        self.sender.get().is_some_and(|sender| sender.try_send(message).is_ok())
    }
}

async fn run(mut receiver: mpsc::Receiver<Message>, office: Arc<Office>, metrics: BucketMetrics) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while receiver.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let mut waiting = Vec::new();
        let mut said = Vec::with_capacity(batch.len());
        for message in batch.drain(..) {
            match message {
                Message::Flush(done) => waiting.push(done),
                other => said.push(other),
            }
        }
        send(&said, &office, &metrics).await;
        for done in waiting {
            // Who does not wait any more needs no answer.
            _ = done.send(());
        }
    }
}

async fn send(said: &[Message], office: &Office, metrics: &BucketMetrics) {
    if said.is_empty() {
        return;
    }
    let mut pipeline = redis::pipe();
    for message in said {
        match message {
            Message::Settle { ledger, change, slot_ms } => {
                pipeline.add_command(ledger.settle_command(change, *slot_ms));
            }
            Message::Leave { ledger } => {
                pipeline.add_command(ledger.leave_command());
            }
            Message::Flush(_) => {}
        }
    }
    match office.link.send_all(&pipeline).await {
        Ok(answers) => {
            for (message, answer) in said.iter().zip(answers) {
                let Message::Settle { ledger, .. } = message else { continue };
                let settled = answer.extract_error().map_err(LinkError::Failed).and_then(|value| ledger.settled(value));
                if let Err(error) = settled {
                    metrics.settle_lost.inc();
                    office.link.reject(&error);
                }
            }
        }
        Err(error) => {
            for message in said {
                let Message::Settle { ledger, change, slot_ms } = message else { continue };
                if matches!(error, LinkError::Resting) {
                    ledger.settle_here(change, *slot_ms);
                } else {
                    metrics.settle_lost.inc();
                }
            }
        }
    }
}
