//! Tables `schedule` and `schedule_fire`.
//!
//! The cursor of an entry moves by a conditional UPDATE, in one transaction with the record of the fire that it leaves
//! behind. A fire's task is submitted before that, under an id derived from entry and fire time: so a process that dies
//! anywhere neither loses nor doubles a fire. Times are judged by the server's clock.

use penstock_protocol::{TaskId, TenantNo};
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, Row};
use uuid::Uuid;

use crate::webhook::NOW;
use crate::{Store, StoreError};

/// Whether an entry fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleStatus {
    /// It fires.
    Active,
    /// It does not fire, and its cursor stands: what it misses is treated as missed when it goes on.
    Paused,
    /// It does not fire, and misses nothing: it goes on with the first fire after it was made active.
    Disabled,
}

impl ScheduleStatus {
    /// The stored name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Disabled => "disabled",
        }
    }

    fn from_stored(text: &str) -> Self {
        match text {
            "active" => Self::Active,
            "paused" => Self::Paused,
            _ => Self::Disabled,
        }
    }
}

/// An entry as it is written.
#[derive(Clone, Debug)]
pub struct ScheduleWrite {
    /// Owner.
    pub tenant: TenantNo,
    /// Its id.
    pub id: Uuid,
    /// Label for people.
    pub name: String,
    /// Five fields.
    pub cron: String,
    /// IANA name.
    pub zone: String,
    /// Late fires that are made up for.
    pub misfire_max: u32,
    /// Whether a fire is left out while the task of the last one lives.
    pub is_overlap_skipped: bool,
    /// Whether it fires.
    pub status: ScheduleStatus,
    /// The request that each fire submits, as JSON.
    pub template: String,
    /// Its cursor.
    pub next_ms: Option<u64>,
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of `ScheduleWrite`, and below")]
pub struct ScheduleRow {
    pub tenant: TenantNo,
    pub id: Uuid,
    pub name: String,
    pub cron: String,
    pub zone: String,
    pub misfire_max: u32,
    pub is_overlap_skipped: bool,
    pub status: ScheduleStatus,
    pub template: String,
    /// Grows with each change.
    pub version: u32,
    pub next_ms: Option<u64>,
    /// When a scheduler looks at it.
    pub wake_ms: Option<u64>,
    /// The fire that was begun.
    pub begun_ms: Option<u64>,
    /// When it was begun.
    pub begun_at_ms: Option<u64>,
    /// How often it was refused.
    pub tries: u32,
    /// Task of the last fire.
    pub last_task: Option<TaskId>,
    pub created_ms: u64,
    pub changed_ms: u64,
    /// The server's clock when it was read.
    pub now_ms: u64,
}

impl ScheduleWrite {
    /// An entry whose times do not change keeps its cursor: a change of its task loses no fire that is under way, and a
    /// pause that ends treats what was missed as missed. Only one that was disabled begins anew.
    pub fn keep_cursor(&mut self, old: &ScheduleRow) {
        let is_same = self.cron == old.cron && self.zone == old.zone;
        if is_same && old.status != ScheduleStatus::Disabled && old.next_ms.is_some() {
            self.next_ms = old.next_ms;
        }
    }
}

/// An entry that comes up next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduleDue {
    /// Owner.
    pub tenant: TenantNo,
    /// Its id.
    pub id: Uuid,
    /// The moment that it was read with; a claim names it.
    pub wake_ms: u64,
    /// Time until then; 0 = it is due.
    pub in_ms: u64,
}

/// What became of a fire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FireRecord {
    /// The fire time; of a fire by hand, its moment.
    pub fire_ms: u64,
    /// `accepted`, `missed`, `skipped`, `refused`, `manual`.
    pub outcome: String,
    /// Its task.
    pub task: Option<TaskId>,
    /// Why, where it has no task.
    pub detail: Option<String>,
    /// When that was known; given by the server.
    pub at_ms: u64,
}

const COLUMNS: &str = "tenant, id, name, cron, zone, misfire_max, is_overlap_skipped, status, template, version, \
     next_ms, wake_ms, begun_ms, begun_at_ms, tries, last_task, created_ms, changed_ms";

impl Store {
    /// Milliseconds since the Unix epoch by the server's clock.
    pub async fn now_ms(&self) -> Result<u64, StoreError> {
        self.database
            .run(|mut connection| async move {
                sqlx::query_scalar(AssertSqlSafe(format!("SELECT {NOW}"))).fetch_one(&mut *connection).await
            })
            .await
    }

