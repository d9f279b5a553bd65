//! All routes with their layers.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use tokio::sync::Semaphore;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::error::Problem;
use crate::{dead, events, health, layers, openapi, pause, queue_state, task};

/// The routes of the API, which are bounded in number and time.
fn bounded() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::Head::openapi())
        .merge(task::routes())
        .merge(dead::routes())
        .merge(events::routes())
        .merge(queue_state::routes())
        .merge(pause::routes())
}

/// Every route that the OpenAPI document describes.
pub(crate) fn documented() -> OpenApiRouter<App> {
    bounded().merge(health::routes())
}

/// The service of the front door. Errors: the OpenAPI document cannot be written.
pub fn router(app: &App) -> Result<Router, serde_json::Error> {
    let document = Bytes::from(openapi::document()?);
    let permits = Arc::new(Semaphore::new(app.settings.now().api.requests_max));
    let bounded = Router::from(bounded()).layer(from_fn_with_state((app.clone(), permits), layers::bound));
    let router = bounded
        .merge(Router::from(health::routes()))
        .route("/openapi.json", get(move || openapi_json(document.clone())))
        .fallback(async || Problem::route_not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(from_fn_with_state(app.clone(), layers::observe))
        .with_state(app.clone());
    Ok(router)
}

async fn openapi_json(document: Bytes) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], document)
}
