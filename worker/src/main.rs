//! `penstock-worker`: takes tasks from the queue and runs their agent loops.

mod agent;
mod claim;
mod findings;
mod health;
mod metrics;
mod models;
mod parts;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Time that what is left of the runtime gets once the worker has said good-bye.
const SHUTDOWN: Duration = Duration::from_millis(500);

#[derive(Parser)]
#[command(version, about = "Takes tasks from the queue and runs their agent loops")]
struct Arguments {
    /// Settings file; defaults and the environment apply without one.
    #[arg(long)]
    config: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let loaded = penstock_config::load(arguments.config.as_deref())?;
    penstock_telemetry::start_logs(&loaded.settings.log)?;
    penstock_telemetry::use_small_pages();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(worker::run(loaded));
    // Whatever an agent still does, the process ends on time.
    runtime.shutdown_timeout(SHUTDOWN);
    done
}
