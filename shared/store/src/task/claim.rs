//! The claim: before anything else, a worker makes an attempt its own in MySQL.
//!
//! Law 5: attempt numbers come from here, so they grow across a flush of Redis and poison is bounded in the truth.
//! Claims that wait together are one UPDATE, one commit; the rows are read back and say whose they are.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_protocol::{Status, TaskKey, clock};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::many::{any_of, by_id, padded, rounds};
use super::read::rows_of;
use super::row::TaskRow;
use crate::batch::BatchRow;
use crate::{Store, StoreError};

/// What became of a claim.
#[derive(Clone, Debug)]
pub enum Claimed {
    /// The attempt is the caller's. The row is as after the claim.
    Mine(Box<TaskRow>),
    /// The task has ended: publish what the row says.
    Ended(Box<TaskRow>),
    /// MySQL knows an attempt as high or higher, or the task waits for a person: Redis is behind.
    Ahead(Box<TaskRow>),
    /// No such row.
    Unknown,
}

/// One claim.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    key: TaskKey,
    attempt: u32,
    worker: String,
}

impl Store {
    /// Makes `attempt` of `key` the property of `worker`, if the task has not ended and no attempt is as high.
    ///
    /// A row still `running` counts a crash: its attempt ended without a word. May be repeated: the same attempt and
    /// worker is `Mine` again.
    pub async fn claim(&self, key: TaskKey, attempt: u32, worker: &str) -> Result<Claimed, Arc<StoreError>> {
        let claimed = self.claims.write(Claim { key, attempt, worker: worker.to_owned() }).await;
        if let Ok(Claimed::Mine(row)) = &claimed
            && row.has_webhook
        {
            self.heard_of_webhook();
        }
        claimed
    }
}

impl BatchRow for Claim {
    type Outcome = Claimed;

    async fn write(connection: &mut MySqlConnection, claims: &[Self]) -> Result<Vec<Claimed>, sqlx::Error> {
        for round in rounds(claims, |claim| claim.key.task) {
            update(connection, &padded(round)).await?;
        }
        let keys: Vec<_> = claims.iter().map(|claim| claim.key).collect();
        let rows = rows_of(connection, &keys).await?;
        let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.key, row)).collect();
        Ok(claims.iter().map(|claim| verdict(claim, rows.get(&claim.key))).collect())
    }
}

// MySQL sets from left to right: `crashes` reads the status before it changes. Values are chosen by id with CASE: a
// derived table joined to the UPDATE would cost a temporary table on disk each time.
async fn update(connection: &mut MySqlConnection, items: &[&Claim]) -> Result<(), sqlx::Error> {
    let (attempts, workers) = (by_id("attempt", items.len()), by_id("worker", items.len()));
    let guards = any_of("(tenant = ? AND id = ? AND attempt < ?)", items.len());
    let mut query = sqlx::query(AssertSqlSafe(format!(
        "UPDATE task SET crashes = crashes + (status = 'running'), {attempts}, status = 'running', {workers}, \
         started_ms = COALESCE(started_ms, ?) WHERE status IN ('queued', 'running') AND ({guards})"
    )));
    for claim in items {
        query = query.bind(claim.key.task.0.as_bytes().to_vec()).bind(claim.attempt);
    }
    for claim in items {
        query = query.bind(claim.key.task.0.as_bytes().to_vec()).bind(&claim.worker);
    }
    query = query.bind(clock::wall_ms());
    for claim in items {
        query = query.bind(claim.key.tenant.0).bind(claim.key.task.0.as_bytes().to_vec()).bind(claim.attempt);
    }
    query.execute(connection).await?;
    Ok(())
}

fn verdict(claim: &Claim, row: Option<&TaskRow>) -> Claimed {
    let Some(row) = row.cloned().map(Box::new) else { return Claimed::Unknown };
    if row.status.is_terminal() {
        Claimed::Ended(row)
    } else if row.status == Status::Running
        && row.attempt == claim.attempt
        && row.worker.as_deref() == Some(claim.worker.as_str())
    {
        Claimed::Mine(row)
    } else {
        Claimed::Ahead(row)
    }
}
