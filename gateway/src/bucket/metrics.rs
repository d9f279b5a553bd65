//! What the buckets count. Labels are configured names and closed lists.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Dimension, Throttled};

/// Upper bounds in seconds, up to beyond the usual wait budget.
const WAIT_BUCKETS: [f64; 11] = [0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 90.0];
/// Upper bounds of real ÷ estimate.
const RATIO_BUCKETS: [f64; 12] = [0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0, 10.0];

/// Metrics of all buckets of a process.
#[derive(Clone, Debug)]
pub(crate) struct BucketMetrics {
    takes: Family<TakeLabels, Counter>,
    waits: Family<ExitLabels, Histogram, fn() -> Histogram>,
    waiting: Family<ExitLabels, Gauge>,
    passes: Family<ExitLabels, Counter>,
    levels: Family<LevelLabels, Gauge>,
    settlements: Family<SettleLabels, Counter>,
    tokens: Family<ExitLabels, Counter>,
    ratios: Family<ExitLabels, Histogram, fn() -> Histogram>,
    corrections: Family<ExitLabels, Gauge<f64, AtomicU64>>,
    pub(super) settle_lost: Counter,
    pub(super) is_local: Gauge,
    pub(super) trips: Counter,
}

/// Those of one exit, looked up once.
#[derive(Clone, Debug)]
pub(crate) struct ExitMetrics {
    labels: ExitLabels,
    metrics: BucketMetrics,
    granted: Counter,
    waits: Histogram,
    pub(super) waiting: Gauge,
    pub(super) passes: Counter,
    tokens: Counter,
    ratio: Histogram,
    correction: Gauge<f64, AtomicU64>,
}

/// Levels of one exit.
#[derive(Clone, Debug)]
pub(crate) struct ExitGauges {
    levels: [Gauge; Dimension::ALL.len()],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ExitLabels {
    provider: Arc<str>,
    model: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TakeLabels {
    provider: Arc<str>,
    model: Arc<str>,
    answer: TakeAnswer,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LevelLabels {
    provider: Arc<str>,
    model: Arc<str>,
    dimension: Dimension,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SettleLabels {
    provider: Arc<str>,
    model: Arc<str>,
    by: SettledBy,
}

/// What a take was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TakeAnswer {
    Granted,
    Wait,
    Exhausted,
}

/// What a debit ended by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SettledBy {
    /// The vendor's count.
    Usage,
    /// What was received of an answer without a count.
    Received,
    /// Nothing was sent.
    GivenBack,
    /// The call failed: its debit stays.
    Kept,
}

impl EncodeLabelValue for TakeAnswer {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
        match self {
            Self::Granted => "granted",
            Self::Wait => "wait",
            Self::Exhausted => "exhausted",
        }
        .encode(encoder)
    }
}

impl EncodeLabelValue for SettledBy {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
        match self {
            Self::Usage => "usage",
            Self::Received => "received",
            Self::GivenBack => "given_back",
            Self::Kept => "kept",
        }
        .encode(encoder)
    }
}

impl EncodeLabelValue for Dimension {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), std::fmt::Error> {
        self.as_str().encode(encoder)
    }
}

impl BucketMetrics {
    /// Makes the metrics known to `registry`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            takes: Family::default(),
            waits: Family::new_with_constructor(|| Histogram::new(WAIT_BUCKETS)),
            waiting: Family::default(),
            passes: Family::default(),
            levels: Family::default(),
            settlements: Family::default(),
            tokens: Family::default(),
            ratios: Family::new_with_constructor(|| Histogram::new(RATIO_BUCKETS)),
            corrections: Family::default(),
            settle_lost: Counter::default(),
            is_local: Gauge::default(),
            trips: Counter::default(),
        };
        let m = &metrics;
        registry.register("model_takes", "Takes from the buckets of a model, by their answer", m.takes.clone());
        registry.register("model_take_wait_seconds", "Time from asking for tokens to having them", m.waits.clone());
        registry.register("model_take_waiting", "Calls that wait for tokens in this process", m.waiting.clone());
        registry.register("model_passes", "Calls that passed without tokens after their wait budget", m.passes.clone());
        registry.register("model_bucket_level", "Last level seen; below zero is debt", m.levels.clone());
        registry.register("model_settlements", "Debits of sent calls, by what they ended", m.settlements.clone());
        registry.register("model_settled_tokens", "Tokens that calls were found to have used", m.tokens.clone());
        registry.register("model_estimate_ratio", "Tokens used ÷ tokens estimated, by call", m.ratios.clone());
        registry.register("model_estimate_correction", "Running factor on estimates", m.corrections.clone());
        registry.register("model_settle_lost", "Settlements whose answer from Redis was lost", m.settle_lost.clone());
        registry.register("model_buckets_local", "1 while limits are kept in this process", m.is_local.clone());
        registry.register("model_redis_trips", "Times that Redis was left alone after trouble", m.trips.clone());
        metrics
    }

    pub(crate) fn exit(&self, provider: &Arc<str>, model: &Arc<str>) -> ExitMetrics {
        let labels = ExitLabels { provider: Arc::clone(provider), model: Arc::clone(model) };
        let granted =
            TakeLabels { provider: Arc::clone(provider), model: Arc::clone(model), answer: TakeAnswer::Granted };
        ExitMetrics {
            granted: self.takes.get_or_create(&granted).clone(),
            waits: self.waits.get_or_create(&labels).clone(),
            waiting: self.waiting.get_or_create(&labels).clone(),
            passes: self.passes.get_or_create(&labels).clone(),
            tokens: self.tokens.get_or_create(&labels).clone(),
            ratio: self.ratios.get_or_create(&labels).clone(),
            correction: self.corrections.get_or_create(&labels).clone(),
            metrics: self.clone(),
            labels,
        }
    }
}

impl ExitMetrics {
    pub(super) fn gauges(&self) -> ExitGauges {
        let level = |dimension| {
            let ExitLabels { provider, model } = self.labels.clone();
            self.metrics.levels.get_or_create(&LevelLabels { provider, model, dimension }).clone()
        };
        ExitGauges { levels: Dimension::ALL.map(level) }
    }

    /// What a call is told whose wait is long.
    pub(super) fn throttled(&self, waited: Duration, wait_max: Duration) -> Throttled {
        let ExitLabels { provider, model } = self.labels.clone();
        Throttled { provider, model, waited, wait_max }
    }

    pub(super) fn granted(&self, waited: Duration) {
        self.granted.inc();
        self.waits.observe(waited.as_secs_f64());
    }

    pub(super) fn refused(&self, answer: TakeAnswer) {
        let ExitLabels { provider, model } = self.labels.clone();
        self.metrics.takes.get_or_create(&TakeLabels { provider, model, answer }).inc();
    }

    pub(super) fn settled(&self, by: SettledBy, tokens: u64) {
        let ExitLabels { provider, model } = self.labels.clone();
        self.metrics.settlements.get_or_create(&SettleLabels { provider, model, by }).inc();
        self.tokens.inc_by(tokens);
    }

    pub(super) fn estimated(&self, ratio: f64, correction: f64) {
        self.ratio.observe(ratio);
        self.correction.set(correction);
    }
}

impl ExitGauges {
    pub(super) fn level(&self, dimension: Dimension, level: i64) {
        self.levels[dimension as usize].set(level);
    }
}
