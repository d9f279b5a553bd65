//! A tenant's share of the slots, changed while tasks wait.

use penstock_protocol::TenantNo;

use crate::{Queue, QueueError, TenantShare};

impl Queue {
    /// Sets share, bound on admitted and waiting tasks (0 = none) and hold of a tenant; they count from the next
    /// dispatch. A tenant on hold is not served.
    pub async fn configure_tenant(
        &self,
        tenant: TenantNo,
        share: TenantShare,
        depth_max: u64,
        is_on_hold: bool,
    ) -> Result<(), QueueError> {
        let verb = self
            .verb("configure_tenant", None)
            .arg(tenant.to_string())
            .arg(share.weight.max(1))
            .arg(share.running_max)
            .arg(depth_max)
            .arg(u8::from(is_on_hold));
        self.call::<i64>(&verb).await.map(drop)
    }
}
