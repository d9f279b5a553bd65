//! `penstock-worker`: takes tasks from the queue and runs their agent loops.

mod agent;
mod breakers;
mod claim;
mod findings;
mod health;
mod metrics;
mod models;
mod parts;
mod trial;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time that what is left of the runtime gets once the worker has said good-bye.
const SHUTDOWN: Duration = Duration::from_millis(500);

#[derive(Parser)]
#[command(version, about = "Takes tasks from the queue and runs their agent loops")]
struct Arguments {
    /// Settings file; defaults and the environment apply without one.
    #[arg(long, global = true)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Makes one real model call, prints what each stage of the gateway decided and how long it took, and ends.
    Try {
        /// A chain of the settings, or `provider/model`.
        model: String,
        /// What is asked.
        prompt: String,
    },
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let loaded = penstock_config::load(arguments.config.as_deref())?;
    if let Some(Command::Try { model, prompt }) = &arguments.command {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(trial::run(loaded.settings, model, prompt));
    }
    penstock_telemetry::start_logs(&loaded.settings.log)?;
    penstock_telemetry::use_small_pages();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(worker::run(loaded));
    // Whatever an agent still does, the process ends on time.
    runtime.shutdown_timeout(SHUTDOWN);
    done
}
