//! Keeps the snapshot of tenants and keys true.
//!
//! A revoked key stops working within two polls (`api.keys_refresh_ms`): a changed revision number loads both tables
//! anew, and every minute they are loaded whatever the number says. While MySQL is away the last snapshot stays in
//! force.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use penstock_protocol::clock;
use penstock_store::{Store, StoreError};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::ring::Snapshot;

/// Both tables are loaded at least this often, so that a lost change of the number cannot last.
const RELOAD_EVERY: Duration = Duration::from_secs(60);

/// The snapshot in force, and when MySQL last confirmed it.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) snapshot: ArcSwapOption<Snapshot>,
    started: Instant,
    confirmed_ms: AtomicU64,
}

impl Current {
    pub(super) fn empty() -> Self {
        Self { snapshot: ArcSwapOption::empty(), started: Instant::now(), confirmed_ms: AtomicU64::new(0) }
    }

    pub(super) fn confirmed_ago(&self) -> Duration {
        let confirmed = Duration::from_millis(self.confirmed_ms.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(confirmed)
    }

    fn confirm(&self) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.confirmed_ms.store(now_ms, Ordering::Relaxed);
    }
}

/// The task that keeps the snapshot true.
pub(super) struct Refresher {
    store: Store,
    current: Arc<Current>,
    changes: watch::Sender<u64>,
    /// Expiries up to this moment were announced.
    seen_ms: u64,
}

impl Refresher {
    pub(super) fn new(store: Store, current: Arc<Current>, changes: watch::Sender<u64>) -> Self {
        Self { store, current, changes, seen_ms: clock::wall_ms() }
    }

    /// Polls until dropped.
    pub(super) async fn run(mut self, every: Duration) {
        let (mut ticks, mut last_full, mut is_failing) = (interval(every), Instant::now(), false);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.announce_expiries();
            match self.refresh(&mut last_full).await {
                Ok(()) if is_failing => {
                    is_failing = false;
                    tracing::info!("keys are being refreshed again");
                }
                Ok(()) => {}
                // One line a change of state: an outage does not flood the log.
                Err(error) if !is_failing => {
                    is_failing = true;
                    tracing::warn!(%error, "keys cannot be refreshed; the last snapshot stays in force");
                }
                Err(_) => {}
            }
        }
    }

    async fn refresh(&self, last_full: &mut Instant) -> Result<(), StoreError> {
        // The number is read first: a change that comes between shows at the next poll.
        let revision = self.store.keys_revision().await?;
        let is_same = self.current.snapshot.load().as_ref().is_some_and(|snapshot| snapshot.revision == revision);
        if !is_same || last_full.elapsed() >= RELOAD_EVERY {
            let (tenants, keys) = (self.store.tenants().await?, self.store.keys().await?);
            let snapshot = Snapshot::new(tenants, keys, self.store.pauses().await?, revision);
            tracing::debug!(keys = snapshot.len(), revision, "keys were loaded");
            self.current.snapshot.store(Some(Arc::new(snapshot)));
            *last_full = Instant::now();
            self.changes.send_modify(|turn| *turn += 1);
        }
        self.current.confirm();
        Ok(())
    }

    fn announce_expiries(&mut self) {
        let now_ms = clock::wall_ms();
        let expires =
            self.current.snapshot.load().as_ref().is_some_and(|keys| keys.expires_between(self.seen_ms, now_ms));
        self.seen_ms = now_ms;
        if expires {
            self.changes.send_modify(|turn| *turn += 1);
        }
    }
}
