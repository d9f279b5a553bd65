//! The body of `POST` and `PUT /api/schedule`, and the entry that it makes.

use penstock_config::Schedule;
use penstock_protocol::TenantNo;
use penstock_store::{ScheduleStatus, ScheduleWrite};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::cron::{Cron, CronError};
use crate::error::Problem;
use crate::task::SubmitRequest;

const NAME_CHARS_MAX: usize = 128;
const CRON_BYTES_MAX: usize = 128;
const ZONE_BYTES_MAX: usize = 64;

/// A cron entry. Unknown fields are refused.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleRequest {
    /// Label for people.
    #[serde(default)]
    #[schema(max_length = 128)]
    pub(crate) name: String,
    /// Minute, hour, day of month, month, day of week. Fixed times follow the clock on the wall: one that a change to
    /// summer time leaves out fires at the end of the gap, one that comes twice fires the first time. An expression whose
    /// minute or hour begins with `*` follows real time.
    #[schema(max_length = 128, examples("30 9 * * MON-FRI"))]
    pub(crate) cron: String,
    /// IANA name of the time zone.
    #[serde(default = "utc")]
    #[schema(max_length = 64, examples("Europe/Berlin"))]
    pub(crate) zone: String,
    /// What becomes of fires that nobody fired in time (all doors were down, or the entry was paused).
    pub(crate) misfire: Misfire,
    /// What becomes of a fire while the task of the last one lives.
    #[serde(default)]
    pub(crate) overlap: Overlap,
    /// Whether it fires.
    #[serde(default)]
    pub(crate) status: Status,
    /// The body of `POST /api/task` that each fire submits; without `task_id`, `idempotency_key` and `run_at`.
    pub(crate) task: SubmitRequest,
}

/// What becomes of late fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Misfire {
    /// They are left out.
    Skip,
    /// The latest one is made up for.
    Once,
    /// The latest ones are made up for, at most so many, one task each.
    All(u32),
}

/// What becomes of a fire while the task of the last one lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Overlap {
    /// It fires.
    #[default]
    Allow,
    /// It is left out.
    Skip,
}

/// Whether an entry fires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// It fires.
    #[default]
    Active,
    /// It does not. What it misses is treated by its misfire policy when it is active again.
    Paused,
    /// It does not, and misses nothing: it goes on with the first fire after it was made active.
    Disabled,
}

fn utc() -> String {
    "UTC".to_owned()
}

impl ScheduleRequest {
    /// The entry, and its cursor: `from_ms` is the moment after which it fires.
    ///
    /// Errors: 422 with the field's path.
    pub(crate) fn into_write(
        self,
        settings: &Schedule,
        tenant: TenantNo,
        id: Uuid,
        from_ms: u64,
    ) -> Result<ScheduleWrite, Problem> {
        if self.name.chars().count() > NAME_CHARS_MAX {
            return Err(Problem::invalid("name", format!("a name has at most {NAME_CHARS_MAX} characters")));
        }
        if self.cron.len() > CRON_BYTES_MAX || self.zone.len() > ZONE_BYTES_MAX {
            return Err(Problem::invalid("cron", format!("an expression has at most {CRON_BYTES_MAX} characters")));
        }
        let cron = Cron::parse(&self.cron, &self.zone).map_err(|error| {
            let path = if matches!(error, CronError::Zone(_)) { "zone" } else { "cron" };
            Problem::invalid(path, error.to_string())
        })?;
        let next_ms = cron.next(from_ms);
        if next_ms.is_none() {
            return Err(Problem::invalid("cron", "the expression never fires"));
        }
        let misfire_max = match self.misfire {
            Misfire::Skip => 0,
            Misfire::Once => 1,
            Misfire::All(most) => most,
        };
        if matches!(self.misfire, Misfire::All(_)) && !(1..=settings.misfire_max).contains(&misfire_max) {
            let reason = format!("1 to {} late fires (schedule.misfire_max)", settings.misfire_max);
            return Err(Problem::invalid("misfire.all", reason));
        }
        for (is_given, path) in [
            (self.task.task_id.is_some(), "task.task_id"),
            (self.task.idempotency_key.is_some(), "task.idempotency_key"),
            (self.task.run_at.is_some(), "task.run_at"),
        ] {
            if is_given {
                return Err(Problem::invalid(path, "each fire has its own"));
            }
        }
        let template = serde_json::to_string(&self.task).map_err(|error| {
            tracing::error!(%error, "a request could not be written out");
            Problem::internal()
        })?;
        Ok(ScheduleWrite {
            tenant,
            id,
            name: self.name,
            cron: self.cron,
            zone: self.zone,
            misfire_max,
            is_overlap_skipped: self.overlap == Overlap::Skip,
            status: self.status.into(),
            template,
            next_ms,
        })
    }
}

impl Misfire {
    /// The policy behind its stored form.
    pub(crate) fn from_stored(misfire_max: u32) -> Self {
        match misfire_max {
            0 => Self::Skip,
            1 => Self::Once,
            most => Self::All(most),
        }
    }
}

impl From<Status> for ScheduleStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Active => Self::Active,
            Status::Paused => Self::Paused,
            Status::Disabled => Self::Disabled,
        }
    }
}

impl From<ScheduleStatus> for Status {
    fn from(status: ScheduleStatus) -> Self {
        match status {
            ScheduleStatus::Active => Self::Active,
            ScheduleStatus::Paused => Self::Paused,
            ScheduleStatus::Disabled => Self::Disabled,
        }
    }
}
