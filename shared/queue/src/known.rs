//! Which tasks Redis knows: what a comparison with the rows asks for, many at once.

use std::time::Duration;

use penstock_protocol::TaskKey;
use redis::cmd;

use crate::settings::ms;
use crate::{Queue, QueueError};

impl Queue {
    /// Whether each task is more than registered, in the order given. One command; the caller bounds `keys`.
    ///
    /// A registration is left by a door that may have died after its commit: the task still has to be queued.
    pub async fn known(&self, keys: &[TaskKey]) -> Result<Vec<bool>, QueueError> {
        let records = self.records(keys).await?;
        let is_known = |record: &Option<String>| record.as_deref().is_some_and(|record| !record.starts_with('A'));
        Ok(records.iter().map(is_known).collect())
    }

    /// Takes the turn of a periodic job for `every`; false while another process has it. Saves work, guards nothing.
    pub async fn take_turn(&self, job: &str, every: Duration) -> Result<bool, QueueError> {
        let mut set = cmd("SET");
        set.arg(format!("{}turn:{job}", self.shard().prefix())).arg(1).arg("NX").arg("PX").arg(ms(every).max(1));
        let taken: Option<String> = self.answer("set", self.command("set", &set).await?)?;
        Ok(taken.is_some())
    }
}
