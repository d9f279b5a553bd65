//! The safety net: looks at watches that have been silent, and at rows whose end somebody waits for.
//!
//! Without it a reader connected across a flush, or to a task that ended before it had a stream, would wait for ever.
//! A silent watch is read once, then its row; a row that has ended is believed only after one more read, since every
//! event is written before the end is stored. A task that nothing is known of costs Redis nothing: its row is read.

use std::sync::Arc;
use std::time::Duration;

use penstock_protocol::{EventId, TaskKey};
use penstock_store::StoreError;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::hub::{Inner, PAGE_EVENTS};
use super::watch::Watch;

/// Tasks looked at with one pipeline and one SELECT.
const LOOK_MAX: usize = 500;
/// Whole rows read with one SELECT: they hold requests and results.
const ROWS_MAX: usize = 50;
/// Pages read of one stream in one look; more are left to the next.
const PAGES_MAX: usize = 1000;

/// Why a look was broken off; the same watches are looked at again.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Queue(#[from] penstock_queue::QueueError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Looks until `token` is cancelled and the last reader has gone.
pub(super) async fn run(hub: Arc<Inner>, token: CancellationToken) {
    let shortest = hub.settings.silence.min(hub.settings.unknown_task_wait);
    let mut ticks = interval((shortest / 8).clamp(Duration::from_millis(20), Duration::from_secs(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_failing = false;
    loop {
        let mut keys = tokio::select! {
            _ = ticks.tick() => silent(&hub),
            () = hub.suspected.notified() => Vec::new(),
            () = hub.served_out(&token) => return,
        };
        loop {
            let room = LOOK_MAX.saturating_sub(keys.len());
            keys.extend(hub.take_suspects(room));
            if keys.is_empty() {
                break;
            }
            let turn: Vec<_> = keys.drain(..keys.len().min(LOOK_MAX)).collect();
            if let Err(error) = look(&hub, &turn).await {
                if !is_failing {
                    tracing::warn!(%error, "silent event streams cannot be looked at");
                }
                is_failing = true;
                // Silent ones show again at the next tick; the others are kept.
                turn.into_iter().for_each(|key| hub.suspect_later(key));
                break;
            }
            is_failing = false;
        }
    }
}

fn silent(hub: &Inner) -> Vec<TaskKey> {
    let (now, watches) = (Instant::now(), hub.watches());
    hub.metrics.watches.set(i64::try_from(watches.len()).unwrap_or(i64::MAX));
    let is_due = |watch: &Watch| {
        watch.is_silent(hub.settings.silence, now) || watch.is_in_doubt(hub.settings.unknown_task_wait, now)
    };
    watches.iter().filter(|(_, watch)| is_due(watch)).map(|(key, _)| *key).collect()
}

async fn look(hub: &Inner, keys: &[TaskKey]) -> Result<(), LookError> {
    read(hub, keys, Watch::is_known).await?;
    let keys: Vec<_> = {
        let watches = hub.watches();
        keys.iter().filter(|key| watches.get(key).is_some_and(Watch::is_served)).copied().collect()
    };
    let found = hub.store.statuses(&keys).await?;
    let now = Instant::now();
    let mut ended = Vec::new();
    {
        let mut watches = hub.watches();
        for key in &keys {
            let Some(watch) = watches.get_mut(key) else { continue };
            match found.get(key) {
                None => watch.is_unknown(hub.settings.unknown_task_wait, now),
                Some(status) if status.is_terminal() => ended.push(*key),
                Some(_) => watch.is_alive(now),
            }
            if watch.is_empty() {
                watches.remove(key);
            }
        }
    }
    let unread = read(hub, &ended, |_| true).await?;
    ended.retain(|key| !unread.contains(key));
    for keys in ended.chunks(ROWS_MAX) {
        let rows = hub.store.tasks(keys).await?;
        let (now, mut watches) = (Instant::now(), hub.watches());
        for row in rows {
            let Some(watch) = watches.get_mut(&row.key) else { continue };
            let rebuilt = watch.has_ended(&row, now);
            hub.metrics.rebuilt.inc_by(rebuilt as u64);
            if watch.is_empty() {
                watches.remove(&row.key);
            }
        }
    }
    Ok(())
}

/// Reads what the streams have more for followers, where the watch `is_wanted`; returns those not read to their end.
async fn read(hub: &Inner, keys: &[TaskKey], is_wanted: impl Fn(&Watch) -> bool) -> Result<Vec<TaskKey>, LookError> {
    let mut keys = keys.to_vec();
    for _ in 0..PAGES_MAX {
        let cursors: Vec<(TaskKey, EventId)> = {
            let watches = hub.watches();
            let wanted = |key: &TaskKey| watches.get(key).filter(|watch| watch.has_followers() && is_wanted(watch));
            keys.iter().filter_map(|key| Some((*key, wanted(key)?.read_after()))).collect()
        };
        if cursors.is_empty() {
            return Ok(Vec::new());
        }
        let pages = hub.queue.read_many_events(&cursors, PAGE_EVENTS).await?;
        keys = hub.pass_pages(&cursors, &pages);
    }
    Ok(keys)
}
