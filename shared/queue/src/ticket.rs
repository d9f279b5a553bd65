//! Tickets: small secrets that any replica can redeem, once. Beside the queue's keys, `ticket:<name>`, with a TTL.

use std::time::Duration;

use redis::cmd;

use crate::settings::ms;
use crate::{Queue, QueueError};

impl Queue {
    /// Keeps what a ticket stands for. `name` is not the secret itself.
    pub async fn put_ticket(&self, name: &str, bound: &str, keep: Duration) -> Result<(), QueueError> {
        let mut set = cmd("SET");
        set.arg(self.ticket_key(name)).arg(bound).arg("PX").arg(ms(keep));
        self.command("set", &set).await.map(drop)
    }

    /// Takes what a ticket stands for; `None` = it is unknown, expired or was taken before.
    pub async fn take_ticket(&self, name: &str) -> Result<Option<String>, QueueError> {
        let mut take = cmd("GETDEL");
        take.arg(self.ticket_key(name));
        self.answer("getdel", self.command("getdel", &take).await?)
    }

    fn ticket_key(&self, name: &str) -> String {
        format!("{}ticket:{name}", self.shard().prefix())
    }
}
