//! What a worker counts. Labels come from closed lists.

use std::sync::atomic::AtomicU64;

use penstock_telemetry::latency_histogram;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Counters of one worker. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct WorkerMetrics {
    /// Attempts by how they ended.
    pub(crate) attempts: Family<AttemptLabels, Counter>,
    /// Attempts running now.
    pub(crate) running: Gauge,
    /// Seconds from the claim to the end of an attempt.
    pub(crate) attempt_seconds: Histogram,
    /// Beats that Redis did not answer.
    pub(crate) beats_missed: Counter,
    /// Milliseconds since the consume loop last turned, at the latest look.
    pub(crate) intake_silence_ms: Gauge<i64>,
    /// Lost tasks that this worker took care of.
    pub(crate) recovered: Counter<u64, AtomicU64>,
    /// Tasks taken back after Redis forgot them.
    pub(crate) adopted: Counter,
    /// Writes of attempts that had been taken away, which were refused.
    late_writes: Family<LateWriteLabels, Counter>,
    /// Leases that a beat found lost.
    pub(crate) leases_lost: Counter,
    /// Agents that did not stop when they had to, and were dropped.
    pub(crate) forced_stops: Counter,
    /// Agents that did not even let themselves be dropped.
    pub(crate) wedges: Counter,
    /// Of these, how many still hold a thread.
    pub(crate) wedged: Gauge<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LateWriteLabels {
    write: LateWrite,
}

/// What an attempt wrote after it had been taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum LateWrite {
    /// Events.
    Event,
    /// Its end, or its wish to be tried again.
    End,
}

/// Label of [`WorkerMetrics::attempts`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct AttemptLabels {
    /// How it ended.
    pub(crate) end: AttemptEnd,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum AttemptEnd {
    /// With a result.
    Succeeded,
    /// With an error that ended the task.
    Failed,
    /// With an error; the task waits for another attempt.
    Retried,
    /// With an error; its attempts have run out.
    Dead,
    /// Its caller cancelled the task.
    Cancelled,
    /// The deadline passed.
    Expired,
    /// The lease was lost; nothing was written.
    Lost,
    /// Given back on shutdown.
    HandedBack,
    /// It never began: the entry was stale or the task had ended.
    Stale,
}

impl WorkerMetrics {
    /// Registers everything.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            attempts: Family::default(),
            running: Gauge::default(),
            attempt_seconds: latency_histogram(),
            beats_missed: Counter::default(),
            intake_silence_ms: Gauge::default(),
            recovered: Counter::default(),
            adopted: Counter::default(),
            late_writes: Family::default(),
            leases_lost: Counter::default(),
            forced_stops: Counter::default(),
            wedges: Counter::default(),
            wedged: Gauge::default(),
        };
        registry.register("worker_attempts", "Attempts by how they ended", metrics.attempts.clone());
        registry.register("worker_running_count", "Attempts running now", metrics.running.clone());
        registry.register(
            "worker_attempt_seconds",
            "Seconds from the claim to the end of an attempt",
            metrics.attempt_seconds.clone(),
        );
        registry.register("worker_beats_missed", "Beats that Redis did not answer", metrics.beats_missed.clone());
        registry.register(
            "worker_intake_silence_ms",
            "Milliseconds since the consume loop last turned",
            metrics.intake_silence_ms.clone(),
        );
        registry.register("worker_recovered", "Lost tasks that this worker took care of", metrics.recovered.clone());
        registry.register("worker_adopted", "Tasks taken back after Redis forgot them", metrics.adopted.clone());
        registry.register(
            "worker_late_writes",
            "Writes refused because the attempt had been taken away",
            metrics.late_writes.clone(),
        );
        registry.register("worker_leases_lost", "Leases that a beat found lost", metrics.leases_lost.clone());
        registry.register(
            "worker_forced_stops",
            "Agents dropped because they did not stop",
            metrics.forced_stops.clone(),
        );
        registry.register("worker_wedges", "Agents that did not let themselves be dropped", metrics.wedges.clone());
        registry.register("worker_wedged_count", "Wedged agents that still hold a thread", metrics.wedged.clone());
        metrics
    }

    /// Counts a refused write of an attempt that had been taken away.
    pub(crate) fn refused(&self, write: LateWrite) {
        self.late_writes.get_or_create(&LateWriteLabels { write }).inc();
    }

    /// Counts the end of an attempt.
    pub(crate) fn ended(&self, end: AttemptEnd) {
        self.attempts.get_or_create(&AttemptLabels { end }).inc();
    }
}
