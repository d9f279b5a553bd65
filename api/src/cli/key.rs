//! `penstock-api key create|list|revoke`. A key is printed once, alone, so that a script can take it.

use anyhow::{Context, ensure};
use clap::Subcommand;
use penstock_protocol::clock;
use penstock_store::{NewKey, Store};

use super::print;
use crate::auth::{Scope, Scopes, SecretKey};

const NAME_CHARS_MAX: usize = 64;
const DAY_MS: u64 = 24 * 3600 * 1000;

/// What to do with keys.
#[derive(Debug, Subcommand)]
pub(super) enum KeyCommand {
    /// Create a key and print it; it is not stored and cannot be shown again.
    Create {
        /// Name of its tenant.
        #[arg(long)]
        tenant: String,
        /// What it may do: submit, read, chat, admin.
        #[arg(long, value_delimiter = ',', default_value = "submit,read,chat")]
        scopes: Vec<Scope>,
        /// Label for people.
        #[arg(long, default_value = "")]
        name: String,
        /// Days until it stops working by itself.
        #[arg(long)]
        expires_days: Option<u32>,
    },
    /// List all keys: number, tenant, name, scopes, state.
    List,
    /// Revoke a key by its number.
    Revoke {
        /// Its number.
        number: u32,
    },
}

/// Runs the command.
pub(super) async fn run(store: &Store, command: KeyCommand) -> anyhow::Result<()> {
    match command {
        KeyCommand::Create { tenant, scopes, name, expires_days } => {
            ensure!(name.chars().count() <= NAME_CHARS_MAX, "a name has at most {NAME_CHARS_MAX} characters");
            let key = SecretKey::mint().context("the system has no random numbers")?;
            let scopes: Scopes = scopes.into_iter().collect();
            let expires_ms = expires_days.map(|days| clock::wall_ms() + u64::from(days) * DAY_MS);
            let row = NewKey { tenant, name, hash: key.hash().0, scopes: scopes.to_string(), expires_ms };
            store.create_key(&row).await?;
            print::line(key.expose())
        }
        KeyCommand::List => list(store).await,
        KeyCommand::Revoke { number } => Ok(store.revoke_key(number).await?),
    }
}

async fn list(store: &Store) -> anyhow::Result<()> {
    let (tenants, now_ms) = (store.tenants().await?, clock::wall_ms());
    for key in store.keys().await? {
        let tenant = tenants.iter().find(|tenant| tenant.no == key.tenant).map_or("?", |tenant| &tenant.name);
        let state = match (key.revoked_ms, key.expires_ms) {
            (Some(_), _) => "revoked",
            (None, Some(moment)) if moment <= now_ms => "expired",
            (None, _) => "active",
        };
        print::line(&format!("{}\t{tenant}\t{}\t{}\t{state}", key.id, key.name, key.scopes))?;
    }
    Ok(())
}
