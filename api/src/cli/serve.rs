//! `penstock-api serve`.

use anyhow::Context;
use penstock_config::{Loaded, SettingsMetrics, Watcher};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::start::StartError;
use crate::{router, server, start};

/// Serves until SIGTERM or SIGINT, then drains.
pub(super) fn run(loaded: Loaded) -> anyhow::Result<()> {
    penstock_telemetry::start_logs(&loaded.settings.log)?;
    penstock_telemetry::use_small_pages();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(serve(loaded));
    // What did not end within the drain is dropped, not awaited.
    runtime.shutdown_background();
    done
}

async fn serve(loaded: Loaded) -> anyhow::Result<()> {
    let shutdown = CancellationToken::new();
    stop_on_signal(&shutdown)?;
    // The port first: a second door on one port fails before it connects anywhere.
    let address = loaded.settings.api.listen;
    let listener = server::listen(address).with_context(|| format!("api.listen = {address}"))?;
    let counts = SettingsMetrics::default();
    let (settings, watcher) = Watcher::new(loaded, counts.clone());
    tokio::spawn(shutdown.clone().run_until_cancelled_owned(watcher.run()));
    let app = match start::assemble(settings, shutdown).await {
        // A stop that was asked for is no failure.
        Err(StartError::Stopped) => return Ok(()),
        assembled => assembled?,
    };
    app.metrics.register(|to| counts.register(to));
    let router = router(&app)?;
    tracing::info!(%address, "serving on {address}");
    server::serve(&app, router, listener).await;
    tracing::info!("stopped");
    Ok(())
}

fn stop_on_signal(shutdown: &CancellationToken) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let shutdown = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: open requests and sockets are drained");
        shutdown.cancel();
    });
    Ok(())
}
