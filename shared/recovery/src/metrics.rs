//! What recovery counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::drift::DriftLabels;
use crate::{Drift, DriftKind};

/// Counters of recovery in one process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RecoveryMetrics {
    /// Lost tasks put back in line.
    pub requeued: Counter,
    /// Of these, tasks that were read by a worker that never began them.
    pub unstarted: Counter,
    /// Of these, tasks that went to the quarantine lane.
    pub quarantined: Counter,
    /// Lost tasks that were ended or had ended, and were published.
    pub closed: Counter,
    /// Rebuilds of the book.
    pub rebuilds: Counter,
    /// Accepted rows that Redis did not know and that were queued.
    pub returned: Counter,
    /// Differences between rows and book found by this process's latest comparison, by kind.
    pub(crate) drift: Family<DriftLabels, Gauge>,
    /// Differences that were mended, by kind.
    pub(crate) mended: Family<DriftLabels, Counter>,
    /// Old tasks removed.
    pub removed: Counter,
    /// 1 = Redis may be used for tasks, as judged last.
    pub(crate) server_trusted: Gauge,
    /// 1 = Redis keeps its data over a restart, or does not tell.
    pub(crate) server_persistent: Gauge,
}

impl RecoveryMetrics {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("recovery_requeued", "Lost tasks put back in line", metrics.requeued.clone());
        registry.register(
            "recovery_unstarted",
            "Tasks read and never begun, put back in line",
            metrics.unstarted.clone(),
        );
        registry.register(
            "recovery_quarantined",
            "Lost tasks sent to the quarantine lane",
            metrics.quarantined.clone(),
        );
        registry.register("recovery_closed", "Lost tasks ended and published", metrics.closed.clone());
        registry.register("recovery_rebuilds", "Rebuilds of the queue from MySQL", metrics.rebuilds.clone());
        registry.register("recovery_returned", "Accepted tasks that the queue had forgotten", metrics.returned.clone());
        registry.register(
            "recovery_drift_count",
            "Differences between rows and queue, last seen",
            metrics.drift.clone(),
        );
        registry.register(
            "recovery_mended",
            "Differences between rows and queue that were mended",
            metrics.mended.clone(),
        );
        registry.register(
            "retention_removed_tasks",
            "Tasks removed since they ended long ago",
            metrics.removed.clone(),
        );
        registry.register("redis_trusted", "1 = Redis may be used for tasks", metrics.server_trusted.clone());
        registry.register(
            "redis_persistent",
            "1 = Redis keeps its data over a restart",
            metrics.server_persistent.clone(),
        );
        metrics.found(&Drift::default());
        metrics
    }

    /// Takes over what a comparison found.
    pub(crate) fn found(&self, drift: &Drift) {
        for kind in DriftKind::ALL {
            let (found, labels) = (drift.of(kind), DriftLabels { kind });
            self.drift.get_or_create(&labels).set(i64::try_from(found.count).unwrap_or(i64::MAX));
            self.mended.get_or_create(&labels).inc_by(found.mended);
        }
    }
}
