//! What one call has taken, from the grant to its settlement.
//!
//! Law 8: a debit is settled once. Dropped before the send it is given back whole, the request too; dropped after it, it
//! stays: a failed call keeps its debit. So a cancel at any point leaves nothing open.

use std::sync::Arc;

use penstock_protocol::TokenUsage;
use tokio::sync::OwnedSemaphorePermit;

use super::metrics::SettledBy;
use super::quota::Quota;
use super::{Change, Cost};

/// The tokens of one call.
#[derive(Debug)]
pub(crate) struct Debit {
    /// `None`: nothing is limited.
    quota: Option<Arc<Quota>>,
    /// As the request was estimated.
    estimate: Cost,
    /// As it was debited: corrected by what the model's calls really used.
    taken: Cost,
    slot_ms: u64,
    state: State,
    /// The right to wait at the gate with tokens in hand.
    ahead: Option<OwnedSemaphorePermit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Debited; nothing was sent.
    Held,
    /// Debited and on its way.
    Sent,
    /// On its way without a debit, so nothing is settled.
    Passed,
    Closed,
}

impl Debit {
    /// For an exit without limits.
    pub(crate) fn none() -> Self {
        let (estimate, taken) = Default::default();
        Self { quota: None, estimate, taken, slot_ms: 0, state: State::Closed, ahead: None }
    }

    /// `taken` was debited, in the slot `slot_ms` of the day counters.
    pub(super) fn taken(quota: Arc<Quota>, estimate: Cost, taken: Cost, slot_ms: u64) -> Self {
        Self { quota: Some(quota), estimate, taken, slot_ms, state: State::Held, ahead: None }
    }

    /// For a call that passes without tokens.
    pub(super) fn passed(quota: Arc<Quota>, estimate: Cost, taken: Cost) -> Self {
        Self { quota: Some(quota), estimate, taken, slot_ms: 0, state: State::Passed, ahead: None }
    }

    pub(super) fn hold_place(&mut self, ahead: OwnedSemaphorePermit) {
        self.ahead = Some(ahead);
    }

    /// The call has passed the gate: another may take tokens.
    pub(crate) fn enter(&mut self) {
        self.ahead = None;
    }

    /// The call is sent now. Until then, dropping gives everything back.
    pub(crate) fn send(&mut self) {
        self.ahead = None;
        if self.state == State::Held {
            self.state = State::Sent;
        }
    }

    /// Settles by what the vendor counted; what it did not count, by the input as it was debited and the output as it was
    /// received.
    pub(crate) fn settle(&mut self, usage: Option<&TokenUsage>, received_tokens: u64) {
        let counted = usage.map_or((None, None), |usage| (usage.input_tokens, usage.output_tokens));
        match counted {
            (Some(input), Some(output)) => self.settle_by(SettledBy::Usage, input, output),
            (input, output) => {
                let (input, output) = (input.unwrap_or(self.taken.input_tokens), output.unwrap_or(received_tokens));
                self.settle_by(SettledBy::Received, input, output);
            }
        }
    }

    fn settle_by(&mut self, by: SettledBy, input: u64, output: u64) {
        let Some(quota) = &self.quota else { return };
        let state = std::mem::replace(&mut self.state, State::Closed);
        if state == State::Closed {
            return;
        }
        if by == SettledBy::Usage {
            quota.learn(&self.estimate, &self.taken, input, output);
        }
        quota.metrics().settled(by, input.saturating_add(output));
        if state != State::Passed {
            quota.settle(Change::to_real(&self.taken, input, output), self.slot_ms);
        }
    }
}

impl Drop for Debit {
    fn drop(&mut self) {
        let Some(quota) = &self.quota else { return };
        match self.state {
            State::Held => {
                quota.metrics().settled(SettledBy::GivenBack, 0);
                quota.settle(Change::give_back(&self.taken), self.slot_ms);
            }
            State::Sent => quota.metrics().settled(SettledBy::Kept, 0),
            State::Passed | State::Closed => {}
        }
    }
}
