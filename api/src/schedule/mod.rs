//! Cron entries: a task for each fire time, exactly once, whatever dies and however many doors run.
//!
//! `cron` knows fire times, `misfire` decides about late ones, `fire` carries one out, `scheduler` is the loop, `door`
//! the API. Every door runs the loop; nothing depends on a leader.

mod cron;
mod door;
mod fire;
mod metrics;
mod misfire;
mod request;
mod scheduler;

pub(crate) use request::ScheduleRequest;
#[doc(hidden)]
pub use scheduler::{Fault, Scheduler, Step};

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::metrics::ScheduleMetrics;
use crate::app::App;

/// The routes of cron entries.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(door::create_schedule, door::list_schedules))
        .routes(routes!(door::read_schedule, door::put_schedule, door::delete_schedule))
        .routes(routes!(door::fire_now))
        .routes(routes!(door::list_fires))
}

/// The first fire of an expression after a moment. Errors: an expression or a zone that this version does not know.
pub(crate) fn next_fire(expression: &str, zone: &str, after_ms: u64) -> anyhow::Result<Option<u64>> {
    Ok(cron::Cron::parse(expression, zone)?.next(after_ms))
}

/// Starts to fire; ends with the process's shutdown.
pub(crate) fn start(app: &App) {
    let mut metrics = ScheduleMetrics::default();
    app.metrics.register(|registry| metrics = ScheduleMetrics::register(registry));
    let (scheduler, shutdown) = (Scheduler::new(app.clone(), metrics), app.shutdown.clone());
    app.tracker.spawn(async move { shutdown.run_until_cancelled(Box::pin(scheduler.run())).await });
}
