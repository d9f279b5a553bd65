//! `penstock-api check`: the queue in Redis against the truth in MySQL.

use anyhow::{Context, bail};
use penstock_config::Settings;
use penstock_queue::{CensusState, Queue, QueueSettings, WorkerId};
use penstock_recovery::{DriftKind, Recovery, RecoveryMetrics, Report};
use penstock_store::Store;

use super::print;

/// Compares, prints, and mends if told to. Safe while the system runs.
///
/// Errors: differences are left, or a server does not answer.
pub(super) fn run(settings: Settings, repair: bool) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let store = Store::connect(&settings.mysql)?;
        let queue = Queue::connect(QueueSettings::from_settings(&settings)?).await.context("Redis cannot be used")?;
        let name = WorkerId::new(format!("check-{}", uuid::Uuid::now_v7().simple()))?;
        let recovery = Recovery::new(queue.clone(), store.clone(), name, settings.into(), RecoveryMetrics::default());
        let checked = recovery.check(repair).await;
        let libraries = queue.unclaimed_libraries().await.unwrap_or_default();
        store.close().await;
        anyhow::Ok((checked?, libraries))
    });
    let (report, libraries) = report?;
    print(&report)?;
    for library in &libraries {
        print::line(&format!("note: verbs of an earlier build that no process has claimed: {library}"))?;
    }
    match (report.census.state, report.drift.left()) {
        (CensusState::Open, 0) => Ok(()),
        (CensusState::Open, 1) => bail!("one difference is left; running processes mend it, or `check --repair` does"),
        (CensusState::Open, left) => {
            bail!("{left} differences are left; running processes mend them, or `check --repair` does")
        }
        (CensusState::Closed, _) => bail!("the queue is being rebuilt and takes no tasks; check again in a moment"),
        (CensusState::Broken, _) => {
            bail!("the queue is not whole; any running door or worker rebuilds it, or `check --repair` does")
        }
    }
}

fn print(report: &Report) -> anyhow::Result<()> {
    let state = match report.census.state {
        CensusState::Open => "whole and open",
        CensusState::Closed => "whole and closed",
        CensusState::Broken => "not whole",
    };
    print::line(&format!("queue                                      {state}"))?;
    print::line(&format!("rows that have not ended             {:>8}", report.rows))?;
    print::line(&format!("records in the queue                 {:>8}", report.records))?;
    print::line(&format!("{:<36} {:>8} {:>8}", "difference", "found", "mended"))?;
    for kind in DriftKind::ALL {
        let found = report.drift.of(kind);
        print::line(&format!("{:<36} {:>8} {:>8}", kind.title(), found.count, found.mended))?;
        for example in &found.examples {
            print::line(&format!("  {example}"))?;
        }
    }
    Ok(())
}
