//! The loop that looks after the queue, and what it needs.

use std::time::Duration;

use penstock_config::LiveSettings;
use penstock_queue::{CensusState, Queue, WorkerId};
use penstock_store::Store;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::reconcile::Walk;
use crate::server::Trouble;
use crate::{RecoveryError, RecoveryMetrics};

/// How often the book is counted, by one process of the fleet.
const CENSUS_EVERY: Duration = Duration::from_secs(1);
/// A turn is over before the next look, so that every second has its census.
const CENSUS_TURN: Duration = Duration::from_millis(900);

/// What mends the queue. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recovery {
    pub(crate) queue: Queue,
    pub(crate) store: Store,
    pub(crate) reaper: WorkerId,
    pub(crate) settings: LiveSettings,
    pub(crate) metrics: RecoveryMetrics,
    pub(crate) trouble: Trouble,
}

impl Recovery {
    /// Recovery on behalf of `reaper`: a worker's id, or a door's own.
    #[must_use]
    pub fn new(queue: Queue, store: Store, reaper: WorkerId, settings: LiveSettings, metrics: RecoveryMetrics) -> Self {
        Self { queue, store, reaper, settings, metrics, trouble: Trouble::default() }
    }

    /// Looks after queue, table and server until `stop` is cancelled.
    pub async fn run(self, stop: CancellationToken) {
        let all = Box::pin(async {
            tokio::join!(self.look_after(&stop), self.retain(), self.judge_server());
        });
        stop.run_until_cancelled(all).await;
    }

    /// A census each second, a comparison each period.
    ///
    /// While Redis or MySQL is away it says so once, and once when they are back.
    async fn look_after(&self, stop: &CancellationToken) {
        let mut walk = Walk::default();
        let mut every = interval(CENSUS_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut compared = Instant::now();
        let (mut is_away, mut cap_set) = (false, None);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = every.tick() => {}
            }
            let is_due = compared.elapsed() >= self.settings.now().queue.reconcile_every;
            let step = tokio::select! {
                () = stop.cancelled() => return,
                step = self.step(is_due, &mut walk, &mut cap_set) => step,
            };
            match &step {
                Ok(_) if is_away => tracing::info!("the queue is looked after again"),
                Err(error) if !is_away => tracing::warn!(%error, "the queue cannot be looked after; trying on"),
                _ => {}
            }
            is_away = step.is_err();
            if is_due && matches!(step, Ok(true)) {
                compared = Instant::now();
            }
        }
    }

    /// One look: rebuild what is broken, else bring the terms in line, and compare where it is due. False while another
    /// process has the turn.
    ///
    /// `cap_set`: the usual cap that this process set last. Another one in its settings counts whatever the revision says.
    async fn step(&self, compare: bool, walk: &mut Walk, cap_set: &mut Option<u64>) -> Result<bool, RecoveryError> {
        if !self.queue.take_turn("census", CENSUS_TURN).await? {
            return Ok(false);
        }
        let census = self.queue.census().await?;
        // Beats tick too, and less often: a task that waited for a time is not late by more than one look.
        if census.is_tick_due {
            self.queue.tick().await?;
        }
        let abandoned = census.state == CensusState::Closed && census.since_wipe_ms > self.rebuild_patience_ms();
        if census.state == CensusState::Broken || abandoned {
            self.rebuild(&census).await?;
        } else if census.state == CensusState::Open {
            self.bring_in_line(&census, cap_set).await?;
            if compare {
                self.compare(&census, walk).await?;
            }
        }
        Ok(true)
    }

    /// A rebuild that has not opened by then was left by a process that died.
    fn rebuild_patience_ms(&self) -> u64 {
        u64::try_from(self.settings.now().queue.reconcile_every.as_millis()).unwrap_or(u64::MAX)
    }
}
