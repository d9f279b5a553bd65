//! One fire of an entry, from the claim to the moved cursor.
//!
//! Submitting comes first, under an id that is derived from entry and fire time; moving the cursor comes last, by a
//! conditional UPDATE. So whoever takes up a fire that another process left at any point meets its own task: no fire is
//! lost, none is doubled, and any number of schedulers may run.

use penstock_protocol::{TaskId, TaskKey};
use penstock_store::{FireRecord, ScheduleRow, StoreError};

use super::cron::Cron;
use super::misfire::{Look, Plan, plan};
use super::scheduler::{Scheduler, Step};
use crate::app::App;
use crate::auth::Caller;
use crate::error::{Problem, ProblemCode};
use crate::task::{SubmitRequest, Submitted, judged, submit};

/// Bounds of the pause before a refused fire is tried again.
const RETRY_MS_MIN: u64 = 1000;
const RETRY_MS_MAX: u64 = 60_000;

/// What became of one handling of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// Its task was accepted.
    Accepted,
    /// Its task was refused for good.
    Refused,
    /// The task of the last fire lives.
    Skipped,
    /// It was too late, or its task was refused for too long.
    Missed,
    /// Its task was refused for now.
    Retried,
}

impl Outcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused => "refused",
            Self::Skipped => "skipped",
            Self::Missed => "missed",
            Self::Retried => "retried",
        }
    }
}

/// Why a handling stopped; the entry is looked at again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FireError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("keys and tenants are not loaded yet")]
    NotLoaded,
    /// A test stopped the process here.
    #[error("stopped after {0:?}")]
    Stopped(Step),
}

impl Scheduler {
    /// Handles the fire at the cursor of a claimed entry.
    pub(super) async fn fire(&self, row: &ScheduleRow) -> Result<(), FireError> {
        self.passed(Step::Claimed)?;
        let Some(cursor_ms) = row.next_ms else { return Ok(()) };
        let settings = self.app.settings.now();
        let cron = match Cron::parse(&row.cron, &row.zone) {
            Ok(cron) => cron,
            // It was taken once: by a version with other rules, or other time zones.
            Err(error) => return self.leave(row, None, record(Outcome::Refused, cursor_ms, error.to_string())).await,
        };
        let look = Look {
            cursor_ms,
            now_ms: row.now_ms,
            is_begun: row.begun_ms == Some(cursor_ms),
            misfire_after_ms: u64::try_from(settings.schedule.misfire_after.as_millis()).unwrap_or(u64::MAX),
            misfire_max: usize::try_from(row.misfire_max).unwrap_or(usize::MAX),
        };
        match plan(&cron, &look) {
            Plan::Wait => return self.wait(row, cursor_ms).await,
            Plan::GoOn(next_ms) => {
                let until = next_ms.map_or_else(String::new, |next_ms| format!(", with all before {next_ms}"));
                let record = record(Outcome::Missed, cursor_ms, format!("nobody fired it in time{until}"));
                return self.leave(row, next_ms, record).await;
            }
            Plan::Fire => {}
        }
        if !self.app.store.begin_fire(row).await? {
            // It was changed or moved meanwhile.
            return Ok(());
        }
        self.passed(Step::Begun)?;
        let next_ms = cron.next(cursor_ms);
        if row.is_overlap_skipped && self.is_last_alive(row).await? {
            let record = record(Outcome::Skipped, cursor_ms, "the task of the last fire has not ended".to_owned());
            return self.leave(row, next_ms, record).await;
        }
        let task = TaskId::from_fire(row.tenant, row.id, cursor_ms);
        let submitted = self.submit(row, task).await?;
        self.passed(Step::Submitted)?;
        match submitted {
            Ok(_) => self.leave(row, next_ms, accepted(cursor_ms, task)).await,
            // The task is there, under the entry's words of before a change.
            Err(problem) if problem.code() == ProblemCode::BodyDiffers => {
                self.leave(row, next_ms, accepted(cursor_ms, task)).await
            }
            Err(problem) if !is_for_now(&problem) => {
                let record = record(Outcome::Refused, cursor_ms, problem.code().as_str().to_owned());
                self.leave(row, next_ms, record).await
            }
            Err(problem) => {
                let spent_ms =
                    row.begun_at_ms.filter(|_| look.is_begun).map_or(0, |begun| row.now_ms - begun.min(row.now_ms));
                if u128::from(spent_ms) >= settings.schedule.retry_for.as_millis() {
                    let record = record(Outcome::Missed, cursor_ms, problem.code().as_str().to_owned());
                    return self.leave(row, next_ms, record).await;
                }
                self.metrics.count(Outcome::Retried);
                let least = RETRY_MS_MIN << row.tries.min(6);
                let after_ms = problem.retry_after_ms().unwrap_or(0).max(least).min(RETRY_MS_MAX);
                Ok(self.app.store.delay_fire(row, jittered(after_ms)).await?)
            }
        }
    }

