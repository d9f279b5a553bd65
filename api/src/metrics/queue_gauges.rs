//! The queue's sums as gauges, read from Redis when they are scraped.

use std::sync::atomic::AtomicU64;

use penstock_queue::Gauges;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// One gauge for each sum. Every door exports the same queue: take the maximum over doors, not the sum.
#[derive(Clone, Debug, Default)]
pub struct QueueGauges {
    depth: Gauge,
    in_line: Gauge,
    held: Gauge,
    handed_out: Gauge,
    quarantined: Gauge,
    quarantine_running: Gauge,
    delayed: Gauge,
    running: Gauge,
    slots: Gauge,
    workers: Gauge,
    is_open: Gauge,
    is_answering: Gauge,
    mean_service_seconds: Gauge<f64, AtomicU64>,
}

impl QueueGauges {
    pub(super) fn register(&self, to: &mut Registry) {
        to.register("queue_depth_tasks", "Tasks that wait, as admission counts them", self.depth.clone());
        to.register("queue_line_tasks", "Tasks in line", self.in_line.clone());
        to.register("queue_held_tasks", "Tasks that wait for their thread", self.held.clone());
        to.register("queue_handed_out_tasks", "Tasks handed to idle slots", self.handed_out.clone());
        to.register("queue_quarantined_tasks", "Tasks that wait for the quarantine lane", self.quarantined.clone());
        to.register(
            "queue_quarantine_running_tasks",
            "Tasks that run in the quarantine lane",
            self.quarantine_running.clone(),
        );
        to.register("queue_delayed_tasks", "Tasks that wait to be tried again", self.delayed.clone());
        to.register("queue_running_tasks", "Tasks under a lease", self.running.clone());
        to.register("queue_slots", "Slots of all living workers", self.slots.clone());
        to.register("queue_workers", "Living workers", self.workers.clone());
        to.register("queue_open", "1 = tasks are admitted", self.is_open.clone());
        to.register("queue_answering", "1 = Redis answered this scrape", self.is_answering.clone());
        to.register("queue_mean_service_seconds", "Mean time of a task on a slot", self.mean_service_seconds.clone());
    }

    /// Takes over the sums; without them the last ones stay and `queue_answering` is 0.
    pub fn set(&self, sums: Option<&Gauges>) {
        self.is_answering.set(i64::from(sums.is_some()));
        let Some(sums) = sums else { return };
        for (gauge, sum) in [
            (&self.depth, sums.depth()),
            (&self.in_line, sums.line),
            (&self.held, sums.held),
            (&self.handed_out, sums.handed_out),
            (&self.quarantined, sums.quarantined),
            (&self.quarantine_running, sums.quarantine_running),
            (&self.delayed, sums.delayed),
            (&self.running, sums.running),
            (&self.slots, sums.slots),
            (&self.workers, sums.workers),
            (&self.is_open, u64::from(sums.is_open)),
        ] {
            gauge.set(i64::try_from(sum).unwrap_or(i64::MAX));
        }
        let mean_ms = sums.mean_service_ms.and_then(|ms| u32::try_from(ms).ok()).unwrap_or(0);
        self.mean_service_seconds.set(f64::from(mean_ms) / 1000.0);
    }
}
