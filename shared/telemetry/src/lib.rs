//! What an operator sees of a process, alike in each: logs, metrics, memory. No prompt, key or token is ever logged.

mod log;
mod memory;
mod metrics;

pub use log::{LogError, start_logs};
pub use memory::use_small_pages;
pub use metrics::{Metrics, latency_histogram};
