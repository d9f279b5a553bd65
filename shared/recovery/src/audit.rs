//! Counters and turns of the book against what they speak of. Redis judges and mends in one step.

use std::collections::BTreeMap;

use penstock_queue::{AuditPart, State};

use crate::reconcile::{PAGE_ROWS, SECOND_LOOK};
use crate::{Drift, DriftKind, Recovery, RecoveryError};

/// Tenants, threads or held tasks of one call: some hundred commands.
const PAGE_COUNT: usize = 200;

/// Where an audit goes on in each of its parts.
pub(crate) type AuditCursors = [Option<String>; AuditPart::ALL.len()];

impl Recovery {
    /// Audits the counters of tenants, the sums, and the turns of threads: of each at most `pages` from the cursors on.
    pub(crate) async fn audit(
        &self,
        cursors: &mut AuditCursors,
        pages: usize,
        mend: bool,
        drift: &mut Drift,
    ) -> Result<(), RecoveryError> {
        for (part, cursor) in AuditPart::ALL.into_iter().zip(cursors) {
            for _ in 0..pages {
                let page = self.queue.audit(part, cursor.as_deref(), PAGE_COUNT, mend).await?;
                for finding in page.findings {
                    let kind = if part == AuditPart::Tenants { DriftKind::Counter } else { DriftKind::Turn };
                    let of = if finding.whose.is_empty() { String::new() } else { format!(" of {}", finding.whose) };
                    let said = format!("{}{of} is `{}`, and `{}` in truth", finding.what, finding.found, finding.truth);
                    drift.note(kind, mend, said);
                }
                *cursor = page.cursor;
                if cursor.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Compares the counters of end users with the records, which takes a walk over all of them: for the operator. A
    /// difference counts if two walks saw the same, in the counter and in the records.
    pub(crate) async fn audit_users(&self, mend: bool, drift: &mut Drift) -> Result<u64, RecoveryError> {
        let (records, first) = self.user_differences().await?;
        if first.is_empty() {
            return Ok(records);
        }
        tokio::time::sleep(SECOND_LOOK).await;
        let (_, second) = self.user_differences().await?;
        for (user, (found, live)) in first.into_iter().filter(|(user, pair)| second.get(user) == Some(pair)) {
            let is_mended = mend && self.queue.mend_user(&user, found, live).await?;
            let said = format!("live tasks of user {user} are {}, and {live} in truth", found.unwrap_or(0));
            drift.note(DriftKind::Counter, is_mended, said);
        }
        Ok(records)
    }

    /// How many records there are, and what users' counters and records say where they differ.
    async fn user_differences(&self) -> Result<(u64, BTreeMap<String, (Option<u64>, u64)>), RecoveryError> {
        let (mut seen, mut live, mut cursor) = (std::collections::HashSet::new(), BTreeMap::<String, u64>::new(), 0);
        loop {
            let page = self.queue.book(cursor, PAGE_ROWS as usize).await?;
            for entry in page.entries.into_iter().filter(|entry| entry.state != State::Ended) {
                // A walk may come upon a record twice.
                if let (true, Some(user)) = (seen.insert(entry.key), entry.user) {
                    *live.entry(user).or_default() += 1;
                }
            }
            cursor = page.cursor;
            if cursor == 0 {
                break;
            }
        }
        let counters = self.queue.user_counters().await?;
        let users: std::collections::BTreeSet<_> = live.keys().chain(counters.keys()).cloned().collect();
        let pairs = users.into_iter().filter_map(|user| {
            let (found, live) = (counters.get(&user).copied(), live.get(&user).copied().unwrap_or(0));
            (found.unwrap_or(0) != live).then_some((user, (found, live)))
        });
        Ok((seen.len() as u64, pairs.collect()))
    }
}
