//! The records themselves, for those who compare Redis with MySQL: the reconciler and the operator's check.

use penstock_protocol::TaskKey;
use redis::cmd;

use crate::{Queue, QueueError, State};

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BookEntry {
    /// Tenant and id.
    pub key: TaskKey,
    /// Where it is.
    pub state: State,
    /// Highest attempt that Redis has given.
    pub attempt: u32,
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
            [id, record] => {
                let mut parts = record.split('|');
                let state = State::from_letter(parts.next()?)?;
                Some(BookEntry { key: id.parse().ok()?, state, attempt: parts.next()?.parse().ok()? })
            }
            _ => None,
        });
        Ok(BookPage { entries: entries.collect(), cursor })
    }
}
