//! The registry of a process. Names are `penstock_<noun>_<unit>[_total]`; seconds and bytes; labels from closed lists.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The metrics of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
}

impl Metrics {
    /// An empty registry; every name in it begins with `penstock_`.
    #[must_use]
    pub fn new() -> Self {
        Self { registry: Arc::new(Mutex::new(Registry::with_prefix("penstock"))) }
    }

    /// Registers metrics; at start, by their owners. Names are given without the prefix.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The OpenMetrics text of everything registered.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = prometheus_client::encoding::text::encode(&mut text, &registry) {
            tracing::warn!(%error, "metrics could not be written");
        }
        text
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Buckets for a latency in seconds, from half a millisecond to two minutes.
#[must_use]
pub fn latency_histogram() -> Histogram {
    Histogram::new([
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
    ])
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn registered_metrics_appear_with_the_prefix() {
        let (metrics, counter) = (Metrics::new(), Counter::<u64>::default());
        metrics.register(|registry| registry.register("tasks", "Tasks", counter.clone()));
        counter.inc();
        assert!(metrics.text().contains("penstock_tasks_total 1"), "{}", metrics.text());
    }
}
