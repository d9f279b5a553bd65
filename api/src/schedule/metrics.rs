//! What became of fires (law 14).

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::fire::Outcome;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: Outcome,
}

/// Counters of one process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScheduleMetrics {
    fires: Family<Labels, Counter>,
}

impl ScheduleMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("schedule_fires", "What became of fires of cron entries", metrics.fires.clone());
        metrics
    }

    pub(super) fn count(&self, outcome: Outcome) {
        self.fires.get_or_create(&Labels { outcome }).inc();
    }
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.as_str(), encoder)
    }
}
