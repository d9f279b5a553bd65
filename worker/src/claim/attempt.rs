//! One attempt, from its entry in the mailbox to its end.

use penstock_queue::ReadyEntry;
use tokio::time::Instant;

use super::end::conclude;
use super::start::take;
use crate::agent::{Account, Output, run};
use crate::metrics::AttemptEnd;
use crate::parts::Parts;

/// Claims, runs and ends the task of `entry`.
pub(crate) async fn attempt(parts: Parts, entry: ReadyEntry) {
    let began = Instant::now();
    // One view for the whole attempt: what the claim has judged is what runs.
    let settings = parts.settings.now();
    let Some((claim, lease)) = take(&parts, &settings, &entry).await else {
        parts.metrics.ended(AttemptEnd::Stale);
        return;
    };
    // `take` has seen that the agent is there.
    let Some(agent) = settings.agents.get(&claim.row().agent) else { return };
    parts.metrics.running.inc();
    let (mut output, mut account) = (Output::new(&parts, &claim, &lease), Account::default());
    let outcome = run(&parts, &claim, &lease, agent, &mut output, &mut account).await;
    let end = conclude(&parts, &claim, &lease, outcome, account, output.last()).await;
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
}
