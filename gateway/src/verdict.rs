//! The verdict table: what each outcome of an attempt means for the breaker, the same hop, the next hop, the token debit and
//! the budget. Pure; one test a row. Nothing else in the gateway asks what an outcome means.

use crate::Outcome;
use crate::breaker::{Fault, Report};

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What it says about the exit's health. Which of the countable outcomes count is a setting of the provider.
    pub(crate) breaker: Report,
    /// Whether the same hop is tried again, inside the bounds of attempts and time.
    pub(crate) same_hop: Again,
    /// Whether another hop is tried after that.
    pub(crate) next_hop: Next,
    /// What becomes of the tokens that were taken.
    pub(crate) debit: Debit,
    /// What becomes of the money that was held.
    pub(crate) budget: Charge,
}

/// Column "same hop again".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// No: the answer would be the same, or part of one was already given out.
    No,
    /// At most one more time, however many attempts a hop has.
    Once,
    /// Until the hop's attempts are used up.
    Yes,
    /// When the vendor said, or after the gate's push-back; not beyond the wait budget.
    AfterHint,
}

/// Column "next hop".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// No: it would answer the same, or part of an answer was already given out.
    No,
    /// Once the same hop is not tried again.
    Yes,
    /// If its context is larger.
    LargerContext,
}

/// Column "TPM debit".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Debit {
    /// Corrected by the usage that the vendor counted.
    Settled,
    /// Left as it was taken: the vendor counted it too.
    Kept,
    /// What was received, never less than the estimate of the input.
    Received,
    /// Nothing was sent: nothing was taken, or all of it is given back.
    None,
}

/// Column "budget".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    /// By the usage that the vendor counted.
    Usage,
    /// Nothing; the hold is released.
    Nothing,
    /// The input, by estimate.
    Input,
    /// What was received, by estimate where the vendor counted nothing.
    Received,
    /// Whoever finds the hold sweeps it.
    Swept,
    /// The hold stays for the next attempt.
    Unchanged,
}

/// The row of `outcome`.
pub(crate) const fn verdict(outcome: Outcome) -> Verdict {
    const ERROR: Report = Report::Failure(Fault::Error);
    const TIMEOUT: Report = Report::Failure(Fault::Timeout);
    use Report::{Neutral, Success};

    match outcome {
        Outcome::CleanEnd => row(Success, Again::No, Next::No, Debit::Settled, Charge::Usage),
        Outcome::Connect | Outcome::Server => row(ERROR, Again::Yes, Next::Yes, Debit::Kept, Charge::Nothing),
        Outcome::FirstToken => row(TIMEOUT, Again::Once, Next::Yes, Debit::Kept, Charge::Nothing),
        Outcome::Broken => row(ERROR, Again::No, Next::No, Debit::Received, Charge::Received),
        Outcome::Undecodable | Outcome::Empty => row(Neutral, Again::Once, Next::Yes, Debit::Kept, Charge::Input),
        Outcome::RateLimited => row(Neutral, Again::AfterHint, Next::Yes, Debit::Kept, Charge::Nothing),
        Outcome::PlanExhausted | Outcome::Denied => row(Neutral, Again::No, Next::Yes, Debit::Kept, Charge::Nothing),
        Outcome::Refused => row(Neutral, Again::No, Next::No, Debit::Kept, Charge::Nothing),
        Outcome::ContextTooLong => row(Neutral, Again::No, Next::LargerContext, Debit::Kept, Charge::Nothing),
        Outcome::Total | Outcome::Deadline => row(Neutral, Again::No, Next::No, Debit::Received, Charge::Received),
        Outcome::TimeBox => row(Neutral, Again::No, Next::No, Debit::Kept, Charge::Nothing),
        Outcome::Dropped => row(Neutral, Again::No, Next::No, Debit::Kept, Charge::Swept),
        Outcome::NoPermit | Outcome::Exhausted | Outcome::Tripped | Outcome::Parked | Outcome::NotCapable => {
            row(Neutral, Again::No, Next::Yes, Debit::None, Charge::Unchanged)
        }
    }
}

const fn row(breaker: Report, same_hop: Again, next_hop: Next, debit: Debit, budget: Charge) -> Verdict {
    Verdict { breaker, same_hop, next_hop, debit, budget }
}

/// What an outcome reports to the breakers of a provider that counts `counted` as failures.
pub(crate) fn report(outcome: Outcome, counted: &[Outcome]) -> Report {
    match (outcome, verdict(outcome).breaker) {
        (_, Report::Success) => Report::Success,
        (_, Report::Failure(fault)) if counted.contains(&outcome) => Report::Failure(fault),
        // Neutral by default, counted by this provider.
        (Outcome::Undecodable | Outcome::Empty, _) if counted.contains(&outcome) => Report::Failure(Fault::Error),
        _ => Report::Neutral,
    }
}

impl Outcome {
    /// Whether the whole call, made anew by a later attempt of the task, may end better.
    ///
    /// Not after the total time: with the same limit it would meet it again.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Connect
                | Self::Server
                | Self::FirstToken
                | Self::Broken
                | Self::Undecodable
                | Self::Empty
                | Self::RateLimited
                | Self::TimeBox
                | Self::NoPermit
                | Self::Exhausted
                | Self::Tripped
                | Self::Parked
        )
    }
}

#[cfg(test)]
mod tests;
