//! What MySQL says of pauses and of tenants' terms, and Redis brought in line with it.
//!
//! One process of the fleet looks once a second, so a change is in force within two, whoever made it.

use penstock_queue::{BookId, Census, TenantTerms, Terms};
use penstock_store::{Paused, TenantRow};

use crate::{Recovery, RecoveryError};

impl Recovery {
    /// Sets the terms anew if their revision is another one than Redis has, or this process has other settings by now.
    pub(crate) async fn bring_in_line(&self, census: &Census, cap_set: &mut Option<u64>) -> Result<(), RecoveryError> {
        let is_usual = *cap_set == Some(self.settings.now().queue.tenant_running_max);
        if is_usual && census.terms_revision == Some(self.store.queue_revision().await?) {
            return Ok(());
        }
        let terms = self.terms().await?;
        if self.set_terms(&census.book, &terms).await? {
            *cap_set = Some(terms.running_max);
            tracing::info!(
                revision = terms.revision,
                is_paused = terms.is_paused,
                agents_paused = terms.agents_paused.len(),
                tenants_paused = terms.tenants.iter().filter(|tenant| tenant.is_paused).count(),
                "the queue follows the terms of revision {}",
                terms.revision
            );
        }
        Ok(())
    }

    /// Brings one book in line. False: it was wiped since.
    pub(crate) async fn set_terms(&self, book: &BookId, terms: &Terms) -> Result<bool, RecoveryError> {
        Ok(self.queue.apply(book, terms).await?)
    }

    /// The terms as MySQL has them.
    pub(crate) async fn terms(&self) -> Result<Terms, RecoveryError> {
        // The number is read first: a change that comes between shows at the next look.
        let revision = self.store.queue_revision().await?;
        let (tenants, pauses) = (self.store.tenants().await?, self.store.pauses().await?);
        let is_paused = |what: &Paused| pauses.iter().any(|pause| pause.what == *what);
        let terms_of = |row: &TenantRow| TenantTerms {
            tenant: row.no,
            weight: row.weight,
            running_max: row.running_max,
            starts_per_minute: row.starts_per_minute,
            is_paused: is_paused(&Paused::Tenant(row.name.clone())),
        };
        let agent = |what: &Paused| match what {
            Paused::Agent(name) => Some(name.clone()),
            Paused::Queue | Paused::Tenant(_) => None,
        };
        Ok(Terms {
            revision,
            is_paused: is_paused(&Paused::Queue),
            running_max: self.settings.now().queue.tenant_running_max,
            agents_paused: pauses.iter().filter_map(|pause| agent(&pause.what)).collect(),
            tenants: tenants.iter().map(terms_of).collect(),
        })
    }
}
