//! Event streams that have no time to live: of live tasks, and those that nobody sealed.

use penstock_protocol::TaskKey;
use redis::cmd;

use crate::{Queue, QueueError};

/// A part of all keys of the server.
#[derive(Clone, Debug)]
pub struct StreamPage {
    /// Tasks whose event stream stays for ever as it is.
    pub unsealed: Vec<TaskKey>,
    /// Where to go on; 0 = that was all.
    pub cursor: u64,
}

impl Queue {
    /// Looks at about `count` keys of the server, from `cursor` on (0 = from the beginning). Keys of others are skipped.
    pub async fn unsealed_streams(&self, cursor: u64, count: usize) -> Result<StreamPage, QueueError> {
        let prefix = format!("{}ev:", self.shard().prefix());
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{prefix}*")).arg("COUNT").arg(count).arg("TYPE").arg("stream");
        let (cursor, keys): (u64, Vec<String>) = self.answer("scan", self.command("scan", &scan).await?)?;
        if keys.is_empty() {
            return Ok(StreamPage { unsealed: Vec::new(), cursor });
        }
        let mut lives = redis::pipe();
        for key in &keys {
            lives.cmd("PTTL").arg(key);
        }
        let lives = self.commands("pttl", &lives).await?;
        let unsealed = keys.iter().zip(lives).filter_map(|(key, life)| {
            let life: i64 = self.answer("pttl", life).ok()?;
            if life == -1 { key.strip_prefix(&prefix)?.parse().ok() } else { None }
        });
        Ok(StreamPage { unsealed: unsealed.collect(), cursor })
    }
}
