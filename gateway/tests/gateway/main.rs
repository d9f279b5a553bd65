//! The gateway against the fake provider over real HTTP: every way in which a provider may answer, and what becomes of it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod answer;
mod cancel;
mod cut;
mod dialect;
mod failure;
mod house;
mod retry;
mod timer;
