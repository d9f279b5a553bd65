//! Tables `webhook_tenant` and `webhook_delivery`.
//!
//! A delivery is written with the accept record, in one transaction, and is *armed*: it is looked at now and then until
//! its task has ended. So no end depends on a message that could be lost; a nudge by whoever stored the end only makes
//! it prompt. `due_ms` is the lease too: whoever looks moves it by a conditional UPDATE, and a process that dies over a
//! delivery leaves it to come due again (at least once). Times are judged by the server's clock.

use std::sync::atomic::Ordering;

use penstock_protocol::{TaskId, TaskKey, TenantNo};
use sha2::{Digest, Sha256};
use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, MySqlConnection, Row};
use uuid::Uuid;

use crate::task::many::{any_of, padded};
use crate::tenant::bump;
use crate::{Store, StoreError};

/// Where the end of a task is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewWebhook {
    /// An absolute URL.
    pub url: String,
    /// The terminal statuses that are told, comma-separated.
    pub events: String,
}

/// What a tenant's deliveries go by.
#[derive(Clone)]
pub struct WebhookTenantRow {
    /// Owner.
    pub tenant: TenantNo,
    /// Where ends are told unless a request says otherwise.
    pub url: Option<String>,
    /// The statuses told there.
    pub events: Option<String>,
}

/// The secrets that sign a tenant's deliveries now, the present one first. Never printed.
#[derive(Clone)]
pub struct WebhookSecrets(pub Vec<[u8; 32]>);

impl std::fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WebhookSecrets({})", self.0.len())
    }
}

/// A delivery that comes up next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookDue {
    /// Its task.
    pub key: TaskKey,
    /// The moment that it was read with; a claim names it.
    pub due_ms: u64,
    /// Time until then; 0 = it is due.
    pub in_ms: u64,
}

/// One delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookRow {
    /// Its task.
    pub key: TaskKey,
    /// Stable over all its tries.
    pub id: Uuid,
    /// Target.
    pub url: String,
    /// The statuses that are told.
    pub events: String,
    /// `armed`, `pending`, `delivered`, `failed`, `skipped`.
    pub state: String,
    /// When it was made.
    pub created_ms: u64,
    /// When it is looked at next.
    pub due_ms: Option<u64>,
    /// When it was first tried.
    pub first_try_ms: Option<u64>,
    /// When it was delivered or given up.
    pub done_ms: Option<u64>,
    /// Tries so far.
    pub tries: u32,
    /// The latest tries as JSON, newest last.
    pub log: Option<String>,
    /// The server's clock when it was read.
    pub now_ms: u64,
}

/// What became of a claimed delivery.
#[derive(Clone, Debug)]
pub enum WebhookSettle {
    /// Its task has not ended: look again.
    Armed {
        /// When.
        after_ms: u64,
    },
    /// Try again.
    Again {
        /// When.
        after_ms: u64,
        /// The tries so far.
        log: String,
    },
    /// Nothing is left to do; a try was made if there is a log.
    Done {
        /// `delivered`, `failed` or `skipped`.
        state: &'static str,
        /// The tries so far.
        log: Option<String>,
    },
}

/// Milliseconds since the Unix epoch by the server's clock.
pub(crate) const NOW: &str = "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED)";

/// An armed delivery is first looked at after this long, if nobody nudges.
const FIRST_LOOK_MS: u64 = 60_000;

const COLUMNS: &str = "tenant, task, id, url, events, state, created_ms, due_ms, first_try_ms, done_ms, tries, log";

