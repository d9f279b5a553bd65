//! Why the gateway could not be built, and why a call failed.

use std::sync::Arc;
use std::time::Duration;

use penstock_protocol::ErrorCode;

use crate::Outcome;
use crate::exit::Exit;
use crate::provider::Trouble;

/// Settings from which no gateway can be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A chain without exits.
    #[error("chain `{chain}` has no hop")]
    EmptyChain {
        /// Name of the chain.
        chain: String,
    },
    /// An exit of a provider that is not declared.
    #[error("a chain names `{provider}/{model}`, but no provider is named `{provider}`")]
    UnknownProvider {
        /// Name of the provider.
        provider: String,
        /// Name of the model.
        model: String,
    },
    /// A provider without a place to call.
    #[error("provider `{provider}` has no endpoint")]
    NoEndpoint {
        /// Name of the provider.
        provider: String,
    },
    /// A base URL that is none.
    #[error("the base URL `{base_url}` of provider `{provider}` is not an http(s) URL")]
    BaseUrl {
        /// Name of the provider.
        provider: String,
        /// The text.
        base_url: String,
    },
    /// A key that cannot stand in a header.
    #[error("the key of provider `{provider}` has characters that no header can carry")]
    ApiKey {
        /// Name of the provider.
        provider: String,
    },
    /// What a hop sets in requests cannot be written as JSON.
    #[error("a hop sets `{name}` to something that is no JSON")]
    Option {
        /// Name of the member.
        name: String,
        /// Why.
        #[source]
        cause: serde_json::Error,
    },
    /// The HTTP client could not be set up.
    #[error("the HTTP client could not be set up")]
    Client(#[from] reqwest::Error),
}

/// Why a call gave no answer, or no whole one.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The settings have no chain of this name.
    #[error("no model chain is named `{chain}`")]
    UnknownChain {
        /// The name.
        chain: String,
    },
    /// The request cannot be written as JSON.
    #[error("the request cannot be written as JSON")]
    Unwritable(#[from] serde_json::Error),
    /// Every hop of the chain is closed off (breaker, parked, limit used up); nothing was sent.
    #[error("every exit of chain `{chain}` is closed off; the nearest opens in {} s", retry_after.as_secs_f64().ceil())]
    AllExitsDown {
        /// Name of the chain.
        chain: String,
        /// When the nearest one opens.
        retry_after: Duration,
    },
    /// The exits were tried and failed.
    #[error(transparent)]
    Failed(#[from] CallFailed),
}

/// The last attempt of a call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{provider}/{model} {}{}", describe(*.outcome), words(.outcome, .message))]
pub struct CallFailed {
    /// How the last attempt ended.
    pub outcome: Outcome,
    /// Provider of the last attempt.
    pub provider: Arc<str>,
    /// Model of the last attempt.
    pub model: Arc<str>,
    /// Attempts made, this one included.
    pub attempts: u32,
    /// Status that the provider answered.
    pub status: Option<u16>,
    /// The provider's code, type or status name.
    pub code: Option<Box<str>>,
    /// What happened; of an error that the provider reported, its own words.
    pub message: Box<str>,
    /// When the provider says that a call may succeed again.
    pub retry_after: Option<Duration>,
}

impl GatewayError {
    /// The reason code of a run that ends by this error.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownChain { .. } | Self::Unwritable(_) => ErrorCode::Internal,
            Self::AllExitsDown { .. } => ErrorCode::AllExitsDown,
            Self::Failed(failed) => failed.code(),
        }
    }

    /// The least time until the whole call, made anew, may end better; `None`: it would not.
    #[must_use]
    pub fn retry_in(&self) -> Option<Duration> {
        match self {
            Self::AllExitsDown { retry_after, .. } => Some(*retry_after),
            Self::Failed(failed) if failed.outcome.is_transient() => Some(failed.retry_after.unwrap_or_default()),
            Self::Failed(_) | Self::UnknownChain { .. } | Self::Unwritable(_) => None,
        }
    }
}

impl CallFailed {
    /// The reason code of a run that ends by this failure.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self.outcome {
            Outcome::Deadline => ErrorCode::Deadline,
            Outcome::Connect
            | Outcome::Server
            | Outcome::FirstToken
            | Outcome::RateLimited
            | Outcome::PlanExhausted
            | Outcome::Denied
            | Outcome::TimeBox
            | Outcome::NoPermit
            | Outcome::Exhausted
            | Outcome::Tripped
            | Outcome::Parked => ErrorCode::AllExitsDown,
            _ => ErrorCode::ProviderError,
        }
    }
}

/// The error of a call whose last attempt ended in `trouble`.
pub(crate) fn failed(exit: &Exit, trouble: Trouble, attempts: u32) -> CallFailed {
    CallFailed {
        outcome: trouble.outcome,
        provider: exit.labels.provider.clone(),
        model: exit.labels.model.clone(),
        attempts,
        status: trouble.status,
        code: trouble.code,
        message: trouble.message,
        // A call now would only wait at the gate.
        retry_after: trouble.hint.or((trouble.outcome == Outcome::RateLimited).then(|| exit.gate.push_back_time())),
    }
}

fn describe(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::CleanEnd => "answered",
        Outcome::Connect => "could not be reached",
        Outcome::Server => "failed before its first token",
        Outcome::FirstToken => "gave no first token in time",
        Outcome::Broken => "broke off in the middle of its answer",
        Outcome::Undecodable => "answered something that is not its dialect",
        Outcome::Empty => "gave an empty answer",
        Outcome::RateLimited => "is rate limited",
        Outcome::PlanExhausted => "has no plan or credit left",
        Outcome::Denied => "refused the gateway's key or does not know the model",
        Outcome::Refused => "refused the request",
        Outcome::ContextTooLong => "takes no request of this length",
        Outcome::TimeBox => "gave no first token before the call's time was over",
        Outcome::Exhausted => "has no room left in its limit",
        Outcome::Tripped => "is left alone after failures",
        Outcome::Parked => "is left alone after an answer that no retry mends",
        Outcome::NotCapable => "cannot do what the request needs",
        Outcome::Total => "took longer than a call may",
        Outcome::Deadline => "did not answer before the deadline",
        Outcome::NoPermit => "had no permit free in time",
        Outcome::Dropped => "was given up by its caller",
    }
}

/// The message, where it helps the caller. What a provider says about our key or plan is the operator's business only.
fn words(outcome: &Outcome, message: &str) -> String {
    match outcome {
        Outcome::Denied | Outcome::PlanExhausted => String::new(),
        _ if message.is_empty() => String::new(),
        _ => format!(": {message}"),
    }
}
