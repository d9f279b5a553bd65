//! The limits of one exit, found in the settings, and the rules that the scripts get from them.
//!
//! A limit is looked for at the model, then at its provider, then globally: the first that is not zero holds, each
//! dimension by itself. The burst is carved out of the limit: capacity = burst, refill = limit − burst a minute, so no
//! rolling minute exceeds the limit (refill + the larger of burst and largest call, to be exact).

use std::time::Duration;

use penstock_config::DayReset;

use super::Dimension;

/// Limits as one section of the settings writes them. Zero and `None`: not said here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Calls a minute.
    pub rpm: u64,
    /// Input and output tokens a minute.
    pub tpm: u64,
    /// Input tokens a minute.
    pub input_tpm: u64,
    /// Output tokens a minute.
    pub output_tpm: u64,
    /// Images a minute.
    pub ipm: u64,
    /// Calls a day.
    pub rpd: u64,
    /// Tokens a day.
    pub tpd: u64,
    /// How much of the limit may come at once, as the time in which the whole limit would refill it.
    pub burst: Option<Duration>,
    /// Whether a bucket that Redis does not know is full.
    pub starts_full: Option<bool>,
    /// What is kept free for one large call; see [`Carve`].
    pub carve: Option<Carve>,
    /// When day counters begin anew.
    pub day_reset: Option<DayReset>,
}

/// What is taken off the limit before it refills the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carve {
    /// The burst.
    Burst,
    /// The burst or one call of so many tokens, whichever is more: for vendors with a strict rolling window and calls that
    /// are large against the limit.
    LargestCall {
        /// Tokens of the largest call.
        tokens: u64,
    },
}

/// A window of a vendor's minute limits, in milliseconds.
pub(crate) const MINUTE_MS: u64 = 60_000;

/// Burst where no section names one: with more a vendor's rolling minute is exceeded at 95 % use.
const BURST_DEFAULT: Duration = Duration::from_secs(3);

/// One bucket: capacity `burst`, refilled by `refill` each `period_ms`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BucketRule {
    /// What it counts.
    pub(crate) dimension: Dimension,
    /// Capacity.
    pub(crate) burst: f64,
    /// Refill in one period.
    pub(crate) refill: f64,
    /// Length of the period.
    pub(crate) period_ms: u64,
    /// Whether a bucket that nobody knows begins full.
    pub(crate) starts_full: bool,
}

/// One day counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DayRule {
    /// [`Dimension::Requests`] or [`Dimension::Tokens`].
    pub(crate) dimension: Dimension,
    /// Most in one day.
    pub(crate) limit: u64,
}

/// Everything that a call on one exit is judged by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rules {
    /// In the order of [`Dimension::ALL`].
    pub(crate) buckets: Vec<BucketRule>,
    /// Day counters.
    pub(crate) days: Vec<DayRule>,
    /// When they begin anew.
    pub(crate) day_reset: DayReset,
}

impl Rules {
    /// The same for a minute.
    #[cfg(test)]
    pub(crate) fn of(sections: [&Limits; 3]) -> Self {
        Self::of_period(sections, MINUTE_MS)
    }

    /// The rules of an exit whose sections are `model`, `provider` and `global`, the nearest first; `period_ms` is a minute,
    /// but in trials.
    pub(crate) fn of_period(sections: [&Limits; 3], period_ms: u64) -> Self {
        let first = |limit: fn(&Limits) -> u64| sections.into_iter().map(limit).find(|limit| *limit > 0).unwrap_or(0);
        let burst = sections.into_iter().find_map(|limits| limits.burst).unwrap_or(BURST_DEFAULT);
        let starts_full = sections.into_iter().find_map(|limits| limits.starts_full).unwrap_or(true);
        let carve = sections.into_iter().find_map(|limits| limits.carve).unwrap_or(Carve::Burst);
        let bucket = |dimension: Dimension| {
            let limit = match dimension {
                Dimension::Requests => first(|limits| limits.rpm),
                Dimension::Tokens => first(|limits| limits.tpm),
                Dimension::InputTokens => first(|limits| limits.input_tpm),
                Dimension::OutputTokens => first(|limits| limits.output_tpm),
                Dimension::Images => first(|limits| limits.ipm),
            };
            (limit > 0).then(|| BucketRule::new(dimension, limit, burst, carve, starts_full, period_ms))
        };
        let day = |dimension, limit| (limit > 0).then_some(DayRule { dimension, limit });
        Self {
            buckets: Dimension::ALL.into_iter().filter_map(bucket).collect(),
            days: [
                day(Dimension::Requests, first(|limits| limits.rpd)),
                day(Dimension::Tokens, first(|limits| limits.tpd)),
            ]
            .into_iter()
            .flatten()
            .collect(),
            day_reset: sections.into_iter().find_map(|limits| limits.day_reset).unwrap_or_default(),
        }
    }