impl Store {
    /// The deliveries that come up next, at most `limit`, the most urgent first; also those that are not due yet.
    pub async fn next_webhooks(&self, limit: u32) -> Result<Vec<WebhookDue>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query(AssertSqlSafe(format!(
                    "SELECT tenant, task, due_ms, {NOW} FROM webhook_delivery WHERE due_ms IS NOT NULL \
                     ORDER BY due_ms LIMIT ?"
                )))
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                rows.iter()
                    .map(|row| {
                        let (due_ms, now_ms): (u64, u64) = (row.try_get(2)?, row.try_get(3)?);
                        Ok(WebhookDue { key: key_of(row)?, due_ms, in_ms: due_ms.saturating_sub(now_ms) })
                    })
                    .collect()
            })
            .await
    }

    /// Takes a due delivery for `lease_ms`; `None` when somebody else has it. Its `due_ms` names the claim.
    pub async fn claim_webhook(&self, due: &WebhookDue, lease_ms: u64) -> Result<Option<WebhookRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let claimed = sqlx::query(AssertSqlSafe(format!(
                    "UPDATE webhook_delivery SET due_ms = {NOW} + ? WHERE tenant = ? AND task = ? AND due_ms = ? \
                     AND due_ms <= {NOW}"
                )))
                .bind(lease_ms)
                .bind(due.key.tenant.0)
                .bind(&due.key.task.0.as_bytes()[..])
                .bind(due.due_ms)
                .execute(&mut *connection)
                .await?
                .rows_affected();
                if claimed == 0 { Ok(None) } else { row_of(&mut connection, due.key).await }
            })
            .await
    }

    /// Moves due deliveries back by `after_ms`, without a claim: their target has enough under way.
    pub async fn postpone_webhooks(&self, keys: &[TaskKey], after_ms: u64) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let keys = &padded(keys.to_vec());
        self.database
            .run(|mut connection| async move {
                let named = any_of("(tenant = ? AND task = ?)", keys.len());
                let mut query = sqlx::query(AssertSqlSafe(format!(
                    "UPDATE webhook_delivery SET due_ms = {NOW} + ? WHERE due_ms <= {NOW} AND ({named})"
                )))
                .bind(after_ms);
                for key in keys {
                    query = query.bind(key.tenant.0).bind(key.task.0.as_bytes().to_vec());
                }
                query.execute(&mut *connection).await
            })
            .await?;
        Ok(())
    }

    /// Writes what became of a claimed delivery. Nothing happens if the claim was lost meanwhile.
    pub async fn settle_webhook(&self, claimed: &WebhookRow, settle: &WebhookSettle) -> Result<(), StoreError> {
        let (state, after_ms, log, is_try) = match settle {
            WebhookSettle::Armed { after_ms } => ("armed", Some(*after_ms), None, false),
            WebhookSettle::Again { after_ms, log } => ("pending", Some(*after_ms), Some(log), true),
            WebhookSettle::Done { state, log } => (*state, None, log.as_ref(), log.is_some()),
        };
        self.database
            .run(|mut connection| async move {
                sqlx::query(AssertSqlSafe(format!(
                    "UPDATE webhook_delivery SET state = ?, tries = tries + ?, log = COALESCE(?, log), \
                     first_try_ms = IF(?, COALESCE(first_try_ms, {NOW}), first_try_ms), \
                     done_ms = IF(? IS NULL, {NOW}, NULL), due_ms = {NOW} + ? \
                     WHERE tenant = ? AND task = ? AND due_ms = ?"
                )))
                .bind(state)
                .bind(u32::from(is_try))
                .bind(log)
                .bind(is_try)
                .bind(after_ms)
                .bind(after_ms)
                .bind(claimed.key.tenant.0)
                .bind(&claimed.key.task.0.as_bytes()[..])
                .bind(claimed.due_ms)
                .execute(&mut *connection)
                .await
            })
            .await?;
        // The next try may come before the next look.
        if matches!(settle, WebhookSettle::Again { .. }) {
            self.webhooks.woken.notify_one();
        }
        Ok(())
    }

    /// The delivery of a task.
    pub async fn webhook(&self, key: TaskKey) -> Result<Option<WebhookRow>, StoreError> {
        self.database.run(|mut connection| async move { row_of(&mut connection, key).await }).await
    }

    /// Makes a delivery that was delivered or given up due again, under its old id. Returns whether there was one.
    pub async fn redeliver_webhook(&self, key: TaskKey) -> Result<bool, StoreError> {
        let changed = self
            .database
            .run(|mut connection| async move {
                let done = sqlx::query(AssertSqlSafe(format!(
                    "UPDATE webhook_delivery SET state = 'pending', due_ms = {NOW}, done_ms = NULL, \
                     first_try_ms = NULL, tries = 0 \
                     WHERE tenant = ? AND task = ? AND state IN ('delivered', 'failed', 'skipped')"
                )))
                .bind(key.tenant.0)
                .bind(&key.task.0.as_bytes()[..])
                .execute(&mut *connection)
                .await?;
                Ok(done.rows_affected() > 0)
            })
            .await?;
        if changed {
            self.webhooks.woken.notify_one();
        }
        Ok(changed)
    }

    /// Deletes the records of deliveries that ended more than `keep_ms` ago, at most `limit`; returns how many went.
    pub async fn sweep_webhooks(&self, keep_ms: u64, limit: u32) -> Result<u64, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query(AssertSqlSafe(format!(
                    "SELECT tenant, task FROM webhook_delivery WHERE done_ms < {NOW} - ? ORDER BY done_ms LIMIT ?"
                )))
                .bind(keep_ms)
                .bind(limit)
                .fetch_all(&mut *connection)
                .await?;
                let keys = padded(rows.iter().map(key_of).collect::<Result<Vec<_>, _>>()?);
                if keys.is_empty() {
                    return Ok(0);
                }
                let named = any_of("(tenant = ? AND task = ?)", keys.len());
                let mut query = sqlx::query(AssertSqlSafe(format!(
                    "DELETE FROM webhook_delivery WHERE done_ms IS NOT NULL AND ({named})"
                )));
                for key in &keys {
                    query = query.bind(key.tenant.0).bind(key.task.0.as_bytes().to_vec());
                }
                Ok(query.execute(&mut *connection).await?.rows_affected())
            })
            .await
    }

    /// Waits until this process stored an end that is told somewhere, or a redelivery. Cancel-safe.
    pub async fn webhook_woken(&self) {
        self.webhooks.woken.notified().await;
    }

    /// Every tenant that has a webhook secret, without it.
    pub async fn webhook_tenants(&self) -> Result<Vec<WebhookTenantRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows =
                    sqlx::query("SELECT tenant, url, events FROM webhook_tenant").fetch_all(&mut *connection).await?;
                rows.iter()
                    .map(|row| {
                        let tenant = TenantNo(row.try_get(0)?);
                        Ok(WebhookTenantRow { tenant, url: row.try_get(1)?, events: row.try_get(2)? })
                    })
                    .collect()
            })
            .await
    }

    /// The secrets in force of a tenant; `None` when it has none.
    pub async fn webhook_secrets(&self, tenant: TenantNo) -> Result<Option<WebhookSecrets>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let row = sqlx::query(AssertSqlSafe(format!(
                    "SELECT secret, IF(before_until_ms > {NOW}, secret_before, NULL) FROM webhook_tenant \
                     WHERE tenant = ?"
                )))
                .bind(tenant.0)
                .fetch_optional(&mut *connection)
                .await?;
                let Some(row) = row else { return Ok(None) };
                let (now, before): (Vec<u8>, Option<Vec<u8>>) = (row.try_get(0)?, row.try_get(1)?);
                let secrets = std::iter::once(now).chain(before).map(|secret| {
                    secret.try_into().map_err(|_| sqlx::Error::Decode("a webhook secret is 32 bytes".into()))
                });
                Ok(Some(WebhookSecrets(secrets.collect::<Result<_, _>>()?)))
            })
            .await
    }

    /// Gives a tenant a new secret; the one before signs as well for `overlap_ms`. Errors: `Conflict` without such a
    /// tenant.
    pub async fn rotate_webhook_secret(
        &self,
        tenant: &str,
        secret: &[u8; 32],
        overlap_ms: u64,
    ) -> Result<(), StoreError> {
        let no = self.tenant_named(tenant).await?;
        self.database
            .run(|mut connection| async move {
                // A repeat after a lost answer finds its own secret there and keeps the one before.
                sqlx::query(AssertSqlSafe(format!(
                    "INSERT INTO webhook_tenant (tenant, secret) VALUES (?, ?) ON DUPLICATE KEY UPDATE \
                     secret_before = IF(secret = VALUES(secret), secret_before, secret), \
                     before_until_ms = {NOW} + ?, secret = VALUES(secret)"
                )))
                .bind(no.0)
                .bind(&secret[..])
                .bind(overlap_ms)
                .execute(&mut *connection)
                .await?;
                bump(&mut connection).await
            })
            .await
    }

    /// Sets or removes where a tenant's ends are told by default. Errors: `Conflict` when the tenant has no secret yet.
    pub async fn set_webhook_default(&self, tenant: &str, webhook: Option<&NewWebhook>) -> Result<(), StoreError> {
        let no = self.tenant_named(tenant).await?;
        let found = self
            .database
            .run(|mut connection| async move {
                let done = sqlx::query("UPDATE webhook_tenant SET url = ?, events = ? WHERE tenant = ?")
                    .bind(webhook.map(|webhook| &webhook.url))
                    .bind(webhook.map(|webhook| &webhook.events))
                    .bind(no.0)
                    .execute(&mut *connection)
                    .await?;
                bump(&mut connection).await?;
                Ok(done.rows_affected() > 0)
            })
            .await?;
        let missing = || StoreError::Conflict(format!("tenant `{tenant}` has no webhook secret yet; make one first"));
        if found { Ok(()) } else { Err(missing()) }
    }

    pub(crate) async fn tenant_named(&self, name: &str) -> Result<TenantNo, StoreError> {
        let no = self
            .database
            .run(|mut connection| async move {
                sqlx::query_scalar::<_, u32>("SELECT no FROM tenant WHERE name = ? AND revoked_ms IS NULL")
                    .bind(name)
                    .fetch_optional(&mut *connection)
                    .await
            })
            .await?;
        no.map(TenantNo).ok_or_else(|| StoreError::Conflict(format!("there is no active tenant named `{name}`")))
    }

    /// Makes the deliveries of ended tasks due at once. Best effort: an armed delivery is looked at anyway.
    pub(crate) fn heard_of_webhook(&self) {
        self.webhooks.is_used.store(true, Ordering::Relaxed);
    }
}

