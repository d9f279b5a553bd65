//! Tasks over HTTP: submit, read, list, cancel, replay.
//!
//! One submission walks from a [`Submission`] through `admission` (the yes of the queue, before any SQL) and
//! `acceptance` (the row in MySQL) to its place in line; `submission` holds the order of it all.

mod acceptance;
mod admission;
mod body;
mod cancel;
mod cursor;
mod door;
mod field;
mod idempotency;
mod interrupt;
mod links;
mod list;
mod read;
mod replay;
mod request;
mod submission;
mod view;
mod waiting;

pub(crate) use admission::UNDER_WAY_MAX as ADMISSIONS_MAX;
pub use body::read_json;
pub(crate) use cancel::carry_out as cancel;
pub(crate) use field::allowed_ms;
pub use field::{OnBusyThread, OnDisconnect, Priority, UserName};
pub use idempotency::IdempotencyKey;
pub use links::Links;
pub(crate) use read::key_of;
pub(crate) use replay::replay;
pub use request::SubmitRequest;
pub use submission::{Submission, Submitted, submit};
use view::TaskDetail;
pub(crate) use view::TaskSummary;
pub(crate) use waiting::{WaitReason, Waiting};

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::app::App;

/// The routes of tasks.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(door::submit_task, list::list_tasks))
        .routes(routes!(read::read_task, cancel::cancel_task))
        .routes(routes!(replay::replay_task))
}
