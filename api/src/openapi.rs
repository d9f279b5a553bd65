//! The OpenAPI description of every route, made from the code.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use crate::router::documented;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Penstock",
        description = "Task queue, worker runtime and model gateway for LLM agents. Errors: docs/errors.md.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    modifiers(&KeyScheme),
    tags(
        (name = "task", description = "Submit, read, list and cancel tasks"),
        (name = "dead", description = "Tasks whose attempts ran out: list, replay, purge"),
        (name = "events", description = "Follow tasks: AG-UI events over WebSocket and SSE"),
        (name = "queue", description = "The queue as a whole"),
        (name = "operation", description = "Probes and metrics, without a key"),
    )
)]
pub(crate) struct Head;

struct KeyScheme;

impl Modify for KeyScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("psk_…").build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
    }
}

/// The document, as `/openapi.json` and `penstock-api openapi` give it. Errors: it cannot be written as JSON.
pub fn document() -> Result<String, serde_json::Error> {
    documented().into_openapi().to_pretty_json()
}
