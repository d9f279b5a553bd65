//! The end of a task: one conditional UPDATE (law 4). The first one wins; the loser reads the row and publishes that.

use std::collections::HashMap;
use std::sync::Arc;

use penstock_protocol::{Ending, Status, TaskKey, clock};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::read::{row_of, rows_of};
use super::row::TaskRow;
use crate::pool::{Database, Write};
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
        self.ends.write(end).await
    }

    /// Ends a task that nobody runs any more, by a closing attempt above every other one.
    pub async fn end_closing(&self, key: TaskKey, attempt: u32, ending: &Ending) -> Result<Ended, StoreError> {
        let (code, message) = error_columns(ending);
        let row = self
            .database
            .run(|mut connection| async move {
                sqlx::query(
                    "UPDATE task SET attempt = ?, status = ?, open_place = NULL, ended_ms = ?, error_code = ?, \
                     error_message = ? WHERE tenant = ? AND id = ? AND attempt < ? AND status IN ('queued', 'running')",
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

    /// Stores what a cancelled task's client had seen: the cancel decided the end, the worker adds text and usage, once.
    pub async fn add_partial(&self, end: &End) -> Result<(), StoreError> {
        let (result, usage) = &json_columns(end)?;
        self.database
            .run(|mut connection| async move {
                sqlx::query(
                    "UPDATE task SET result = ?, token_usage = ?, model = ?, model_calls = model_calls + ? \
                     WHERE tenant = ? AND id = ? AND attempt = ? AND status = 'cancelled' AND result IS NULL \
                     AND token_usage IS NULL",
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

pub(crate) struct EndBatch(pub(crate) Database);

impl std::fmt::Debug for EndBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EndBatch")
    }
}

impl Write for EndBatch {
    type Item = End;
    type Outcome = Ended;

    async fn write(&self, items: Vec<End>) -> Result<Vec<Ended>, Arc<StoreError>> {
        let columns = items.iter().map(json_columns).collect::<Result<Vec<_>, _>>()?;
        let keys: Vec<_> = items.iter().map(|end| end.key).collect();
        let (ends, texts, named) = (&items, &columns, &keys);
        let rows = self
            .0
            .run(|mut connection| async move {
                if update(&mut connection, ends, texts).await? == ends.len() as u64 {
                    return Ok(None);
                }
                rows_of(&mut connection, named).await.map(Some)
            })
            .await?;
        let Some(rows) = rows else { return Ok(items.iter().map(|_| Ended::Mine).collect()) };
        let rows: HashMap<_, _> = rows.into_iter().map(|row| (row.key, row)).collect();
        Ok(items.iter().map(|end| verdict(end.attempt, end.ending.status, rows.get(&end.key))).collect())
    }
}

const UPDATE_HEAD: &str = "UPDATE task t JOIN (SELECT ? AS tenant, ? AS id, ? AS attempt, ? AS status, ? AS result, \
     ? AS token_usage, ? AS model, ? AS model_calls, ? AS error_code, ? AS error_message";
const UPDATE_ROW: &str = " UNION ALL SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?";
const UPDATE_TAIL: &str = ") v ON t.tenant = v.tenant AND t.id = v.id \
     SET t.status = v.status, t.open_place = NULL, t.ended_ms = ?, t.result = v.result, \
     t.token_usage = v.token_usage, t.model = v.model, t.model_calls = t.model_calls + v.model_calls, \
     t.error_code = v.error_code, t.error_message = v.error_message \
     WHERE t.attempt = v.attempt AND t.status = 'running'";

async fn update(
    connection: &mut MySqlConnection,
    items: &[End],
    columns: &[(Option<String>, Option<String>)],
) -> Result<u64, sqlx::Error> {
    let rows = UPDATE_ROW.repeat(items.len() - 1);
    let mut query = sqlx::query(AssertSqlSafe(format!("{UPDATE_HEAD}{rows}{UPDATE_TAIL}")));
    for (end, (result, usage)) in items.iter().zip(columns) {
        let (code, message) = error_columns(&end.ending);
        query = query
            .bind(end.key.tenant.0)
            .bind(&end.key.task.0.as_bytes()[..])
            .bind(end.attempt)
            .bind(end.ending.status.as_str())
            .bind(result)
            .bind(usage)
            .bind(&end.model)
            .bind(end.model_calls)
            .bind(code)
            .bind(message);
    }
    Ok(query.bind(clock::wall_ms()).execute(&mut *connection).await?.rows_affected())
}

fn verdict(attempt: u32, status: Status, row: Option<&TaskRow>) -> Ended {
    match row {
        None => Ended::Unknown,
        Some(row) if row.attempt == attempt && row.status == status => Ended::Mine,
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
