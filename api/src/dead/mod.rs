//! Dead letters over HTTP: tasks that failed because their attempts ran out. List, replay, purge.
//!
//! They are rows of `task`; nothing is copied. What changes many of them at once must name which (`filter`), and does a
//! bounded number a call (`queue.dead_batch_max`).

mod filter;
mod list;
mod purge;
mod replay;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use replay::replay_many;

use crate::app::App;

/// The routes of dead letters.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().routes(routes!(list::list_dead, purge::purge_dead)).routes(routes!(replay::replay_dead))
}
