//! `penstock-gateway-bench`: what the model gateway costs.
//!
//! `serve` puts an OpenAI-compatible door before `Gateway::stream`, for benches that load gateways from outside. It knows no
//! keys, tenants or budgets: it is no product. `measure` compares calls through the gateway, in its own process, with direct
//! calls to the same provider.
#![expect(clippy::print_stdout, reason = "what it prints is what it is for")]

mod door;
mod measure;
// The worker's own way from settings to a gateway, so that what is measured is what runs.
#[path = "../../../worker/src/models.rs"]
#[expect(dead_code, reason = "settings do not change while a bench runs")]
mod models;
mod wire;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use penstock_gateway::Gateway;
use penstock_telemetry::Metrics;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "A door before the model gateway, and what a call through it costs")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serves `POST /v1/chat/completions`; `model` names a chain of the settings.
    Serve {
        /// Settings file.
        #[arg(long)]
        config: PathBuf,
        /// Address to listen on.
        #[arg(long, default_value = "127.0.0.1:9210")]
        listen: SocketAddr,
        /// How long a call waits for limits before it is answered 429; without it, as long as a task's calls do.
        #[arg(long)]
        wait_ms: Option<u64>,
    },
    /// Measures calls through the gateway beside direct ones.
    Measure(measure::Arguments),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Serve { config, listen, wait_ms } => {
            door::serve(gateway(&config)?, listen, wait_ms.map(Duration::from_millis)).await
        }
        Command::Measure(arguments) => measure::run(&arguments).await,
    }
}

/// The gateway of a settings file, as a worker builds it.
fn gateway(config: &Path) -> anyhow::Result<Arc<Gateway>> {
    let settings = penstock_config::load(Some(config))?.settings;
    // Started once; of several settings files the first decides.
    drop(penstock_telemetry::start_logs(&settings.log));
    Ok(Arc::new(models::gateway(&settings, &Metrics::new())?))
}
