//! `penstock-api tenant create|set|list|revoke`.

use std::str::FromStr;

use anyhow::ensure;
use clap::{Args, Subcommand};
use penstock_store::{Bound, Store, TenantRow, TermsChange};

use super::print;

const NAME_LENGTH_MAX: usize = 64;

/// What to do with tenants.
#[derive(Debug, Subcommand)]
pub(super) enum TenantCommand {
    /// Create a tenant.
    Create {
        /// 1 to 64 of A-Z a-z 0-9 . _ -
        name: String,
        #[command(flatten)]
        terms: TermsArguments,
    },
    /// Change a tenant's terms; in force everywhere within two seconds.
    Set {
        /// Its name.
        name: String,
        #[command(flatten)]
        terms: TermsArguments,
    },
    /// List all tenants: number, name, state, terms that differ from the usual.
    List,
    /// Revoke a tenant: its keys stop working; its accepted tasks run on.
    Revoke {
        /// Its name.
        name: String,
    },
}

/// Terms of a tenant. A bound is a number, or `default` for what the settings say.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct TermsArguments {
    /// Share of the workers among tenants that wait, from 1.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    weight: Option<u32>,
    /// Most tasks running at once; 0 = any number.
    #[arg(long, value_name = "COUNT|default")]
    running_max: Option<BoundArgument>,
    /// Most tasks waiting; 0 = any number.
    #[arg(long, value_name = "COUNT|default")]
    depth_max: Option<BoundArgument>,
    /// Most tasks that have not ended; 0 = any number.
    #[arg(long, value_name = "COUNT|default")]
    live_max: Option<BoundArgument>,
    /// Most tasks of one user that have not ended; 0 = any number.
    #[arg(long, value_name = "COUNT|default")]
    user_live_max: Option<BoundArgument>,
    /// Most tasks started, evenly spread: `5/s`, `300/m`, or `none`.
    #[arg(long, value_name = "COUNT/s|COUNT/m|none")]
    start_rate: Option<StartRate>,
}

/// A bound on the command line.
#[derive(Clone, Copy, Debug)]
struct BoundArgument(Bound);

/// A start rate on the command line.
#[derive(Clone, Copy, Debug)]
struct StartRate(Bound);

impl FromStr for BoundArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "default" => Ok(Self(Bound(None))),
            count => match count.parse() {
                Ok(count) => Ok(Self(Bound(Some(count)))),
                Err(_) => Err(format!("`{text}` is neither a number nor `default`")),
            },
        }
    }
}

impl FromStr for StartRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Bound(None)));
        }
        let wrong = || format!("`{text}` is no start rate: write `5/s`, `300/m` or `none`");
        let (count, per) = text.split_once('/').ok_or_else(wrong)?;
        let count: u32 = count.parse().map_err(|_| wrong())?;
        let per_minute = match per {
            "s" => count.checked_mul(60),
            "m" => Some(count),
            _ => None,
        };
        per_minute
            .filter(|count| (1..=60_000_000).contains(count))
            .map(|count| Self(Bound(Some(count))))
            .ok_or_else(wrong)
    }
}

impl TermsArguments {
    fn change(self) -> TermsChange {
        let bound = |argument: Option<BoundArgument>| argument.map(|argument| argument.0);
        TermsChange {
            weight: self.weight,
            running_max: bound(self.running_max),
            depth_max: bound(self.depth_max),
            live_max: bound(self.live_max),
            user_live_max: bound(self.user_live_max),
            starts_per_minute: self.start_rate.map(|rate| rate.0),
        }
    }
}

/// Runs the command.
pub(super) async fn run(store: &Store, command: TenantCommand) -> anyhow::Result<()> {
    match command {
        TenantCommand::Create { name, terms } => {
            let is_name = (1..=NAME_LENGTH_MAX).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'));
            ensure!(is_name, "a tenant is named by 1 to {NAME_LENGTH_MAX} of A-Z a-z 0-9 . _ -");
            let no = store.create_tenant(&name).await?;
            if terms.change() != TermsChange::default() {
                store.change_terms(&name, terms.change()).await?;
            }
            print::line(&format!("{no}\t{name}"))
        }
        TenantCommand::Set { name, terms } => {
            ensure!(terms.change() != TermsChange::default(), "name at least one term to change; see --help");
            Ok(store.change_terms(&name, terms.change()).await?)
        }
        TenantCommand::List => {
            for tenant in store.tenants().await? {
                let state = if tenant.revoked_ms.is_some() { "revoked" } else { "active" };
                print::line(&format!("{}\t{}\t{state}{}", tenant.no, tenant.name, terms_of(&tenant)))?;
            }
            Ok(())
        }
        TenantCommand::Revoke { name } => Ok(store.revoke_tenant(&name).await?),
    }
}

/// The terms of a tenant that differ from the usual, as its options would be written.
fn terms_of(tenant: &TenantRow) -> String {
    let mut terms = Vec::new();
    if tenant.weight != 1 {
        terms.push(format!("weight={}", tenant.weight));
    }
    for (name, bound) in [
        ("running-max", tenant.running_max),
        ("depth-max", tenant.depth_max),
        ("live-max", tenant.live_max),
        ("user-live-max", tenant.user_live_max),
    ] {
        terms.extend(bound.map(|bound| format!("{name}={bound}")));
    }
    terms.extend(tenant.starts_per_minute.map(|starts| format!("start-rate={starts}/m")));
    if terms.is_empty() { String::new() } else { format!("\t{}", terms.join(" ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_rate_is_a_count_per_second_or_minute() {
        let read = |text: &str| text.parse::<StartRate>().map(|rate| rate.0.0);
        assert_eq!((read("5/s"), read("7/m"), read("none")), (Ok(Some(300)), Ok(Some(7)), Ok(None)));
        for wrong in ["", "5", "0/s", "5/h", "-1/s", "5/s/s", "99999999/s"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
