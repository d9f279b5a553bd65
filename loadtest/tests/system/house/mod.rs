//! A whole Penstock of real processes, for tests: its own Redis, its own database, provider, doors and workers.
//!
//! Every process is started by the house and ended with it, by pid. Any part can be killed, paused or cut off.

mod client;
mod proxy;
mod servers;
mod standing;

pub(crate) use client::{Client, is_terminal};
pub(crate) use proxy::Link;
pub(crate) use servers::wait_until;
pub(crate) use standing::{House, Plan};
