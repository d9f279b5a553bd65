//! What every handler works with, made once at start.

use std::ops::Deref;
use std::sync::Arc;

use penstock_config::LiveSettings;
use penstock_protocol::PlaceSource;
use penstock_queue::Queue;
use penstock_recovery::Recovery;
use penstock_store::Store;
use penstock_telemetry::Metrics;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::KeyRing;
use crate::events::Hub;
use crate::metrics::ApiMetrics;

/// The parts of a door process. Cheap to clone; reads like its [`Parts`].
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// The parts themselves.
pub struct Parts {
    /// Checked settings; hot ones may change.
    pub settings: LiveSettings,
    /// MySQL.
    pub store: Store,
    /// Redis.
    pub queue: Queue,
    /// What mends the queue.
    pub recovery: Recovery,
    /// Admissions that may be under way at once, so that a burst does not time out behind itself.
    pub admissions: Semaphore,
    /// Keys in force.
    pub keys: KeyRing,
    /// Gives places in accept order.
    pub places: PlaceSource,
    /// Event streams of tasks.
    pub hub: Hub,
    /// Registry of the process.
    pub metrics: Metrics,
    /// Metrics of the door.
    pub counts: ApiMetrics,
    /// Cancelled when the process begins to stop.
    pub shutdown: CancellationToken,
    /// Work that must end before the process does.
    pub tracker: TaskTracker,
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
