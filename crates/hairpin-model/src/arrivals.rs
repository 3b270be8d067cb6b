//! When the messages of an open loop are due.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names;
use crate::refused::Refused;

/// When messages offered at a rate are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Arrivals {
    /// At equal intervals.
    #[default]
    Fixed,
    /// At random: independent arrivals, exponentially distributed intervals.
    Poisson,
    /// Bursts of this many messages, at equal intervals.
    Burst(u32),
}

pub const MAX_BURST_MESSAGES: u32 = 1_000_000;
/// Accepted words, for errors and the help.
pub const WORDS: &[&str] = &["fixed", "poisson", "burst=N"];

impl Arrivals {
    pub fn at_once(self) -> u32 {
        if let Self::Burst(count) = self { count } else { 1 }
    }

    /// Longest time between two messages at a rate, in s. One in 5 × 10⁸ Poisson intervals exceeds it.
    pub fn longest_gap_s(self, offered_per_s: f64) -> f64 {
        let mean_gaps = if self == Self::Poisson { 20.0 } else { f64::from(self.at_once()) };
        mean_gaps / offered_per_s
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed => out.write_str("fixed"),
            Self::Poisson => out.write_str("poisson"),
            Self::Burst(count) => write!(out, "burst={count}"),
        }
    }
}

fn bad_burst(text: &str) -> Refused {
    Refused::new(
        format!("`{text}` is not a valid burst size"),
        format!("give a whole number from 2 to {MAX_BURST_MESSAGES}, such as burst=10"),
    )
}

impl FromStr for Arrivals {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let Some(count) = text.strip_prefix("burst=") else {
            return match names::place("arrivals", text, WORDS)? {
                0 => Ok(Self::Fixed),
                1 => Ok(Self::Poisson),
                _ => Err(bad_burst(text)),
            };
        };
        let count = count.parse().ok().filter(|count| (2..=MAX_BURST_MESSAGES).contains(count));
        count.map(Self::Burst).ok_or_else(|| bad_burst(text))
    }
}

names::saved_as_text!(Arrivals);

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Arrivals {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Arrivals".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "When messages are due: fixed, poisson, or burst=N.",
            "type": "string"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_arrivals_parse_to_the_same_value() {
        for arrivals in [Arrivals::Fixed, Arrivals::Poisson, Arrivals::Burst(10)] {
            assert_eq!(arrivals.to_string().parse(), Ok(arrivals));
        }
        for text in ["burst", "burst=", "burst=1", "burst=-3", "burst=1000001", "burst=N", "poison", ""] {
            assert!(text.parse::<Arrivals>().is_err(), "{text}");
        }
        let error = "burst=0".parse::<Arrivals>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`burst=0` is not a valid burst size (hint: give a whole number from 2 to 1000000, such as burst=10)"
        );
    }
}
