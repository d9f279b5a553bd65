//! What Redis still holds and MySQL does not: live records without a live row, and streams that nobody ended.

use std::collections::HashMap;
use std::time::Duration;

use penstock_protocol::{ErrorCode, Event, Status, TaskKey, clock};
use penstock_queue::{BookEntry, State};
use penstock_store::TaskRow;

use crate::reconcile::{PAGE_ROWS, SECOND_LOOK};
use crate::seen::store_seen;
use crate::{Drift, DriftKind, Recovery, RecoveryError};

impl Recovery {
    /// Ends records whose row has ended or is gone, after two looks; about `count` records from `cursor` on. Returns where
    /// to go on, 0 at the end.
    ///
    /// Registrations are left to their door, and running tasks to their worker for a lease after the row's end: it
    /// stores what its client saw, and publishes.
    pub(crate) async fn compare_records(
        &self,
        mut cursor: u64,
        count: usize,
        mend: bool,
        drift: &mut Drift,
    ) -> Result<u64, RecoveryError> {
        let (mut looked, mut suspects) = (0, Vec::new());
        loop {
            let page = self.queue.book(cursor, PAGE_ROWS as usize).await?;
            cursor = page.cursor;
            looked += page.entries.len();
            let live: Vec<_> = page.entries.into_iter().filter(is_live).collect();
            suspects.extend(self.without_live_row(live).await?.into_iter().map(|(entry, _)| entry.key));
            if cursor == 0 || looked >= count {
                break;
            }
        }
        if suspects.is_empty() {
            return Ok(cursor);
        }
        tokio::time::sleep(SECOND_LOOK).await;
        for keys in suspects.chunks(PAGE_ROWS as usize) {
            let again = self.queue.entries(keys).await?.into_iter().flatten().filter(is_live).collect();
            for (entry, row) in self.without_live_row(again).await? {
                self.note_leftover(&entry, row.as_ref(), mend, drift).await?;
            }
        }
        Ok(cursor)
    }

    async fn note_leftover(
        &self,
        entry: &BookEntry,
        row: Option<&TaskRow>,
        mend: bool,
        drift: &mut Drift,
    ) -> Result<(), RecoveryError> {
        let key = entry.key;
        let Some(row) = row else {
            let event = Event::RunError {
                message: "the task has no row any more".to_owned(),
                code: Some(ErrorCode::Internal),
                usage: Vec::new(),
            };
            let is_mended = mend && self.queue.close(key, entry.attempt, &event.to_json()).await?;
            drift.note(DriftKind::RecordWithoutRow, is_mended, format!("{key} is {:?} and has no row", entry.state));
            return Ok(());
        };
        if mend && row.status == Status::Cancelled && row.result.is_none() {
            store_seen(&self.queue, &self.store, key, entry.attempt).await?;
        }
        let is_mended = mend && self.publish(row).await?;
        let said = format!("{key} is {:?} in the queue and {} in its row", entry.state, row.status.as_str());
        drift.note(DriftKind::RecordOfEndedRow, is_mended, said);
        Ok(())
    }

    /// The entries whose row is gone (`None`) or has ended.
    async fn without_live_row(
        &self,
        entries: Vec<BookEntry>,
    ) -> Result<Vec<(BookEntry, Option<TaskRow>)>, RecoveryError> {
        let keys: Vec<_> = entries.iter().map(|entry| entry.key).collect();
        let statuses = self.store.statuses(&keys).await?;
        let ended: Vec<_> = keys.into_iter().filter(|key| statuses.get(key).is_some_and(|s| s.is_terminal())).collect();
        let mut rows: HashMap<TaskKey, TaskRow> =
            self.store.tasks(&ended).await?.into_iter().map(|row| (row.key, row)).collect();
        let found = entries.into_iter().filter_map(|entry| match rows.remove(&entry.key) {
            Some(row) => (!self.is_left_to_its_worker(&entry, &row)).then_some((entry, Some(row))),
            None => (!statuses.contains_key(&entry.key)).then_some((entry, None)),
        });
        Ok(found.collect())
    }

    fn is_left_to_its_worker(&self, entry: &BookEntry, row: &TaskRow) -> bool {
        let settings = self.settings.now();
        let patience = settings.queue.lease + settings.queue.beat_every;
        let since_end = clock::wall_ms().saturating_sub(row.ended_ms.unwrap_or(0));
        entry.state == State::Running && Duration::from_millis(since_end) < patience
    }

    /// Publishes the end of ended rows whose event stream has none; about `count` keys of the server from `cursor` on.
    /// Returns where to go on, 0 at the end.
    ///
    /// After a wipe no record leads there: a row that had ended and was not published would keep its readers waiting,
    /// and its stream for ever.
    pub(crate) async fn compare_streams(
        &self,
        mut cursor: u64,
        count: usize,
        mend: bool,
        drift: &mut Drift,
    ) -> Result<u64, RecoveryError> {
        let mut looked = 0;
        loop {
            let page = self.queue.unsealed_streams(cursor, PAGE_ROWS as usize).await?;
            cursor = page.cursor;
            looked += PAGE_ROWS as usize;
            // A task that Redis knows ends by its record.
            let known = self.queue.entries(&page.unsealed).await?;
            let free: Vec<_> =
                page.unsealed.into_iter().zip(known).filter(|(_, entry)| entry.is_none()).map(|(key, _)| key).collect();
            for row in self.store.tasks(&free).await?.iter().filter(|row| row.status.is_terminal()) {
                let is_mended = mend && self.publish(row).await?;
                drift.note(DriftKind::Stream, is_mended, format!("{} ended and its stream does not say so", row.key));
            }
            if cursor == 0 || looked >= count {
                return Ok(cursor);
            }
        }
    }
}

fn is_live(entry: &BookEntry) -> bool {
    !matches!(entry.state, State::Registered | State::Ended)
}
