//! Spreads moments, so that thousands of sockets do not act at one instant.

use std::time::Duration;

/// A moment between `from` and `to` of `span`, which are fractions of it.
pub(super) fn spread(span: Duration, from: f64, to: f64) -> Duration {
    // Without random numbers the middle is as good as any other moment.
    let fraction = getrandom::u32().map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX));
    span.mul_f64(from + (to - from) * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_stay_in_their_span() {
        let span = Duration::from_secs(10);
        for _ in 0..1000 {
            let at = spread(span, 0.7, 1.0);
            assert!(Duration::from_secs(7) <= at && at <= span, "{at:?}");
        }
    }
}
