//! The end of a task: one conditional UPDATE (law 4). The first one wins; the loser reads the row and publishes that.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_protocol::{Ending, Status, TaskKey, clock};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::many::{SHARED_BYTES_MAX, any_of, by_id, choice, padded, rounds};
use super::read::{row_of, rows_of};
use super::row::TaskRow;
use crate::batch::BatchRow;
use crate::{Store, StoreError};

/// What a worker stores when an attempt ends its task.
#[derive(Clone, Debug)]
pub struct End {
    /// Task.
    pub key: TaskKey,
    /// The attempt that ends it; the guard of the UPDATE.
    pub attempt: u32,
    /// Status, result, error, usage.
    pub ending: Ending,
    /// `provider/model` that served last.
    pub model: Option<String>,
    /// Model calls of this attempt.
    pub model_calls: u32,
}

/// Whose end stands in the row.
#[derive(Clone, Debug)]
pub enum Ended {
    /// The caller's.
    Mine,
    /// Somebody else's came first: publish what the row says. Not terminal: the attempt was taken away.
    Other(Box<TaskRow>),
    /// No such row.
    Unknown,
}

impl Store {
    /// Ends a task that the caller's attempt runs, together with whatever else ends now.
    ///
    /// May be repeated: an end that this attempt wrote before is `Mine` again.
    pub async fn end(&self, end: End) -> Result<Ended, Arc<StoreError>> {
        self.ends.write(EndRow::of(end)?).await
    }

    /// The same for a task whose attempts ran out: it becomes a dead letter.
    pub async fn end_as_dead_letter(&self, end: End) -> Result<Ended, Arc<StoreError>> {
        self.ends.write(EndRow { is_dead: true, ..EndRow::of(end)? }).await
    }

    /// Ends a task that nobody runs any more, by a closing attempt above every other one. It becomes a dead letter,
    /// and the worker that it was lost with is counted, as a claim would.
    pub async fn end_closing(&self, key: TaskKey, attempt: u32, ending: &Ending) -> Result<Ended, StoreError> {
        let (code, message) = error_columns(ending);
        let row = self
            .database
            .run(|mut connection| async move {
                sqlx::query(
                    "UPDATE task SET crashes = crashes + (status = 'running'), attempt = ?, status = ?, \
                     open_place = NULL, ended_ms = ?, dead_ms = ended_ms, \
                     error_code = ?, error_message = ? WHERE tenant = ? AND id = ? AND attempt < ? AND status IN ('queued', 'running')",
                )
                .bind(attempt)
                .bind(ending.status.as_str())
                .bind(clock::wall_ms())
                .bind(code)
                .bind(message)
                .bind(key.tenant.0)
                .bind(&key.task.0.as_bytes()[..])
                .bind(attempt)
                .execute(&mut *connection)
                .await?;
                row_of(&mut connection, key).await
            })
            .await?;
        Ok(verdict(attempt, ending.status, row.as_ref()))
    }

    /// Stores what a cancelled task's client had seen, where its worker cannot say: it is gone, or none ran it.
    pub async fn add_seen(&self, key: TaskKey, seen: &serde_json::Value) -> Result<(), StoreError> {
        let seen = &seen.to_string();
        self.database
            .run(|mut connection| async move {
                sqlx::query(
                    "UPDATE task SET result = ? \
                     WHERE tenant = ? AND id = ? AND status = 'cancelled' AND result IS NULL",
                )
                .bind(seen)
                .bind(key.tenant.0)
                .bind(&key.task.0.as_bytes()[..])
                .execute(&mut *connection)
                .await
            })
            .await?;
        Ok(())
    }

    /// Stores what a cancelled task's client had seen: the cancel decided the end, the worker adds text and usage, once.
    /// Text that somebody stored for it stands.
    pub async fn add_partial(&self, end: &End) -> Result<(), StoreError> {
        let (result, usage) = &json_columns(end)?;
        self.database
            .run(|mut connection| async move {
                sqlx::query(
                    "UPDATE task SET result = COALESCE(result, ?), token_usage = ?, model = ?, \
                     model_calls = model_calls + ? WHERE tenant = ? AND id = ? AND attempt = ? \
                     AND status = 'cancelled' AND token_usage IS NULL AND model IS NULL",
                )
                .bind(result)
                .bind(usage)
                .bind(&end.model)
                .bind(end.model_calls)
                .bind(end.key.tenant.0)
                .bind(&end.key.task.0.as_bytes()[..])
                .bind(end.attempt)
                .execute(&mut *connection)
                .await
            })
            .await?;
        Ok(())
    }

    /// Puts a running task back in line: a retry (counted as a failure) or a hand-back (not counted).
    ///
    /// Returns whether the attempt was still the one that runs.
    pub async fn requeue(&self, key: TaskKey, attempt: u32, failed: bool) -> Result<bool, StoreError> {
        let row = self
            .database
            .run(|mut connection| async move {
                sqlx::query(
                    "UPDATE task SET status = 'queued', failures = failures + ? \
                     WHERE tenant = ? AND id = ? AND attempt = ? AND status = 'running'",
                )
                .bind(u32::from(failed))
                .bind(key.tenant.0)
                .bind(&key.task.0.as_bytes()[..])
                .bind(attempt)
                .execute(&mut *connection)
                .await?;
                row_of(&mut connection, key).await
            })
            .await?;
        Ok(row.is_some_and(|row| row.attempt == attempt && row.status == Status::Queued))
    }
}

