//! Whole-system tests: real processes, real servers, faults between any two parts.
//!
//! Each test builds a house of its own. Production constants hold (lease 15 s, beat 3 s) unless a test says otherwise.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells its story"
)]

mod house;

mod cancel;
mod chaos;
mod faults;
mod leases;
mod lifecycle;
mod limits;
mod models;
mod operation;
mod poison;
mod threads;