    /// Whether nothing is limited; then neither Redis nor the line is asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.buckets.is_empty() && self.days.is_empty()
    }

    /// The same rules for a share of every limit.
    pub(crate) fn shared(&self, share: f64) -> Self {
        let bucket = |rule: &BucketRule| BucketRule { burst: rule.burst * share, refill: rule.refill * share, ..*rule };
        Self { buckets: self.buckets.iter().map(bucket).collect(), ..self.clone() }
    }
}

impl BucketRule {
    fn new(dimension: Dimension, limit: u64, burst: Duration, carve: Carve, starts_full: bool, period_ms: u64) -> Self {
        let limit = as_f64(limit);
        let burst = limit * (burst.as_secs_f64() * 1000.0 / as_f64(MINUTE_MS)).min(BURST_SHARE_MAX);
        let reserve = match carve {
            Carve::LargestCall { tokens } if dimension.is_tokens() => burst.max(as_f64(tokens)),
            _ => burst,
        };
        // The settings refuse a largest call near the limit; a bucket must refill whatever it is told.
        let refill = (limit - reserve).max(limit * (1.0 - BURST_SHARE_MAX));
        Self { dimension, burst, refill, period_ms, starts_full }
    }
}

/// Most of a limit that a burst may be; the rest refills.
const BURST_SHARE_MAX: f64 = 0.95;

impl Dimension {
    fn is_tokens(self) -> bool {
        matches!(self, Self::Tokens | Self::InputTokens | Self::OutputTokens)
    }
}

/// Whole numbers below 2^53 only.
#[expect(clippy::cast_precision_loss, reason = "limits and costs stay below 2^53")]
pub(crate) fn as_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rpm: u64, tpm: u64) -> Limits {
        Limits { rpm, tpm, ..Limits::default() }
    }

    #[test]
    fn the_first_limit_that_is_not_zero_holds_for_each_dimension_by_itself() {
        let rules = Rules::of([&limits(0, 0), &limits(0, 5_000), &limits(100, 9_000)]);
        let limits: Vec<_> =
            rules.buckets.iter().map(|rule| (rule.dimension, (rule.burst + rule.refill).round())).collect();
        assert_eq!(limits, [(Dimension::Requests, 100.0), (Dimension::Tokens, 5_000.0)]);
    }

    #[test]
    fn without_limits_there_are_no_rules() {
        assert!(Rules::of([&Limits::default(), &Limits::default(), &Limits::default()]).is_empty());
    }

    #[test]
    fn the_burst_is_carved_out_of_the_limit() {
        let none = Limits::default();
        let rules = Rules::of([&none, &none, &limits(600, 0)]);
        assert_eq!((rules.buckets[0].burst, rules.buckets[0].refill), (30.0, 570.0));
        let short = Limits { burst: Some(Duration::from_millis(100)), ..limits(600, 0) };
        let rules = Rules::of([&short, &none, &none]);
        assert_eq!((rules.buckets[0].burst, rules.buckets[0].refill), (1.0, 599.0));
    }

    #[test]
    fn a_large_call_is_carved_out_of_tokens_only() {
        let none = Limits::default();
        let large = Limits { carve: Some(Carve::LargestCall { tokens: 30_000 }), ..limits(600, 100_000) };
        let rules = Rules::of([&large, &none, &none]);
        assert_eq!((rules.buckets[0].burst, rules.buckets[0].refill), (30.0, 570.0));
        assert_eq!((rules.buckets[1].burst, rules.buckets[1].refill), (5_000.0, 70_000.0));
    }

    #[test]
    fn every_bucket_refills_whatever_the_settings_say() {
        let none = Limits::default();
        let odd = Limits {
            burst: Some(Duration::from_secs(3600)),
            carve: Some(Carve::LargestCall { tokens: u64::MAX >> 12 }),
            ..limits(1, 1)
        };
        for rule in Rules::of([&odd, &none, &none]).buckets {
            assert!(rule.refill > 0.0 && rule.burst > 0.0, "{rule:?}");
        }
    }
}
