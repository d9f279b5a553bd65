//! The loop that fires entries: one door of the fleet looks, whoever changed an entry looks too, and a claim decides.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use penstock_store::{ScheduleDue, StoreError};
use tokio::time::sleep;

use super::fire::FireError;
use super::metrics::ScheduleMetrics;
use crate::app::App;

/// How often one door of the fleet looks for entries that are due, beside those that it knows to come.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// A turn is over before the next look.
const LOOK_TURN: Duration = Duration::from_millis(4800);
/// Least time between two looks.
const LOOK_GAP: Duration = Duration::from_millis(50);
/// Entries seen in one look; more are seen by the next, at once.
const LOOK_ROWS: u32 = 100;
/// A claimed entry comes up again after this long if its process dies: longer than a submission may take.
const LEASE: Duration = Duration::from_secs(40);

/// A point between two steps of a fire, at which a process may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The entry is claimed.
    Claimed,
    /// The fire is marked as begun.
    Begun,
    /// Its task is submitted, or refused.
    Submitted,
    /// The cursor is moved.
    Moved,
}

impl Step {
    /// Every point.
    pub const ALL: [Self; 4] = [Self::Claimed, Self::Begun, Self::Submitted, Self::Moved];
}

/// Says whether the process dies after a step; tests only.
#[doc(hidden)]
pub type Fault = Arc<dyn Fn(Step) -> bool + Send + Sync>;

/// What fires entries. Cheap to clone.
#[derive(Clone)]
pub struct Scheduler {
    pub(super) app: App,
    pub(super) metrics: ScheduleMetrics,
    lease: Duration,
    fault: Option<Fault>,
}

impl Scheduler {
    pub(super) fn new(app: App, metrics: ScheduleMetrics) -> Self {
        Self { app, metrics, lease: LEASE, fault: None }
    }

    /// One that dies where `fault` says, and whose claims last for `lease`.
    #[doc(hidden)]
    #[must_use]
    pub fn with_fault(app: App, lease: Duration, fault: Fault) -> Self {
        Self { app, metrics: ScheduleMetrics::default(), lease, fault: Some(fault) }
    }

    /// Fires until dropped. A fire that is dropped on its way is taken up by whoever looks next.
    pub(super) async fn run(self) {
        let (mut wait, mut is_away) = (LOOK_EVERY, false);
        loop {
            let is_own = tokio::select! {
                () = self.app.store.schedule_woken() => true,
                () = sleep(wait) => {
                    // Without Redis everybody looks, though admission will say no.
                    wait < LOOK_EVERY || self.app.queue.take_turn("schedule", LOOK_TURN).await.unwrap_or(true)
                }
            };
            if !is_own {
                wait = LOOK_EVERY;
                continue;
            }
            let looked = self.look().await;
            if looked.is_err() != is_away {
                is_away = looked.is_err();
                match &looked {
                    Ok(_) => tracing::info!("schedules are looked after again"),
                    Err(error) => tracing::warn!(%error, "schedules cannot be looked after; trying on"),
                }
            }
            wait = looked.ok().flatten().map_or(LOOK_EVERY, |next_in| next_in.clamp(LOOK_GAP, LOOK_EVERY));
        }
    }

    /// Handles every entry that is due, once; returns the time until the next one, if one is known.
    #[doc(hidden)]
    pub async fn look(&self) -> Result<Option<Duration>, StoreError> {
        let next = self.app.store.next_schedules(LOOK_ROWS).await?;
        let (due, later): (Vec<_>, Vec<_>) = next.into_iter().partition(|due| due.in_ms == 0);
        let is_more = !due.is_empty();
        stream::iter(due)
            .for_each_concurrent(self.app.settings.now().schedule.concurrency, |due| async move {
                if let Err(error) = self.handle(&due).await {
                    tracing::debug!(schedule.id = %due.id, %error, "an entry is looked at again after its lease");
                }
            })
            .await;
        let next_in = later.first().map(|due| Duration::from_millis(due.in_ms));
        // What was handled may be due again: fires that are made up for come one after the other.
        Ok(if is_more { Some(LOOK_GAP) } else { next_in })
    }

    async fn handle(&self, due: &ScheduleDue) -> Result<(), FireError> {
        let lease_ms = u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX);
        match self.app.store.claim_schedule(due, lease_ms).await? {
            Some(row) => Box::pin(self.fire(&row)).await,
            None => Ok(()),
        }
    }

    /// A point at which the process may die.
    pub(super) fn passed(&self, step: Step) -> Result<(), FireError> {
        match &self.fault {
            Some(fault) if fault(step) => Err(FireError::Stopped(step)),
            _ => Ok(()),
        }
    }
}
