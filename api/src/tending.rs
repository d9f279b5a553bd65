//! Looks after the queue while no worker does.
//!
//! Workers tick the queue with their beats. A door ticks it while no worker beats, and always runs the census and the
//! comparison of rows with the queue: accepted tasks are queued and the queue is rebuilt even without a worker.

use std::time::Duration;

use penstock_queue::{ConnectError, WorkerId};
use penstock_recovery::{Recovery, RecoveryMetrics};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::app::App;

/// An operator may have changed the server's eviction policy, under which accepted tasks can vanish.
const SERVER_JUDGED_EVERY: Duration = Duration::from_secs(3600);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// While workers beat, a door looks only so often whether they still do.
const LOOKS_SKIPPED: u32 = 4;

/// Starts the loops; they end with the process's shutdown.
pub(crate) fn start(app: &App, name: WorkerId) {
    let mut metrics = RecoveryMetrics::default();
    app.metrics.register(|registry| metrics = RecoveryMetrics::register(registry));
    let recovery = Recovery::new(app.queue.clone(), app.store.clone(), name, app.settings.clone(), metrics);
    app.tracker.spawn(recovery.run(app.shutdown.clone()));
    app.tracker.spawn(crate::events::serve_departures(app.clone()));
    let (tending, shutdown) = (app.clone(), app.shutdown.clone());
    app.tracker.spawn(async move { shutdown.run_until_cancelled(tick_alone(tending)).await });
    let (judging, shutdown) = (app.clone(), app.shutdown.clone());
    app.tracker.spawn(async move { shutdown.run_until_cancelled(judge_server(judging)).await });
}

/// Says loudly that Redis may delete accepted tasks, should it have been told to.
async fn judge_server(app: App) {
    loop {
        sleep(SERVER_JUDGED_EVERY).await;
        match app.queue.check_server().await {
            Err(error @ (ConnectError::Eviction { .. } | ConnectError::Version { .. })) => {
                tracing::error!(%error, "Redis cannot be trusted with tasks as it is");
            }
            Ok(()) | Err(ConnectError::Queue(_) | ConnectError::Url(_)) => {}
        }
    }
}

async fn tick_alone(app: App) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut skip = 0;
    loop {
        looks.tick().await;
        if skip > 0 {
            skip -= 1;
            continue;
        }
        match app.queue.gauges().await {
            Ok(gauges) if gauges.workers > 0 => skip = LOOKS_SKIPPED,
            Ok(_) => {
                if let Err(error) = app.queue.tick().await {
                    tracing::debug!(%error, "the queue was not ticked");
                }
            }
            Err(error) => tracing::debug!(%error, "the queue was not looked at"),
        }
    }
}
