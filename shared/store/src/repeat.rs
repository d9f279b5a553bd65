//! Statements that are sent again: after a deadlock, a lock wait that took too long, or a connection that was lost.
//!
//! Every statement of this crate may be repeated. Each repeat is counted; a caller hears of trouble only when several
//! tries met it.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::StoreError;
use crate::error::{DEADLOCK, LOCK_WAIT, is_connection_lost, number};

/// Tries of one statement.
const TRIES_MAX: u32 = 6;
/// Pause before a second try after lock trouble; each further one is twice as long. The time-out bounds them all.
const PAUSE: Duration = Duration::from_millis(5);

/// Repeats of one process by their cause. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeats {
    counts: Family<CauseLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CauseLabels {
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Cause {
    Deadlock,
    LockWait,
    ConnectionLost,
}

impl Repeats {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("mysql_repeats", "Statements sent again, by cause", self.counts.clone());
    }

    /// Waits until a statement is to be sent again after `error`; if it is not, returns the error.
    pub(crate) async fn again(&self, tried: &mut u32, error: sqlx::Error) -> Result<(), StoreError> {
        *tried += 1;
        let Some(cause) = cause(&error) else { return Err(StoreError::from_sqlx(error)) };
        self.counts.get_or_create(&CauseLabels { cause }).inc();
        if *tried == TRIES_MAX {
            return Err(StoreError::from_sqlx(error));
        }
        tracing::debug!(tried, %error, "a statement is sent again");
        if cause != Cause::ConnectionLost {
            tokio::time::sleep(PAUSE * 2_u32.pow(*tried - 1)).await;
        }
        Ok(())
    }
}

fn cause(error: &sqlx::Error) -> Option<Cause> {
    match number(error) {
        Some(DEADLOCK) => Some(Cause::Deadlock),
        Some(LOCK_WAIT) => Some(Cause::LockWait),
        _ => is_connection_lost(error).then_some(Cause::ConnectionLost),
    }
}