    /// An entry that was claimed before its time, as after a change of the server's clock.
    async fn wait(&self, row: &ScheduleRow, cursor_ms: u64) -> Result<(), FireError> {
        Ok(self.app.store.delay_fire(row, cursor_ms.saturating_sub(row.now_ms)).await?)
    }

    /// Moves the cursor on, and records what became of the fire.
    async fn leave(&self, row: &ScheduleRow, next_ms: Option<u64>, left: FireRecord) -> Result<(), FireError> {
        let keep = self.app.settings.now().schedule.history_max;
        let outcome = match left.outcome.as_str() {
            "accepted" => Outcome::Accepted,
            "refused" => Outcome::Refused,
            "skipped" => Outcome::Skipped,
            _ => Outcome::Missed,
        };
        if self.app.store.advance_schedule(row, next_ms, &left, keep).await? {
            self.metrics.count(outcome);
            if outcome != Outcome::Accepted {
                tracing::warn!(
                    schedule.id = %row.id,
                    tenant = %row.tenant,
                    fire_ms = left.fire_ms,
                    outcome = outcome.as_str(),
                    "a fire has no task"
                );
            }
        }
        self.passed(Step::Moved)
    }

    async fn is_last_alive(&self, row: &ScheduleRow) -> Result<bool, FireError> {
        let Some(last) = row.last_task else { return Ok(false) };
        let key = TaskKey::new(row.tenant, last);
        let statuses = self.app.store.statuses(&[key]).await?;
        Ok(statuses.get(&key).is_some_and(|status| !status.is_terminal()))
    }

    async fn submit(&self, row: &ScheduleRow, task: TaskId) -> Result<Result<Submitted, Problem>, FireError> {
        if !self.app.keys.is_loaded() {
            return Err(FireError::NotLoaded);
        }
        let Some(caller) = self.app.keys.tenant(row.tenant) else {
            return Ok(Err(Problem::unauthenticated()));
        };
        Ok(submit_template(&self.app, &caller, &row.template, task).await)
    }
}

/// Submits what an entry submits, as the single door does.
pub(super) async fn submit_template(
    app: &App,
    caller: &Caller,
    template: &str,
    task: TaskId,
) -> Result<Submitted, Problem> {
    let request: SubmitRequest = serde_json::from_str(template)
        .map_err(|error| Problem::invalid("task", format!("this version cannot read the entry's task: {error}")))?;
    let mut submission = judged(app, request, None)?;
    submission.task_id = Some(task);
    submit(app, caller, submission).await
}

fn is_for_now(problem: &Problem) -> bool {
    let status = problem.code().status().as_u16();
    matches!(status, 409 | 429 | 500..)
}

fn accepted(fire_ms: u64, task: TaskId) -> FireRecord {
    FireRecord { fire_ms, outcome: Outcome::Accepted.as_str().to_owned(), task: Some(task), detail: None, at_ms: 0 }
}

fn record(outcome: Outcome, fire_ms: u64, detail: String) -> FireRecord {
    let detail = Some(detail.chars().take(255).collect());
    FireRecord { fire_ms, outcome: outcome.as_str().to_owned(), task: None, detail, at_ms: 0 }
}

/// Between one and one and a half times `ms`, so that entries that were refused together do not come back together.
fn jittered(ms: u64) -> u64 {
    // The low bits of a v4 id are as random as any.
    let random = u64::try_from(uuid::Uuid::new_v4().as_u128() & 0x3FF).unwrap_or(0);
    ms + ms * random / 2048
}
