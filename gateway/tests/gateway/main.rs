//! The gateway against the fake provider over real HTTP: every way in which a provider may answer, and what becomes of it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod answer;
mod breaker;
mod cache;
mod cancel;
mod cut;
mod dialect;
mod failure;
mod fallback;
mod hedge;
mod house;
mod retry;
mod tenant;
mod timer;
