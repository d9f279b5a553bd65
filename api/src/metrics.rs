//! What the door counts (law 14). Labels come from closed lists.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use penstock_telemetry::{Metrics, latency_histogram};

use crate::error::ProblemCode;

mod queue_gauges;
mod route;
mod verdict;

pub use queue_gauges::QueueGauges;
pub use route::{Route, StatusClass};
pub use verdict::Verdict;

/// The counters and histograms of the door. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ApiMetrics {
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
    problems: Family<ProblemLabels, Counter>,
    admissions: Family<VerdictLabels, Counter>,
    admit_seconds: Histogram,
    accept_seconds: Histogram,
    /// Requests being handled.
    pub requests_open: Gauge,
    /// Tasks that were accepted and left to the reconciler, because Redis did not answer `enqueue`.
    pub left_to_reconciler: Counter,
    /// Tasks cancelled because nobody watched them any more.
    pub disconnect_cancels: Counter,
    /// Age of the snapshot of keys.
    pub keys_age_seconds: Gauge,
    /// The queue as Redis counts it.
    pub queue: QueueGauges,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: Route,
    status: StatusClass,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: Route,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProblemLabels {
    code: ProblemCode,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerdictLabels {
    verdict: Verdict,
}

impl ApiMetrics {
    /// Registers everything in the process's registry.
    #[must_use]
    pub fn register(metrics: &Metrics) -> Self {
        let own = Self {
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(latency_histogram),
            problems: Family::default(),
            admissions: Family::default(),
            admit_seconds: latency_histogram(),
            accept_seconds: latency_histogram(),
            requests_open: Gauge::default(),
            left_to_reconciler: Counter::default(),
            disconnect_cancels: Counter::default(),
            keys_age_seconds: Gauge::default(),
            queue: QueueGauges::default(),
        };
        metrics.register(|to| {
            to.register("http_requests", "Requests answered", own.requests.clone());
            to.register("http_request_seconds", "Time to the head of the answer", own.request_seconds.clone());
            to.register("http_requests_open", "Requests being handled", own.requests_open.clone());
            to.register("problems", "Answers of no, by code", own.problems.clone());
            to.register("admissions", "Verdicts of the queue on submitted tasks", own.admissions.clone());
            to.register("admit_seconds", "Time of the admission script, retry included", own.admit_seconds.clone());
            to.register("accept_seconds", "Time to the commit of the accept record", own.accept_seconds.clone());
            to.register(
                "accepted_left_to_reconciler",
                "Tasks accepted while Redis did not answer",
                own.left_to_reconciler.clone(),
            );
            to.register(
                "disconnect_cancels",
                "Tasks cancelled because nobody watched them any more",
                own.disconnect_cancels.clone(),
            );
            to.register("keys_age_seconds", "Age of the snapshot of keys", own.keys_age_seconds.clone());
            own.queue.register(to);
        });
        own
    }

    /// Counts an answered request.
    pub fn answered(&self, route: Route, status: StatusClass, took: Duration) {
        self.requests.get_or_create(&RequestLabels { route, status }).inc();
        self.request_seconds.get_or_create(&RouteLabels { route }).observe(took.as_secs_f64());
    }

    /// Counts an answer of no.
    pub fn problem(&self, code: ProblemCode) {
        self.problems.get_or_create(&ProblemLabels { code }).inc();
    }

    /// Counts what the queue said of a submitted task.
    pub fn admission(&self, verdict: Verdict, took: Duration) {
        self.admissions.get_or_create(&VerdictLabels { verdict }).inc();
        self.admit_seconds.observe(took.as_secs_f64());
    }

    /// Notes how long an accept record took.
    pub fn accepted(&self, took: Duration) {
        self.accept_seconds.observe(took.as_secs_f64());
    }
}

/// Writes a label from the text of a closed enum.
fn write_label(text: &str, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
    EncodeLabelValue::encode(&text, encoder)
}
