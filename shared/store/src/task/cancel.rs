//! Cancel: final from any state, at once, whoever runs the task.

use penstock_protocol::{Status, TaskKey, clock};

use super::read::row_of;
use super::row::TaskRow;
use crate::{Store, StoreError, webhook};

impl Store {
    /// Ends a task as `cancelled` unless it has ended. Returns the row as it stands then; `None` = no such task.
    pub async fn cancel(&self, key: TaskKey) -> Result<Option<TaskRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                sqlx::query(
                    "UPDATE task SET status = 'cancelled', open_place = NULL, ended_ms = ? \
                     WHERE tenant = ? AND id = ? AND status IN ('queued', 'running', 'paused')",
                )
                .bind(clock::wall_ms())
                .bind(key.tenant.0)
                .bind(&key.task.0.as_bytes()[..])
                .execute(&mut *connection)
                .await?;
                let row = row_of(&mut connection, key).await?;
                if row.as_ref().is_some_and(|row| row.has_webhook && row.status == Status::Cancelled) {
                    webhook::nudge(&mut connection, &[key]).await?;
                    self.webhooks.woken.notify_one();
                }
                Ok(row)
            })
            .await
    }
}
