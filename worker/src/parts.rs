//! What every attempt of this process works with.

use std::sync::Arc;

use penstock_config::LiveSettings;
use penstock_gateway::Gateway;
use penstock_queue::{Queue, WorkerId};
use penstock_recovery::Recovery;
use penstock_store::Store;

use crate::claim::{Leases, Wedged};
use crate::metrics::WorkerMetrics;

/// The parts of a worker. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) settings: LiveSettings,
    pub(crate) queue: Queue,
    pub(crate) store: Store,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) recovery: Recovery,
    pub(crate) leases: Leases,
    pub(crate) wedged: Wedged,
    pub(crate) worker: WorkerId,
    pub(crate) metrics: WorkerMetrics,
}
