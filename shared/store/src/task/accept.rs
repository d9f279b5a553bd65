//! The accept record. Law 3: 202 is sent once it is committed.
//!
//! Rows that wait together are one INSERT, one commit. A row that is there already is left alone and read back: `place`
//! tells whether it is the one that this call wrote (its sequence is the door's own), so a repeat after a lost
//! connection is answered truly.

use std::sync::Arc;

use penstock_protocol::{Place, Status, TaskId, TaskKey, TaskSpec, ThreadId};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::many::{SHARED_BYTES_MAX, insert_size};
use super::read::row_of;
use super::row::{COLUMNS, TaskRow};
use crate::batch::BatchRow;
use crate::error::is_duplicate;
use crate::{Store, StoreError};

/// What the door writes of an admitted task.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Tenant and id.
    pub key: TaskKey,
    /// Conversation.
    pub thread: ThreadId,
    /// Agent.
    pub agent: String,
    /// End user.
    pub user: Option<String>,
    /// Place in line, given by this door.
    pub place: Place,
    /// 0 to 9.
    pub priority: u8,
    /// Estimated cost, in tokens.
    pub cost_tokens: u32,
    /// SHA-256 of the body.
    pub body_hash: [u8; 32],
    /// `Idempotency-Key` of the request.
    pub idempotency_key: Option<String>,
    /// Moment of acceptance.
    pub accepted_ms: u64,
    /// Time from now to the deadline.
    pub deadline_in_ms: Option<u64>,
    /// Whether it is cancelled when nobody watches it any more.
    pub cancel_on_disconnect: bool,
    /// The ended task that it repeats.
    pub replay_of: Option<TaskId>,
    /// What was asked.
    pub spec: TaskSpec,
}

/// What became of an accept record.
#[derive(Clone, Debug)]
pub enum Accepted {
    /// Committed by this call.
    New,
    /// A row with this id, or with this idempotency key, was there before.
    Before(Box<TaskRow>),
}

impl Store {
    /// Commits an accept record, together with whatever else waits.
    ///
    /// Errors: `Busy` (nothing sent), `Unavailable` (outcome unknown: the same call again tells).
    pub async fn accept(&self, task: NewTask) -> Result<Accepted, Arc<StoreError>> {
        let spec = serde_json::to_string(&task.spec)
            .map_err(|error| StoreError::Corrupt { row: task.key.to_string(), reason: error.to_string() })?;
        self.accepts.write(NewRow { task, spec }).await
    }
}

const INSERT: &str = "INSERT INTO task (tenant, id, thread, agent, end_user, status, place, open_place, priority, \
     cost_tokens, body_hash, idempotency_key, accepted_ms, deadline_ms, cancel_on_disconnect, replay_of, spec) VALUES ";
const INSERT_ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, \
     CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS UNSIGNED) + ?, ?, ?, ?)";

/// An accept record on its way.
#[derive(Debug)]
pub(crate) struct NewRow {
    task: NewTask,
    /// Its spec as JSON.
    spec: String,
}

impl BatchRow for NewRow {
    type Outcome = Accepted;

    async fn write(connection: &mut MySqlConnection, rows: &[Self]) -> Result<Vec<Accepted>, sqlx::Error> {
        let mut outcomes = Vec::with_capacity(rows.len());
        // In few sizes, so that there are few statements to prepare.
        let mut rest = rows;
        while !rest.is_empty() {
            let small = rest.iter().take_while(|row| row.spec.len() <= SHARED_BYTES_MAX).count();
            let (now, later) = rest.split_at(insert_size(small));
            match insert(connection, now).await {
                Ok(()) => outcomes.extend(now.iter().map(|_| Accepted::New)),
                Err(error) if is_duplicate(&error) => one_by_one(connection, now, &mut outcomes).await?,
                Err(error) => return Err(error),
            }
            rest = later;
        }
        Ok(outcomes)
    }
}

/// Writes rows apart after one of them met a row that is there (a repeat, a race of equal requests): the statement of
/// all wrote none.
async fn one_by_one(
    connection: &mut MySqlConnection,
    rows: &[NewRow],
    outcomes: &mut Vec<Accepted>,
) -> Result<(), sqlx::Error> {
    for row in rows {
        outcomes.push(match insert(connection, std::slice::from_ref(row)).await {
            Ok(()) => Accepted::New,
            Err(error) if is_duplicate(&error) => match row_before(connection, &row.task).await? {
                Some(before) if before.key == row.task.key && before.place == row.task.place => Accepted::New,
                Some(before) => Accepted::Before(Box::new(before)),
                None => return Err(error),
            },
            Err(error) => return Err(error),
        });
    }
    Ok(())
}

async fn insert(connection: &mut MySqlConnection, rows: &[NewRow]) -> Result<(), sqlx::Error> {
    let values = vec![INSERT_ROW; rows.len()].join(", ");
    let mut query = sqlx::query(AssertSqlSafe(format!("{INSERT}{values}")));
    for NewRow { task, spec } in rows {
        query = query
            .bind(task.key.tenant.0)
            .bind(&task.key.task.0.as_bytes()[..])
            .bind(&task.thread.0.as_bytes()[..])
            .bind(&task.agent)
            .bind(&task.user)
            .bind(Status::Queued.as_str())
            .bind(task.place.as_str())
            .bind(task.place.as_str())
            .bind(task.priority)
            .bind(task.cost_tokens)
            .bind(&task.body_hash[..])
            .bind(&task.idempotency_key)
            .bind(task.accepted_ms)
            .bind(task.deadline_in_ms)
            .bind(task.cancel_on_disconnect)
            .bind(task.replay_of.map(|task| task.0.as_bytes().to_vec()))
            .bind(spec);
    }
    query.execute(connection).await?;
    Ok(())
}

/// The row that has the id of `task`, else the one that has its idempotency key.
async fn row_before(connection: &mut MySqlConnection, task: &NewTask) -> Result<Option<TaskRow>, sqlx::Error> {
    if let Some(row) = row_of(connection, task.key).await? {
        return Ok(Some(row));
    }
    let row = sqlx::query(AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM task t WHERE t.tenant = ? AND t.idempotency_key = ?"
    )))
    .bind(task.key.tenant.0)
    .bind(&task.idempotency_key)
    .fetch_optional(connection)
    .await?;
    row.as_ref().map(TaskRow::read).transpose()
}
