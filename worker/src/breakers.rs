//! Once a second: takes operators' orders and other processes' trips to the breakers, and shows what this process sees.
//!
//! Calls never wait for it. While Redis does not answer, breakers go by what was heard last, which ends by itself.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use penstock_board::{Board, BoardError, Notice};
use penstock_gateway::BreakerReport;
use penstock_gateway::breaker::Forced;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::parts::Parts;

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A process that has shown nothing for so long is not listed.
const SHOWN_FOR: Duration = Duration::from_secs(5);

/// Keeps the breakers and the board together for as long as it is polled.
pub(crate) async fn run(parts: Parts, board: Board) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut told, mut is_silent) = (HashMap::new(), false);
    loop {
        looks.tick().await;
        match look(&parts, &board, &mut told).await {
            Ok(()) => is_silent = false,
            Err(error) if is_silent => tracing::debug!(%error, "the board of breakers is still silent"),
            Err(error) => {
                is_silent = true;
                tracing::warn!(%error, "the board of breakers is silent: operators' orders do not arrive");
            }
        }
    }
}

/// `told`: number of the trip of each breaker that was told last.
async fn look(parts: &Parts, board: &Board, told: &mut HashMap<String, u64>) -> Result<(), BoardError> {
    let gateway = &parts.gateway;
    let reports = gateway.breakers();
    let exits: BTreeSet<_> = reports.iter().map(|report| report.name.clone()).collect();
    let names: Vec<_> = exits.iter().cloned().chain(reports.iter().map(BreakerReport::breaker_name)).collect();
    let notices = board.read(&names).await?;
    let now = Instant::now();
    for (name, notice) in exits.iter().zip(&notices) {
        let order = notice.order.map(|order| Forced { is_tripped: order.is_tripped, until: now + order.left });
        gateway.force(name, order);
    }
    if parts.settings.now().breaker.is_shared {
        for (report, Notice { trip, .. }) in reports.iter().zip(&notices[exits.len()..]) {
            if let Some(left) = trip {
                gateway.heard_trip(report, now + *left);
            }
        }
        for (report, number, until) in gateway.own_trips() {
            let (name, left) = (report.breaker_name(), until.saturating_duration_since(now));
            if !left.is_zero() && told.insert(name.clone(), number) != Some(number) {
                board.tell_trip(&name, left).await?;
            }
        }
    }
    match serde_json::to_string(&reports) {
        Ok(json) => board.show(parts.worker.as_str(), &json, SHOWN_FOR).await,
        Err(_) => Ok(()),
    }
}