/// What the process knows of webhooks without asking.
#[derive(Debug, Default)]
pub(crate) struct Webhooks {
    /// Rung when a delivery became due by this process's own doing.
    pub(crate) woken: tokio::sync::Notify,
    /// A task with a webhook was met: from now on ends are followed by a nudge.
    pub(crate) is_used: std::sync::atomic::AtomicBool,
}

/// The stable id of a task's delivery.
pub(crate) fn delivery_id(key: TaskKey) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(b"webhook");
    hash.update(key.tenant.0.to_be_bytes());
    hash.update(key.task.0.as_bytes());
    let mut head = [0_u8; 16];
    head.copy_from_slice(&hash.finalize()[..16]);
    Uuid::new_v8(head)
}

/// Arms a delivery, in the transaction of the accept record.
pub(crate) async fn arm(
    connection: &mut MySqlConnection,
    key: TaskKey,
    webhook: &NewWebhook,
) -> Result<(), sqlx::Error> {
    sqlx::query(AssertSqlSafe(format!(
        "INSERT INTO webhook_delivery (tenant, task, id, url, events, state, created_ms, due_ms) \
         VALUES (?, ?, ?, ?, ?, 'armed', {NOW}, {NOW} + ?)"
    )))
    .bind(key.tenant.0)
    .bind(&key.task.0.as_bytes()[..])
    .bind(&delivery_id(key).as_bytes()[..])
    .bind(&webhook.url)
    .bind(&webhook.events)
    .bind(FIRST_LOOK_MS)
    .execute(connection)
    .await?;
    Ok(())
}

