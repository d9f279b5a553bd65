//! One attempt, from its entry in the mailbox to its end.

use std::sync::Arc;
use std::time::Duration;

use penstock_config::Agent;
use penstock_protocol::ErrorCode;
use penstock_queue::ReadyEntry;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::end::conclude;
use super::start::take;
use super::supervise::{Overdue, Supervised, supervise};
use super::{Claim, Lease, Stop};
use crate::agent::{Account, LastEvent, Outcome, Output, out_of_time, run};
use crate::metrics::AttemptEnd;
use crate::parts::Parts;

/// What an agent leaves behind.
type Left = (Outcome, Account, LastEvent);

/// Claims, runs and ends the task of `entry`. The slot is free when this returns, or when the agent is wedged.
pub(crate) async fn attempt(parts: Parts, entry: ReadyEntry, slot: OwnedSemaphorePermit) {
    let began = Instant::now();
    // One view for the whole attempt: what the claim has judged is what runs.
    let settings = parts.settings.now();
    let Some((claim, lease)) = take(&parts, &settings, &entry).await else {
        parts.metrics.ended(AttemptEnd::Stale);
        return;
    };
    // `take` has seen that the agent is there.
    let Some(agent) = settings.agents.get(&claim.row().agent).cloned() else { return };
    let (claim, lease) = (Arc::new(claim), Arc::new(lease));
    parts.metrics.running.inc();
    let work = work(parts.clone(), Arc::clone(&claim), Arc::clone(&lease), agent);
    let grace = settings.worker.stop_grace;
    let (mut slot, without_word) = (Some(slot), LastEvent { n: lease.last_n(), seq: 0 });
    let (outcome, account, last) = match supervise(work, &lease, claim.last_moment(), grace).await {
        Supervised::Done(result) => result,
        Supervised::Panicked => {
            let message = "the agent failed by a fault of Penstock; the log of its worker tells more".to_owned();
            let outcome = Outcome::Failed { code: ErrorCode::Internal, message, retry_in: Some(Duration::ZERO) };
            (outcome, Account::default(), without_word)
        }
        Supervised::Dropped(why) => {
            tracing::warn!(task.id = %claim.row().key, ?why, "an agent did not stop in time and was dropped");
            parts.metrics.forced_stops.inc();
            (end_of(&parts, &claim, why).await, Account::default(), without_word)
        }
        Supervised::Wedged(why, rest) => {
            tracing::error!(task.id = %claim.row().key, ?why, "an agent is wedged: it holds its thread and does not stop");
            if let Some(slot) = slot.take() {
                parts.wedged.take(rest, slot, settings.worker.wedged_max, &parts.metrics);
            }
            (end_of(&parts, &claim, why).await, Account::default(), without_word)
        }
    };
    let end = conclude(&parts, &claim, &lease, outcome, account, last).await;
    parts.leases.give_up(claim.row().key, claim.attempt());
    parts.metrics.running.dec();
    parts.metrics.attempt_seconds.observe(began.elapsed().as_secs_f64());
    parts.metrics.ended(end);
    tracing::debug!(
        task.id = %claim.row().key,
        attempt = claim.attempt(),
        ?end,
        took_ms = began.elapsed().as_millis(),
        "an attempt ended"
    );
    drop(slot);
}

async fn work(parts: Parts, claim: Arc<Claim>, lease: Arc<Lease>, agent: Agent) -> Left {
    let (mut output, mut account) = (Output::new(&parts, &claim, &lease), Account::default());
    let last_moment = claim.last_moment();
    let outcome = run(&parts, &claim, &lease, &agent, last_moment, &mut output, &mut account).await;
    let last = output.last();
    (outcome, account, last)
}

/// How the task of an agent ends that had to be left behind. What its client saw is read back from the stream.
async fn end_of(parts: &Parts, claim: &Claim, why: Overdue) -> Outcome {
    match why {
        Overdue::Time => out_of_time(parts, claim),
        Overdue::Stop(Stop::Cancelled) => {
            let seen = parts.recovery.close_seen(claim.row().key, claim.attempt()).await.unwrap_or_else(|error| {
                tracing::warn!(task.id = %claim.row().key, %error, "what a cancelled task's client saw is not known");
                None
            });
            Outcome::Stopped(Stop::Cancelled, seen)
        }
        Overdue::Stop(why) => Outcome::Stopped(why, None),
    }
}
