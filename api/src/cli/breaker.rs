//! `penstock-api breaker list|trip|close|release`: what the workers' breakers are, and an operator's hold on them.

use std::time::Duration;

use anyhow::ensure;
use clap::Subcommand;
use penstock_board::Board;
use penstock_config::Settings;
use serde_json::Value;

use super::print;

/// What to do with breakers.
#[derive(Debug, Subcommand)]
pub(super) enum BreakerCommand {
    /// List them: worker, exit, endpoint, state, failures in a row, ms until due, and what holds it (`operator`, `parked`).
    List,
    /// Let no call pass to an exit, in every worker.
    Trip(Hold),
    /// Let all calls pass to an exit, in every worker, whatever fails.
    Close(Hold),
    /// Take an order back: each worker goes by its own state again.
    Release {
        /// The exit, `provider/model`.
        exit: String,
    },
}

/// An order, which ends by itself.
#[derive(Debug, clap::Args)]
pub(super) struct Hold {
    /// The exit, `provider/model`.
    exit: String,
    /// For how many seconds.
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=604_800))]
    hold_s: u64,
}

/// Runs the command.
pub(super) fn run(settings: &Settings, command: BreakerCommand) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let board = Board::new(settings)?;
        match command {
            BreakerCommand::List => list(&board).await,
            BreakerCommand::Trip(hold) => order(settings, &board, &hold, true).await,
            BreakerCommand::Close(hold) => order(settings, &board, &hold, false).await,
            BreakerCommand::Release { exit } => {
                ensure!(board.release(&exit).await?, "no order is in force for `{exit}`");
                print::line(&format!("released {exit}"))
            }
        }
    })
}

async fn list(board: &Board) -> anyhow::Result<()> {
    for (worker, json) in board.shown().await? {
        let breakers: Vec<Value> = serde_json::from_str(&json)?;
        for breaker in breakers {
            let text = |name: &str| breaker[name].as_str().unwrap_or("-").to_owned();
            let number =
                |name: &str| breaker[name].as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string());
            let held_by = match (breaker["is_forced"].as_bool(), breaker["parked_ms"].as_u64()) {
                (Some(true), _) => "operator",
                (_, Some(_)) => "parked",
                _ => "-",
            };
            let (exit, endpoint, state) = (text("name"), text("endpoint"), text("state"));
            let (run, until) = (number("run_count"), number("until_ms"));
            print::line(&format!("{worker}\t{exit}\t{endpoint}\t{state}\t{run}\t{until}\t{held_by}"))?;
        }
    }
    Ok(())
}

async fn order(settings: &Settings, board: &Board, hold: &Hold, is_tripped: bool) -> anyhow::Result<()> {
    let exit = &hold.exit;
    let is_known = settings.chains.values().flat_map(|chain| &chain.hops).any(|hop| {
        exit.strip_prefix(&hop.exit.provider).and_then(|rest| rest.strip_prefix('/')) == Some(hop.exit.model.as_str())
    });
    ensure!(is_known, "no chain of these settings names `{exit}`");
    board.order(exit, is_tripped, Duration::from_secs(hold.hold_s)).await?;
    let state = if is_tripped { "tripped" } else { "closed" };
    print::line(&format!("{exit} is held {state} for {} s, in every worker within about a second", hold.hold_s))
}