    /// Writes an entry, new or in the place of its old self. `None`: the tenant has `count_max` already.
    pub async fn put_schedule(&self, entry: &ScheduleWrite, count_max: u32) -> Result<Option<ScheduleRow>, StoreError> {
        let row = self
            .database
            .run(|mut connection| async move {
                let mut transaction = connection.begin().await?;
                // Writers of one tenant go one after the other, so that the bound is exact.
                sqlx::query("SELECT no FROM tenant WHERE no = ? FOR UPDATE")
                    .bind(entry.tenant.0)
                    .fetch_optional(&mut *transaction)
                    .await?;
                let others: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM schedule WHERE tenant = ? AND id <> ?")
                    .bind(entry.tenant.0)
                    .bind(&entry.id.as_bytes()[..])
                    .fetch_one(&mut *transaction)
                    .await?;
                if others >= i64::from(count_max) {
                    return Ok(None);
                }
                let wake_ms = entry.next_ms.filter(|_| entry.status == ScheduleStatus::Active);
                sqlx::query(AssertSqlSafe(format!(
                    "INSERT INTO schedule (tenant, id, name, cron, zone, misfire_max, is_overlap_skipped, status, \
                     template, version, next_ms, wake_ms, created_ms, changed_ms) \
                     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?, {NOW}, {NOW}) \
                     ON DUPLICATE KEY UPDATE name = VALUES(name), cron = VALUES(cron), zone = VALUES(zone), \
                     misfire_max = VALUES(misfire_max), is_overlap_skipped = VALUES(is_overlap_skipped), \
                     status = VALUES(status), template = VALUES(template), version = version + 1, \
                     next_ms = VALUES(next_ms), wake_ms = VALUES(wake_ms), begun_ms = NULL, begun_at_ms = NULL, \
                     tries = 0, changed_ms = VALUES(changed_ms)"
                )))
                .bind(entry.tenant.0)
                .bind(&entry.id.as_bytes()[..])
                .bind(&entry.name)
                .bind(&entry.cron)
                .bind(&entry.zone)
                .bind(entry.misfire_max)
                .bind(entry.is_overlap_skipped)
                .bind(entry.status.as_str())
                .bind(&entry.template)
                .bind(entry.next_ms)
                .bind(wake_ms)
                .execute(&mut *transaction)
                .await?;
                let row = row_of(&mut transaction, entry.tenant, entry.id).await?;
                transaction.commit().await?;
                Ok(row)
            })
            .await?;
        self.schedule_woken.notify_one();
        Ok(row)
    }

    /// An entry of a tenant.
    pub async fn schedule(&self, tenant: TenantNo, id: Uuid) -> Result<Option<ScheduleRow>, StoreError> {
        self.database.run(|mut connection| async move { row_of(&mut connection, tenant, id).await }).await
    }

