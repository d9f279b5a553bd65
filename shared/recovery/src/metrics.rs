//! What recovery counts.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

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
    /// Difference between rows and book found by the latest comparison.
    pub drift: Gauge,
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
        registry.register("recovery_drift_count", "Tasks that rows and queue disagreed on", metrics.drift.clone());
        metrics
    }
}
