//! Events to clients over real sockets, with a real Redis and a real MySQL. A worker is played by hand.
#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "tests fail by panicking")]

mod agui;
mod bounds;
mod cancel;
mod departure;
mod entrance;
#[expect(dead_code, reason = "the door's own tests use the rest")]
#[path = "../door/harness.rs"]
mod harness;
mod leaving;
mod loss;
mod many;
mod order;
mod run;
mod socket;
mod sse;
