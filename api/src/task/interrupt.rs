//! `on_busy_thread: interrupt`: the tasks of the thread that were accepted before are cancelled, so this one runs next.
//!
//! It is queued first and waits for its thread like any other, so two tasks of a thread never run at once, whoever dies.
//! The cancels are stored before the 202 is sent; a repeat of the request cancels again what a dead door left.

use penstock_protocol::{TaskKey, ThreadId};

use super::cancel;
use crate::app::App;
use crate::error::Problem;

/// Tasks cancelled at once.
const PAGE_ROWS: u32 = 100;

/// Cancels every task of `thread` that has not ended and was accepted before `key`.
///
/// Errors: 503, with the task accepted: the same request again goes on.
pub(super) async fn interrupt(app: &App, key: TaskKey, thread: ThreadId, accepted_ms: u64) -> Result<(), Problem> {
    loop {
        let open = app.store.open_of_thread(key, thread, accepted_ms, PAGE_ROWS).await;
        let open = open.map_err(|_| Problem::outcome_unknown(key.task))?;
        for task in &open {
            cancel::carry_out(app.clone(), *task).await.map_err(|_| Problem::outcome_unknown(key.task))?;
        }
        if open.len() < PAGE_ROWS as usize {
            return Ok(());
        }
    }
}
