//! The command line. Results go to standard output and nothing else does; what went wrong goes to standard error.

mod breaker;
mod check;
mod dead;
mod key;
mod pause;
mod print;
mod probe;
mod schedule;
mod serve;
mod tenant;
mod webhook;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use penstock_config::Loaded;
use penstock_store::Store;

/// The front door of Penstock, and the commands to operate it.
#[derive(Debug, Parser)]
#[command(name = "penstock-api", version, propagate_version = true)]
struct Arguments {
    /// Settings file; also PENSTOCK_CONFIG.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API (the default).
    Serve,
    /// Bring the database schema up to date.
    Migrate,
    /// Print the effective settings with their origin, secrets hidden.
    Config {
        /// Print the reference of all settings instead.
        #[arg(long)]
        reference: bool,
    },
    /// Check a settings file (with the environment over it).
    CheckConfig {
        /// The file.
        file: PathBuf,
    },
    /// Compare the queue with the truth in MySQL; fails when they differ. Safe while the system runs.
    Check {
        /// Mend what differs.
        #[arg(long)]
        repair: bool,
    },
    /// Create, change, list and revoke tenants.
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Create, list and revoke API keys.
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// List the breakers of all workers, and hold or release those of one exit.
    #[command(subcommand)]
    Breaker(breaker::BreakerCommand),
    /// Stop the queue, a tenant or an agent: none of its tasks start, what runs goes on.
    #[command(subcommand)]
    Pause(pause::Target),
    /// Let the queue, a tenant or an agent go on.
    #[command(subcommand)]
    Resume(pause::Target),
    /// List, replay and purge dead letters.
    #[command(subcommand)]
    Dead(dead::DeadCommand),
    /// Write, list, pause and delete cron entries.
    #[command(subcommand)]
    Schedule(schedule::ScheduleCommand),
    /// Make webhook secrets, and set where ends are told.
    #[command(subcommand)]
    Webhook(webhook::WebhookCommand),
    /// Print the OpenAPI document.
    Openapi,
    /// Print the reference of error codes.
    Errors,
    /// GET a plain http:// URL; succeeds when the answer is 2xx.
    Probe {
        /// The URL.
        url: String,
    },
}

/// Runs the command that the process was started with.
#[must_use]
pub fn run() -> ExitCode {
    match dispatch(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print::failure(&error);
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: Arguments) -> anyhow::Result<()> {
    let load = || penstock_config::load(arguments.config.as_deref()).context("the settings were refused");
    match arguments.command.unwrap_or(Command::Serve) {
        Command::Serve => serve::run(load()?),
        Command::Migrate => with_store(&load()?, async |store| Ok(store.migrate().await?)),
        Command::Config { reference: true } => print::line(penstock_config::reference().trim_end()),
        Command::Config { reference: false } => print::line(penstock_config::effective(&load()?).trim_end()),
        Command::CheckConfig { file } => {
            penstock_config::load(Some(&file)).context("the settings were refused")?;
            print::line("the settings are complete and consistent")
        }
        Command::Check { repair } => check::run(load()?.settings, repair),
        Command::Tenant(command) => with_store(&load()?, async |store| tenant::run(store, command).await),
        Command::Key(command) => with_store(&load()?, async |store| key::run(store, command).await),
        Command::Breaker(command) => breaker::run(&load()?.settings, command),
        Command::Pause(target) => with_store(&load()?, async |store| pause::run(store, target, true).await),
        Command::Resume(target) => with_store(&load()?, async |store| pause::run(store, target, false).await),
        Command::Dead(command) => {
            let loaded = load()?;
            with_store(&loaded, async |store| dead::run(store, &loaded.settings, command).await)
        }
        Command::Schedule(command) => {
            let loaded = load()?;
            with_store(&loaded, async |store| schedule::run(store, &loaded.settings, command).await)
        }
        Command::Webhook(command) => {
            let loaded = load()?;
            with_store(&loaded, async |store| webhook::run(store, &loaded.settings.webhook, command).await)
        }
        Command::Openapi => print::line(crate::openapi::document()?.trim_end()),
        Command::Errors => print::line(crate::error::reference().trim_end()),
        Command::Probe { url } => probe::run(&url),
    }
}

/// Runs one piece of work on the database.
fn with_store(loaded: &Loaded, work: impl AsyncFnOnce(&Store) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = Store::connect(&loaded.settings.mysql)?;
        let done = work(&store).await;
        store.close().await;
        done
    })
}
