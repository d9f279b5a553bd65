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
    /// The attempt was longer than its total time: slow, not broken.
    Total,
    /// The caller's deadline passed.
    Deadline,
    /// The process gate gave no permit in time; nothing was sent.
    NoPermit,
    /// The caller dropped the call: cancel, client gone, or a fault of our own.
    Dropped,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 15] = [
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
        Self::Total,
        Self::Deadline,
        Self::NoPermit,
        Self::Dropped,
    ];

    /// The name in metrics and logs.
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
            Self::Total => "total",
            Self::Deadline => "deadline",
            Self::NoPermit => "no_permit",
            Self::Dropped => "dropped",
        }
    }
}
