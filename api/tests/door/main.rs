//! The front door over real HTTP, with a real Redis and a real MySQL.

mod cancel;
mod checks;
mod drain;
mod harness;
mod idempotency;
mod keys;
mod limits;
mod operation;
mod outage;
mod pipe;
mod reading;
