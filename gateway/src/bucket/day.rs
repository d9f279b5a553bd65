//! The day of a day counter: the last 24 hours, or a day that begins at the vendor's midnight.

use penstock_config::DayReset;

pub(crate) const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The period of a day counter, in Redis ms: from (included) to (excluded). Zero and zero: the last 24 hours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

impl Period {
    /// The period that holds `now_ms`.
    pub(crate) fn of(reset: DayReset, now_ms: u64) -> Self {
        let DayReset::Midnight { offset_minutes } = reset else { return Self::default() };
        let offset_ms = offset_minutes * 60_000;
        let local = now_ms.saturating_add_signed(offset_ms);
        let from_ms = (local - local % DAY_MS).saturating_add_signed(-offset_ms);
        Self { from_ms, to_ms: from_ms + DAY_MS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-30 20:00:00 UTC.
    const EVENING: u64 = 1_796_068_800_000;

    #[test]
    fn a_day_begins_at_midnight_of_its_zone() {
        let hours = |offset_minutes: i64| {
            let period = Period::of(DayReset::Midnight { offset_minutes }, EVENING);
            assert_eq!(period.to_ms - period.from_ms, DAY_MS);
            (EVENING - period.from_ms) / HOUR_MS
        };
        assert_eq!((hours(0), hours(480), hours(-480)), (20, 4, 12));
        assert_eq!(Period::of(DayReset::Rolling, EVENING), Period::default());
    }

    #[test]
    fn the_moment_of_midnight_belongs_to_the_new_day() {
        let midnight = EVENING + 4 * HOUR_MS;
        let reset = DayReset::Midnight { offset_minutes: 0 };
        assert_eq!(Period::of(reset, midnight).from_ms, midnight);
        assert_eq!(Period::of(reset, midnight - 1).to_ms, midnight);
    }
}
