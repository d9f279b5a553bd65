//! The header `Idempotency-Key`.
//!
//! Without a `task_id` it stands for one (derived, see [`TaskId::from_idempotency_key`]), so both are one mechanism and
//! survive a flush of Redis; beside a `task_id` it is a unique index of MySQL.

use axum::http::{HeaderMap, HeaderName};
use penstock_protocol::{TaskId, TenantNo};

use crate::error::Problem;

const NAME: HeaderName = HeaderName::from_static("idempotency-key");
const LENGTH_MAX: usize = 255;

/// 1 to 255 visible ASCII characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key among `headers`, if there is one. Errors: 422 when it is not a key, or there are two.
    pub fn read(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let mut values = headers.get_all(NAME).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let text = value.to_str().unwrap_or_default();
        let is_key = (1..=LENGTH_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_key || values.next().is_some() {
            return Err(Problem::invalid("Idempotency-Key", "send one key of 1 to 255 visible ASCII characters"));
        }
        Ok(Some(Self(text.to_owned())))
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