    /// All entries of a tenant, the oldest first; there is a bound on them.
    pub async fn schedules(&self, tenant: TenantNo) -> Result<Vec<ScheduleRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query(AssertSqlSafe(format!(
                    "SELECT {COLUMNS}, {NOW} FROM schedule WHERE tenant = ? ORDER BY created_ms, id"
                )))
                .bind(tenant.0)
                .fetch_all(&mut *connection)
                .await?;
                rows.iter().map(read).collect()
            })
            .await
    }

    /// Deletes an entry and the record of its fires. Its tasks go on. Returns whether it was there.
    pub async fn delete_schedule(&self, tenant: TenantNo, id: Uuid) -> Result<bool, StoreError> {
        self.database
            .run(|mut connection| async move {
                let gone = sqlx::query("DELETE FROM schedule WHERE tenant = ? AND id = ?")
                    .bind(tenant.0)
                    .bind(&id.as_bytes()[..])
                    .execute(&mut *connection)
                    .await?;
                sqlx::query("DELETE FROM schedule_fire WHERE tenant = ? AND schedule = ?")
                    .bind(tenant.0)
                    .bind(&id.as_bytes()[..])
                    .execute(&mut *connection)
                    .await?;
                Ok(gone.rows_affected() > 0)
            })
            .await
    }

    /// The latest fires of an entry, newest first.
    pub async fn schedule_fires(&self, tenant: TenantNo, id: Uuid, limit: u32) -> Result<Vec<FireRecord>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query(
                    "SELECT fire_ms, outcome, task, detail, at_ms FROM schedule_fire \
                     WHERE tenant = ? AND schedule = ? ORDER BY n DESC LIMIT ?",
                )
                .bind(tenant.0)
                .bind(&id.as_bytes()[..])
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                rows.iter()
                    .map(|row| {
                        Ok(FireRecord {
                            fire_ms: row.try_get(0)?,
                            outcome: row.try_get(1)?,
                            task: optional_uuid(row, 2)?.map(TaskId),
                            detail: row.try_get(3)?,
                            at_ms: row.try_get(4)?,
                        })
                    })
                    .collect()
            })
            .await
    }

    /// The entries that come up next, at most `limit`, the most urgent first; also those that are not due yet.
    pub async fn next_schedules(&self, limit: u32) -> Result<Vec<ScheduleDue>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query(AssertSqlSafe(format!(
                    "SELECT tenant, id, wake_ms, {NOW} FROM schedule WHERE wake_ms IS NOT NULL ORDER BY wake_ms LIMIT ?"
                )))
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                rows.iter()
                    .map(|row| {
                        let (wake_ms, now_ms): (u64, u64) = (row.try_get(2)?, row.try_get(3)?);
                        let in_ms = wake_ms.saturating_sub(now_ms);
                        Ok(ScheduleDue { tenant: TenantNo(row.try_get(0)?), id: uuid(row, 1)?, wake_ms, in_ms })
                    })
                    .collect()
            })
            .await
    }

    /// Takes a due entry for `lease_ms`; `None` when somebody else has it.
    pub async fn claim_schedule(&self, due: &ScheduleDue, lease_ms: u64) -> Result<Option<ScheduleRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let claimed = sqlx::query(AssertSqlSafe(format!(
                    "UPDATE schedule SET wake_ms = {NOW} + ? WHERE tenant = ? AND id = ? AND wake_ms = ? \
                     AND wake_ms <= {NOW}"
                )))
                .bind(lease_ms)
                .bind(due.tenant.0)
                .bind(&due.id.as_bytes()[..])
                .bind(due.wake_ms)
                .execute(&mut *connection)
                .await?
                .rows_affected();
                if claimed == 0 { Ok(None) } else { row_of(&mut connection, due.tenant, due.id).await }
            })
            .await
    }

    /// Notes that the fire at the cursor was begun, so that it is no misfire when it is taken up again.
    pub async fn begin_fire(&self, row: &ScheduleRow) -> Result<bool, StoreError> {
        self.database
            .run(|mut connection| async move {
                let begun = sqlx::query(AssertSqlSafe(format!(
                    "UPDATE schedule SET begun_at_ms = IF(begun_ms = next_ms, begun_at_ms, {NOW}), \
                     tries = IF(begun_ms = next_ms, tries, 0), begun_ms = next_ms \
                     WHERE tenant = ? AND id = ? AND next_ms = ? AND version = ?"
                )))
                .bind(row.tenant.0)
                .bind(&row.id.as_bytes()[..])
                .bind(row.next_ms)
                .bind(row.version)
                .execute(&mut *connection)
                .await?;
                Ok(begun.rows_affected() > 0)
            })
            .await
    }

    /// The fire at the cursor was refused for now: it is tried again after `after_ms`.
    pub async fn delay_fire(&self, row: &ScheduleRow, after_ms: u64) -> Result<(), StoreError> {
        self.database
            .run(|mut connection| async move {
                sqlx::query(AssertSqlSafe(format!(
                    "UPDATE schedule SET wake_ms = {NOW} + ?, tries = tries + 1 \
                     WHERE tenant = ? AND id = ? AND next_ms = ? AND version = ? AND status = 'active'"
                )))
                .bind(after_ms)
                .bind(row.tenant.0)
                .bind(&row.id.as_bytes()[..])
                .bind(row.next_ms)
                .bind(row.version)
                .execute(&mut *connection)
                .await
            })
            .await?;
        Ok(())
    }

    /// Moves the cursor from where `row` has it to `next_ms`, and records what became of the fire left behind. Returns
    /// whether this call moved it. At most `keep` records of an entry stay.
    pub async fn advance_schedule(
        &self,
        row: &ScheduleRow,
        next_ms: Option<u64>,
        record: &FireRecord,
        keep: u32,
    ) -> Result<bool, StoreError> {
        self.database
            .run(|mut connection| async move {
                let mut transaction = connection.begin().await?;
                let moved = sqlx::query(
                    "UPDATE schedule SET wake_ms = IF(status = 'active', ?, NULL), begun_ms = NULL, \
                     begun_at_ms = NULL, tries = 0, last_task = COALESCE(?, last_task), next_ms = ? \
                     WHERE tenant = ? AND id = ? AND next_ms = ? AND version = ?",
                )
                .bind(next_ms)
                .bind(record.task.map(|task| task.0.as_bytes().to_vec()))
                .bind(next_ms)
                .bind(row.tenant.0)
                .bind(&row.id.as_bytes()[..])
                .bind(row.next_ms)
                .bind(row.version)
                .execute(&mut *transaction)
                .await?
                .rows_affected()
                    > 0;
                if moved {
                    insert_fire(&mut transaction, row.tenant, row.id, record, keep).await?;
                }
                transaction.commit().await?;
                Ok(moved)
            })
            .await
    }

    /// Records a fire by hand. The cursor stays where it is.
    pub async fn record_fire(
        &self,
        tenant: TenantNo,
        id: Uuid,
        record: &FireRecord,
        keep: u32,
    ) -> Result<(), StoreError> {
        self.database
            .run(|mut connection| async move { insert_fire(&mut connection, tenant, id, record, keep).await })
            .await
    }

    /// Waits until this process changed an entry. Cancel-safe.
    pub async fn schedule_woken(&self) {
        self.schedule_woken.notified().await;
    }

    /// Sets the cursor of an entry back, as if nobody had looked for a while.
    #[cfg(feature = "fixture")]
    pub async fn rewind_schedule(&self, tenant: TenantNo, id: Uuid, next_ms: u64) -> Result<(), StoreError> {
        self.database
            .run(|mut connection| async move {
                sqlx::query("UPDATE schedule SET next_ms = ?, wake_ms = ? WHERE tenant = ? AND id = ?")
                    .bind(next_ms)
                    .bind(next_ms)
                    .bind(tenant.0)
                    .bind(&id.as_bytes()[..])
                    .execute(&mut *connection)
                    .await
            })
            .await?;
        self.schedule_woken.notify_one();
        Ok(())
    }
}

