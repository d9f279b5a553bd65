//! `/healthz`, `/readyz`, `/metrics` and `/breakers` of a worker.
//!
//! Live means that the consume loop turns; ready means that it can take tasks.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use penstock_telemetry::Metrics;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::claim::Intake;
use crate::parts::Parts;

/// The loop turns every 5 s at the latest; several missed turns mean that it hangs.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What the pages look at. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Health {
    intake: Intake,
    last_beat: watch::Receiver<Option<Instant>>,
    parts: Parts,
    metrics: Metrics,
    stop: CancellationToken,
}

impl Health {
    /// Pages about these parts; not ready any more once `stop` is cancelled.
    pub(crate) fn new(
        intake: Intake,
        last_beat: watch::Receiver<Option<Instant>>,
        parts: Parts,
        metrics: Metrics,
        stop: CancellationToken,
    ) -> Self {
        Self { intake, last_beat, parts, metrics, stop }
    }

    fn beats(&self) -> bool {
        self.last_beat.borrow().is_some_and(|at| at.elapsed() < self.parts.settings.now().queue.lease)
    }
}

/// Serves the pages for as long as the process lives.
pub(crate) async fn serve(listener: TcpListener, health: Health) {
    let pages = Router::new()
        .route("/healthz", get(live))
        .route("/readyz", get(ready))
        .route("/metrics", get(text))
        .route("/breakers", get(breakers))
        .with_state(health);
    if let Err(error) = axum::serve(listener, pages).await {
        tracing::error!(%error, "the health pages ended");
    }
}

async fn live(State(health): State<Health>) -> Response {
    let silence = health.intake.silence();
    let is_live = silence < SILENCE_MAX || health.stop.is_cancelled();
    answer(is_live, format!("the consume loop turned {} ms ago", silence.as_millis()))
}

async fn ready(State(health): State<Health>) -> Response {
    if health.stop.is_cancelled() {
        return answer(false, "the worker stops".to_owned());
    }
    if !health.beats() {
        return answer(false, "Redis does not answer beats".to_owned());
    }
    let (wedged, most) = (health.parts.wedged.count(), health.parts.settings.now().worker.wedged_max);
    if wedged > most {
        return answer(false, format!("{wedged} agents are wedged (worker.wedged_max = {most}); restart this worker"));
    }
    match health.parts.store.ping().await {
        Ok(()) => match health.parts.recovery.server_trouble() {
            None => answer(true, "takes tasks".to_owned()),
            Some(trouble) => answer(true, format!("takes tasks; degraded: {trouble}")),
        },
        Err(error) => answer(false, error.to_string()),
    }
}

async fn breakers(State(health): State<Health>) -> Response {
    axum::Json(health.parts.gateway.breakers()).into_response()
}

async fn text(State(health): State<Health>) -> Response {
    let silence = i64::try_from(health.intake.silence().as_millis()).unwrap_or(i64::MAX);
    health.parts.metrics.intake_silence_ms.set(silence);
    health.parts.gateway.observe();
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (kind, health.metrics.text()).into_response()
}

fn answer(is_well: bool, text: String) -> Response {
    (if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text).into_response()
}
