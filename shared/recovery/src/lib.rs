//! Mends the queue in Redis from the truth in MySQL. Doors and workers run it alike; nothing depends on a leader.
//!
//! * [`Recovery::recover`]: tasks whose worker fell silent (found by a beat) go back in line, or are ended and published.
//! * [`Recovery::run`]: a census each second; a broken book is wiped and rebuilt; rows and book are compared both ways
//!   each period and what differs is mended; tasks that ended long ago are removed; the Redis server is judged.
//! * [`Recovery::check`]: the same comparison, whole and at once, for the operator.
//!
//! It also brings Redis in line with pauses and tenants' terms, within two seconds of a change and in every rebuild.
//!
//! Law 3: being queued follows acceptance within one reconcile period, whatever dies. Law 4: nothing ends here but by the
//! conditional UPDATE; Redis publishes what the row says.

mod audit;
mod check;
mod drift;
mod error;
mod leftover;
mod lost;
mod metrics;
mod publish;
mod rebuild;
mod reconcile;
mod recovery;
mod retention;
mod seen;
mod server;
mod terms;

pub use check::Report;
pub use drift::{Drift, DriftKind, Found};
pub use error::RecoveryError;
pub use metrics::RecoveryMetrics;
pub use publish::crashes_of;
pub use recovery::Recovery;
pub use seen::store_seen;
