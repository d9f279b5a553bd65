//! `penstock-api schedule put|list|status|delete|fires`: cron entries from the command line.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use clap::{Subcommand, ValueEnum};
use penstock_config::Settings;
use penstock_protocol::TenantNo;
use penstock_store::{ScheduleRow, ScheduleStatus, ScheduleWrite, Store};
use uuid::Uuid;

use super::print;
use crate::schedule::ScheduleRequest;

/// What to do with cron entries.
#[derive(Debug, Subcommand)]
pub(super) enum ScheduleCommand {
    /// Write an entry whole, from a file that holds the body of POST /api/schedule, and print its id.
    Put {
        /// Name of its tenant.
        tenant: String,
        /// The file.
        file: PathBuf,
        /// Its id; a new one without.
        #[arg(long)]
        id: Option<Uuid>,
    },
    /// List the entries of a tenant: id, state, expression, zone, next fire, name.
    List {
        /// Its name.
        tenant: String,
    },
    /// Make an entry active, pause it, or disable it.
    Status {
        /// Name of its tenant.
        tenant: String,
        /// Its id.
        id: Uuid,
        /// What it is to be.
        status: StatusName,
    },
    /// Delete an entry; its tasks go on.
    Delete {
        /// Name of its tenant.
        tenant: String,
        /// Its id.
        id: Uuid,
    },
    /// List the latest fires of an entry: fire time, outcome, task, detail.
    Fires {
        /// Name of its tenant.
        tenant: String,
        /// Its id.
        id: Uuid,
    },
}

/// What an entry can be.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum StatusName {
    /// It fires.
    Active,
    /// It does not, and what it misses is treated as missed later.
    Paused,
    /// It does not, and misses nothing.
    Disabled,
}

impl From<StatusName> for ScheduleStatus {
    fn from(name: StatusName) -> Self {
        match name {
            StatusName::Active => Self::Active,
            StatusName::Paused => Self::Paused,
            StatusName::Disabled => Self::Disabled,
        }
    }
}

/// Runs the command.
pub(super) async fn run(store: &Store, settings: &Settings, command: ScheduleCommand) -> anyhow::Result<()> {
    match command {
        ScheduleCommand::Put { tenant, file, id } => {
            let text = std::fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
            let request: ScheduleRequest = serde_json::from_str(&text)?;
            ensure!(settings.agents.contains_key(&request.task.agent), "the settings have no agent of this name");
            let (tenant, now_ms) = (tenant_of(store, &tenant).await?, store.now_ms().await?);
            let id = id.unwrap_or_else(Uuid::now_v7);
            let mut write = request.into_write(&settings.schedule, tenant, id, now_ms).map_err(problem)?;
            if let Some(old) = store.schedule(tenant, id).await? {
                write.keep_cursor(&old);
            }
            let written = store.put_schedule(&write, settings.schedule.tenant_max).await?;
            ensure!(written.is_some(), "the tenant has schedule.tenant_max entries already");
            print::line(&id.to_string())
        }
        ScheduleCommand::List { tenant } => {
            for row in store.schedules(tenant_of(store, &tenant).await?).await? {
                let next_ms = row.next_ms.map_or_else(|| "-".to_owned(), |ms| ms.to_string());
                let state = row.status.as_str();
                let line = format!("{}\t{state}\t{}\t{}\t{next_ms}\t{}", row.id, row.cron, row.zone, row.name);
                print::line(&line)?;
            }
            Ok(())
        }
        ScheduleCommand::Status { tenant, id, status } => {
            let row = find(store, tenant_of(store, &tenant).await?, id).await?;
            let cron = crate::schedule::next_fire(&row.cron, &row.zone, row.now_ms)?;
            let mut write = ScheduleWrite {
                tenant: row.tenant,
                id,
                name: row.name.clone(),
                cron: row.cron.clone(),
                zone: row.zone.clone(),
                misfire_max: row.misfire_max,
                is_overlap_skipped: row.is_overlap_skipped,
                status: status.into(),
                template: row.template.clone(),
                next_ms: cron,
            };
            write.keep_cursor(&row);
            store.put_schedule(&write, settings.schedule.tenant_max.max(1)).await?;
            Ok(())
        }
        ScheduleCommand::Delete { tenant, id } => {
            let gone = store.delete_schedule(tenant_of(store, &tenant).await?, id).await?;
            ensure!(gone, "there is no schedule {id}");
            Ok(())
        }
        ScheduleCommand::Fires { tenant, id } => {
            let row = find(store, tenant_of(store, &tenant).await?, id).await?;
            for fire in store.schedule_fires(row.tenant, id, settings.schedule.history_max).await? {
                let task = fire.task.map_or_else(|| "-".to_owned(), |task| task.to_string());
                let detail = fire.detail.unwrap_or_default();
                print::line(&format!("{}\t{}\t{task}\t{detail}", fire.fire_ms, fire.outcome))?;
            }
            Ok(())
        }
    }
}

async fn tenant_of(store: &Store, name: &str) -> anyhow::Result<TenantNo> {
    let tenants = store.tenants().await?;
    let found = tenants.iter().find(|tenant| tenant.name == name && tenant.revoked_ms.is_none());
    found.map(|tenant| tenant.no).with_context(|| format!("there is no active tenant named `{name}`"))
}

async fn find(store: &Store, tenant: TenantNo, id: Uuid) -> anyhow::Result<ScheduleRow> {
    match store.schedule(tenant, id).await? {
        Some(row) => Ok(row),
        None => bail!("there is no schedule {id}"),
    }
}

/// What the API would answer, as an error of a command.
fn problem(problem: crate::error::Problem) -> anyhow::Error {
    anyhow::anyhow!("{problem}")
}
