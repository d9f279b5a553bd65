//! Fairness, start rates, pauses and honest waiting, in virtual time against the real verbs.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on must fail, and tells what it measured"
)]

mod flood;
mod house;
mod learn;
mod pause;
mod rate;
mod retry_after;
mod share;
mod thread;
mod wait;
