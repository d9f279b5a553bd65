//! The one repair path: wipe, set the terms, put back every row that has not ended by place, open admission.

use penstock_protocol::Status;
use penstock_queue::Census;

use crate::{Drift, Recovery, RecoveryError};

/// Rows read at once.
const PAGE_ROWS: u32 = 500;

impl Recovery {
    /// Rebuilds the book from MySQL, unless somebody else does.
    ///
    /// Queued rows are put back by place. Running rows are left to their workers, who adopt them with their next beat;
    /// those that nobody adopts are queued by a later comparison. If this process dies on the way, admission stays closed
    /// and the next one begins anew.
    pub(crate) async fn rebuild(&self, census: &Census) -> Result<(), RecoveryError> {
        // MySQL first: without it a wipe would only make things worse.
        let (mut page, terms) = (self.store.open_tasks(None, PAGE_ROWS).await?, self.terms().await?);
        let Some(token) = self.queue.wipe(census).await? else { return Ok(()) };
        tracing::warn!(state = ?census.state, "the queue in Redis is not whole: it is rebuilt from MySQL");
        // Before anything is handed out: what was paused stays paused.
        self.set_terms(token.book(), &terms).await?;
        let mut count = 0_u64;
        while let Some(last) = page.last() {
            let after = (last.place.clone(), last.key);
            for row in page.iter().filter(|row| row.status == Status::Queued) {
                self.queue.enqueue(&self.queued_task(row, row.crashes)).await?;
                count += 1;
            }
            page = self.store.open_tasks(Some(&after), PAGE_ROWS).await?;
        }
        if self.queue.open(&token).await? {
            self.metrics.rebuilds.inc();
            tracing::warn!(tasks = count, "the queue is rebuilt: {count} tasks wait");
        }
        // Rows that had ended and were not published yet: no record leads to their streams any more.
        let mut drift = Drift::default();
        self.compare_streams(0, usize::MAX, true, &mut drift).await?;
        Ok(())
    }
}
