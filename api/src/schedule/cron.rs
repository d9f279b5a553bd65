//! Fire times of a cron expression in a time zone, whatever the clocks of that zone do.
//!
//! * An expression with fixed hours and minutes follows the clock on the wall. What falls into the hour that a change to
//!   summer time leaves out fires at its end, once; what falls into the hour that comes twice fires the first time.
//! * An expression whose minute or hour begins with `*` is an interval and follows real time: it goes on through the hour
//!   that comes twice, and has nothing to do in the one that is left out.
//!
//! Pure: the caller brings the moment.

use cronexpr::{Crontab, MakeTimestamp};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

/// Fires between two times of the wall clock that one look may pass over; an hour has 60.
const LOOKS_MAX: usize = 10_000;
const HOUR_MS: u64 = 3_600_000;

/// An expression with its zone.
#[derive(Debug)]
pub(crate) struct Cron {
    /// In the zone, by real time.
    real: Crontab,
    /// The same expression over wall-clock times, which are taken for UTC.
    wall: Crontab,
    zone: TimeZone,
    is_interval: bool,
}

/// Why an expression is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CronError {
    /// Not five fields.
    #[error("a cron expression has five fields: minute, hour, day of month, month, day of week")]
    Fields,
    /// Not an expression.
    #[error("{0}")]
    Expression(String),
    /// Not a zone.
    #[error("`{0}` is no IANA time zone, as Europe/Berlin or UTC")]
    Zone(String),
}

impl Cron {
    /// Reads an expression of five fields, and the IANA name of a zone.
    pub(crate) fn parse(expression: &str, zone: &str) -> Result<Self, CronError> {
        let fields: Vec<_> = expression.split_ascii_whitespace().collect();
        let [minute, hour, ..] = fields[..] else { return Err(CronError::Fields) };
        if fields.len() != 5 {
            return Err(CronError::Fields);
        }
        let expression = fields.join(" ");
        let found = TimeZone::get(zone).map_err(|_| CronError::Zone(zone.to_owned()))?;
        let name = found.iana_name().ok_or_else(|| CronError::Zone(zone.to_owned()))?;
        let parse = |zone: &str| {
            cronexpr::parse_crontab(&format!("{expression} {zone}"))
                .map_err(|error| CronError::Expression(error.to_string()))
        };
        let is_interval = minute.starts_with('*') || hour.starts_with('*');
        Ok(Self { real: parse(name)?, wall: parse("UTC")?, is_interval, zone: found })
    }

    /// The first fire time after a moment; `None` when there is none within four years.
    pub(crate) fn next(&self, after_ms: u64) -> Option<u64> {
        let after = Timestamp::from_millisecond(i64::try_from(after_ms).ok()?).ok()?;
        let next = if self.is_interval {
            self.real.find_next(MakeTimestamp(after)).ok()?.timestamp()
        } else {
            self.next_on_the_wall(after)?
        };
        u64::try_from(next.as_millisecond()).ok()
    }

    /// The latest `most` fire times from `from_ms` to `until_ms`, both included, in order.
    pub(crate) fn latest(&self, from_ms: u64, until_ms: u64, most: usize) -> Vec<u64> {
        let mut window_ms = HOUR_MS;
        loop {
            let begin_ms = from_ms.max(until_ms.saturating_sub(window_ms));
            let mut times = std::collections::VecDeque::new();
            let mut at_ms = begin_ms.saturating_sub(1);
            while let Some(next_ms) = self.next(at_ms).filter(|next_ms| *next_ms <= until_ms) {
                times.push_back(next_ms);
                if times.len() > most {
                    times.pop_front();
                }
                at_ms = next_ms;
            }
            if times.len() >= most || begin_ms == from_ms {
                return times.into();
            }
            window_ms = window_ms.saturating_mul(4);
        }
    }

    fn next_on_the_wall(&self, after: Timestamp) -> Option<Timestamp> {
        let mut wall = TimeZone::UTC.to_timestamp(self.zone.to_datetime(after)).ok()?;
        for _ in 0..LOOKS_MAX {
            let next = self.wall.find_next(MakeTimestamp(wall)).ok()?;
            wall = next.timestamp();
            let fire = self.real_time(next.datetime())?;
            if fire > after {
                return Some(fire);
            }
        }
        None
    }

