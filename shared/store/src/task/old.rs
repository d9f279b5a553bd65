//! Tasks that ended long ago: found along an index that lists need anyway, removed by primary key in small batches.

use penstock_protocol::{Status, TaskId, TaskKey, TenantNo};
use sqlx::{AssertSqlSafe, Row};

use super::many::{any_of, padded};
use super::read::Page;
use crate::{Store, StoreError};

/// What a look along a tenant's oldest tasks found.
#[derive(Clone, Debug, Default)]
pub struct OldTasks {
    /// Tasks to remove.
    pub keys: Vec<TaskKey>,
    /// Tasks looked at; less than asked for means that the tenant has no more old ones.
    pub looked: u32,
    /// The last of them: where the next look begins.
    pub last: Option<Page>,
}

impl Store {
    /// Looks at the oldest `limit` tasks of a tenant after `page`, for those that ended before `ended_before_ms`, or
    /// before `failed_before_ms` where they failed.
    pub async fn old_tasks(
        &self,
        tenant: TenantNo,
        page: Option<Page>,
        ended_before_ms: u64,
        failed_before_ms: u64,
        limit: u32,
    ) -> Result<OldTasks, StoreError> {
        let (from_ms, from_id) =
            page.map_or((0, Vec::new()), |page| (page.accepted_ms, page.task.0.as_bytes().to_vec()));
        let from_id = &from_id;
        self.database
            .run(|mut connection| async move {
                // Whatever ended before a moment was accepted before it.
                let rows = sqlx::query(
                    "SELECT id, accepted_ms, status, ended_ms FROM task \
                     WHERE tenant = ? AND accepted_ms >= ? AND (accepted_ms > ? OR id > ?) AND accepted_ms < ? \
                     ORDER BY accepted_ms, id LIMIT ?",
                )
                .bind(tenant.0)
                .bind(from_ms)
                .bind(from_ms)
                .bind(from_id)
                .bind(ended_before_ms.max(failed_before_ms))
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                let mut old = OldTasks { looked: u32::try_from(rows.len()).unwrap_or(limit), ..OldTasks::default() };
                for row in &rows {
                    let (id, accepted_ms): (Vec<u8>, u64) = (row.try_get(0)?, row.try_get(1)?);
                    let (status, ended_ms): (String, Option<u64>) = (row.try_get(2)?, row.try_get(3)?);
                    let id = uuid::Uuid::from_slice(&id).map_err(|error| sqlx::Error::Decode(error.into()))?;
                    old.last = Some(Page { accepted_ms, task: TaskId(id) });
                    let before_ms = match Status::from_name(&status) {
                        Some(Status::Failed) => failed_before_ms,
                        Some(status) if status.is_terminal() => ended_before_ms,
                        _ => continue,
                    };
                    if ended_ms.is_some_and(|ended_ms| ended_ms < before_ms) {
                        old.keys.push(TaskKey::new(tenant, TaskId(id)));
                    }
                }
                Ok(old)
            })
            .await
    }

    /// Removes those of `keys` that have ended; returns how many rows went. The caller bounds `keys`.
    pub async fn remove_ended(&self, keys: &[TaskKey]) -> Result<u64, StoreError> {
        if keys.is_empty() {
            return Ok(0);
        }
        self.database
            .run(|mut connection| async move {
                let keys = padded(keys.to_vec());
                let named = any_of("(tenant = ? AND id = ?)", keys.len());
                let mut query = sqlx::query(AssertSqlSafe(format!(
                    "DELETE FROM task WHERE open_place IS NULL AND ended_ms IS NOT NULL AND ({named})"
                )));
                for key in keys {
                    query = query.bind(key.tenant.0).bind(key.task.0.as_bytes().to_vec());
                }
                Ok(query.execute(&mut *connection).await?.rows_affected())
            })
            .await
    }
}
