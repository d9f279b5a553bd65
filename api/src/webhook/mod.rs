//! Webhooks as callers see them: named in a request or by the tenant's default, with a record that can be read.
//!
//! What delivers is `penstock_webhook`; this process runs it beside serving requests.

mod record;
mod request;

pub(crate) use request::resolve;
pub use request::{EndEvent, WebhookRequest, WebhookUrl};

use penstock_webhook::{Deliverer, WebhookMetrics};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

/// The routes of webhooks.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(record::read_webhooks)).routes(routes!(record::redeliver))
}

/// Starts to deliver; ends with the process's shutdown.
pub(crate) fn start(app: &App) {
    let mut metrics = WebhookMetrics::default();
    app.metrics.register(|registry| metrics = WebhookMetrics::register(registry));
    let deliverer = Deliverer::new(app.store.clone(), app.queue.clone(), app.settings.clone(), metrics);
    app.tracker.spawn(deliverer.run(app.shutdown.clone()));
}
