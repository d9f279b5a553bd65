//! Settings: one TOML file with every default compiled in, the operator's file over it, the environment over both.
//!
//! Unknown keys and contradicting values are refused at start, with the key's path and what to write instead. This is
//! the only crate that reads the environment.
//!
//! A process that runs follows its file ([`Watcher`]): hot keys take effect, the rest waits for a restart. Settings are
//! asked for when they are needed ([`LiveSettings::now`]), not kept.

mod check;
mod duration;
mod error;
mod hot;
mod layers;
mod limit;
mod live;
mod metrics;
mod network;
mod print;
mod settings;
mod watcher;

pub use error::ConfigError;
pub use layers::{Loaded, Origin, load};
pub use limit::{BucketStart, Buckets, Carve, DayReset, DayResetError, Limit};
pub use live::LiveSettings;
pub use metrics::SettingsMetrics;
pub use network::{Network, NetworkError};
pub use print::{effective, reference};
pub use settings::{
    Agent, Api, Breaker, Chain, CountedOutcome, Deployment, Dialect, Endpoint, Events, ExitName, Gateway, Hop, Log,
    LogFormat, Model, Mysql, Provider, Queue, Redis, Retention, Schedule, Settings, Webhook, Worker,
};
pub use watcher::Watcher;

/// The commented default settings, as compiled in.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// Reads a secret (a provider key) from the environment variable that a setting names; `None` when unset or empty.
#[must_use]
pub fn secret_from_env(variable: &str) -> Option<secrecy::SecretString> {
    layers::environment(variable).filter(|text| !text.is_empty()).map(secrecy::SecretString::from)
}
