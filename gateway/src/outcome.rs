//! How one attempt ended: the rows of the verdict table.

/// How an attempt on one exit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A whole answer.
    CleanEnd,
    /// No connection: DNS, TCP or TLS.
    Connect,
    /// Before the first token: a 5xx, an error object of that kind, or a connection that broke.
    Server,
    /// No first token in time. Keep-alives and role-only chunks are no token.
    FirstToken,
    /// After the first token: silence, break-off, end without a finish, error object, undecodable frame.
    Broken,
    /// Before the first token: something that is not the dialect.
    Undecodable,
    /// A whole answer with nothing in it.
    Empty,
    /// The vendor's rate limit, in a status or inside a 200.
    RateLimited,
    /// Plan or credit is used up, or the model is not in the plan.
    PlanExhausted,
    /// 401, 403, 404: the key or the model is not known there.
    Denied,
    /// The request itself is at fault, or was moderated away.
    Refused,
    /// The request is longer than the model's context.
    ContextTooLong,
    /// The attempt was longer than its total time: slow, not broken.
    Total,
    /// The call's time before the first token was over before this attempt's own timer was.
    TimeBox,
    /// The caller's deadline passed.
    Deadline,
    /// The process gate gave no permit in time; nothing was sent.
    NoPermit,
    /// The exit's own limit (of a day, or beyond the caller's patience) is used up; nothing was sent.
    Exhausted,
    /// The breaker is tripped; nothing was sent.
    Tripped,
    /// The exit is left alone for a while after an answer that no retry mends; nothing was sent.
    Parked,
    /// The model is known not to do what the request needs; nothing was sent.
    NotCapable,
    /// The caller dropped the call: cancel, client gone, or a fault of our own.
    Dropped,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 21] = [
        Self::CleanEnd,
        Self::Connect,
        Self::Server,
        Self::FirstToken,
        Self::Broken,
        Self::Undecodable,
        Self::Empty,
        Self::RateLimited,
        Self::PlanExhausted,
        Self::Denied,
        Self::Refused,
        Self::ContextTooLong,
        Self::Total,
        Self::TimeBox,
        Self::Deadline,
        Self::NoPermit,
        Self::Exhausted,
        Self::Tripped,
        Self::Parked,
        Self::NotCapable,
        Self::Dropped,
    ];

    /// What breakers count as failures, where a provider does not say otherwise.
    pub const COUNTED: [Self; 4] = [Self::Connect, Self::Server, Self::FirstToken, Self::Broken];

    /// What a provider's setting may count. Rate limits, slow streams, faults of the request and cancels are not among
    /// them: they say nothing about the provider's health (law 9).
    pub const COUNTABLE: [Self; 6] =
        [Self::Connect, Self::Server, Self::FirstToken, Self::Broken, Self::Undecodable, Self::Empty];

    /// The name in metrics, logs and settings.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CleanEnd => "clean_end",
            Self::Connect => "connect",
            Self::Server => "server",
            Self::FirstToken => "first_token",
            Self::Broken => "broken",
            Self::Undecodable => "undecodable",
            Self::Empty => "empty",
            Self::RateLimited => "rate_limited",
            Self::PlanExhausted => "plan_exhausted",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::ContextTooLong => "context_too_long",
            Self::Total => "total",
            Self::TimeBox => "time_box",
            Self::Deadline => "deadline",
            Self::NoPermit => "no_permit",
            Self::Exhausted => "exhausted",
            Self::Tripped => "tripped",
            Self::Parked => "parked",
            Self::NotCapable => "not_capable",
            Self::Dropped => "dropped",
        }
    }

    /// The outcome of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == name)
    }

    /// Whether the exit was closed off and nothing was sent.
    #[must_use]
    pub fn is_closed_off(self) -> bool {
        matches!(self, Self::Exhausted | Self::Tripped | Self::Parked)
    }
}
