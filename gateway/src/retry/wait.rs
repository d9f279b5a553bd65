//! Reads the ways in which vendors write a wait: `30`, `0.5`, `6m0s`, `12ms`, `2m 13s`, RFC 3339, HTTP date, epoch.

use std::time::{Duration, UNIX_EPOCH};

/// From here on a plain number of seconds is a moment since 1970, not a wait: 30 days.
const EPOCH_FROM_SECONDS: f64 = 2_592_000.0;
/// From here on a moment is in milliseconds (this many seconds are the year 5138).
const EPOCH_MS_FROM: f64 = 1e11;

/// The wait that `text` names, seen at `now_ms`; a moment in the past is no wait (zero).
pub(super) fn parse_wait(text: &str, now_ms: u64) -> Option<Duration> {
    let text = text.trim();
    if let Ok(number) = text.parse::<f64>() {
        return wait_of_number(number, now_ms);
    }
    match leading_duration(text) {
        Some((wait, "")) => Some(wait),
        _ => moment_ms(text).map(|moment| Duration::from_millis(moment.saturating_sub(now_ms))),
    }
}

/// A number of milliseconds.
pub(super) fn parse_ms(text: &str) -> Option<Duration> {
    seconds(text.trim().parse::<f64>().ok()? / 1000.0)
}

/// The wait at the start of prose, for `… in 1m30.5s. Visit …`; a bare number is seconds.
pub(super) fn wait_in_prose(text: &str) -> Option<Duration> {
    leading_duration(text).map(|(wait, _)| wait).or_else(|| seconds(leading_number(text.trim_start())?.0))
}

fn wait_of_number(number: f64, now_ms: u64) -> Option<Duration> {
    if number < EPOCH_FROM_SECONDS {
        return seconds(number);
    }
    let moment = if number < EPOCH_MS_FROM { number } else { number / 1000.0 };
    seconds(moment).map(|since| since.saturating_sub(Duration::from_millis(now_ms)))
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

/// Number-and-unit pairs (`1h2m3.5s`, `2m 13s`, `45 seconds`) at the start of `text`, and what follows them.
fn leading_duration(text: &str) -> Option<(Duration, &str)> {
    let mut rest = text.trim_start();
    let mut total: Option<Duration> = None;
    while let Some((number, after)) = leading_number(rest) {
        let after = after.trim_start();
        let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let Some(unit_seconds) = unit_seconds(&after[..unit_end]) else { break };
        total = Some(total.unwrap_or_default().saturating_add(seconds(number * unit_seconds)?));
        rest = after[unit_end..].trim_start();
    }
    total.map(|wait| (wait, rest))
}

fn leading_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    // A full stop that ends a sentence is no part of the number.
    let digits = text[..end].trim_end_matches('.');
    digits.parse().ok().map(|number| (number, &text[digits.len()..]))
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit.to_lowercase().as_str() {
        "ns" => 1e-9,
        "us" | "µs" | "μs" => 1e-6,
        "ms" | "milliseconds" | "millisecond" => 1e-3,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

fn moment_ms(text: &str) -> Option<u64> {
    rfc3339_ms(text).or_else(|| {
        let moment = httpdate::parse_http_date(text).ok()?;
        u64::try_from(moment.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
    })
}

/// `2026-11-03T10:00:00.5+01:00` as milliseconds since 1970.
fn rfc3339_ms(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let days = days_since_1970(date.next()??, date.next()??, date.next()??)?;
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let mut clock = time[..zone].splitn(3, ':');
    let (hour, minute) = (clock.next()?.parse::<u32>().ok()?, clock.next()?.parse::<u32>().ok()?);
    let second = clock.next()?.parse::<f64>().ok().filter(|second| (0.0..61.0).contains(second))?;
    let offset_minutes = match &time[zone..] {
        "Z" | "z" => 0,
        offset => {
            let (hours, minutes) = offset[1..].split_once(':')?;
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            if offset.starts_with('-') { -minutes } else { minutes }
        }
    };
    let minutes = days * 1440 + i64::from(hour) * 60 + i64::from(minute) - offset_minutes;
    let whole = Duration::from_secs(u64::try_from(minutes).ok()?.checked_mul(60)?);
    u64::try_from((whole + seconds(second)?).as_millis()).ok()
}

/// Days from 1970-01-01 in the Gregorian calendar (Howard Hinnant's `days_from_civil`).
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-03T10:00:00Z.
    const NOW_MS: u64 = 1_793_700_000_000;

    #[test]
    fn every_way_to_write_a_wait_is_read() {
        for (text, ms) in [
            ("2", 2_000),
            ("0.25", 250),
            (" 30 ", 30_000),
            ("1s", 1_000),
            ("12ms", 12),
            ("6m0s", 360_000),
            ("1h2m3.5s", 3_723_500),
            ("2m 13s", 133_000),
            ("45.837906927s", 45_837),
            ("2026-11-03T10:00:07Z", 7_000),
            ("2026-11-03T11:00:07.5+01:00", 7_500),
            ("2026-11-03T09:00:07-01:00", 7_000),
            ("Tue, 03 Nov 2026 10:00:09 GMT", 9_000),
            ("1793700004", 4_000),
            ("1793700004500", 4_500),
            ("2026-11-03T09:00:00Z", 0),
            ("1793600000", 0),
        ] {
            let wait = parse_wait(text, NOW_MS).unwrap_or_else(|| panic!("`{text}` was not read"));
            assert_eq!(wait.as_millis(), ms, "{text}");
        }
    }

    #[test]
    fn what_is_no_wait_is_not_read() {
        for text in ["", "soon", "-1", "NaN", "inf", "1e400", "5 parsecs", "2026-13-01T00:00:00Z", "1s later", "T"] {
            assert_eq!(parse_wait(text, NOW_MS), None, "{text}");
        }
    }

    #[test]
    fn prose_may_go_on_after_the_wait() {
        assert_eq!(wait_in_prose(" 1m30.5s. Visit us"), Some(Duration::from_millis(90_500)));
        assert_eq!(wait_in_prose("20 seconds"), Some(Duration::from_secs(20)));
        assert_eq!(wait_in_prose("7."), Some(Duration::from_secs(7)));
        assert_eq!(wait_in_prose("a while"), None);
    }

    #[test]
    fn a_leap_day_is_counted() {
        assert_eq!(rfc3339_ms("2024-03-01T00:00:00Z"), rfc3339_ms("2024-02-29T24:00:00Z"));
    }
}
