//! The snapshot of tenants, keys and pauses that requests are judged and answered by.
//!
//! Law: no SQL in the request path. Readers never wait: the snapshot is swapped as a whole by [`super::refresh`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use penstock_protocol::clock;
use penstock_store::{KeyRow, PauseRow, Store, TenantRow};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::refresh::{Current, Refresher};
use super::{Allowance, Caller, KeyHash, Scopes};

/// Number of a key, as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub u32);

/// The keys in force. Cheap to clone.
#[derive(Clone, Debug)]
pub struct KeyRing {
    current: Arc<Current>,
    changed: watch::Receiver<u64>,
}

/// Tenants, keys and pauses as MySQL had them at `revision`; only those in force.
#[derive(Debug)]
pub(super) struct Snapshot {
    by_hash: HashMap<KeyHash, KeyId>,
    by_id: HashMap<KeyId, Entry>,
    pauses: Vec<PauseRow>,
    pub(super) revision: u64,
}

#[derive(Debug)]
struct Entry {
    caller: Caller,
    expires_ms: Option<u64>,
}

impl KeyRing {
    /// Starts the refresher; it ends with `token`.
    #[must_use]
    pub fn start(store: Store, refresh_every: Duration, tracker: &TaskTracker, token: CancellationToken) -> Self {
        let (changes, changed) = watch::channel(0);
        let current = Arc::new(Current::empty());
        let refresher = Refresher::new(store, Arc::clone(&current), changes);
        tracker.spawn(async move { token.run_until_cancelled(Box::pin(refresher.run(refresh_every))).await });
        Self { current, changed }
    }

    /// The caller whose key has this hash, if the key and its tenant are in force.
    #[must_use]
    pub fn find(&self, hash: KeyHash) -> Option<Caller> {
        let snapshot = self.current.snapshot.load();
        let snapshot = snapshot.as_ref()?;
        snapshot.caller(*snapshot.by_hash.get(&hash)?)
    }

    /// The caller of key number `id`, if the key and its tenant are in force.
    #[must_use]
    pub fn caller_of(&self, id: KeyId) -> Option<Caller> {
        self.current.snapshot.load().as_ref()?.caller(id)
    }

    /// Whether key number `id` and its tenant are in force: not revoked, not expired.
    #[must_use]
    pub fn is_live(&self, id: KeyId) -> bool {
        self.caller_of(id).is_some()
    }

    /// What operators paused, as of the snapshot.
    #[must_use]
    pub fn pauses(&self) -> Vec<PauseRow> {
        self.current.snapshot.load().as_ref().map(|snapshot| snapshot.pauses.clone()).unwrap_or_default()
    }

    /// Whether a snapshot was ever loaded; before that nobody can be judged.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.current.snapshot.load().is_some()
    }

    /// How long ago MySQL last said that the snapshot is the truth; `None` = never.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.is_loaded().then(|| self.current.confirmed_ago())
    }

    /// Turns when keys were loaded or one expired: then ask [`KeyRing::is_live`] again.
    #[must_use]
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }
}

impl Snapshot {
    pub(super) fn new(tenants: Vec<TenantRow>, keys: Vec<KeyRow>, pauses: Vec<PauseRow>, revision: u64) -> Self {
        let tenants: HashMap<_, _> = tenants
            .into_iter()
            .filter(|tenant| tenant.revoked_ms.is_none())
            .map(|tenant| (tenant.no, tenant))
            .collect();
        let (mut by_hash, mut by_id) = (HashMap::new(), HashMap::new());
        for row in keys.into_iter().filter(|key| key.revoked_ms.is_none()) {
            let Some(tenant) = tenants.get(&row.tenant) else { continue };
            let id = KeyId(row.id);
            let caller = Caller {
                tenant: tenant.no,
                tenant_name: tenant.name.as_str().into(),
                allowance: Allowance {
                    depth_max: tenant.depth_max,
                    live_max: tenant.live_max,
                    user_live_max: tenant.user_live_max,
                },
                key: id,
                scopes: Scopes::from_stored(&row.scopes),
            };
            by_hash.insert(KeyHash(row.hash), id);
            by_id.insert(id, Entry { caller, expires_ms: row.expires_ms });
        }
        Self { by_hash, by_id, pauses, revision }
    }

    /// Keys in force or not yet expired.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn caller(&self, id: KeyId) -> Option<Caller> {
        let entry = self.by_id.get(&id)?;
        // An expiry is a moment named by a person, so it is judged by the wall clock.
        let is_expired = entry.expires_ms.is_some_and(|moment| moment <= clock::wall_ms());
        (!is_expired).then(|| entry.caller.clone())
    }

    /// Whether a key expires after the first and not after the second moment.
    pub(super) fn expires_between(&self, after_ms: u64, until_ms: u64) -> bool {
        self.by_id.values().filter_map(|entry| entry.expires_ms).any(|moment| after_ms < moment && moment <= until_ms)
    }
}
