//! `penstock-api pause|resume queue|tenant NAME|agent NAME`, and `pause list`.

use clap::Subcommand;
use penstock_store::{Paused, Store};

use super::print;

/// What is to be paused, or to go on.
#[derive(Debug, Subcommand)]
pub(super) enum Target {
    /// The whole queue.
    Queue,
    /// A tenant.
    Tenant {
        /// Its name.
        name: String,
    },
    /// An agent, for all tenants.
    Agent {
        /// Its name in the settings.
        name: String,
    },
    /// Only list what is paused: kind, name, since when (ms since the Unix epoch).
    List,
}

/// Changes the rows, then lists what is paused. The queue follows within two seconds.
pub(super) async fn run(store: &Store, target: Target, is_paused: bool) -> anyhow::Result<()> {
    let what = match target {
        Target::Queue => Some(Paused::Queue),
        Target::Tenant { name } => Some(Paused::Tenant(name)),
        Target::Agent { name } => Some(Paused::Agent(name)),
        Target::List => None,
    };
    if let Some(what) = what {
        store.set_paused(&what, is_paused).await?;
    }
    for pause in store.pauses().await? {
        print::line(&format!("{}\t{}\t{}", pause.what.kind(), pause.what.name(), pause.since_ms))?;
    }
    Ok(())
}
