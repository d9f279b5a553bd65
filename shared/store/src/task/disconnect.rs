//! Tasks that their callers want cancelled when nobody watches them any more.

use std::collections::HashSet;

use penstock_protocol::{TaskId, TaskKey, TenantNo};
use sqlx::{AssertSqlSafe, Row};

use super::many::{any_of, padded};
use crate::{Store, StoreError};

impl Store {
    /// Those of `keys` that have not ended and are to be cancelled with their last watcher. The caller bounds `keys`.
    pub async fn cancelled_on_disconnect(&self, keys: &[TaskKey]) -> Result<HashSet<TaskKey>, StoreError> {
        if keys.is_empty() {
            return Ok(HashSet::new());
        }
        self.database
            .run(|mut connection| async move {
                let keys = padded(keys.to_vec());
                let named = any_of("(tenant = ? AND id = ?)", keys.len());
                let mut query = sqlx::query(AssertSqlSafe(format!(
                    "SELECT tenant, id FROM task WHERE cancel_on_disconnect = 1 AND open_place IS NOT NULL AND ({named})"
                )));
                for key in keys {
                    query = query.bind(key.tenant.0).bind(key.task.0.as_bytes().to_vec());
                }
                let rows = query.fetch_all(&mut *connection).await?;
                rows.iter()
                    .map(|row| {
                        let id: Vec<u8> = row.try_get(1)?;
                        let id = uuid::Uuid::from_slice(&id).map_err(|error| sqlx::Error::Decode(error.into()))?;
                        Ok(TaskKey::new(TenantNo(row.try_get(0)?), TaskId(id)))
                    })
                    .collect()
            })
            .await
    }
}
