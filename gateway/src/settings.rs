//! What the gateway is built from. Defaults, ranges and the checks between values stand with the settings file; here they
//! are taken as they come.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;

/// Settings of one process's gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Provider accounts by name.
    pub providers: BTreeMap<String, Provider>,
    /// Chains by name: the exits that a call may try, in order. Today a call uses the first.
    pub chains: BTreeMap<String, Vec<Exit>>,
    /// Timers of an attempt.
    pub timers: Timers,
    /// The process gate of each exit.
    pub gate: GateSettings,
    /// Tries before the first token.
    pub retry: RetrySettings,
    /// Idle connections kept open for each provider. Busy ones are bounded by the gates' permits.
    pub idle_connections_max: usize,
}

/// One account at one vendor: two keys are two providers.
#[derive(Clone, Debug)]
pub struct Provider {
    /// URL before `/chat/completions`.
    pub base_url: String,
    /// Key, if the provider wants one.
    pub api_key: Option<SecretString>,
}

/// One provider and model.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Exit {
    /// Name of the provider in [`Settings::providers`].
    pub provider: String,
    /// The vendor's name of the model.
    pub model: String,
}

/// Timers of one attempt. A timer that fires closes the connection.
#[derive(Clone, Copy, Debug)]
pub struct Timers {
    /// To open a connection (DNS, TCP, TLS).
    pub connect: Duration,
    /// From the permit to the first token of text, reasoning or a tool call; nothing else counts.
    pub first_token: Duration,
    /// Between two pieces of the answer after that; comments and empty frames are silence.
    pub idle: Duration,
    /// From the permit to the end.
    pub total: Duration,
}

/// The process gate of one exit.
#[derive(Clone, Copy, Debug)]
pub struct GateSettings {
    /// Calls running at once.
    pub permits: usize,
    /// Least time between two starts. Zero: none.
    pub spacing: Duration,
    /// How long no call starts after a 429 that names no time.
    pub push_back: Duration,
}

/// Tries before the first token.
#[derive(Clone, Copy, Debug)]
pub struct RetrySettings {
    /// Most attempts on one exit.
    pub attempts: u32,
    /// Everything before the first token, waits included, ends by then.
    pub time_box: Duration,
}
