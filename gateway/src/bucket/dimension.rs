//! What a vendor counts, and what one call costs in it.

use std::fmt;

/// A thing that is limited per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dimension {
    /// Calls.
    Requests,
    /// Input and output tokens together.
    Tokens,
    /// Input tokens, where the vendor limits them apart.
    InputTokens,
    /// Output tokens, where the vendor limits them apart.
    OutputTokens,
    /// Images in the request.
    Images,
}

/// Most that one call is taken for in any dimension, so that no sum leaves the whole numbers of a double.
pub(crate) const COST_MAX: u64 = 1_000_000_000_000;

impl Dimension {
    /// Every dimension, in the order in which scripts see them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Requests, Self::Tokens, Self::InputTokens, Self::OutputTokens, Self::Images];

    /// The field of the bucket in Redis.
    pub(crate) fn field(self) -> &'static str {
        match self {
            Self::Requests => "r",
            Self::Tokens => "t",
            Self::InputTokens => "i",
            Self::OutputTokens => "o",
            Self::Images => "m",
        }
    }

    /// The name in metrics and messages.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::InputTokens => "input_tokens",
            Self::OutputTokens => "output_tokens",
            Self::Images => "images",
        }
    }

    pub(crate) fn of_field(field: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dimension| dimension.field() == field)
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one call costs, as estimated before it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Input tokens.
    pub(crate) input_tokens: u64,
    /// Output tokens.
    pub(crate) output_tokens: u64,
    /// Images in the request.
    pub(crate) images: u64,
}

impl Cost {
    /// What is taken from the bucket of `dimension`.
    #[must_use]
    pub(crate) fn of(&self, dimension: Dimension) -> u64 {
        let cost = match dimension {
            Dimension::Requests => 1,
            Dimension::Tokens => self.tokens(),
            Dimension::InputTokens => self.input_tokens,
            Dimension::OutputTokens => self.output_tokens,
            Dimension::Images => self.images,
        };
        cost.min(COST_MAX)
    }

    /// Input and output together.
    #[must_use]
    pub(crate) fn tokens(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// How far what was used is from what was taken, by dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// −1 where nothing was sent after all.
    pub(crate) requests: i64,
    pub(crate) input_tokens: i64,
    pub(crate) output_tokens: i64,
    pub(crate) images: i64,
}

impl Change {
    /// Gives everything back: nothing was sent.
    pub(crate) fn give_back(cost: &Cost) -> Self {
        let back = |taken: u64| -signed(taken);
        Self {
            requests: -1,
            input_tokens: back(cost.input_tokens),
            output_tokens: back(cost.output_tokens),
            images: back(cost.images),
        }
    }

    /// From what was taken to what was used.
    pub(crate) fn to_real(taken: &Cost, input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            requests: 0,
            input_tokens: signed(input_tokens) - signed(taken.input_tokens),
            output_tokens: signed(output_tokens) - signed(taken.output_tokens),
            images: 0,
        }
    }

    pub(crate) fn of(&self, dimension: Dimension) -> i64 {
        match dimension {
            Dimension::Requests => self.requests,
            Dimension::Tokens => self.input_tokens + self.output_tokens,
            Dimension::InputTokens => self.input_tokens,
            Dimension::OutputTokens => self.output_tokens,
            Dimension::Images => self.images,
        }
    }
}

fn signed(tokens: u64) -> i64 {
    i64::try_from(tokens.min(COST_MAX)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_counts_stay_within_the_whole_numbers_of_a_double() {
        let cost = Cost { input_tokens: u64::MAX, output_tokens: u64::MAX, images: u64::MAX };
        for dimension in Dimension::ALL {
            assert!(cost.of(dimension) <= COST_MAX);
            assert!(Change::give_back(&cost).of(dimension).unsigned_abs() <= 2 * COST_MAX);
            assert!(Change::to_real(&Cost::default(), u64::MAX, u64::MAX).of(dimension).unsigned_abs() <= 2 * COST_MAX);
        }
        const { assert!(COST_MAX < 1 << 51) };
    }

    #[test]
    fn a_call_that_was_not_sent_gives_its_request_back_too() {
        let cost = Cost { input_tokens: 10, output_tokens: 5, images: 1 };
        let back = Change::give_back(&cost);
        assert_eq!(Dimension::ALL.map(|dimension| back.of(dimension)), [-1, -15, -10, -5, -1]);
    }
}
