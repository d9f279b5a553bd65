//! The header `Idempotency-Key`.
//!
//! Without a `task_id` it stands for one (derived, see [`TaskId::from_idempotency_key`]), so both are one mechanism and
//! survive a flush of Redis; beside a `task_id` it is a unique index of MySQL. A batch has a key an item, in its body.

use axum::http::{HeaderMap, HeaderName};
use penstock_protocol::{TaskId, TenantNo};
use serde::Deserialize;

use crate::error::Problem;

const NAME: HeaderName = HeaderName::from_static("idempotency-key");
const LENGTH_MAX: usize = 255;

/// 1 to 255 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct IdempotencyKey(String);

/// A text that is no key.
#[derive(Debug, thiserror::Error)]
#[error("send one key of 1 to {LENGTH_MAX} visible ASCII characters")]
pub struct NotAKey;

impl TryFrom<String> for IdempotencyKey {
    type Error = NotAKey;

    fn try_from(text: String) -> Result<Self, NotAKey> {
        let is_key = (1..=LENGTH_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_key { Ok(Self(text)) } else { Err(NotAKey) }
    }
}

impl IdempotencyKey {
    /// The key among `headers`, if there is one. Errors: 422 when it is not a key, or there are two.
    pub fn read(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let mut values = headers.get_all(NAME).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let key = Self::try_from(value.to_str().unwrap_or_default().to_owned());
        match key {
            Ok(key) if values.next().is_none() => Ok(Some(key)),
            _ => Err(Problem::invalid("Idempotency-Key", NotAKey.to_string())),
        }
    }

    /// The task that the key stands for.
    #[must_use]
    pub fn task_id(&self, tenant: TenantNo) -> TaskId {
        TaskId::from_idempotency_key(tenant, &self.0)
    }

    /// The text that is stored.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}
