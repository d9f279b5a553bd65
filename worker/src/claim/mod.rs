//! From the mailbox to the end of an attempt: intake, claim, lease, end.
//!
//! Law 5: an attempt is claimed in MySQL before it starts, and every later write is fenced by its number. Only
//! [`take`](start::take) builds a [`Claim`]. Law 4: the end is stored first, then published.

mod attempt;
mod end;
mod heartbeat;
mod intake;
mod lease;
mod retry;
mod start;
mod supervise;

pub(crate) use heartbeat::{Finding, Heartbeat};
pub(crate) use intake::Intake;
pub(crate) use lease::{Lease, Leases, Stop};
pub(crate) use start::Claim;
pub(crate) use supervise::Wedged;
