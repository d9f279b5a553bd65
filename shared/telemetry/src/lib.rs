//! Logs and metrics, alike in every process. No prompt, key or token is ever logged.

mod log;
mod metrics;

pub use log::{LogError, start_logs};
pub use metrics::{Metrics, latency_histogram};
