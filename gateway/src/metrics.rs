//! What the gateway counts. Labels are configured names and the closed list of outcomes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::breaker::BreakerState;
use crate::{BreakerReport, Outcome};

/// Upper bounds in seconds: fine where a fast model answers, up to the largest first-token timer.
const FIRST_TOKEN_BUCKETS: [f64; 12] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 60.0];

/// The gateway's metrics of one process.
#[derive(Clone, Debug)]
pub struct GatewayMetrics {
    calls: Family<CallLabels, Counter>,
    first_token: Family<ExitLabels, Histogram, fn() -> Histogram>,
    fallbacks: Family<FallbackLabels, Counter>,
    hedges: Family<HedgeLabels, Counter>,
    cached: Family<CacheLabels, Counter>,
    fallback_answers: Counter,
    breakers: Family<BreakerLabels, Gauge>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct ExitLabels {
    pub(crate) provider: Arc<str>,
    pub(crate) model: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    provider: Arc<str>,
    model: Arc<str>,
    verdict: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BreakerLabels {
    exit: String,
    endpoint: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FallbackLabels {
    from: String,
    to: String,
    reason: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HedgeLabels {
    won: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheLabels {
    result: &'static str,
}

impl fmt::Display for ExitLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> Result<(), fmt::Error> {
        self.as_str().encode(encoder)
    }
}

impl GatewayMetrics {
    /// Makes the metrics known to `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            calls: Family::default(),
            first_token: Family::new_with_constructor(|| Histogram::new(FIRST_TOKEN_BUCKETS)),
            fallbacks: Family::default(),
            hedges: Family::default(),
            cached: Family::default(),
            fallback_answers: Counter::default(),
            breakers: Family::default(),
        };
        registry.register("model_calls", "Attempts on a provider and model, by how they ended", metrics.calls.clone());
        registry.register(
            "model_first_token_seconds",
            "Time from the permit to the first token",
            metrics.first_token.clone(),
        );
        registry.register(
            "model_fallbacks",
            "Calls served by another hop than their chain's first, by why it was left",
            metrics.fallbacks.clone(),
        );
        registry.register(
            "model_hedges",
            "Calls asked of a second hop, by which of the two served",
            metrics.hedges.clone(),
        );
        registry.register(
            "model_cache_lookups",
            "Calls that wanted a kept answer, by whether there was one",
            metrics.cached.clone(),
        );
        registry.register(
            "model_fallback_answers",
            "Calls that got their caller's fallback answer",
            metrics.fallback_answers.clone(),
        );
        registry.register(
            "breaker_state",
            "What calls of an exit meet: 0 closed, 1 on trial, 2 half-open, 3 tripped",
            metrics.breakers.clone(),
        );
        metrics
    }

    pub(crate) fn hedged(&self, is_second: bool) {
        let won = if is_second { "second" } else { "first" };
        self.hedges.get_or_create(&HedgeLabels { won }).inc();
    }

    pub(crate) fn cached(&self, is_hit: bool) {
        let result = if is_hit { "hit" } else { "miss" };
        self.cached.get_or_create(&CacheLabels { result }).inc();
    }

    pub(crate) fn fallback_answer(&self) {
        self.fallback_answers.inc();
    }

    pub(crate) fn breaker(&self, report: &BreakerReport) {
        let labels = BreakerLabels { exit: report.name.clone(), endpoint: report.endpoint.clone() };
        self.breakers.get_or_create(&labels).set(match report.breaker.state {
            BreakerState::Closed => 0,
            BreakerState::OnTrial => 1,
            BreakerState::HalfOpen => 2,
            BreakerState::Tripped => 3,
        });
    }

    pub(crate) fn fell_back(&self, from: &ExitLabels, to: &ExitLabels, reason: Outcome) {
        let labels = FallbackLabels { from: from.to_string(), to: to.to_string(), reason };
        self.fallbacks.get_or_create(&labels).inc();
    }

    pub(crate) fn count(&self, exit: &ExitLabels, verdict: Outcome) {
        let labels = CallLabels { provider: exit.provider.clone(), model: exit.model.clone(), verdict };
        self.calls.get_or_create(&labels).inc();
    }

    pub(crate) fn first_token(&self, exit: &ExitLabels, waited: Duration) {
        self.first_token.get_or_create(exit).observe(waited.as_secs_f64());
    }
}
