//! Clients that submit all the time, whatever happens, and remember what was accepted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::house::House;

/// An accepted task, and the mark by which the provider's record knows its calls.
#[derive(Clone, Debug)]
pub(super) struct Marked {
    pub(super) task: Uuid,
    pub(super) mark: String,
}

/// A load under way.
pub(super) struct Load {
    accepted: Arc<Mutex<Vec<Marked>>>,
    stop: CancellationToken,
    submitting: JoinHandle<()>,
}

impl Load {
    /// Submits a task each `every`, whose model answers in `chunks` pieces, `gap_ms` apart.
    pub(super) fn start(house: &House, every: Duration, chunks: u32, gap_ms: u32) -> Self {
        let (client, stop) = (house.client(), CancellationToken::new());
        let accepted = Arc::new(Mutex::new(Vec::new()));
        let submitting = tokio::spawn({
            let (accepted, stop) = (Arc::clone(&accepted), stop.clone());
            async move {
                while !stop.is_cancelled() {
                    let marked = Marked { task: Uuid::now_v7(), mark: Uuid::new_v4().simple().to_string() };
                    let input = format!("{}\n[[fake: chunks={chunks},gap_ms={gap_ms}]]", marked.mark);
                    let body = json!({ "agent": "assistant", "input": input, "task_id": marked.task });
                    match client.try_post(&body).await {
                        Some(202) => accepted.lock().expect("no panic").push(marked),
                        // A no, or an outcome that is not known: neither is a promise.
                        _ => tokio::time::sleep(Duration::from_millis(200)).await,
                    }
                    tokio::time::sleep(every).await;
                }
            }
        });
        Self { accepted, stop, submitting }
    }

    /// Waits until `count` more tasks were accepted than now.
    pub(super) async fn more(&self, count: usize) {
        let goal = self.count() + count;
        crate::house::wait_until("the door takes tasks", super::PATIENCE, async || self.count() >= goal).await;
    }

    fn count(&self) -> usize {
        self.accepted.lock().expect("no panic").len()
    }

    /// Ends the load; returns what was accepted.
    pub(super) async fn end(self) -> Vec<Marked> {
        self.stop.cancel();
        self.submitting.await.expect("it ends");
        std::mem::take(&mut *self.accepted.lock().expect("no panic"))
    }
}
