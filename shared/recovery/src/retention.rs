//! Removes tasks that ended long ago, in small batches, so that the table does not grow for ever.
//!
//! Any process does it, one at a time and at a bounded rate (`retention.rows_max` a round). It walks each tenant's tasks by
//! acceptance, an index that lists need anyway: accepting and ending a task pay nothing for it. Rows go by primary key.

use std::collections::VecDeque;
use std::time::Duration;

use penstock_protocol::{TenantNo, clock};
use penstock_store::{OldTasks, Page};

use crate::{Recovery, RecoveryError};

const DAY_MS: u64 = 24 * 3600 * 1000;
/// Tenants without old tasks that one round may pass over.
const TENANTS_PASSED_MAX: usize = 100;
/// A round that found nothing to do in any tenant is followed by this much rest.
const REST: Duration = Duration::from_secs(600);

/// Where a process stands in its walk over the tenants.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    tenants: VecDeque<TenantNo>,
    /// Tasks of the first tenant up to here were looked at.
    after: Option<Page>,
    /// What was removed since the walk began; `None` before the first one.
    removed: Option<u64>,
}

impl Recovery {
    /// Removes what is old enough until `stop` ends it.
    pub(crate) async fn retain(&self) {
        let mut sweep = Sweep::default();
        loop {
            let every = self.settings.now().retention.sweep_every;
            let rest = match self.sweep(&mut sweep).await {
                Ok(true) => REST,
                Ok(false) => every,
                // The census of the same process says that a server is away.
                Err(error) => {
                    tracing::debug!(%error, "old tasks are not removed for now");
                    every
                }
            };
            tokio::time::sleep(rest).await;
        }
    }

    /// One round. True when a whole walk over the tenants found nothing to remove.
    pub(crate) async fn sweep(&self, sweep: &mut Sweep) -> Result<bool, RecoveryError> {
        let settings = self.settings.now().retention.clone();
        if settings.ended_days == 0 || !self.queue.take_turn("retention", settings.sweep_every).await? {
            return Ok(false);
        }
        let now_ms = clock::wall_ms();
        let before = |days: u64| now_ms.saturating_sub(days.saturating_mul(DAY_MS));
        let failed_days = if settings.failed_days == 0 { u64::MAX } else { settings.failed_days };
        let (ended, failed) = (before(settings.ended_days), before(failed_days));
        for _ in 0..TENANTS_PASSED_MAX {
            let Some(tenant) = sweep.tenants.front().copied() else {
                sweep.tenants = self.store.tenants().await?.into_iter().map(|tenant| tenant.no).collect();
                return Ok(sweep.removed.replace(0) == Some(0));
            };
            let OldTasks { keys, looked, last } =
                self.store.old_tasks(tenant, sweep.after, ended, failed, settings.rows_max).await?;
            if !keys.is_empty() {
                let removed = self.store.remove_ended(&keys).await?;
                self.metrics.removed.inc_by(removed);
                sweep.removed = sweep.removed.map(|before| before + removed);
            }
            sweep.after = last;
            if looked < settings.rows_max {
                sweep.tenants.pop_front();
                sweep.after = None;
            }
            if looked > 0 {
                return Ok(false);
            }
        }
        Ok(false)
    }
}