    /// When the clock on the wall shows `wall`: the first time, where it does twice; the end of what is left out, where
    /// it does not.
    fn real_time(&self, wall: DateTime) -> Option<Timestamp> {
        let moment = self.zone.to_ambiguous_timestamp(wall);
        let is_gap = matches!(moment.offset(), AmbiguousOffset::Gap { .. });
        let earlier = moment.earlier().ok()?;
        if is_gap { self.zone.following(earlier).next().map(|change| change.timestamp()) } else { Some(earlier) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> u64 {
        u64::try_from(text.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    /// Fire times after `after`, as UTC.
    fn fires(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let cron = Cron::parse(expression, zone).unwrap();
        let mut at = ms(after);
        (0..count)
            .map(|_| {
                at = cron.next(at).unwrap();
                Timestamp::from_millisecond(i64::try_from(at).unwrap()).unwrap().to_string()
            })
            .collect()
    }

    #[test]
    fn a_fixed_time_that_is_left_out_fires_at_the_end_of_the_gap() {
        // Berlin, 28 March 2027: 02:00 becomes 03:00 at 01:00 UTC.
        let found = fires("30 2 * * *", "Europe/Berlin", "2027-03-27T00:00:00Z", 3);
        assert_eq!(found, ["2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:30:00Z"]);
        // Several in the gap, and one at its end, are one fire.
        let found = fires("0,30 2,3 * * *", "Europe/Berlin", "2027-03-28T00:30:00Z", 3);
        assert_eq!(found, ["2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z", "2027-03-29T00:00:00Z"]);
    }

    #[test]
    fn a_fixed_time_that_comes_twice_fires_once() {
        // Berlin, 31 October 2027: 03:00 becomes 02:00 at 01:00 UTC.
        let found = fires("30 2 * * *", "Europe/Berlin", "2027-10-30T12:00:00Z", 2);
        assert_eq!(found, ["2027-10-31T00:30:00Z", "2027-11-01T01:30:00Z"]);
        // Also when the look begins inside of the second hour.
        let found = fires("30 2 * * *", "Europe/Berlin", "2027-10-31T01:10:00Z", 1);
        assert_eq!(found, ["2027-11-01T01:30:00Z"]);
    }

    #[test]
    fn an_interval_follows_real_time() {
        let found = fires("*/30 * * * *", "Europe/Berlin", "2027-10-31T00:00:00Z", 5);
        assert_eq!(
            found,
            [
                "2027-10-31T00:30:00Z",
                "2027-10-31T01:00:00Z",
                "2027-10-31T01:30:00Z",
                "2027-10-31T02:00:00Z",
                "2027-10-31T02:30:00Z"
            ]
        );
        let found = fires("*/30 * * * *", "Europe/Berlin", "2027-03-28T00:30:00Z", 3);
        assert_eq!(found, ["2027-03-28T01:00:00Z", "2027-03-28T01:30:00Z", "2027-03-28T02:00:00Z"]);
    }

    #[test]
    fn what_is_no_expression_or_zone_is_refused() {
        for (expression, zone) in [
            ("* * * *", "UTC"),
            ("* * * * * *", "UTC"),
            ("61 * * * *", "UTC"),
            ("@daily", "UTC"),
            ("* * * * *", "Mars/Olympus"),
            ("* * * * *", ""),
        ] {
            assert!(Cron::parse(expression, zone).is_err(), "{expression} {zone}");
        }
        assert_eq!(Cron::parse("0 0 30 2 *", "UTC").unwrap().next(ms("2027-01-01T00:00:00Z")), None);
    }

    #[test]
    fn the_latest_fires_are_found_without_walking_through_years() {
        let cron = Cron::parse("* * * * *", "UTC").unwrap();
        let (from, until) = (ms("2020-01-01T00:00:00Z"), ms("2027-01-01T00:00:30Z"));
        assert_eq!(cron.latest(from, until, 2), [ms("2026-12-31T23:59:00Z"), ms("2027-01-01T00:00:00Z")]);
        let yearly = Cron::parse("0 0 1 1 *", "UTC").unwrap();
        assert_eq!(yearly.latest(from, until, 100).len(), 8);
        assert_eq!(yearly.latest(from, until, 1), [ms("2027-01-01T00:00:00Z")]);
        assert!(yearly.latest(until + 1, until + 10, 5).is_empty());
    }
}
