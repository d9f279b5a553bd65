//! Tasks with `on_disconnect: cancel`: cancelled once nobody has watched them, at any door, for the grace.
//!
//! A door that sees the last of its watchers leave notes the task in Redis; a door that has a watcher of a noted task takes
//! the note back; whoever meets a due one cancels it. A watcher that goes because this process stops, or dies, has not
//! left: nothing is noted, and the task goes on. Tasks that ended, and all that did not ask for it, cost one look at
//! their rows, many in one statement.

use std::time::Duration;

use penstock_protocol::TaskKey;
use penstock_queue::QueueError;
use tokio::time::sleep;

use super::hub::Inner;
use crate::app::App;
use crate::error::Problem;
use crate::task::cancel;

/// Departures looked at in one statement.
const ROWS_MAX: usize = 500;
/// Noted tasks looked at in one round; more wait for the next.
const NOTES_MAX: usize = 200;
/// A door looks at the notes four times in a grace, and at least so often.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(2);

/// Serves departures until the process stops.
pub(crate) async fn run(app: App) {
    let mut is_away = false;
    loop {
        let grace = app.settings.now().events.disconnect_grace;
        tokio::select! {
            () = app.shutdown.cancelled() => return,
            () = sleep((grace / 4).min(LOOK_EVERY_MAX)) => {}
        }
        let looked = async {
            note(&app, grace).await?;
            judge(&app).await
        };
        let looked = Box::pin(looked).await;
        if let Err(problem) = &looked
            && !is_away
        {
            tracing::warn!(code = problem.code().as_str(), "tasks without watchers are not looked after; trying on");
        }
        is_away = looked.is_err();
    }
}

/// Notes the tasks that lost their last watcher here.
async fn note(app: &App, grace: Duration) -> Result<(), Problem> {
    let hub = app.hub.inner();
    loop {
        let departed = hub.take_departed(ROWS_MAX);
        if departed.is_empty() {
            return Ok(());
        }
        let noted = async {
            let wanted =
                app.store.cancelled_on_disconnect(&departed).await.map_err(|error| Problem::of_store(&error))?;
            let gone: Vec<_> = wanted.into_iter().filter(|key| !hub.is_watched(*key)).collect();
            app.queue.note_gone(&gone, grace).await.map_err(silent)
        };
        if let Err(problem) = noted.await {
            departed.iter().for_each(|key| hub.departed(*key));
            return Err(problem);
        }
    }
}

/// Takes back the notes of tasks that are watched here, and cancels those that are due.
async fn judge(app: &App) -> Result<(), Problem> {
    let hub: &Inner = app.hub.inner();
    for gone in app.queue.gone(NOTES_MAX).await.map_err(silent)? {
        let is_watched = hub.is_watched(gone.key);
        let is_over = is_watched || gone.is_due;
        if is_over && app.queue.take_gone(gone.key).await.map_err(silent)? && !is_watched {
            end(app, gone.key).await?;
        }
    }
    Ok(())
}

async fn end(app: &App, key: TaskKey) -> Result<(), Problem> {
    match cancel(app.clone(), key).await {
        Ok(_) => {
            app.counts.disconnect_cancels.inc();
            tracing::info!(task.id = %key, "a task that nobody watches any more was cancelled, as its request said");
            Ok(())
        }
        Err(problem) => {
            // Noted again, it is due at once.
            app.queue.note_gone(&[key], Duration::ZERO).await.map_err(silent)?;
            Err(problem)
        }
    }
}

fn silent(error: QueueError) -> Problem {
    Problem::unavailable(error.to_string())
}
