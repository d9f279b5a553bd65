//! What a process needs to know to use a queue. Plain data; the settings file and its checks are another crate's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use penstock_config::Settings;
use secrecy::ExposeSecret;

use crate::{Shard, ShardError};

/// Address, shard and time limits of a queue.
#[derive(Clone)]
pub struct QueueSettings {
    /// `redis://[user:password@]host:port/[db]` or `rediss://…`.
    pub url: String,
    /// The keys that are worked on.
    pub shard: Shard,
    /// Longest wait for a new connection.
    pub connect_timeout: Duration,
    /// Longest wait for one answer of `admit` (law 10: 50 ms).
    pub admit_timeout: Duration,
    /// How often `admit` is asked again after it was slow.
    pub admit_retries: u32,
    /// Longest wait for an answer of any other verb, and of reads of events.
    pub call_timeout: Duration,
    /// How long a worker's right to an attempt lasts without a beat.
    pub lease: Duration,
    /// How long a sealed event stream can be read from Redis.
    pub events_keep: Duration,
    /// How long the stream of a paused task can be read from Redis.
    pub paused_keep: Duration,
    /// Cost of a task beyond its input while nothing is known of its agent, in tokens.
    pub cost_unknown_tokens: u64,
    /// Most that dispatch charges for a task, in tokens.
    pub cost_max_tokens: u64,
    /// How far a tenant's real cost may push it behind the others, in tokens; 0 = any.
    pub debt_max_tokens: u64,
    /// Tasks of the quarantine lane that run at once, over the whole queue.
    pub quarantine_running_max: u32,
    /// Moment given to the scripts instead of Redis TIME; tests only.
    #[doc(hidden)]
    pub virtual_clock: Option<VirtualClock>,
}

impl QueueSettings {
    /// The queue that the settings of a process name, with their time limits. Every process reads them here: one that
    /// read another lease or another prefix would contradict the others.
    ///
    /// Errors: a deployment or queue name that cannot stand in keys.
    pub fn from_settings(settings: &Settings) -> Result<Self, ShardError> {
        let shard = Shard::new(&settings.deployment.id, &settings.queue.name, 0)?;
        Ok(Self {
            connect_timeout: settings.redis.connect_timeout,
            admit_timeout: settings.redis.admission_timeout,
            call_timeout: settings.redis.script_timeout,
            lease: settings.queue.lease,
            events_keep: settings.events.keep,
            cost_unknown_tokens: settings.queue.task_cost_tokens,
            cost_max_tokens: settings.queue.task_cost_tokens_max,
            debt_max_tokens: settings.queue.debt_max_tokens,
            quarantine_running_max: settings.queue.quarantine_running_max,
            ..Self::new(settings.redis.url.expose_secret(), shard)
        })
    }

    /// The usual time limits for the queue `shard` at `url`.
    #[must_use]
    pub fn new(url: impl Into<String>, shard: Shard) -> Self {
        Self {
            url: url.into(),
            shard,
            connect_timeout: Duration::from_secs(2),
            admit_timeout: Duration::from_millis(50),
            admit_retries: 1,
            call_timeout: Duration::from_secs(1),
            lease: Duration::from_secs(15),
            events_keep: Duration::from_secs(300),
            paused_keep: Duration::from_secs(86_400),
            cost_unknown_tokens: 1000,
            cost_max_tokens: 1_000_000,
            debt_max_tokens: 1_000_000,
            quarantine_running_max: 1,
            virtual_clock: None,
        }
    }
}

impl fmt::Debug for QueueSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        f.debug_struct("QueueSettings").field("shard", &self.shard).field("lease", &self.lease).finish_non_exhaustive()
    }
}

/// A time that a test moves by hand.
#[doc(hidden)]
#[derive(Clone, Debug, Default)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// Sets the time, in ms since any epoch but 0.
    pub fn set_ms(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::Relaxed);
    }

    /// The time.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Milliseconds of `duration` as an argument of a script.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
