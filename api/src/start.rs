//! Puts the parts of a door together.

use penstock_config::LiveSettings;
use penstock_protocol::PlaceSource;
use penstock_queue::{ConnectError, Queue, QueueSettings, ShardError, WorkerId};
use penstock_recovery::{Recovery, RecoveryMetrics};
use penstock_store::{Store, StoreError};
use penstock_telemetry::Metrics;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::{App, Parts};
use crate::auth::KeyRing;
use crate::events::Hub;
use crate::metrics::ApiMetrics;
use crate::tending;

/// Why a door did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The database URL cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The names of deployment and queue make no keys.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// Redis cannot be used as it is.
    #[error(transparent)]
    Queue(#[from] ConnectError),
    /// The system has no random numbers.
    #[error("the system has no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// The process was told to stop before it had started.
    #[error("stopped before Redis could be reached")]
    Stopped,
}

/// A door: everything connected, and the loops that work for all behind it. They end with `shutdown`.
///
/// Waits for Redis; MySQL may come later: until then the door is not ready.
pub async fn assemble(live: impl Into<LiveSettings>, shutdown: CancellationToken) -> Result<App, StartError> {
    let app = Box::pin(connect(live, shutdown)).await?;
    tending::start(&app);
    crate::webhook::start(&app);
    crate::schedule::start(&app);
    Ok(app)
}

/// What a request needs and no more, for a command that acts once: it takes no work that it could not see to the end.
pub(crate) async fn connect(live: impl Into<LiveSettings>, shutdown: CancellationToken) -> Result<App, StartError> {
    let live = live.into();
    let settings = live.now();
    let store = Store::connect(&settings.mysql)?;
    let connecting = Queue::connect_when_there(QueueSettings::from_settings(&settings)?);
    let queue = shutdown.run_until_cancelled(connecting).await.ok_or(StartError::Stopped)??;
    let (tracker, metrics) = (TaskTracker::new(), Metrics::new());
    let keys = KeyRing::start(store.clone(), settings.api.keys_refresh, &tracker, shutdown.clone());
    let hub = Hub::start(queue.clone(), store.clone(), &settings.events, tracker.clone(), shutdown.clone());
    hub.register(&metrics);
    metrics.register(|to| store.register(to));
    let name = WorkerId::new(format!("door-{}", uuid::Uuid::now_v7().simple()))?;
    let counts = metrics.register(RecoveryMetrics::register);
    let recovery = Recovery::new(queue.clone(), store.clone(), name, live.clone(), counts);
    Ok(App::new(Parts {
        places: PlaceSource::new(getrandom::u32()?, settings.queue.priority_head_start_ms),
        counts: ApiMetrics::register(&metrics),
        settings: live,
        store,
        queue,
        recovery,
        admissions: tokio::sync::Semaphore::new(crate::task::ADMISSIONS_MAX),
        keys,
        hub,
        metrics,
        shutdown,
        tracker,
    }))
}
