//! Reads of `task`: one, many, pages of a tenant, a thread's history, and what a rebuild needs.

use std::collections::HashMap;

use penstock_protocol::{Place, Status, TaskId, TaskKey, TenantNo, ThreadId};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use super::many::{any_of, padded};
use super::row::{COLUMNS, TaskRow};
use crate::{Store, StoreError};

/// What a list is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Only this status.
    pub status: Option<Status>,
    /// Only this conversation.
    pub thread: Option<ThreadId>,
    /// Only this agent.
    pub agent: Option<String>,
    /// Only this end user.
    pub user: Option<String>,
}

/// Where a page begins: after this task, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Moment of acceptance of the last task seen.
    pub accepted_ms: u64,
    /// Its id.
    pub task: penstock_protocol::TaskId,
}

impl Store {
    /// The row of a task.
    pub async fn task(&self, key: TaskKey) -> Result<Option<TaskRow>, StoreError> {
        self.database.run(|mut connection| async move { row_of(&mut connection, key).await }).await
    }

    /// The rows of tasks, in no order; unknown ones are left out. The caller bounds `keys`.
    pub async fn tasks(&self, keys: &[TaskKey]) -> Result<Vec<TaskRow>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.database.run(|mut connection| async move { rows_of(&mut connection, keys).await }).await
    }

    /// The statuses of tasks, without their rows; unknown ones are left out. The caller bounds `keys`.
    pub async fn statuses(&self, keys: &[TaskKey]) -> Result<HashMap<TaskKey, Status>, StoreError> {
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        self.database.run(|mut connection| async move { statuses_of(&mut connection, keys).await }).await
    }

    /// At most `limit` tasks of a tenant, newest first, after `page`.
    pub async fn list(
        &self,
        tenant: TenantNo,
        filter: &ListFilter,
        page: Option<Page>,
        limit: u32,
    ) -> Result<Vec<TaskRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                // Each clause is neutral when its parameter is NULL, so the text is one and static.
                let rows = sqlx::query(AssertSqlSafe(format!(
                    "SELECT {COLUMNS} FROM task t WHERE t.tenant = ? \
                     AND (? IS NULL OR t.accepted_ms < ? OR (t.accepted_ms = ? AND t.id < ?)) \
                     AND (? IS NULL OR t.status = ?) AND (? IS NULL OR t.thread = ?) \
                     AND (? IS NULL OR t.agent = ?) AND (? IS NULL OR t.end_user = ?) \
                     ORDER BY t.accepted_ms DESC, t.id DESC LIMIT ?"
                )))
                .bind(tenant.0)
                .bind(page.map(|page| page.accepted_ms))
                .bind(page.map(|page| page.accepted_ms))
                .bind(page.map(|page| page.accepted_ms))
                .bind(page.map(|page| page.task.0.as_bytes().to_vec()))
                .bind(filter.status.map(Status::as_str))
                .bind(filter.status.map(Status::as_str))
                .bind(filter.thread.map(|thread| thread.0.as_bytes().to_vec()))
                .bind(filter.thread.map(|thread| thread.0.as_bytes().to_vec()))
                .bind(&filter.agent)
                .bind(&filter.agent)
                .bind(&filter.user)
                .bind(&filter.user)
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                rows.iter().map(TaskRow::read).collect()
            })
            .await
    }

    /// The latest `limit` ended tasks of a thread that said something, accepted before `accepted_ms`; newest first.
    pub async fn thread_before(
        &self,
        tenant: TenantNo,
        thread: ThreadId,
        accepted_ms: u64,
        limit: u32,
    ) -> Result<Vec<TaskRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query(AssertSqlSafe(format!(
                    "SELECT {COLUMNS} FROM task t WHERE t.tenant = ? AND t.thread = ? AND t.accepted_ms < ? \
                     AND t.status IN ('succeeded', 'cancelled') AND t.result IS NOT NULL \
                     ORDER BY t.accepted_ms DESC LIMIT ?"
                )))
                .bind(tenant.0)
                .bind(&thread.0.as_bytes()[..])
                .bind(accepted_ms)
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                rows.iter().map(TaskRow::read).collect()
            })
            .await
    }

    /// At most `limit` tasks of a thread that have not ended and were accepted before task `key` was, oldest first.
    pub async fn open_of_thread(
        &self,
        key: TaskKey,
        thread: ThreadId,
        accepted_ms: u64,
        limit: u32,
    ) -> Result<Vec<TaskKey>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query(
                    "SELECT id FROM task WHERE tenant = ? AND thread = ? AND open_place IS NOT NULL \
                     AND (accepted_ms < ? OR (accepted_ms = ? AND id < ?)) ORDER BY accepted_ms, id LIMIT ?",
                )
                .bind(key.tenant.0)
                .bind(&thread.0.as_bytes()[..])
                .bind(accepted_ms)
                .bind(accepted_ms)
                .bind(&key.task.0.as_bytes()[..])
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                rows.iter()
                    .map(|row| {
                        let id: Vec<u8> = row.try_get(0)?;
                        let id = uuid::Uuid::from_slice(&id).map_err(|error| sqlx::Error::Decode(error.into()))?;
                        Ok(TaskKey::new(key.tenant, TaskId(id)))
                    })
                    .collect()
            })
            .await
    }

    /// At most `limit` tasks that have not ended, by place, after `after`: what a rebuild or a comparison walks through.
    pub async fn open_tasks(&self, after: Option<&(Place, TaskKey)>, limit: u32) -> Result<Vec<TaskRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let place = after.map_or("", |(place, _)| place.as_str());
                let (tenant, id) =
                    after.map_or((0, Vec::new()), |(_, key)| (key.tenant.0, key.task.0.as_bytes().to_vec()));
                let rows = sqlx::query(AssertSqlSafe(format!(
                    "SELECT {COLUMNS} FROM task t WHERE t.open_place >= ? \
                     AND (t.open_place > ? OR t.tenant > ? OR (t.tenant = ? AND t.id > ?)) \
                     ORDER BY t.open_place, t.tenant, t.id LIMIT ?"
                )))
                .bind(place)
                .bind(place)
                .bind(tenant)
                .bind(tenant)
                .bind(id)
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                rows.iter().map(TaskRow::read).collect()
            })
            .await
    }

    /// The places and keys of at most `limit` tasks that have not ended, by place, after `after`: an index alone, for walks
    /// that need few of the rows.
    pub async fn open_keys(
        &self,
        after: Option<&(Place, TaskKey)>,
        limit: u32,
    ) -> Result<Vec<(Place, TaskKey)>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let place = after.map_or("", |(place, _)| place.as_str());
                let (tenant, id) =
                    after.map_or((0, Vec::new()), |(_, key)| (key.tenant.0, key.task.0.as_bytes().to_vec()));
                let rows = sqlx::query(
                    "SELECT open_place, tenant, id FROM task WHERE open_place >= ? \
                     AND (open_place > ? OR tenant > ? OR (tenant = ? AND id > ?)) \
                     ORDER BY open_place, tenant, id LIMIT ?",
                )
                .bind(place)
                .bind(place)
                .bind(tenant)
                .bind(tenant)
                .bind(id)
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                rows.iter()
                    .map(|row| {
                        let id: Vec<u8> = row.try_get(2)?;
                        let id = uuid::Uuid::from_slice(&id).map_err(|error| sqlx::Error::Decode(error.into()))?;
                        let key = TaskKey::new(TenantNo(row.try_get(1)?), TaskId(id));
                        Ok((Place::from_stored(row.try_get(0)?), key))
                    })
                    .collect()
            })
            .await
    }

    /// Tasks by status, counted over those that have not ended.
    pub async fn open_counts(&self) -> Result<Vec<(Status, u64)>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query("SELECT status, COUNT(*) FROM task WHERE open_place > '' GROUP BY status")
                    .fetch_all(&mut *connection)
                    .await?;
                rows.iter()
                    .map(|row| {
                        let status: String = row.try_get(0)?;
                        let count: i64 = row.try_get(1)?;
                        let status = Status::from_name(&status).ok_or(sqlx::Error::RowNotFound)?;
                        Ok((status, u64::try_from(count).unwrap_or(0)))
                    })
                    .collect()
            })
            .await
    }
}

