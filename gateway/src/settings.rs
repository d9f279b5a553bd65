//! What the gateway is built from. Defaults, ranges and the checks between values stand with the settings file; here they
//! are taken as they come.

use std::collections::BTreeMap;
use std::time::Duration;

use secrecy::SecretString;

pub use crate::breaker::{BreakerSettings, RateSettings};
pub use crate::provider::Dialect;
use crate::{Fields, Outcome};

/// Settings of one process's gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Provider accounts by name.
    pub providers: BTreeMap<String, Provider>,
    /// Chains by name: the hops that a call may try, in order.
    pub chains: BTreeMap<String, Vec<Hop>>,
    /// What is special about a model, by its exit.
    pub models: BTreeMap<Exit, Model>,
    /// Timers of an attempt.
    pub timers: Timers,
    /// The process gate of each exit.
    pub gate: GateSettings,
    /// Tries before the first token.
    pub retry: RetrySettings,
    /// The breaker of each endpoint.
    pub breaker: BreakerSettings,
    /// How long an exit is left alone after answers that no retry mends.
    pub parking: ParkingSettings,
    /// Bounds of what is read of one answer.
    pub answer: AnswerBounds,
    /// Calls of one tenant running at once in this process. 0: no limit.
    pub tenant_calls_max: usize,
    /// Silence of a chain's first hop after which the next is asked too. Zero: never.
    pub hedge_after: Duration,
    /// Exact answers kept for who wants them.
    pub cache: CacheSettings,
    /// Idle connections kept open for each provider. Busy ones are bounded by the gates' permits.
    pub idle_connections_max: usize,
}

/// Bounds of what is read of one answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerBounds {
    /// Longest single event. It holds a few tokens, or a tool call's whole arguments.
    pub event_bytes_max: usize,
    /// Longest body.
    pub body_bytes_max: usize,
}

/// Exact answers kept in one process.
#[derive(Clone, Copy, Debug)]
pub struct CacheSettings {
    /// Most bytes of all answers. 0: none is kept.
    pub bytes_max: usize,
    /// Longest answer that is kept.
    pub answer_bytes_max: usize,
    /// How long an answer is kept.
    pub keep: Duration,
}

/// One account at one vendor: two keys are two providers.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Wire dialect.
    pub dialect: Dialect,
    /// Where its calls go; at least one.
    pub endpoints: Vec<Endpoint>,
    /// Key, if the provider wants one.
    pub api_key: Option<SecretString>,
    /// Name of the vendor in the model table; the provider's own name without it.
    pub vendor: Option<String>,
    /// Outcomes that count as failures for its breakers.
    pub breaker_count: Vec<Outcome>,
}

impl Provider {
    /// An account in OpenAI's dialect with one endpoint, no key and the usual outcomes counted.
    #[must_use]
    pub fn at(base_url: impl Into<String>) -> Self {
        let endpoint = Endpoint { label: "default".to_owned(), base_url: base_url.into(), weight: 1 };
        Self {
            dialect: Dialect::Openai,
            endpoints: vec![endpoint],
            api_key: None,
            vendor: None,
            breaker_count: Outcome::COUNTED.to_vec(),
        }
    }
}

/// One of several places that serve the same models for the same account (regions, machines).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name in metrics and for operators: hardware, region.
    pub label: String,
    /// URL before the dialect's own path.
    pub base_url: String,
    /// Calls in flight are divided by it where the least busy is chosen; at least 1.
    pub weight: u32,
}

/// One provider and model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Exit {
    /// Name of the provider in [`Settings::providers`].
    pub provider: String,
    /// The vendor's name of the model.
    pub model: String,
}

/// One place in a chain: an exit, and how requests are changed for it.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Where the call goes.
    pub exit: Exit,
    /// What this hop sets in a request, after a switch to it.
    pub options: HopOptions,
}

/// How a request is changed for one hop. Options of one vendor mean nothing, or harm, at another.
#[derive(Clone, Debug, Default)]
pub struct HopOptions {
    /// Members set, in place of the caller's.
    pub set: Fields,
    /// Members left out.
    pub drop: Vec<String>,
    /// Whether the prompt is marked for the vendor's cache, where the dialect has markers.
    pub has_cache_markers: bool,
}

/// What is special about one model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    /// First-token timer in place of the general one.
    pub first_token: Option<Duration>,
    /// Idle timer in place of the general one.
    pub idle: Option<Duration>,
    /// Total time in place of the general one.
    pub total: Option<Duration>,
    /// Longest request in tokens, in place of the model table.
    pub context_tokens: Option<u64>,
    /// Whether it can call tools, in place of the model table.
    pub tools: Option<bool>,
    /// Whether it reads images, in place of the model table.
    pub vision: Option<bool>,
    /// Whether it answers by a JSON schema, in place of the model table.
    pub json_schema: Option<bool>,
}

/// Timers of one attempt. A timer that fires closes the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Most attempts on one hop.
    pub attempts: u32,
    /// Everything before the first token, waits included, ends by then.
    pub time_box: Duration,
    /// How long a call waits for rate limits before it goes to the next hop; the last hop has the whole time box.
    pub wait: Duration,
    /// Longest wait of one call for a vendor's hint; a longer one is told to the caller instead.
    pub hint_max: Duration,
    /// The process's budget of attempts on a hop that has just failed.
    pub budget: RetryBudgetSettings,
}

/// How many second attempts a process makes: a share of its calls, so that a fleet of any size adds no more than that to a
/// provider in trouble.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryBudgetSettings {
    /// Percent of calls.
    pub percent: u32,
    /// As many a second are allowed however few calls there are.
    pub per_second: u32,
    /// Most that can be saved up.
    pub burst: u32,
}

/// How long an exit is left alone after answers that no retry mends.
#[derive(Clone, Copy, Debug)]
pub struct ParkingSettings {
    /// After "plan or credit exhausted".
    pub plan_exhausted: Duration,
    /// After 401, 403, 404.
    pub denied: Duration,
}
