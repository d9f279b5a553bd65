//! Identities. A task is named by its tenant *and* its id everywhere (Redis member, stream, SQL key), so nobody can
//! squat on another tenant's client-minted id and a foreign id looks like one that does not exist (law 13).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The number of a tenant, given by MySQL, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TenantNo(pub u32);

/// A task, which is one AG-UI *run*: `task_id` = `runId`. Unique inside its tenant only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct TaskId(pub Uuid);

/// A conversation: `thread_id` = AG-UI `threadId`. Unique inside its tenant only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub struct ThreadId(pub Uuid);

/// A task of a tenant; displayed and parsed as `<tenant no>.<uuid>`, which is its member name in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskKey {
    /// Owner of the task.
    pub tenant: TenantNo,
    /// Id inside the tenant.
    pub task: TaskId,
}

/// A text that is not a task key.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not `<tenant number>.<task uuid>`")]
pub struct IdError {
    /// What was read.
    pub text: String,
}

impl TaskId {
    /// A new time-ordered id (`UUIDv7`).
    #[must_use]
    pub fn mint() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id that an `Idempotency-Key` stands for: `UUIDv8` of SHA-256(tenant number, key).
    ///
    /// Derived, not stored: the same key names the same task on every replica and after a flush of Redis.
    #[must_use]
    pub fn from_idempotency_key(tenant: TenantNo, key: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(tenant.0.to_be_bytes());
        hash.update(key.as_bytes());
        let mut head = [0_u8; 16];
        head.copy_from_slice(&hash.finalize()[..16]);
        Self(Uuid::new_v8(head))
    }
}

impl TaskKey {
    /// The id of the task that repeats this one. Derived, so that a replay that is asked for twice is one task.
    #[must_use]
    pub fn replay_id(self) -> TaskId {
        let mut hash = Sha256::new();
        hash.update(b"replay");
        hash.update(self.tenant.0.to_be_bytes());
        hash.update(self.task.0.as_bytes());
        let mut head = [0_u8; 16];
        head.copy_from_slice(&hash.finalize()[..16]);
        TaskId(Uuid::new_v8(head))
    }
}

impl ThreadId {
    /// A new time-ordered id (`UUIDv7`).
    #[must_use]
    pub fn mint() -> Self {
        Self(Uuid::now_v7())
    }
}

impl TaskKey {
    /// Names `task` of `tenant`.
    #[must_use]
    pub fn new(tenant: TenantNo, task: TaskId) -> Self {
        Self { tenant, task }
    }
}

impl fmt::Display for TenantNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.tenant, self.task)
    }
}

impl FromStr for TaskKey {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parsed = text.split_once('.').and_then(|(tenant, task)| {
            Some(Self { tenant: TenantNo(tenant.parse().ok()?), task: TaskId(Uuid::parse_str(task).ok()?) })
        });
        parsed.ok_or_else(|| IdError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_text_form() {
        let key = TaskKey::new(TenantNo(7), TaskId::mint());
        assert_eq!(key.to_string().parse::<TaskKey>().unwrap(), key);
        assert!("7".parse::<TaskKey>().is_err());
        assert!("x.y".parse::<TaskKey>().is_err());
    }

    #[test]
    fn an_idempotency_key_names_one_task_per_tenant() {
        let first = TaskId::from_idempotency_key(TenantNo(1), "order-17");
        assert_eq!(first, TaskId::from_idempotency_key(TenantNo(1), "order-17"));
        assert_ne!(first, TaskId::from_idempotency_key(TenantNo(2), "order-17"));
        assert_eq!(first.0.get_version_num(), 8);
    }
}
