//! The front door over real HTTP, with a real Redis and a real MySQL.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that meets the unexpected must fail"
)]

mod cancel;
mod checks;
mod dead;
mod drain;
mod fairness;
mod harness;
mod idempotency;
mod keys;
mod limits;
mod operation;
mod outage;
mod pipe;
mod reading;
