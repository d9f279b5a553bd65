//! Structured logs to standard error.

use penstock_config::{Log, LogFormat};
use tracing_subscriber::EnvFilter;

/// Logs could not be started.
#[derive(Debug, thiserror::Error)]
#[error("log.filter: {0}")]
pub struct LogError(String);

/// Starts logging for the whole process, as text or as one JSON object a line.
///
/// Errors: the filter cannot be read, or logging was started before.
pub fn start_logs(settings: &Log) -> Result<(), LogError> {
    let filter = EnvFilter::builder().parse(&settings.filter).map_err(|error| LogError(error.to_string()))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = match settings.format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Text => builder.with_ansi(false).try_init(),
    };
    started.map_err(|error| LogError(error.to_string()))
}
