//! What probes and scrapers ask, without a key: `/healthz`, `/readyz`, `/metrics`.
//!
//! Healthy = the process answers; restart it when it does not. Ready = it can take a task now: MySQL and Redis answer,
//! the book is open, keys are loaded, and it is not stopping. Degraded = it can, and an operator should act. Both are answered while the door is overloaded.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tokio::time::timeout;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

/// A dependency that has not answered a probe by then is not ready.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// The routes of probes.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(healthz)).routes(routes!(readyz)).routes(routes!(metrics))
}

/// What is ready.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct Readiness {
    /// All of it, so tasks are taken.
    ready: bool,
    /// MySQL answers and has its schema.
    mysql: bool,
    /// Redis answers.
    redis: bool,
    /// The queue is whole and open.
    queue_open: bool,
    /// Keys were loaded.
    keys: bool,
    /// The process is not stopping.
    serving: bool,
    /// What an operator should mend though tasks are taken: a Redis that may lose what it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    degraded: Option<String>,
}

/// Whether the process lives.
#[utoipa::path(get, path = "/healthz", tag = "operation", security(()), responses((status = 200, description = "It does")))]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the process can take tasks.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "operation",
    security(()),
    responses(
        (status = 200, description = "It can", body = Readiness),
        (status = 503, description = "It cannot", body = Readiness),
    )
)]
async fn readyz(State(app): State<App>) -> (StatusCode, Json<Readiness>) {
    let (mysql, gauges) = tokio::join!(timeout(PROBE_MAX, app.store.ping()), timeout(PROBE_MAX, app.queue.gauges()));
    let gauges = gauges.ok().and_then(Result::ok);
    let mut readiness = Readiness {
        ready: false,
        mysql: matches!(mysql, Ok(Ok(()))),
        redis: gauges.is_some(),
        queue_open: gauges.is_some_and(|gauges| gauges.is_open),
        keys: app.keys.is_loaded(),
        serving: !app.shutdown.is_cancelled(),
        degraded: app.recovery.server_trouble(),
    };
    let Readiness { mysql, redis, queue_open, keys, serving, .. } = readiness;
    readiness.ready = mysql && redis && queue_open && keys && serving;
    let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness))
}

/// Metrics in the `OpenMetrics` text format.
#[utoipa::path(get, path = "/metrics", tag = "operation", security(()), responses((status = 200, description = "Metrics", body = String)))]
async fn metrics(State(app): State<App>) -> Response {
    let sums = timeout(PROBE_MAX, app.queue.gauges()).await.ok().and_then(Result::ok);
    app.counts.queue.set(sums.as_ref());
    let age_s = app.keys.age().map_or(-1, |age| i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    app.counts.keys_age_seconds.set(age_s);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], app.metrics.text()).into_response()
}
