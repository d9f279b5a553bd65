//! Looks again and again whether Redis can be trusted with tasks: an operator may have changed it since the start.

use std::sync::{Arc, Mutex, PoisonError};

use penstock_queue::{ConnectError, ServerState};
use tokio::time::sleep;

use crate::Recovery;

/// A claim of the verbs in use outlives some missed looks.
const CLAIM_LOOKS: u32 = 4;

/// What is wrong with the server, as judged last. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble(Arc<Mutex<Option<String>>>);

impl Trouble {
    /// Takes a new judgement over; returns whether it differs from the last.
    fn set(&self, trouble: Option<String>) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let differs = *last != trouble;
        *last = trouble;
        differs
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Recovery {
    /// What is wrong with the Redis server, for people; `None` while it can be trusted with tasks.
    #[must_use]
    pub fn server_trouble(&self) -> Option<String> {
        self.trouble.get()
    }

    /// Judges the server at once and then each period, with one line in the log a change, and looks after the verbs.
    pub(crate) async fn judge_server(&self) {
        let mut looks = 0_u32;
        loop {
            match self.queue.judge_server().await {
                Ok(state) => self.judged(state),
                // Silence is another part's to tell.
                Err(ConnectError::Queue(_) | ConnectError::Url(_)) => {}
                Err(error) => {
                    self.metrics.server_trusted.set(0);
                    if self.trouble.set(Some(error.to_string())) {
                        tracing::error!(%error, "Redis cannot be trusted with tasks as it is");
                    }
                }
            }
            let every = self.settings.now().redis.judge_every;
            let claimed = self.queue.claim_library(every * CLAIM_LOOKS).await;
            // At a start others may not have claimed theirs yet.
            if claimed.is_ok() && looks > 0 {
                match self.queue.remove_unclaimed_libraries().await {
                    Ok(0) => {}
                    Ok(count) => tracing::info!(count, "verbs of earlier builds were removed from Redis"),
                    Err(error) => tracing::debug!(%error, "verbs of earlier builds were not removed"),
                }
            }
            looks = looks.saturating_add(1);
            sleep(every).await;
        }
    }

    fn judged(&self, state: ServerState) {
        self.metrics.server_trusted.set(1);
        self.metrics.server_persistent.set(i64::from(state.is_persistent != Some(false)));
        let trouble = (state.is_persistent == Some(false)).then(|| {
            "redis keeps nothing over a restart (no AOF, no snapshots): each restart rebuilds the queue from MySQL and \
             loses the events of running tasks; set appendonly yes"
                .to_owned()
        });
        if self.trouble.set(trouble.clone()) {
            match trouble {
                Some(trouble) => tracing::warn!("{trouble}"),
                None => tracing::info!("Redis can be trusted with tasks"),
            }
        }
    }
}
