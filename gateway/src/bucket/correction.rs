//! How far estimates have been from what a model's calls really used, and the factor that makes up for it.
//!
//! The factor is the ratio of two moving sums, real over estimated, so that large calls count for what they are. It is kept
//! apart for input and output, within 0.5 and 3: one absurd count must neither empty nor free a bucket.

use std::sync::{Mutex, PoisonError};

use super::Cost;
use super::dimension::COST_MAX;
use super::limits::as_f64;

/// Weight of what was before, for each new call: about the last 20 calls count.
const KEEP: f64 = 0.95;
const FACTOR_MIN: f64 = 0.5;
const FACTOR_MAX: f64 = 3.0;
/// One call says no more than this many times its estimate, and a little.
const RATIO_MAX: f64 = 20.0;
const SLACK_TOKENS: f64 = 1_000.0;
/// What fractions lose on their way is no token.
const CLOSE: f64 = 1e-6;

/// The running correction of one model in this process.
#[derive(Debug, Default)]
pub(crate) struct Correction {
    sums: Mutex<Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    input: Ratio,
    output: Ratio,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ratio {
    real: f64,
    estimated: f64,
}

impl Correction {
    /// The estimate, corrected.
    pub(crate) fn applied(&self, estimate: &Cost) -> Cost {
        let sums = self.sums();
        Cost {
            input_tokens: sums.input.applied(estimate.input_tokens),
            output_tokens: sums.output.applied(estimate.output_tokens),
            images: estimate.images,
        }
    }

    /// Takes in one call whose usage the vendor told.
    pub(crate) fn learn(&self, estimate: &Cost, input_tokens: u64, output_tokens: u64) {
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        sums.input.learn(input_tokens, estimate.input_tokens);
        sums.output.learn(output_tokens, estimate.output_tokens);
    }

    /// Real ÷ estimated tokens of late, not clamped: for operators, who must see an estimator that is far off. 1: unknown.
    pub(crate) fn factor(&self) -> f64 {
        let sums = self.sums();
        let both =
            Ratio { real: sums.input.real + sums.output.real, estimated: sums.input.estimated + sums.output.estimated };
        both.value()
    }

    fn sums(&self) -> Sums {
        *self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ratio {
    fn learn(&mut self, real: u64, estimated: u64) {
        let estimated = as_f64(estimated.min(COST_MAX));
        let real = as_f64(real.min(COST_MAX)).min(estimated * RATIO_MAX + SLACK_TOKENS);
        self.real = self.real * KEEP + real;
        self.estimated = self.estimated * KEEP + estimated;
    }

    fn value(&self) -> f64 {
        if self.estimated > 0.0 { self.real / self.estimated } else { 1.0 }
    }

    fn applied(&self, tokens: u64) -> u64 {
        let corrected = as_f64(tokens.min(COST_MAX)) * self.value().clamp(FACTOR_MIN, FACTOR_MAX);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at most 3 × COST_MAX, not negative"
        )]
        let whole = (corrected - CLOSE).ceil() as u64;
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(input_tokens: u64, output_tokens: u64) -> Cost {
        Cost { input_tokens, output_tokens, images: 0 }
    }

    #[test]
    fn without_news_the_estimate_stands() {
        assert_eq!(Correction::default().applied(&cost(100, 1024)), cost(100, 1024));
    }

    #[test]
    fn a_steady_error_is_made_up_for_input_and_output_apart() {
        let correction = Correction::default();
        for _ in 0..100 {
            correction.learn(&cost(1_000, 1_000), 1_300, 600);
        }
        assert_eq!(correction.applied(&cost(1_000, 1_000)), cost(1_300, 600));
        assert!((correction.factor() - 0.95).abs() < 1e-9);
    }

    #[test]
    fn an_absurd_count_is_clamped_and_forgotten() {
        let correction = Correction::default();
        correction.learn(&cost(1_000, 1), u64::MAX, 0);
        assert_eq!(correction.applied(&cost(1_000, 1_000)), cost(3_000, 500));
        assert!(correction.factor() > 10.0, "operators see it");
        for _ in 0..100 {
            correction.learn(&cost(1_000, 1_000), 1_000, 1_000);
        }
        let settled = correction.applied(&cost(1_000, 1_000));
        assert!((990..1_020).contains(&settled.input_tokens), "{settled:?}");
    }

    #[test]
    fn an_estimate_of_zero_is_seen_and_never_divides() {
        let correction = Correction::default();
        correction.learn(&cost(0, 0), 500, 500);
        assert!(correction.factor().is_finite());
    }
}
