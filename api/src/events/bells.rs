//! Hears the bell and serves the followers of every watch.
//!
//! Bells of one turn are heard together. A gap puts its watch *behind*: all that are behind are read in one pipeline,
//! a page each, while further bells are heard. After a lost subscription every served watch is behind.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use penstock_protocol::{EventId, TaskKey};
use penstock_queue::{Bell, BellSignal, Bells, QueueError, StoredEvent};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::hub::{Inner, PAGE_EVENTS};

/// Bells heard in one turn.
const TURN_BELLS_MAX: usize = 256;
/// Streams read in one pipeline.
const PIPELINE_MAX: usize = 500;
/// Pause after Redis did not answer.
const PAUSE: Duration = Duration::from_millis(200);

type Cursors = Vec<(TaskKey, EventId)>;
type Pages = Result<Vec<Vec<StoredEvent>>, QueueError>;

/// Hears until `token` is cancelled and the last reader has gone.
pub(super) async fn listen(hub: Arc<Inner>, token: CancellationToken) {
    let Some(bells) = subscribe(&hub, &token).await else { return };
    // A stream keeps a reconnection under way, whatever else happens meanwhile.
    let mut bells = stream::unfold(bells, async |mut bells| Some((bells.next().await, bells))).boxed();
    // Readers that came before the subscription stood are served from their streams.
    let mut behind = reconnected(&hub);
    let mut reading: Option<BoxFuture<'static, (Cursors, Pages)>> = None;
    loop {
        if reading.is_none() && !behind.is_empty() {
            reading = Some(Box::pin(read(Arc::clone(&hub), take(&hub, &mut behind))));
        }
        tokio::select! {
            Some(signal) = bells.next() => hear(&hub, &mut bells, signal, &mut behind),
            (cursors, pages) = finished(&mut reading) => pass(&hub, cursors, pages, &mut behind),
            () = hub.served_out(&token) => return,
        }
    }
}

async fn subscribe(hub: &Inner, token: &CancellationToken) -> Option<Bells> {
    loop {
        match hub.queue.bells().await {
            Ok(bells) => return Some(bells),
            Err(error) => tracing::warn!(%error, "the bell cannot be subscribed, trying again"),
        }
        token.run_until_cancelled(sleep(PAUSE)).await?;
    }
}

/// One turn: `first` and whatever else is there.
fn hear(hub: &Inner, bells: &mut BoxStream<'_, BellSignal>, first: BellSignal, behind: &mut HashSet<TaskKey>) {
    let began = Instant::now();
    let mut turn = Vec::new();
    let mut next = Some(first);
    while let Some(signal) = next {
        match signal {
            BellSignal::Bell(bell) => turn.push(bell),
            BellSignal::Reconnected => {
                hub.metrics.bells_lost.inc();
                behind.extend(reconnected(hub));
            }
        }
        next = if turn.len() < TURN_BELLS_MAX { bells.next().now_or_never().flatten() } else { None };
    }
    ring(hub, turn, behind);
    hub.metrics.turn_seconds.observe(began.elapsed().as_secs_f64());
}

fn ring(hub: &Inner, turn: Vec<Bell>, behind: &mut HashSet<TaskKey>) {
    let (now, mut watches) = (Instant::now(), hub.watches());
    for bell in turn {
        let key = bell.key;
        let Some(watch) = watches.get_mut(&key) else { continue };
        hub.metrics.bells.inc();
        let todo = watch.ring(bell, now);
        if hub.follow_up(key, todo, &mut watches) {
            hub.metrics.gaps_read.inc();
            behind.insert(key);
        }
    }
}

/// Bells may be missing: readers that come in read again, and every served watch is behind.
fn reconnected(hub: &Inner) -> HashSet<TaskKey> {
    let mut watches = hub.watches();
    watches.values_mut().for_each(|watch| watch.lost_bells());
    watches.iter().filter(|(_, watch)| watch.is_served()).map(|(key, _)| *key).collect()
}

/// Takes a pipeline of watches that are behind, with where each is read from.
fn take(hub: &Inner, behind: &mut HashSet<TaskKey>) -> Cursors {
    let keys: Vec<_> = behind.iter().take(PIPELINE_MAX).copied().collect();
    for key in &keys {
        behind.remove(key);
    }
    let watches = hub.watches();
    keys.into_iter().filter_map(|key| Some((key, watches.get(&key)?.read_after()))).collect()
}

async fn read(hub: Arc<Inner>, cursors: Cursors) -> (Cursors, Pages) {
    let pages = hub.queue.read_many_events(&cursors, PAGE_EVENTS).await;
    if pages.is_err() {
        sleep(PAUSE).await;
    }
    (cursors, pages)
}

/// Waits for the read under way, for ever if there is none. Cancel-safe.
async fn finished(reading: &mut Option<BoxFuture<'static, (Cursors, Pages)>>) -> (Cursors, Pages) {
    let read = match reading {
        Some(read) => read.await,
        None => std::future::pending().await,
    };
    *reading = None;
    read
}

fn pass(hub: &Inner, cursors: Cursors, pages: Pages, behind: &mut HashSet<TaskKey>) {
    match pages {
        Ok(pages) => behind.extend(hub.pass_pages(&cursors, &pages)),
        Err(error) => {
            tracing::debug!(%error, "streams could not be read, trying again");
            behind.extend(cursors.into_iter().map(|(key, _)| key));
        }
    }
}
