//! Key layout of one shard of a queue: prefix `{<deployment>:<queue>/<shard>}:`, so all of it is one hash slot.
//!
//! Law 13: the deployment is part of every key; two deployments on one Redis never see each other's tasks.
//!
//! | # | key | type | content |
//! |---|---|---|---|
//! | 1 | `admitted` | zset | id → ms admitted |
//! | 2 | `line` | zset, score 0 | `tenant\|place\|task` |
//! | 3 | `ring` | zset | tenant → start tag, of tenants that may be served; `#` at +inf |
//! | 4 | `held` | zset, score 0 | `tenant\|thread\|turn\|task`; of paused agents `@agent\|tenant\|place\|task`; in quarantine `q\|tenant\|place\|task` |
//! | 5 | `ready` | stream | `t` = id, `a` = attempt; group `workers` |
//! | 6 | `delayed` | zset | id → due ms |
//! | 7 | `tasks` | hash | id → record (`lua/prelude/task.lua`); `#` |
//! | 8 | `tenants` | hash | no → record, `#` → totals, `~agent` → mean (`lua/prelude/tenant.lua`) |
//! | 9 | `users` | hash | `tenant\|user` → live tasks; `#` |
//! | 10 | `threads` | hash | `tenant\|thread` → id whose turn it is; `#` |
//! | 11 | `leases` | zset | id → expiry ms |
//! | 12, 13 | `workers`, `wslots` | zset, hash | worker → last beat ms; → slots |
//! | 14 | `stats` | hash | moments and marks (`lua/prelude/tenant.lua`) |
//! | 15 | `done` | zset | id → ms at which the tombstone goes |
//! | 16 | `meta` | string | generation; absent = admission closed |
//! | 17 | `paced` | zset | tenant that its start rate keeps out of the ring → ms at which it is due; `#` at +inf |
//! | 18 | `ev:<id>` | stream | `<attempt>-<n>` → `s` (dense number), `e` (event); sealed at the end |
//!
//! Channels: `bell` and `worker:<worker id>`.

use std::fmt;

use penstock_protocol::TaskKey;

/// A name that would break keys, records or fields.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is not usable here: 1 to {bytes_max} characters of A-Z a-z 0-9 _ . -")]
pub struct ShardError {
    name: String,
    bytes_max: usize,
}

/// One shard of one queue of one deployment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shard {
    prefix: String,
}

impl Shard {
    /// Names shard `number` of `queue` in `deployment`.
    pub fn new(deployment: &str, queue: &str, number: u16) -> Result<Self, ShardError> {
        check(deployment, 64)?;
        check(queue, 64)?;
        Ok(Self { prefix: format!("{{{deployment}:{queue}/{number}}}:") })
    }

    /// What all keys of the shard begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The event stream of a task.
    #[must_use]
    pub fn events(&self, key: TaskKey) -> String {
        format!("{}ev:{key}", self.prefix)
    }

    pub(crate) fn bell(&self) -> String {
        format!("{}bell", self.prefix)
    }

    pub(crate) fn orders(&self, worker: &WorkerId) -> String {
        format!("{}worker:{worker}", self.prefix)
    }
}

/// The 17 keys that every verb gets, in its order.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) fixed: Vec<String>,
}

const NAMES: [&str; 17] = [
    "admitted", "line", "ring", "held", "ready", "delayed", "tasks", "tenants", "users", "threads", "leases",
    "workers", "wslots", "stats", "done", "meta", "paced",
];

impl Keys {
    pub(crate) fn new(shard: &Shard) -> Self {
        Self { fixed: NAMES.iter().map(|name| format!("{}{name}", shard.prefix)).collect() }
    }

    pub(crate) fn ready(&self) -> &str {
        &self.fixed[4]
    }

    pub(crate) fn tasks(&self) -> &str {
        &self.fixed[6]
    }

    pub(crate) fn users(&self) -> &str {
        &self.fixed[8]
    }
}

/// One worker process, new at every start: an id that is used again would keep a dead owner alive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(String);

impl WorkerId {
    /// Takes a name that no other process has or had.
    pub fn new(name: impl Into<String>) -> Result<Self, ShardError> {
        let name = name.into();
        check(&name, 64)?;
        Ok(Self(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(name: &str, bytes_max: usize) -> Result<(), ShardError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    if name.is_empty() || name.len() > bytes_max || !name.bytes().all(allowed) {
        return Err(ShardError { name: name.to_owned(), bytes_max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use penstock_protocol::{TaskId, TenantNo};

    use super::*;

    #[test]
    fn every_key_is_in_the_hash_slot_of_its_shard() {
        let shard = Shard::new("prod", "main", 0).unwrap();
        assert!(Keys::new(&shard).fixed.iter().all(|key| key.starts_with("{prod:main/0}:")));
        let key = TaskKey::new(TenantNo(7), TaskId::mint());
        assert_eq!(shard.events(key), format!("{{prod:main/0}}:ev:{key}"));
    }

    #[test]
    fn a_name_that_would_break_a_key_or_a_record_is_refused() {
        for name in ["", "a|b", "a}b", "a:b", "a b"] {
            assert!(Shard::new(name, "main", 0).is_err(), "{name}");
            assert!(WorkerId::new(name).is_err(), "{name}");
        }
    }
}
