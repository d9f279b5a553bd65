//! The fake provider as a process. Prints where it listens as one line of JSON and runs until it is told to end.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Parser;
use penstock_loadtest::fake::{FakeProvider, Script};
use tokio::signal::unix::{SignalKind, signal};

/// A model provider in OpenAI's dialect that behaves as each request asks.
#[derive(Parser)]
#[command(name = "penstock-fake-provider", version)]
struct Arguments {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Script of behaviours, TOML or JSON.
    #[arg(long)]
    script: Option<PathBuf>,
}

// One thread: it shares the machine with what it serves, and one core answers far more than the rest can ask.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let script = match &arguments.script {
        Some(path) => Script::read(path).with_context(|| format!("cannot use {}", path.display()))?,
        None => Script::default(),
    };
    let provider = FakeProvider::listen(arguments.listen, script)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let line = serde_json::json!({"listening": provider.address(), "base_url": provider.base_url()});
    writeln!(std::io::stdout(), "{line}")?;
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
