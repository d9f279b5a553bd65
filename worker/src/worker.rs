//! Puts a worker together, and takes it apart in order: intake, work, events, leases.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use penstock_board::Board;
use penstock_config::{Loaded, SettingsMetrics, Watcher};
use penstock_queue::{Queue, QueueSettings, WorkerId};
use penstock_recovery::{Recovery, RecoveryMetrics};
use penstock_store::Store;
use penstock_telemetry::Metrics;
use penstock_webhook::{Deliverer, WebhookMetrics};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::breakers;
use crate::claim::{Heartbeat, Intake, Leases, Stop, Wedged};
use crate::findings;
use crate::health::{self, Health};
use crate::metrics::WorkerMetrics;
use crate::models;
use crate::parts::Parts;

/// Time for the hand-back of what still runs when the drain is over.
const HAND_BACK: Duration = Duration::from_millis(500);
/// Findings of beats that may wait; more are found again by the next beat.
const FINDINGS_MAX: usize = 256;

/// Runs a worker until SIGTERM or SIGINT, then drains it.
pub(crate) async fn run(loaded: Loaded) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let metrics = Metrics::new();
    let counts = SettingsMetrics::default();
    metrics.register(|to| counts.register(to));
    let (live, watcher) = Watcher::new(loaded, counts);
    let (settings, stop) = (live.now(), CancellationToken::new());
    tokio::spawn(stop.clone().run_until_cancelled_owned(watcher.run()));
    let store = Store::connect(&settings.mysql)?;
    metrics.register(|to| store.register(to));
    let gateway = Arc::new(models::gateway(&settings, &metrics)?);
    let worker = WorkerId::new(format!("w-{}", uuid::Uuid::now_v7().simple()))?;
    let queue_settings = QueueSettings::from_settings(&settings)?;
    let queue = tokio::select! {
        queue = Queue::connect_when_there(queue_settings.clone()) => queue?,
        _ = terminate.recv() => return Ok(()),
        _ = interrupt.recv() => return Ok(()),
    };
    let recovery = Recovery::new(
        queue.clone(),
        store.clone(),
        worker.clone(),
        live.clone(),
        metrics.register(RecoveryMetrics::register),
    );
    let parts = Parts {
        queue,
        store,
        gateway,
        recovery: recovery.clone(),
        leases: Leases::default(),
        wedged: Wedged::default(),
        worker: worker.clone(),
        metrics: metrics.register(WorkerMetrics::register),
        settings: live.clone(),
    };

    tokio::spawn(stop.clone().run_until_cancelled_owned(models::follow(Arc::clone(&parts.gateway), live.clone())));
    let (attempts, background) = (TaskTracker::new(), TaskTracker::new());
    let (found, findings) = mpsc::channel(FINDINGS_MAX);
    let mut heartbeat = Heartbeat::start(
        queue_settings,
        worker.clone(),
        settings.queue.beat_every,
        settings.worker.slots,
        parts.leases.clone(),
        parts.metrics.clone(),
        found,
    )
    .context("the heartbeat needs a thread")?;
    background.spawn(recovery.run(stop.clone()));
    background.spawn(stop.clone().run_until_cancelled_owned(breakers::run(parts.clone(), Board::new(&settings)?)));
    background.spawn(findings::heed(parts.clone(), findings));
    let webhooks = metrics.register(WebhookMetrics::register);
    background
        .spawn(Deliverer::new(parts.store.clone(), parts.queue.clone(), live.clone(), webhooks).run(stop.clone()));
    let intake = Intake::start(&parts, stop.clone(), &attempts);
    let health = Health::new(intake, heartbeat.last(), parts.clone(), metrics, stop.clone());
    if let Some(address) = settings.worker.listen {
        let listener =
            tokio::net::TcpListener::bind(address).await.with_context(|| format!("worker.listen = {address}"))?;
        background.spawn(health::serve(listener, health));
    }
    tracing::info!(worker = %worker, slots = settings.worker.slots, "the worker takes tasks");

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!(running = attempts.len(), "the worker stops: no new tasks, what runs may end");
    heartbeat.close_slots();
    stop.cancel();
    attempts.close();
    if tokio::time::timeout(live.now().worker.drain, attempts.wait()).await.is_err() {
        tracing::info!(running = attempts.len(), "the drain time is over: what still runs is handed back");
        parts.leases.stop_all(Stop::HandBack);
        drop(tokio::time::timeout(HAND_BACK, attempts.wait()).await);
    }
    drop(tokio::time::timeout(HAND_BACK, parts.gateway.flush()).await);
    // A blocking call, but of a thread that waits for one bounded answer only.
    tokio::task::block_in_place(|| heartbeat.leave());
    tracing::info!(left = attempts.len(), "the worker is gone");
    Ok(())
}
