//! The comparison of rows with the book, continuously and in pages.
//!
//! It may be late or doubled: tombstone, claim and seal each stop a revival.

use penstock_protocol::{Status, clock};
use penstock_queue::{Census, EnqueueVerdict};
use penstock_store::TaskRow;

use crate::{Recovery, RecoveryError, crashes_of};

/// Rows compared in one pass; the next pass goes on behind them.
const PAGE_ROWS: u32 = 500;

impl Recovery {
    /// Queues accepted rows that Redis does not know.
    ///
    /// Rows younger than `age_min` are left to their door, and running rows to their workers while an adoption may still
    /// come. (Redis holding an ended row is found by the claim, the beat or the reaper: each reads the row first.)
    pub(crate) async fn compare(&self, census: &Census) -> Result<(), RecoveryError> {
        // One process of the fleet is enough each time, whichever comes first.
        if !self.queue.take_turn("compare", self.settings.now().queue.reconcile_every / 2).await? {
            return Ok(());
        }
        let settings = self.settings.now();
        // Live workers adopt their tasks in this time after a rebuild.
        let adoption = settings.queue.lease + settings.queue.beat_every;
        let may_adopt = u128::from(census.since_wipe_ms) < adoption.as_millis();
        let mut drift = 0_i64;
        let mut page = self.store.open_tasks(None, PAGE_ROWS).await?;
        while let Some(last) = page.last() {
            let after = (last.place.clone(), last.key);
            let rows: Vec<_> = page
                .iter()
                .filter(|row| self.is_old_enough(row) && !(row.status == Status::Running && may_adopt))
                .collect();
            let keys: Vec<_> = rows.iter().map(|row| row.key).collect();
            let known = self.queue.known(&keys).await?;
            for (row, _) in rows.into_iter().zip(known).filter(|(_, is_known)| !is_known) {
                if let EnqueueVerdict::Queued { .. } =
                    self.queue.enqueue(&self.queued_task(row, crashes_of(row))).await?
                {
                    drift += 1;
                    self.metrics.returned.inc();
                    tracing::warn!(
                        task.id = %row.key,
                        status = row.status.as_str(),
                        "a task that the queue did not know was queued"
                    );
                }
            }
            page = self.store.open_tasks(Some(&after), PAGE_ROWS).await?;
        }
        self.metrics.drift.set(drift);
        Ok(())
    }

    /// By the clock of the machine that compares and of the door that accepted; a skew shifts the wait, nothing more,
    /// since an enqueue beside the door's own changes nothing.
    fn is_old_enough(&self, row: &TaskRow) -> bool {
        let age_min = u64::try_from(self.settings.now().queue.reconcile_age_min.as_millis()).unwrap_or(u64::MAX);
        matches!(row.status, Status::Queued | Status::Running)
            && clock::wall_ms().saturating_sub(row.accepted_ms) >= age_min
    }
}
