//! How long a reader may stay: until its key is revoked or expires, or the process stops.
//!
//! A stop is spread over the drain, so that thousands of clients do not come back at one instant.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::close::End;
use super::jitter::spread;
use super::metrics::{EventMetrics, Way};
use super::seats::Seat;
use crate::app::App;
use crate::auth::{Caller, KeyId, KeyRing};

/// Part of the drain over which readers are told to come back elsewhere; the rest is for them to go.
const DRAIN_PART: f64 = 0.7;

/// One reader's right to be here.
pub(super) struct Stay {
    keys: KeyRing,
    key: KeyId,
    changed: watch::Receiver<u64>,
    shutdown: CancellationToken,
    drain: Duration,
    leave_at: Option<Instant>,
    metrics: EventMetrics,
    way: Way,
    _seat: Option<Seat>,
}

impl Stay {
    /// Begins with a seat; without one for a reader that is told at once why it has none.
    pub(super) fn begin(app: &App, caller: &Caller, way: Way, seat: Option<Seat>) -> Self {
        let metrics = app.hub.inner().metrics.clone();
        metrics.opened(way);
        Self {
            keys: app.keys.clone(),
            key: caller.key,
            changed: app.keys.changed(),
            shutdown: app.shutdown.clone(),
            drain: app.settings.now().api.drain,
            leave_at: None,
            metrics,
            way,
            _seat: seat,
        }
    }

    /// Waits until the reader must go, and says why. Cancel-safe.
    pub(super) async fn over(&mut self) -> End {
        let Self { keys, key, changed, shutdown, drain, leave_at, .. } = self;
        let leaving = async {
            shutdown.cancelled().await;
            sleep_until(*leave_at.get_or_insert_with(|| Instant::now() + spread(*drain, 0.0, DRAIN_PART))).await;
        };
        let revoked = async {
            // Without a sender nothing changes any more: the process stops.
            while changed.changed().await.is_ok() {
                if !keys.is_live(*key) {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            () = revoked => End::Unauthenticated,
            () = leaving => End::Restart,
        }
    }

    /// Counts how the reader ended.
    pub(super) fn ended(&self, end: End) {
        self.metrics.ended(end);
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.metrics.closed(self.way);
    }
}
