//! When a failed delivery is tried again: a random part of a bound that doubles with each failure.

use std::time::Duration;

use penstock_config::Webhook;

/// The pause after `tries` failed tries. A target that names its own time (Retry-After) gets at least that, up to the
/// longest back-off.
pub(crate) fn pause(settings: &Webhook, tries: u32, asked: Option<Duration>) -> Duration {
    let bound = settings.back_off.saturating_mul(1 << tries.min(20)).min(settings.back_off_max);
    // The low bits of a v4 id are as random as any.
    let random = uuid::Uuid::new_v4().as_u128() & 0xFFFF;
    let pause = bound.mul_f64(f64::from(u16::try_from(random).unwrap_or(0)) / 65_536.0);
    pause.max(asked.unwrap_or_default()).min(settings.back_off_max)
}
