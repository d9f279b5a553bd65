//! Whether a Redis server can be trusted with tasks, and the verbs of earlier builds that lie around on it.

use std::collections::HashMap;
use std::time::Duration;

use redis::{FromRedisValue, Value, cmd};

use crate::settings::ms;
use crate::{ConnectError, Queue, QueueError};

/// Names of the libraries of every build begin like this.
pub(crate) const LIBRARIES: &str = "penstock_queue_";
/// Libraries removed in one go.
const LIBRARIES_MAX: usize = 10;

/// What a usable server says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerState {
    /// Whether it keeps its data over a restart; `None` where it does not tell. Without it every restart is a rebuild.
    pub is_persistent: Option<bool>,
    /// Bytes in use.
    pub memory_bytes: u64,
    /// Bytes that it may use; 0 = no bound.
    pub memory_max_bytes: u64,
}

impl Queue {
    /// Judges the server, as [`Queue::connect`] did: an operator may have changed it since.
    ///
    /// Errors: it must not be used for tasks, or does not answer. What a managed server does not tell is not held
    /// against it.
    pub async fn judge_server(&self) -> Result<ServerState, ConnectError> {
        let info: String = self.answer("info", self.command("info", &cmd("INFO")).await?)?;
        let found = field(&info, "redis_version").to_owned();
        let major = found.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < 7) {
            return Err(ConnectError::Version { found });
        }
        if field(&info, "cluster_enabled") == "1" {
            return Err(ConnectError::Cluster);
        }
        if field(&info, "role") == "slave" && self.is_read_only().await {
            let primary = format!("{}:{}", field(&info, "master_host"), field(&info, "master_port"));
            return Err(ConnectError::Replica { primary });
        }
        let policy = field(&info, "maxmemory_policy");
        if !policy.is_empty() && policy != "noeviction" {
            return Err(ConnectError::Eviction { policy: policy.to_owned() });
        }
        let bytes = |name| field(&info, name).parse().unwrap_or(0);
        Ok(ServerState {
            is_persistent: self.is_persistent(&info).await,
            memory_bytes: bytes("used_memory"),
            memory_max_bytes: bytes("maxmemory"),
        })
    }

    async fn is_read_only(&self) -> bool {
        self.configured("replica-read-only").await.is_none_or(|value| value == "yes")
    }

    async fn is_persistent(&self, info: &str) -> Option<bool> {
        match field(info, "aof_enabled") {
            "" => None,
            "1" => Some(true),
            _ => self.configured("save").await.map(|save| !save.is_empty()),
        }
    }

    /// A value of the server's configuration; `None` where it may not be read.
    async fn configured(&self, name: &str) -> Option<String> {
        let answer = self.command("config get", cmd("CONFIG").arg("GET").arg(name)).await.ok()?;
        HashMap::<String, String>::from_redis_value(answer).ok()?.remove(name)
    }

    /// Says for `keep` that a process uses the verbs of this build. Whoever removes old ones goes by it.
    pub async fn claim_library(&self, keep: Duration) -> Result<(), QueueError> {
        let mut set = cmd("SET");
        set.arg(claim_of(&self.library().name())).arg(1).arg("PX").arg(ms(keep).max(1));
        self.command("set", &set).await.map(drop)
    }

    /// The libraries of other builds that no process has claimed.
    pub async fn unclaimed_libraries(&self) -> Result<Vec<String>, QueueError> {
        let mut list = cmd("FUNCTION");
        list.arg("LIST").arg("LIBRARYNAME").arg(format!("{LIBRARIES}*"));
        let libraries: Vec<HashMap<String, Value>> =
            self.answer("function list", self.command("function list", &list).await?)?;
        let mut unclaimed = Vec::new();
        for mut library in libraries {
            let Some(name) = library.remove("library_name").and_then(|name| String::from_redis_value(name).ok()) else {
                continue;
            };
            let is_claimed: bool =
                self.answer("exists", self.command("exists", cmd("EXISTS").arg(claim_of(&name))).await?)?;
            if !is_claimed && name != self.library().name() {
                unclaimed.push(name);
            }
        }
        Ok(unclaimed)
    }

    /// Removes some libraries that no process has claimed; returns how many. A process that uses one all the same loads
    /// it again with its next call.
    pub async fn remove_unclaimed_libraries(&self) -> Result<usize, QueueError> {
        let mut unclaimed = self.unclaimed_libraries().await?;
        unclaimed.truncate(LIBRARIES_MAX);
        for name in &unclaimed {
            self.command("function delete", cmd("FUNCTION").arg("DELETE").arg(name)).await?;
        }
        Ok(unclaimed.len())
    }
}

/// Not under a deployment's prefix: all deployments of a server share its libraries.
fn claim_of(library: &str) -> String {
    format!("penstock:claim:{library}")
}

fn field<'a>(info: &'a str, name: &str) -> &'a str {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
}
