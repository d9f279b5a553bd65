//! What can go wrong between this process and Redis, as situations that callers treat differently.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// A call that was not answered, or not as it should be. Every verb may be repeated.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// No answer in time. The verb may have worked.
    #[error("redis did not answer within {waited_ms} ms")]
    Slow {
        /// How long the call waited.
        waited_ms: u64,
    },
    /// No connection, or Redis is loading or read-only. The verb may have worked if the connection broke under it.
    #[error("redis is unavailable")]
    Unavailable(#[source] RedisError),
    /// Redis is at its memory limit: new work is refused, running tasks go on.
    #[error("redis is out of memory")]
    MemoryFull(#[source] RedisError),
    /// Redis refused the command.
    #[error("redis refused `{call}`")]
    Refused {
        /// Verb or command.
        call: &'static str,
        /// Its words.
        #[source]
        cause: RedisError,
    },
    /// The answer was not of the expected shape.
    #[error("redis answered `{call}` with {answer}")]
    Answer {
        /// Verb or command.
        call: &'static str,
        /// What came.
        answer: String,
    },
}

impl QueueError {
    /// Whether the same call may work in a moment.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Slow { .. } | Self::Unavailable(_) | Self::MemoryFull(_))
    }

    pub(crate) fn of(call: &'static str, cause: RedisError) -> Self {
        match cause.kind() {
            ErrorKind::Io
            | ErrorKind::AuthenticationFailed
            | ErrorKind::Server(
                ServerErrorKind::BusyLoading
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ReadOnly,
            ) => Self::Unavailable(cause),
            _ if cause.code() == Some("OOM") || cause.to_string().contains("OOM command not allowed") => {
                Self::MemoryFull(cause)
            }
            _ => Self::Refused { call, cause },
        }
    }
}

/// Why a queue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL is not one of Redis.
    #[error("the redis URL is not usable")]
    Url(#[source] RedisError),
    /// The server is too old.
    #[error("redis {found} is too old: 7.0 or newer is needed (functions, and approximate ids in XADD)")]
    Version {
        /// What the server calls itself.
        found: String,
    },
    /// The server may delete tasks by itself.
    #[error(
        "redis has maxmemory-policy `{policy}`, which can delete accepted tasks: set it to noeviction \
         (CONFIG SET maxmemory-policy noeviction, and in its configuration file)"
    )]
    Eviction {
        /// The policy found.
        policy: String,
    },
    /// The server copies another one and takes no writes.
    #[error("redis is a read-only replica of {primary}: give the address of its primary")]
    Replica {
        /// Whom it follows.
        primary: String,
    },
    /// The server is a node of a cluster.
    #[error("redis runs in cluster mode, which is not supported: use a server of its own (cluster-enabled no)")]
    Cluster,
    /// The server does not answer, or refuses.
    #[error(transparent)]
    Queue(#[from] QueueError),
}
