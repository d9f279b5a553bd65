//! The sections `[buckets]` and `[limits.*]`: how limits are kept, and what a vendor's account allows.
#![expect(missing_docs, reason = "each field is documented once, in default.toml, which is also the printed reference")]

use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::duration::ms;

/// How limits are kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buckets {
    #[serde(rename = "timeout_ms", deserialize_with = "ms")]
    pub timeout: Duration,
    #[serde(rename = "cool_down_ms", deserialize_with = "ms")]
    pub cool_down: Duration,
    pub local_share: f64,
    #[serde(rename = "told_ms", deserialize_with = "ms")]
    pub told: Duration,
    pub waiting_max: usize,
    pub ahead: usize,
    #[serde(rename = "pass_spacing_ms", deserialize_with = "ms")]
    pub pass_spacing: Duration,
    pub pass_share: f64,
}

/// One section of limits. A limit of 0 and any other key that is absent: not said here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limit {
    pub rpm: u64,
    pub tpm: u64,
    pub input_tpm: u64,
    pub output_tpm: u64,
    pub ipm: u64,
    pub rpd: u64,
    pub tpd: u64,
    #[serde(rename = "burst_ms", deserialize_with = "some_ms")]
    pub burst: Option<Duration>,
    pub carve: Option<Carve>,
    pub largest_call_tokens: u64,
    pub start: Option<BucketStart>,
    pub day_reset: Option<DayReset>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carve {
    Burst,
    LargestCall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BucketStart {
    Full,
    Empty,
}

/// When a day counter begins anew: `rolling`, `midnight` or `midnight ±hh:mm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DayReset {
    /// What was used in the last 24 hours counts.
    #[default]
    Rolling,
    /// At midnight of a zone.
    Midnight {
        /// Minutes east of UTC.
        offset_minutes: i64,
    },
}

/// A text that names no reset.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is neither `rolling` nor `midnight` nor `midnight +hh:mm`")]
pub struct DayResetError(String);

const OFFSET_MINUTES_MAX: i64 = 14 * 60;

impl FromStr for DayReset {
    type Err = DayResetError;

    fn from_str(text: &str) -> Result<Self, DayResetError> {
        let bad = || DayResetError(text.to_owned());
        let zone = match text.split_once(' ') {
            None if text == "rolling" => return Ok(Self::Rolling),
            None if text == "midnight" => "+00:00",
            Some(("midnight", zone)) => zone,
            _ => return Err(bad()),
        };
        let (sign, clock) = match zone.split_at_checked(1) {
            Some(("+", clock)) => (1, clock),
            Some(("-", clock)) => (-1, clock),
            _ => return Err(bad()),
        };
        let (hours, minutes) = clock.split_once(':').ok_or_else(bad)?;
        let part = |text: &str, most: i64| text.parse().ok().filter(|part| (0..=most).contains(part)).ok_or_else(bad);
        let offset_minutes: i64 = sign * (part(hours, 14)? * 60 + part(minutes, 59)?);
        if offset_minutes.abs() > OFFSET_MINUTES_MAX {
            return Err(bad());
        }
        Ok(Self::Midnight { offset_minutes })
    }
}

impl<'de> Deserialize<'de> for DayReset {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

fn some_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    u64::deserialize(from).map(|ms| Some(Duration::from_millis(ms)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::layers::layered;
    use crate::{Settings, hot};

    fn settings(text: &str) -> Result<Settings, String> {
        let loaded = layered(Some((Path::new("own.toml"), text)), std::iter::empty());
        loaded.map(|loaded| loaded.settings).map_err(|error| error.to_string())
    }

    #[test]
    fn limits_stand_by_model_provider_and_for_all() {
        let text = "[limits.default]\nrpm = 60\n[limits.openai]\ntpm = 5_000_000\nburst_ms = 100\n\
                    [limits.\"openai/gpt-5-mini\"]\nrpd = 7\nday_reset = \"midnight -08:00\"\nstart = \"empty\"\n";
        let limits = settings(text).unwrap().limits;
        assert_eq!((limits["default"].rpm, limits["default"].burst), (60, None));
        assert_eq!((limits["openai"].tpm, limits["openai"].burst), (5_000_000, Some(Duration::from_millis(100))));
        let model = &limits["openai/gpt-5-mini"];
        assert_eq!((model.rpd, model.start), (7, Some(BucketStart::Empty)));
        assert_eq!(model.day_reset, Some(DayReset::Midnight { offset_minutes: -480 }));
    }

    #[test]
    fn limits_that_match_nothing_or_cannot_hold_are_refused() {
        for (text, finding) in [
            ("[limits.nobody]\nrpm = 1\n", "`nobody` is not in [providers]"),
            ("[limits.\"openai/gpt-9\"]\nrpm = 1\n", "no chain has this provider/model"),
            ("[limits.openai]\nburst_ms = 60_000\n", "burst_ms"),
            ("[limits.openai]\ncarve = \"largest_call\"\n", "name the tokens"),
            ("[limits.openai]\ntpm = 5\ncarve = \"largest_call\"\nlargest_call_tokens = 5\n", "less than every limit"),
            ("[limits.openai]\nday_reset = \"daily\"\n", "neither `rolling` nor `midnight`"),
            ("[limits.openai]\nrps = 5\n", "rps"),
            ("[buckets]\nlocal_share = 0.0\n", "buckets.local_share"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.contains(finding), "{text}: {error}");
        }
    }

    #[test]
    fn limits_are_hot_and_how_they_are_kept_is_not() {
        let running = "[limits.default]\nrpm = 1\n[buckets]\nahead = 4\n".parse().unwrap();
        let read = "[limits.default]\nrpm = 2\n[buckets]\nahead = 5\n".parse().unwrap();
        let merged = hot::merge(&running, &read);
        assert_eq!(
            (merged.changed, merged.cold),
            (vec!["limits.default.rpm".to_owned()], vec!["buckets.ahead".to_owned()])
        );
    }

    #[test]
    fn resets_are_read_with_their_offset() {
        let minutes = |text: &str| match text.parse().unwrap() {
            DayReset::Midnight { offset_minutes } => Some(offset_minutes),
            DayReset::Rolling => None,
        };
        assert_eq!(minutes("rolling"), None);
        assert_eq!(minutes("midnight"), Some(0));
        assert_eq!(minutes("midnight +05:30"), Some(330));
        assert_eq!(minutes("midnight -08:00"), Some(-480));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "daily", "midnight 8", "midnight +8", "midnight +15:00", "midnight +08:60", "midnight é"] {
            assert!(text.parse::<DayReset>().is_err(), "{text}");
        }
    }
}
