//! How many calls of one tenant run at once in this process, so that no tenant's burst takes every permit of an exit.
//!
//! Law 13. A call holds its lease from before it is sent until its answer is over: whole, failed, or dropped by who reads it.
//! The lease is a value, so it cannot be forgotten, and it dies with the process. Callers wait in the order in which they came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_protocol::TenantNo;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The leases of one process.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    /// Tenants with a call that runs or waits; others are not remembered.
    busy: Mutex<HashMap<TenantNo, Arc<Semaphore>>>,
}

/// The right of one call to run.
#[derive(Debug)]
pub(crate) struct TenantLease {
    tenant: TenantNo,
    tenants: Arc<Tenants>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Tenants {
    /// Waits until fewer than `calls_max` calls of `tenant` run; `None`: not by `until`.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        tenant: TenantNo,
        calls_max: usize,
        until: Instant,
    ) -> Option<TenantLease> {
        let calls_max = calls_max.min(Semaphore::MAX_PERMITS);
        let semaphore = Arc::clone(self.busy().entry(tenant).or_insert_with(|| Arc::new(Semaphore::new(calls_max))));
        // Made before it is waited for, so that a caller who leaves tidies up too.
        let mut lease = TenantLease { tenant, tenants: Arc::clone(self), permit: None };
        lease.permit = timeout_at(until, semaphore.acquire_owned()).await.ok()?.ok();
        lease.permit.is_some().then_some(lease)
    }

    fn busy(&self) -> std::sync::MutexGuard<'_, HashMap<TenantNo, Arc<Semaphore>>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TenantLease {
    fn drop(&mut self) {
        self.permit = None;
        let mut busy = self.tenants.busy();
        // Every waiting and running call holds the semaphore too.
        if busy.get(&self.tenant).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
            busy.remove(&self.tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_calls_of_a_tenant_run_than_allowed_and_others_do_not_notice() {
        let tenants = Arc::new(Tenants::default());
        let first = tenants.enter(TenantNo(1), 2, soon()).await.unwrap();
        let _second = tenants.enter(TenantNo(1), 2, soon()).await.unwrap();
        assert!(tenants.enter(TenantNo(1), 2, soon()).await.is_none());
        assert!(tenants.enter(TenantNo(2), 2, soon()).await.is_some());
        drop(first);
        assert!(tenants.enter(TenantNo(1), 2, soon()).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_who_leaves_frees_its_place_and_idle_tenants_are_forgotten() {
        let tenants = Arc::new(Tenants::default());
        let lease = tenants.enter(TenantNo(1), 1, soon()).await.unwrap();
        let waiting = tokio::spawn({
            let tenants = Arc::clone(&tenants);
            async move { tenants.enter(TenantNo(1), 1, soon()).await.is_some() }
        });
        tokio::task::yield_now().await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        assert_eq!(tenants.busy().len(), 1);
        drop(lease);
        assert!(tenants.busy().is_empty());
        assert!(tenants.enter(TenantNo(1), 1, soon()).await.is_some());
        assert!(tenants.busy().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_come_in_their_order() {
        let tenants = Arc::new(Tenants::default());
        let lease = tenants.enter(TenantNo(1), 1, soon()).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let callers: Vec<_> = (0..5)
            .map(|number| {
                let (tenants, order) = (Arc::clone(&tenants), Arc::clone(&order));
                tokio::spawn(async move {
                    let lease = tenants.enter(TenantNo(1), 1, Instant::now() + Duration::from_secs(60)).await;
                    order.lock().unwrap().push(number);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    drop(lease);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        drop(lease);
        for caller in callers {
            caller.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    }
}
