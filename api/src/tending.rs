//! Looks after the queue while no worker does.
//!
//! Workers tick the queue with their beats. A door ticks it while no worker beats, and always runs the census and the
//! comparison of rows with the queue: accepted tasks are queued and the queue is rebuilt even without a worker.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::app::App;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// While workers beat, a door looks only so often whether they still do.
const LOOKS_SKIPPED: u32 = 4;

/// Starts the loops; they end with the process's shutdown.
pub(crate) fn start(app: &App) {
    app.tracker.spawn(app.recovery.clone().run(app.shutdown.clone()));
    app.tracker.spawn(crate::events::serve_departures(app.clone()));
    let (tending, shutdown) = (app.clone(), app.shutdown.clone());
    app.tracker.spawn(async move { shutdown.run_until_cancelled(tick_alone(tending)).await });
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
