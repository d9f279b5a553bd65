//! `penstock-api tenant create|list|revoke`.

use anyhow::ensure;
use clap::Subcommand;
use penstock_store::Store;

use super::print;

const NAME_LENGTH_MAX: usize = 64;

/// What to do with tenants.
#[derive(Debug, Subcommand)]
pub(super) enum TenantCommand {
    /// Create a tenant.
    Create {
        /// 1 to 64 of A-Z a-z 0-9 . _ -
        name: String,
    },
    /// List all tenants: number, name, state.
    List,
    /// Revoke a tenant: its keys stop working; its accepted tasks run on.
    Revoke {
        /// Its name.
        name: String,
    },
}

/// Runs the command.
pub(super) async fn run(store: &Store, command: TenantCommand) -> anyhow::Result<()> {
    match command {
        TenantCommand::Create { name } => {
            let is_name = (1..=NAME_LENGTH_MAX).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
            ensure!(is_name, "a tenant is named by 1 to {NAME_LENGTH_MAX} of A-Z a-z 0-9 . _ -");
            let no = store.create_tenant(&name).await?;
            print::line(&format!("{no}\t{name}"))
        }
        TenantCommand::List => {
            for tenant in store.tenants().await? {
                let state = if tenant.revoked_ms.is_some() { "revoked" } else { "active" };
                print::line(&format!("{}\t{}\t{state}", tenant.no, tenant.name))?;
            }
            Ok(())
        }
        TenantCommand::Revoke { name } => Ok(store.revoke_tenant(&name).await?),
    }
}
