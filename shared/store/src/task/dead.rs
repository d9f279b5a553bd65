//! Dead letters: tasks that failed because their attempts ran out. They are rows like any other, marked by `dead_ms`.
//!
//! Law 4: a dead letter stays ended. A replay is a new task; the letter then leaves the list and names it.

use penstock_protocol::{ErrorCode, TaskId, TaskKey, TenantNo};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use super::many::{any_of, padded};
use super::row::{COLUMNS, TaskRow};
use crate::{Store, StoreError};

/// What dead letters are narrowed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadFilter {
    /// Only this agent.
    pub agent: Option<String>,
    /// Only this reason.
    pub code: Option<ErrorCode>,
    /// Only this end user.
    pub user: Option<String>,
    /// Only those that died at this moment or later.
    pub after_ms: Option<u64>,
    /// Only those that died before this moment.
    pub before_ms: Option<u64>,
}

/// Where a page begins: behind this letter, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadPage {
    /// When the last letter seen died.
    pub dead_ms: u64,
    /// Its id.
    pub task: TaskId,
}

/// Each clause is neutral when its parameter is NULL, so the text is one and static.
const WHERE: &str = "t.tenant = ? AND t.dead_ms IS NOT NULL \
     AND (? IS NULL OR t.dead_ms < ? OR (t.dead_ms = ? AND t.id < ?)) \
     AND (? IS NULL OR t.agent = ?) AND (? IS NULL OR t.error_code = ?) AND (? IS NULL OR t.end_user = ?) \
     AND (? IS NULL OR t.dead_ms >= ?) AND (? IS NULL OR t.dead_ms < ?) \
     ORDER BY t.dead_ms DESC, t.id DESC LIMIT ?";

/// Binds the parameters of [`WHERE`].
macro_rules! bind {
    ($query:expr, $tenant:expr, $filter:expr, $page:expr, $limit:expr) => {
        $query
            .bind($tenant.0)
            .bind($page.map(|page| page.dead_ms))
            .bind($page.map(|page| page.dead_ms))
            .bind($page.map(|page| page.dead_ms))
            .bind($page.map(|page| page.task.0.as_bytes().to_vec()))
            .bind(&$filter.agent)
            .bind(&$filter.agent)
            .bind($filter.code.map(ErrorCode::as_str))
            .bind($filter.code.map(ErrorCode::as_str))
            .bind(&$filter.user)
            .bind(&$filter.user)
            .bind($filter.after_ms)
            .bind($filter.after_ms)
            .bind($filter.before_ms)
            .bind($filter.before_ms)
            .bind($limit)
    };
}

impl DeadFilter {
    /// Whether it names nothing, and so means every letter.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Store {
    /// At most `limit` dead letters of a tenant, newest first, behind `page`.
    pub async fn dead(
        &self,
        tenant: TenantNo,
        filter: &DeadFilter,
        page: Option<DeadPage>,
        limit: u32,
    ) -> Result<Vec<TaskRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let query = sqlx::query(AssertSqlSafe(format!("SELECT {COLUMNS} FROM task t WHERE {WHERE}")));
                let rows = bind!(query, tenant, filter, page, limit).fetch_all(&mut *connection).await?;
                rows.iter().map(TaskRow::read).collect()
            })
            .await
    }

    /// Notes that an ended task was replayed as `new`: if it was a dead letter, it is none any more.
    pub async fn mark_replayed(&self, key: TaskKey, new: TaskId) -> Result<(), StoreError> {
        self.database
            .run(|mut connection| async move {
                sqlx::query(
                    "UPDATE task SET dead_ms = NULL, replayed_as = ? WHERE tenant = ? AND id = ? \
                     AND status IN ('succeeded', 'failed', 'cancelled', 'expired')",
                )
                .bind(&new.0.as_bytes()[..])
                .bind(key.tenant.0)
                .bind(&key.task.0.as_bytes()[..])
                .execute(&mut *connection)
                .await
            })
            .await?;
        Ok(())
    }

    /// Takes at most `limit` letters off the list, newest first; their tasks stay as they ended. Returns how many.
    pub async fn purge_dead(&self, tenant: TenantNo, filter: &DeadFilter, limit: u32) -> Result<u64, StoreError> {
        self.database
            .run(|mut connection| async move {
                let page = None::<DeadPage>;
                let query = sqlx::query(AssertSqlSafe(format!("SELECT t.id FROM task t WHERE {WHERE}")));
                let rows = bind!(query, tenant, filter, page, limit).fetch_all(&mut *connection).await?;
                let ids: Vec<Vec<u8>> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
                purge(&mut connection, tenant, &ids).await?;
                Ok(ids.len() as u64)
            })
            .await
    }
}

/// By primary key, so that no range is locked.
async fn purge(connection: &mut MySqlConnection, tenant: TenantNo, ids: &[Vec<u8>]) -> Result<(), sqlx::Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids = padded(ids.iter().collect());
    let named = any_of("(tenant = ? AND id = ?)", ids.len());
    let mut query =
        sqlx::query(AssertSqlSafe(format!("UPDATE task SET dead_ms = NULL WHERE dead_ms IS NOT NULL AND ({named})")));
    for id in ids {
        query = query.bind(tenant.0).bind(id);
    }
    query.execute(connection).await?;
    Ok(())
}