/// An end on its way.
#[derive(Debug)]
pub(crate) struct EndRow {
    end: End,
    /// Its result as JSON.
    result: Option<String>,
    /// Its usage as JSON.
    usage: Option<String>,
    /// Whether its attempts ran out.
    is_dead: bool,
}

impl EndRow {
    fn of(end: End) -> Result<Self, StoreError> {
        let (result, usage) = json_columns(&end)?;
        Ok(Self { end, result, usage, is_dead: false })
    }

    fn bytes(&self) -> usize {
        self.result.as_ref().map_or(0, String::len) + self.usage.as_ref().map_or(0, String::len)
    }

    fn id(&self) -> Vec<u8> {
        self.end.key.task.0.as_bytes().to_vec()
    }
}

impl BatchRow for EndRow {
    type Outcome = Ended;

    async fn write(connection: &mut MySqlConnection, rows: &[Self]) -> Result<Vec<Ended>, sqlx::Error> {
        let mut found = 0;
        for round in rounds(rows, |row| row.end.key.task) {
            // Dead letters are rare: the statement of all others knows nothing of them.
            let (small, large): (Vec<_>, Vec<_>) =
                round.into_iter().partition(|row| row.bytes() <= SHARED_BYTES_MAX && !row.is_dead);
            if !small.is_empty() {
                found += update(connection, &padded(small)).await?;
            }
            for row in large {
                found += update(connection, &[row]).await?;
            }
        }
        if found == rows.len() as u64 {
            return Ok(rows.iter().map(|_| Ended::Mine).collect());
        }
        let keys: Vec<_> = rows.iter().map(|row| row.end.key).collect();
        let stored: HashMap<_, _> = rows_of(connection, &keys).await?.into_iter().map(|row| (row.key, row)).collect();
        Ok(rows.iter().map(|row| verdict(row.end.attempt, row.end.ending.status, stored.get(&row.end.key))).collect())
    }
}

/// The columns that one end writes, in the order of their binding.
const COLUMNS: [&str; 6] = ["status", "result", "token_usage", "model", "error_code", "error_message"];

/// Writes ends of different ids; returns how many rows it found. Values are chosen by id with CASE: a derived table
/// joined to the UPDATE would cost a temporary table on disk each time.
async fn update(connection: &mut MySqlConnection, items: &[&EndRow]) -> Result<u64, sqlx::Error> {
    let values = COLUMNS.map(|column| by_id(column, items.len())).join(", ");
    let calls = choice(items.len());
    let guards = any_of("(tenant = ? AND id = ? AND attempt = ?)", items.len());
    let dead = if items.iter().any(|item| item.is_dead) { ", dead_ms = ended_ms" } else { "" };
    let mut query = sqlx::query(AssertSqlSafe(format!(
        "UPDATE task SET model_calls = model_calls + {calls}, {values}, open_place = NULL, ended_ms = ?{dead} \
         WHERE status = 'running' AND ({guards})"
    )));
    for item in items {
        query = query.bind(item.id()).bind(item.end.model_calls);
    }
    for item in items {
        query = query.bind(item.id()).bind(item.end.ending.status.as_str());
    }
    for item in items {
        query = query.bind(item.id()).bind(&item.result);
    }
    for item in items {
        query = query.bind(item.id()).bind(&item.usage);
    }
    for item in items {
        query = query.bind(item.id()).bind(&item.end.model);
    }
    for item in items {
        query = query.bind(item.id()).bind(error_columns(&item.end.ending).0);
    }
    for item in items {
        query = query.bind(item.id()).bind(error_columns(&item.end.ending).1);
    }
    query = query.bind(clock::wall_ms());
    for item in items {
        query = query.bind(item.end.key.tenant.0).bind(item.id()).bind(item.end.attempt);
    }
    Ok(query.execute(connection).await?.rows_affected())
}

fn verdict(attempt: u32, status: Status, row: Option<&TaskRow>) -> Ended {
    match row {
        None => Ended::Unknown,
        // Who cancelled the row cannot be told from it; `add_partial` is for the attempt that was cancelled.
        Some(row) if row.attempt == attempt && row.status == status && status != Status::Cancelled => Ended::Mine,
        Some(row) => Ended::Other(Box::new(row.clone())),
    }
}

fn json_columns(end: &End) -> Result<(Option<String>, Option<String>), StoreError> {
    let corrupt =
        |error: serde_json::Error| StoreError::Corrupt { row: end.key.to_string(), reason: error.to_string() };
    let result = end.ending.result.as_ref().map(serde_json::to_string).transpose().map_err(corrupt)?;
    let usage = (!end.ending.usage.is_empty()).then(|| serde_json::to_string(&end.ending.usage));
    Ok((result, usage.transpose().map_err(corrupt)?))
}

fn error_columns(ending: &Ending) -> (Option<&'static str>, Option<&str>) {
    match &ending.error {
        Some((code, message)) => (Some(code.as_str()), Some(message)),
        None => (None, None),
    }
}
