//! Table `tenant`.

use penstock_protocol::{TenantNo, clock};
use sqlx::Row;

use crate::{Store, StoreError};

/// A customer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantRow {
    /// Number, part of every key.
    pub no: TenantNo,
    /// Unique name.
    pub name: String,
    /// Share of the workers among tenants that wait, from 1.
    pub weight: u32,
    /// Most tasks running at once; `None` = the setting of the queue.
    pub running_max: Option<u32>,
    /// Most tasks waiting; `None` = the setting of the queue.
    pub depth_max: Option<u32>,
    /// Most tasks that have not ended; `None` = any number.
    pub live_max: Option<u32>,
    /// Most tasks of one of its users that have not ended; `None` = the setting of the queue.
    pub user_live_max: Option<u32>,
    /// Most tasks started in a minute, evenly spread; `None` = any number.
    pub starts_per_minute: Option<u32>,
    /// When it was revoked, if it was.
    pub revoked_ms: Option<u64>,
}

/// What is to be changed of a tenant's terms; `None` leaves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TermsChange {
    /// Share of the workers, from 1.
    pub weight: Option<u32>,
    /// Most tasks running at once.
    pub running_max: Option<Bound>,
    /// Most tasks waiting.
    pub depth_max: Option<Bound>,
    /// Most tasks that have not ended.
    pub live_max: Option<Bound>,
    /// Most tasks of one user that have not ended.
    pub user_live_max: Option<Bound>,
    /// Most tasks started in a minute.
    pub starts_per_minute: Option<Bound>,
}

/// A bound of a tenant; `None` = what the settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound(pub Option<u32>);

impl Store {
    /// Changes a tenant's terms. Errors: `Conflict` when there is no such tenant.
    pub async fn change_terms(&self, name: &str, change: TermsChange) -> Result<(), StoreError> {
        let (is_set, value) = (|bound: Option<Bound>| bound.is_some(), |bound: Option<Bound>| bound.and_then(|b| b.0));
        let changed = self
            .database
            .run(|mut connection| async move {
                let done = sqlx::query(
                    "UPDATE tenant SET weight = COALESCE(?, weight), running_max = IF(?, ?, running_max), \
                     depth_max = IF(?, ?, depth_max), live_max = IF(?, ?, live_max), \
                     user_live_max = IF(?, ?, user_live_max), starts_per_minute = IF(?, ?, starts_per_minute) \
                     WHERE name = ?",
                )
                .bind(change.weight)
                .bind(is_set(change.running_max))
                .bind(value(change.running_max))
                .bind(is_set(change.depth_max))
                .bind(value(change.depth_max))
                .bind(is_set(change.live_max))
                .bind(value(change.live_max))
                .bind(is_set(change.user_live_max))
                .bind(value(change.user_live_max))
                .bind(is_set(change.starts_per_minute))
                .bind(value(change.starts_per_minute))
                .bind(name)
                .execute(&mut *connection)
                .await?;
                bump(&mut connection).await?;
                bump_queue(&mut connection).await?;
                // The connection counts rows found, not rows changed: the same terms again are no error.
                Ok(done.rows_affected() > 0)
            })
            .await?;
        if changed { Ok(()) } else { Err(StoreError::Conflict(format!("there is no tenant named `{name}`"))) }
    }

    /// Creates a tenant. Errors: `Conflict` when the name is taken.
    pub async fn create_tenant(&self, name: &str) -> Result<TenantNo, StoreError> {
        let created = self
            .database
            .run(|mut connection| async move {
                let done = sqlx::query("INSERT IGNORE INTO tenant (name, created_ms) VALUES (?, ?)")
                    .bind(name)
                    .bind(clock::wall_ms())
                    .execute(&mut *connection)
                    .await?;
                bump(&mut connection).await?;
                Ok((done.rows_affected() > 0).then(|| done.last_insert_id()))
            })
            .await?;
        let no = created.ok_or_else(|| StoreError::Conflict(format!("a tenant named `{name}` exists already")))?;
        u32::try_from(no)
            .map(TenantNo)
            .map_err(|_| StoreError::Corrupt { row: format!("tenant {name}"), reason: format!("number {no}") })
    }

    /// Revokes a tenant: its keys stop working. Its tasks run on. Errors: `Conflict` when there is no such tenant.
    pub async fn revoke_tenant(&self, name: &str) -> Result<(), StoreError> {
        let revoked = self
            .database
            .run(|mut connection| async move {
                let done = sqlx::query("UPDATE tenant SET revoked_ms = COALESCE(revoked_ms, ?) WHERE name = ?")
                    .bind(clock::wall_ms())
                    .bind(name)
                    .execute(&mut *connection)
                    .await?;
                bump(&mut connection).await?;
                // The connection counts rows found, not rows changed: a second revocation is no error.
                Ok(done.rows_affected() > 0)
            })
            .await?;
        if revoked { Ok(()) } else { Err(StoreError::Conflict(format!("there is no tenant named `{name}`"))) }
    }

    /// All tenants, revoked ones included, by number.
    pub async fn tenants(&self) -> Result<Vec<TenantRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query(
                    "SELECT no, name, weight, running_max, depth_max, live_max, user_live_max, starts_per_minute, \
                     revoked_ms FROM tenant ORDER BY no",
                )
                .fetch_all(&mut *connection)
                .await?;
                rows.iter()
                    .map(|row| {
                        Ok(TenantRow {
                            no: TenantNo(row.try_get(0)?),
                            name: row.try_get(1)?,
                            weight: row.try_get(2)?,
                            running_max: row.try_get(3)?,
                            depth_max: row.try_get(4)?,
                            live_max: row.try_get(5)?,
                            user_live_max: row.try_get(6)?,
                            starts_per_minute: row.try_get(7)?,
                            revoked_ms: row.try_get(8)?,
                        })
                    })
                    .collect()
            })
            .await
    }

    /// A number that grows with every change of tenants and keys.
    pub async fn keys_revision(&self) -> Result<u64, StoreError> {
        self.database
            .run(|mut connection| async move {
                sqlx::query_scalar("SELECT n FROM revision WHERE name = 'keys'").fetch_one(&mut *connection).await
            })
            .await
    }
}

/// Tells every process that tenants or keys changed. Runs after the change: a reader that sees the new number sees it too.
pub(crate) async fn bump(connection: &mut sqlx::MySqlConnection) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE revision SET n = n + 1 WHERE name = 'keys'").execute(&mut *connection).await?;
    Ok(())
}

/// Tells recovery that terms or pauses changed.
pub(crate) async fn bump_queue(connection: &mut sqlx::MySqlConnection) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE revision SET n = n + 1 WHERE name = 'queue'").execute(&mut *connection).await?;
    Ok(())
}