async fn insert_fire(
    connection: &mut MySqlConnection,
    tenant: TenantNo,
    id: Uuid,
    record: &FireRecord,
    keep: u32,
) -> Result<(), sqlx::Error> {
    sqlx::query(AssertSqlSafe(format!(
        "INSERT INTO schedule_fire (tenant, schedule, fire_ms, outcome, task, detail, at_ms) \
         VALUES (?, ?, ?, ?, ?, ?, {NOW})"
    )))
    .bind(tenant.0)
    .bind(&id.as_bytes()[..])
    .bind(record.fire_ms)
    .bind(&record.outcome)
    .bind(record.task.map(|task| task.0.as_bytes().to_vec()))
    .bind(&record.detail)
    .execute(&mut *connection)
    .await?;
    let oldest: Option<u64> = sqlx::query_scalar(
        "SELECT n FROM schedule_fire WHERE tenant = ? AND schedule = ? ORDER BY n DESC LIMIT 1 OFFSET ?",
    )
    .bind(tenant.0)
    .bind(&id.as_bytes()[..])
    .bind(keep)
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(oldest) = oldest {
        sqlx::query("DELETE FROM schedule_fire WHERE tenant = ? AND schedule = ? AND n <= ? LIMIT 100")
            .bind(tenant.0)
            .bind(&id.as_bytes()[..])
            .bind(oldest)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn row_of(
    connection: &mut MySqlConnection,
    tenant: TenantNo,
    id: Uuid,
) -> Result<Option<ScheduleRow>, sqlx::Error> {
    let row = sqlx::query(AssertSqlSafe(format!("SELECT {COLUMNS}, {NOW} FROM schedule WHERE tenant = ? AND id = ?")))
        .bind(tenant.0)
        .bind(&id.as_bytes()[..])
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(read).transpose()
}

fn read(row: &MySqlRow) -> Result<ScheduleRow, sqlx::Error> {
    let status: String = row.try_get(7)?;
    Ok(ScheduleRow {
        tenant: TenantNo(row.try_get(0)?),
        id: uuid(row, 1)?,
        name: row.try_get(2)?,
        cron: row.try_get(3)?,
        zone: row.try_get(4)?,
        misfire_max: row.try_get(5)?,
        is_overlap_skipped: row.try_get(6)?,
        status: ScheduleStatus::from_stored(&status),
        template: row.try_get(8)?,
        version: row.try_get(9)?,
        next_ms: row.try_get(10)?,
        wake_ms: row.try_get(11)?,
        begun_ms: row.try_get(12)?,
        begun_at_ms: row.try_get(13)?,
        tries: row.try_get(14)?,
        last_task: optional_uuid(row, 15)?.map(TaskId),
        created_ms: row.try_get(16)?,
        changed_ms: row.try_get(17)?,
        now_ms: row.try_get(18)?,
    })
}

fn uuid(row: &MySqlRow, at: usize) -> Result<Uuid, sqlx::Error> {
    optional_uuid(row, at)?.ok_or_else(|| sqlx::Error::Decode("an id is missing".into()))
}

fn optional_uuid(row: &MySqlRow, at: usize) -> Result<Option<Uuid>, sqlx::Error> {
    let bytes: Option<Vec<u8>> = row.try_get(at)?;
    bytes.map(|bytes| Uuid::from_slice(&bytes).map_err(|error| sqlx::Error::Decode(error.into()))).transpose()
}
