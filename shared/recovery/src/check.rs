//! One look at everything, for the operator: queue against truth.

use penstock_queue::{Census, CensusState};

use crate::audit::AuditCursors;
use crate::{Drift, Recovery, RecoveryError};

/// What a check found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Whether the book is whole.
    pub census: Census,
    /// Rows that have not ended.
    pub rows: u64,
    /// Records of tasks that have not ended.
    pub records: u64,
    /// Differences.
    pub drift: Drift,
}

impl Report {
    /// Whether nothing is left to be mended.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.census.state == CensusState::Open && self.drift.left() == 0
    }
}

impl Recovery {
    /// Compares everything, and mends it if told to. Safe while the system runs: what may be a change under way is looked
    /// at twice, 2 s apart. A book that is not whole is rebuilt when mending, else reported as it is.
    pub async fn check(&self, mend: bool) -> Result<Report, RecoveryError> {
        let mut census = self.queue.census().await?;
        if mend && census.state == CensusState::Broken {
            self.rebuild(&census).await?;
            census = self.queue.census().await?;
        }
        let mut drift = Drift::default();
        let rows = self.compare_rows(&census, mend, &mut drift).await?;
        self.compare_records(0, usize::MAX, mend, &mut drift).await?;
        self.compare_streams(0, usize::MAX, mend, &mut drift).await?;
        self.audit(&mut AuditCursors::default(), usize::MAX, mend, &mut drift).await?;
        let records = self.audit_users(mend, &mut drift).await?;
        Ok(Report { census, rows, records, drift })
    }
}
