//! Whether a failed attempt is followed by another one, and when. Pure; numbers come from `[queue]`.
//!
//! What can be mended by another attempt is the gateway's verdict on a failed call; MySQL being away and a fault of the agent's
//! own can be, too. Failures are counted apart from crashes, which the claim counts; a hand-back is neither.

use std::time::Duration;

use penstock_config::Queue;
use penstock_protocol::RetryWish;

/// Whether an attempt may fail once more after `failures` that did.
pub(crate) fn may_fail_again(settings: &Queue, failures: u32, wish: Option<RetryWish>) -> bool {
    let most = wish.map_or(settings.failures_max, |wish| wish.failures_max.get().min(settings.failures_max));
    failures + 1 < most
}

/// The pause before the next attempt: full jitter under a bound that doubles with each failure, after whatever time the
/// provider itself has named. `random` is 0 to 1.
///
/// The jitter stands behind the hint as well: all who heard of the same moment would come back at it.
pub(crate) fn pause(settings: &Queue, failures: u32, hint: Duration, random: f64) -> Duration {
    let bound = settings.back_off_min.saturating_mul(1 << failures.min(20)).min(settings.back_off_max);
    hint.min(settings.hint_max) + bound.mul_f64(random)
}

/// A random number from 0 to 1.
pub(crate) fn random() -> f64 {
    // The low bits of a v4 id are as random as any.
    let bits = uuid::Uuid::new_v4().as_u128() & 0xFFFF;
    f64::from(u16::try_from(bits).unwrap_or(0)) / 65_536.0
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn settings() -> Queue {
        penstock_config::load(None).unwrap().settings.queue
    }

    #[test]
    fn the_bound_doubles_up_to_its_cap_and_a_hint_comes_first() {
        let (settings, none) = (settings(), Duration::ZERO);
        let bounds: Vec<_> = [0, 1, 5, 6, 40].map(|failures| pause(&settings, failures, none, 1.0).as_secs()).into();
        assert_eq!(bounds, [1, 2, 32, 60, 60]);
        assert_eq!(pause(&settings, 3, none, 0.0), none, "full jitter begins at nothing");
        assert_eq!(pause(&settings, 0, Duration::from_secs(30), 0.5), Duration::from_millis(30_500));
        let longest = pause(&settings, 0, Duration::from_secs(86_400), 0.0);
        assert_eq!(longest, settings.hint_max, "a provider cannot put a task off for a day");
        assert!((0.0..1.0).contains(&random()));
    }

    #[test]
    fn a_request_may_ask_for_fewer_failures_and_not_for_more() {
        let settings = settings();
        let wish = |failures_max| Some(RetryWish { failures_max: NonZeroU32::new(failures_max).unwrap() });
        assert_eq!([0, 1, 2].map(|failures| may_fail_again(&settings, failures, None)), [true, true, false]);
        assert!(!may_fail_again(&settings, 0, wish(1)));
        assert!(!may_fail_again(&settings, 2, wish(100)));
    }
}
