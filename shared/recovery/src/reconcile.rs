//! The comparison of rows with the book, both ways, continuously and in pages.
//!
//! It may be late or doubled: tombstone, claim and seal each stop a revival. What may be a change under way counts as a
//! difference only if a second look finds the same.

use std::time::Duration;

use penstock_protocol::{Status, TaskKey, clock};
use penstock_queue::{Census, EnqueueVerdict};
use penstock_store::TaskRow;

use crate::audit::AuditCursors;
use crate::{Drift, DriftKind, Recovery, RecoveryError, crashes_of};

/// Rows or records compared at once.
pub(crate) const PAGE_ROWS: u32 = 500;
/// Records that one pass of a running process looks at; the next pass goes on behind them.
const PASS_RECORDS: usize = 10_000;
/// Keys of the server that one pass looks at for streams.
const PASS_KEYS: usize = 2_000;
/// Pages of each part of the audit in one pass: some thousand tenants and threads.
const PASS_AUDIT_PAGES: usize = 10;
/// What an end needs from the row to the stream, and an acceptance from the row to the line, is long over by then.
pub(crate) const SECOND_LOOK: Duration = Duration::from_secs(2);

/// How far the walks of a process have come.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) records: u64,
    pub(crate) streams: u64,
    pub(crate) audit: AuditCursors,
}

impl Recovery {
    /// Compares and mends, as much as one pass may cost. Nothing while another process has the turn.
    pub(crate) async fn compare(&self, census: &Census, walk: &mut Walk) -> Result<(), RecoveryError> {
        // One process of the fleet is enough each time, whichever comes first.
        if !self.queue.take_turn("compare", self.settings.now().queue.reconcile_every / 2).await? {
            return Ok(());
        }
        let mut drift = Drift::default();
        self.compare_rows(census, true, &mut drift).await?;
        walk.records = self.compare_records(walk.records, PASS_RECORDS, true, &mut drift).await?;
        walk.streams = self.compare_streams(walk.streams, PASS_KEYS, true, &mut drift).await?;
        self.audit(&mut walk.audit, PASS_AUDIT_PAGES, true, &mut drift).await?;
        self.metrics.found(&drift);
        for kind in DriftKind::ALL {
            let found = drift.of(kind);
            if found.count > 0 {
                let first = found.examples.first().map_or("", String::as_str);
                tracing::warn!(count = found.count, first, "the queue was mended: {}", kind.title());
            }
        }
        Ok(())
    }

    /// Queues rows that have not ended and that Redis does not know.
    ///
    /// Rows younger than `reconcile_age_min` are left to their door, and running rows to their workers while an adoption
    /// may still come. Redis judges an enqueue in one step, so what it took was a difference.
    pub(crate) async fn compare_rows(
        &self,
        census: &Census,
        mend: bool,
        drift: &mut Drift,
    ) -> Result<u64, RecoveryError> {
        let settings = self.settings.now();
        // Live workers adopt their tasks in this time after a rebuild.
        let adoption = settings.queue.lease + settings.queue.beat_every;
        let may_adopt = u128::from(census.since_wipe_ms) < adoption.as_millis();
        let (mut rows, mut suspects) = (0, Vec::new());
        let mut page = self.store.open_keys(None, PAGE_ROWS).await?;
        while let Some(last) = page.last().cloned() {
            rows += page.len() as u64;
            let keys: Vec<_> = page.iter().map(|(_, key)| *key).collect();
            let unknown = self.unknown(&keys).await?;
            for row in self.store.tasks(&unknown).await? {
                if !self.is_due(&row) || (row.status == Status::Running && may_adopt) {
                    continue;
                }
                if !mend {
                    suspects.push(row.key);
                } else if let EnqueueVerdict::Queued { .. } =
                    self.queue.enqueue(&self.queued_task(&row, crashes_of(&row))).await?
                {
                    self.metrics.returned.inc();
                    drift.note(DriftKind::RowWithoutRecord, true, said(&row));
                }
            }
            page = self.store.open_keys(Some(&last), PAGE_ROWS).await?;
        }
        if !suspects.is_empty() {
            tokio::time::sleep(SECOND_LOOK).await;
        }
        for keys in suspects.chunks(PAGE_ROWS as usize) {
            let unknown = self.unknown(keys).await?;
            for row in self.store.tasks(&unknown).await?.iter().filter(|row| self.is_due(row)) {
                drift.note(DriftKind::RowWithoutRecord, false, said(row));
            }
        }
        Ok(rows)
    }

    /// Those of `keys` that Redis does not know, or only as a registration.
    async fn unknown(&self, keys: &[TaskKey]) -> Result<Vec<TaskKey>, RecoveryError> {
        let known = self.queue.known(keys).await?;
        Ok(keys.iter().zip(known).filter(|(_, is_known)| !is_known).map(|(key, _)| *key).collect())
    }

    /// By the clock of the machine that compares and of the door that accepted; a skew shifts the wait, nothing more,
    /// since an enqueue beside the door's own changes nothing.
    fn is_due(&self, row: &TaskRow) -> bool {
        let age_min = self.settings.now().queue.reconcile_age_min;
        matches!(row.status, Status::Queued | Status::Running)
            && u128::from(clock::wall_ms().saturating_sub(row.accepted_ms)) >= age_min.as_millis()
    }
}

fn said(row: &TaskRow) -> String {
    format!("{} is {} and was not in the queue", row.key, row.status.as_str())
}
