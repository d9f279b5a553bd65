//! Mends the queue in Redis from the truth in MySQL. Doors and workers run it alike; nothing depends on a leader.
//!
//! * [`Recovery::recover`]: tasks whose worker fell silent (found by a beat) go back in line, or are ended and published.
//! * [`Recovery::run`]: a census each second; a broken book is wiped and rebuilt; accepted rows that Redis does not know
//!   are queued, and ended rows that Redis still holds are published.
//!
//! It also brings Redis in line with pauses and tenants' terms, within two seconds of a change and in every rebuild.
//!
//! Law 3: being queued follows acceptance within one reconcile period, whatever dies. Law 4: nothing ends here but by the
//! conditional UPDATE; Redis publishes what the row says.

mod error;
mod lost;
mod metrics;
mod publish;
mod rebuild;
mod reconcile;
mod recovery;
mod terms;

pub use error::RecoveryError;
pub use metrics::RecoveryMetrics;
pub use publish::queued_task;
pub use recovery::Recovery;
