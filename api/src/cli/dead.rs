//! `penstock-api dead list|replay|purge`: dead letters of a tenant, for operators.

use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::{Args, Subcommand};
use penstock_config::Settings;
use penstock_protocol::ErrorCode;
use penstock_store::{DeadFilter, DeadPage, Store, TenantRow};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::print;
use crate::app::App;
use crate::auth::Caller;
use crate::dead::replay_many;
use crate::start;

const PAGE_ROWS: u32 = 100;
/// Longest wait for the tenants of a door that was started for one command.
const TENANTS_WAIT: Duration = Duration::from_secs(10);

/// What to do with dead letters.
#[derive(Debug, Subcommand)]
pub(super) enum DeadCommand {
    /// List them, newest first: task, when it died, agent, user, reason, message.
    List {
        #[command(flatten)]
        which: Which,
    },
    /// Run them again as new tasks, which pass admission like any other. At least one filter besides the tenant.
    Replay {
        #[command(flatten)]
        which: Which,
    },
    /// Take them off the list; their tasks stay as they ended. At least one filter besides the tenant.
    Purge {
        #[command(flatten)]
        which: Which,
    },
}

/// Which letters.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Name of the tenant.
    #[arg(long)]
    tenant: String,
    /// Only this agent.
    #[arg(long)]
    agent: Option<String>,
    /// Only this error code.
    #[arg(long)]
    code: Option<String>,
    /// Only this end user.
    #[arg(long)]
    user: Option<String>,
    /// Only those that died at this moment or later, in ms since the Unix epoch.
    #[arg(long)]
    after_ms: Option<u64>,
    /// Only those that died before this moment.
    #[arg(long)]
    before_ms: Option<u64>,
    /// At most so many.
    #[arg(long, default_value_t = 100)]
    limit: u32,
}

/// Runs the command.
pub(super) async fn run(store: &Store, settings: &Settings, command: DeadCommand) -> anyhow::Result<()> {
    match command {
        DeadCommand::List { which } => list(store, &which).await,
        DeadCommand::Purge { which } => {
            let (tenant, filter) = (which.tenant(store).await?, which.named()?);
            let purged = store.purge_dead(tenant.no, &filter, which.limit).await?;
            print::line(&format!("{purged} purged"))
        }
        DeadCommand::Replay { which } => replay(store, settings, &which).await,
    }
}

async fn list(store: &Store, which: &Which) -> anyhow::Result<()> {
    let (tenant, filter) = (which.tenant(store).await?, which.filter()?);
    let (mut left, mut page) = (which.limit, None);
    while left > 0 {
        let rows = store.dead(tenant.no, &filter, page, left.min(PAGE_ROWS)).await?;
        let Some(last) = rows.last() else { break };
        page = Some(DeadPage { dead_ms: last.dead_ms.unwrap_or_default(), task: last.key.task });
        left -= u32::try_from(rows.len()).unwrap_or(left);
        for row in &rows {
            let (code, message) = row.error.clone().unwrap_or((ErrorCode::Internal, String::new()));
            let (died, user) = (row.dead_ms.unwrap_or_default(), row.user.as_deref().unwrap_or("-"));
            let message = message.replace(['\n', '\t'], " ");
            print::line(&format!("{}\t{died}\t{}\t{user}\t{}\t{message}", row.key.task, row.agent, code.as_str()))?;
        }
    }
    Ok(())
}

/// Replays through the same door as everybody: queue, row, place in line.
async fn replay(store: &Store, settings: &Settings, which: &Which) -> anyhow::Result<()> {
    let (tenant, filter) = (which.tenant(store).await?, which.named()?);
    let shutdown = CancellationToken::new();
    let app = start::connect(settings.clone(), shutdown.clone()).await.context("the queue cannot be reached")?;
    let replays = match owner(&app, &tenant).await {
        Ok(caller) => Ok(replay_many(&app, &caller, &filter, None, which.limit).await),
        Err(error) => Err(error),
    };
    shutdown.cancel();
    app.tracker.close();
    app.tracker.wait().await;
    app.store.close().await;
    let replays = replays?.map_err(|problem| anyhow!("the list could not be read: {}", problem.code().as_str()))?;
    for letter in &replays.replayed {
        print::line(&format!("{}\treplayed as\t{}", letter.task_id, letter.replayed_as))?;
    }
    for letter in &replays.refused {
        print::line(&format!("{}\trefused\t{}", letter.task_id, letter.code.as_str()))?;
    }
    Ok(())
}

/// The tenant, for which the operator acts.
async fn owner(app: &App, tenant: &TenantRow) -> anyhow::Result<Caller> {
    let mut changed = app.keys.changed();
    let loaded = changed.wait_for(|_| app.keys.is_loaded());
    timeout(TENANTS_WAIT, loaded).await.context("the tenants could not be read")??;
    app.keys.tenant(tenant.no).with_context(|| format!("the tenant `{}` is revoked", tenant.name))
}

impl Which {
    async fn tenant(&self, store: &Store) -> anyhow::Result<TenantRow> {
        let found = store.tenants().await?.into_iter().find(|tenant| tenant.name == self.tenant);
        found.with_context(|| format!("there is no tenant named `{}`", self.tenant))
    }

    fn filter(&self) -> anyhow::Result<DeadFilter> {
        let code = self.code.as_ref().map(|text| {
            let found = ErrorCode::ALL.into_iter().find(|code| code.as_str() == text);
            found.with_context(|| {
                format!("`{text}` is no code; there are {}", ErrorCode::ALL.map(ErrorCode::as_str).join(", "))
            })
        });
        Ok(DeadFilter {
            agent: self.agent.clone(),
            code: code.transpose()?,
            user: self.user.clone(),
            after_ms: self.after_ms,
            before_ms: self.before_ms,
        })
    }

    fn named(&self) -> anyhow::Result<DeadFilter> {
        let filter = self.filter()?;
        ensure!(!filter.is_empty(), "name at least one of --agent, --code, --user, --after-ms, --before-ms");
        Ok(filter)
    }
}
