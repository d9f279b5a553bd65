//! The consume loop: as many tasks as there are free slots, read on a connection of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::attempt::attempt;
use crate::parts::Parts;

/// Pause after a read that failed.
const PAUSE: Duration = Duration::from_millis(250);

/// Tells whether the loop turns; liveness is read from here.
#[derive(Clone, Debug)]
pub(crate) struct Intake {
    started: Instant,
    turned_ms: Arc<AtomicU64>,
}

impl Intake {
    /// Starts the loop. It stops reading when `stop` is cancelled; attempts that run are in `attempts`.
    pub(crate) fn start(parts: &Parts, stop: CancellationToken, attempts: &TaskTracker) -> Self {
        let intake = Self { started: Instant::now(), turned_ms: Arc::default() };
        tokio::spawn(intake.clone().turn(parts.clone(), stop, attempts.clone()));
        intake
    }

    /// Time since the loop last turned. A blocked read turns every 5 s; a full worker counts as turning.
    pub(crate) fn silence(&self) -> Duration {
        self.started.elapsed().saturating_sub(Duration::from_millis(self.turned_ms.load(Ordering::Relaxed)))
    }

    async fn turn(self, parts: Parts, stop: CancellationToken, attempts: TaskTracker) {
        let slots = Arc::new(Semaphore::new(parts.settings.now().worker.slots));
        let mut reader = parts.queue.ready_reader(parts.worker.clone());
        let mut is_away = false;
        loop {
            self.turned();
            let first = tokio::select! {
                () = stop.cancelled() => return,
                () = self.full() => continue,
                slot = Arc::clone(&slots).acquire_owned() => slot,
            };
            // The semaphore is never closed.
            let Ok(first) = first else { return };
            let more = u32::try_from(slots.available_permits()).unwrap_or(u32::MAX);
            let more = Arc::clone(&slots).try_acquire_many_owned(more).ok();
            let free = 1 + more.as_ref().map_or(0, tokio::sync::OwnedSemaphorePermit::num_permits);
            let entries = match reader.read(free, &stop).await {
                Ok(entries) => entries,
                Err(error) => {
                    if !std::mem::replace(&mut is_away, true) {
                        tracing::warn!(%error, "tasks cannot be read from Redis; trying on");
                    }
                    tokio::select! {
                        () = stop.cancelled() => return,
                        () = tokio::time::sleep(PAUSE) => continue,
                    }
                }
            };
            if std::mem::take(&mut is_away) {
                tracing::info!("tasks are read from Redis again");
            }
            let mut permits = Some(first);
            if let (Some(permits), Some(more)) = (&mut permits, more) {
                permits.merge(more);
            }
            for entry in entries {
                let Some(slot) = permits.as_mut().and_then(|permits| permits.split(1)) else { break };
                let parts = parts.clone();
                attempts.spawn(attempt(parts, entry, slot));
            }
        }
    }

    fn turned(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.turned_ms.store(now, Ordering::Relaxed);
    }

    /// How long a full worker waits for a slot before the loop turns again.
    async fn full(&self) {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}
