//! What deliveries come to (law 14).

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What one look at a delivery came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// The target took it.
    Delivered,
    /// It is tried again.
    Retried,
    /// It was given up.
    Failed,
    /// Nobody asked for this status.
    Skipped,
    /// Its target has enough under way.
    Postponed,
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let text = match self {
            Self::Delivered => "delivered",
            Self::Retried => "retried",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Postponed => "postponed",
        };
        EncodeLabelValue::encode(&text, encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: Outcome,
}

/// Counters of one process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WebhookMetrics {
    outcomes: Family<Labels, Counter>,
    /// Deliveries under way.
    pub(crate) open: Gauge,
}

impl WebhookMetrics {
    /// Registers everything.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("webhook_tries", "What tries of webhook deliveries came to", metrics.outcomes.clone());
        registry.register("webhook_open", "Webhook deliveries under way", metrics.open.clone());
        metrics
    }

    pub(crate) fn count(&self, outcome: Outcome) {
        self.outcomes.get_or_create(&Labels { outcome }).inc();
    }
}