pub(super) async fn row_of(connection: &mut MySqlConnection, key: TaskKey) -> Result<Option<TaskRow>, sqlx::Error> {
    Ok(rows_of(connection, &[key]).await?.pop())
}

/// One SELECT by primary key.
pub(super) async fn rows_of(connection: &mut MySqlConnection, keys: &[TaskKey]) -> Result<Vec<TaskRow>, sqlx::Error> {
    let keys = padded(keys.to_vec());
    let named = any_of("(t.tenant = ? AND t.id = ?)", keys.len());
    let mut query = sqlx::query(AssertSqlSafe(format!("SELECT {COLUMNS} FROM task t WHERE {named}")));
    for key in keys {
        query = query.bind(key.tenant.0).bind(key.task.0.as_bytes().to_vec());
    }
    query.fetch_all(connection).await?.iter().map(TaskRow::read).collect()
}

/// Only the statuses, by primary key.
async fn statuses_of(
    connection: &mut MySqlConnection,
    keys: &[TaskKey],
) -> Result<HashMap<TaskKey, Status>, sqlx::Error> {
    let keys = padded(keys.to_vec());
    let named = any_of("(tenant = ? AND id = ?)", keys.len());
    let mut query = sqlx::query(AssertSqlSafe(format!("SELECT tenant, id, status FROM task WHERE {named}")));
    for key in keys {
        query = query.bind(key.tenant.0).bind(key.task.0.as_bytes().to_vec());
    }
    let rows = query.fetch_all(&mut *connection).await?;
    rows.iter()
        .map(|row| {
            let (id, status): (Vec<u8>, String) = (row.try_get(1)?, row.try_get(2)?);
            let id = uuid::Uuid::from_slice(&id).map_err(|error| sqlx::Error::Decode(error.into()))?;
            let status = Status::from_name(&status).ok_or(sqlx::Error::RowNotFound)?;
            Ok((TaskKey::new(TenantNo(row.try_get(0)?), TaskId(id)), status))
        })
        .collect()
}