/// Makes armed deliveries of tasks that have just ended due; returns how many.
pub(crate) async fn nudge(connection: &mut MySqlConnection, keys: &[TaskKey]) -> Result<u64, sqlx::Error> {
    if keys.is_empty() {
        return Ok(0);
    }
    let keys = padded(keys.to_vec());
    let named = any_of("(tenant = ? AND task = ?)", keys.len());
    let mut query = sqlx::query(AssertSqlSafe(format!(
        "UPDATE webhook_delivery SET due_ms = {NOW}, state = 'pending' WHERE state = 'armed' AND ({named})"
    )));
    for key in &keys {
        query = query.bind(key.tenant.0).bind(key.task.0.as_bytes().to_vec());
    }
    Ok(query.execute(connection).await?.rows_affected())
}

async fn row_of(connection: &mut MySqlConnection, key: TaskKey) -> Result<Option<WebhookRow>, sqlx::Error> {
    let row = sqlx::query(AssertSqlSafe(format!(
        "SELECT {COLUMNS}, {NOW} FROM webhook_delivery WHERE tenant = ? AND task = ?"
    )))
    .bind(key.tenant.0)
    .bind(&key.task.0.as_bytes()[..])
    .fetch_optional(connection)
    .await?;
    row.as_ref().map(read).transpose()
}

fn key_of(row: &MySqlRow) -> Result<TaskKey, sqlx::Error> {
    Ok(TaskKey::new(TenantNo(row.try_get(0)?), TaskId(uuid(row, 1)?)))
}

fn read(row: &MySqlRow) -> Result<WebhookRow, sqlx::Error> {
    Ok(WebhookRow {
        key: key_of(row)?,
        id: uuid(row, 2)?,
        url: row.try_get(3)?,
        events: row.try_get(4)?,
        state: row.try_get(5)?,
        created_ms: row.try_get(6)?,
        due_ms: row.try_get(7)?,
        first_try_ms: row.try_get(8)?,
        done_ms: row.try_get(9)?,
        tries: row.try_get(10)?,
        log: row.try_get(11)?,
        now_ms: row.try_get(12)?,
    })
}

fn uuid(row: &MySqlRow, at: usize) -> Result<Uuid, sqlx::Error> {
    let bytes: Vec<u8> = row.try_get(at)?;
    Uuid::from_slice(&bytes).map_err(|error| sqlx::Error::Decode(error.into()))
}
