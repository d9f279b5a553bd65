//! The records themselves, for those who compare Redis with MySQL: the reconciler and the operator's check.

use penstock_protocol::TaskKey;
use redis::cmd;

use crate::{Queue, QueueError, State};

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookEntry {
    /// Tenant and id.
    pub key: TaskKey,
    /// Where it is.
    pub state: State,
    /// Highest attempt that Redis has given.
    pub attempt: u32,
    /// Its end user as `tenant|user`, the name of the user's counter; `None` where it names none.
    pub user: Option<String>,
}

/// A part of all records.
#[derive(Clone, Debug)]
pub struct BookPage {
    /// Records; one may come twice, as the book changes under the walk.
    pub entries: Vec<BookEntry>,
    /// Where to go on; 0 = that was all.
    pub cursor: u64,
}

impl Queue {
    /// A part of all records, about `count`, from `cursor` on (0 = from the beginning).
    pub async fn book(&self, cursor: u64, count: usize) -> Result<BookPage, QueueError> {
        let mut scan = cmd("HSCAN");
        scan.arg(self.keys().tasks()).arg(cursor).arg("COUNT").arg(count);
        let (cursor, fields): (u64, Vec<String>) = self.answer("hscan", self.command("hscan", &scan).await?)?;
        let entries = fields.chunks_exact(2).filter_map(|pair| match pair {
            [id, record] => entry(id.parse().ok()?, record),
            _ => None,
        });
        Ok(BookPage { entries: entries.collect(), cursor })
    }

    /// The records of tasks, in the order given; `None` where there is none. One command; the caller bounds `keys`.
    pub async fn entries(&self, keys: &[TaskKey]) -> Result<Vec<Option<BookEntry>>, QueueError> {
        let records = self.records(keys).await?;
        Ok(keys.iter().zip(records).map(|(key, record)| entry(*key, &record?)).collect())
    }

    /// The records as they are written, in the order given.
    pub(crate) async fn records(&self, keys: &[TaskKey]) -> Result<Vec<Option<String>>, QueueError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let mut read = cmd("HMGET");
        read.arg(self.keys().tasks());
        for key in keys {
            read.arg(key.to_string());
        }
        self.answer("hmget", self.command("hmget", &read).await?)
    }
}

fn entry(key: TaskKey, record: &str) -> Option<BookEntry> {
    let mut parts = record.split('|');
    let (state, attempt) = (State::from_letter(parts.next()?)?, parts.next()?.parse().ok()?);
    let user = parts.next().filter(|user| !user.is_empty()).map(|user| format!("{}|{user}", key.tenant.0));
    Some(BookEntry { key, state, attempt, user })
}
