//! A moment that a caller names: RFC 3339 text with its offset, or milliseconds since the Unix epoch.
//!
//! It is written out as milliseconds, so that one moment in two spellings is one request.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// A moment, in ms since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, format = DateTime)]
pub struct Moment(pub u64);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct MomentVisitor;

        impl Visitor<'_> for MomentVisitor {
            type Value = Moment;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a moment: RFC 3339 text with its offset (2027-01-31T09:00:00Z), or ms since the Unix epoch",
                )
            }

            fn visit_u64<E: Error>(self, ms: u64) -> Result<Moment, E> {
                Ok(Moment(ms))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Moment, E> {
                let moment: jiff::Timestamp = text.parse().map_err(|error| {
                    E::custom(format_args!(
                        "`{}` is no RFC 3339 moment: {error}",
                        text.chars().take(64).collect::<String>()
                    ))
                })?;
                u64::try_from(moment.as_millisecond()).map(Moment).map_err(|_| E::custom("a moment before 1970"))
            }
        }

        from.deserialize_any(MomentVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_in_every_spelling() {
        for text in ["\"2027-01-31T09:00:00Z\"", "\"2027-01-31T10:00:00.000+01:00\"", "1801386000000"] {
            assert_eq!(serde_json::from_str::<Moment>(text).unwrap(), Moment(1_801_386_000_000), "{text}");
        }
        assert_eq!(serde_json::to_string(&Moment(7)).unwrap(), "7");
        for text in ["\"2027-01-31T09:00:00\"", "\"tomorrow\"", "-1", "1.5", "\"1969-12-31T23:59:59Z\""] {
            assert!(serde_json::from_str::<Moment>(text).is_err(), "{text}");
        }
    }
}
