//! A plan that is refused before anything runs.

use hairpin_model::card::WhyNot;
use hairpin_model::exchange::{BadRemedy, BadWrites};
use hairpin_model::hint::Hint;
use hairpin_model::names::UnknownName;
use hairpin_model::options::OptionError;
use hairpin_model::parse::BadQuantity;

/// Why a plan is refused: bad usage or input, exit code 2.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}", Hint(.hint))]
pub struct Refused {
    /// The operation, its object and the cause, in one sentence without a full stop.
    pub what: String,
    /// What would help.
    pub hint: String,
}

impl Refused {
    /// A refusal with its hint.
    #[must_use]
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }

    /// The same refusal, naming first what was being read, for instance `--size`.
    #[must_use]
    pub fn while_reading(self, object: &str) -> Self {
        Self { what: format!("{object}: {}", self.what), hint: self.hint }
    }

    /// Takes apart a text that already ends in `(hint: ...)`, so that the hint is not said twice.
    fn from_text(text: &str) -> Self {
        match text.rsplit_once(" (hint: ") {
            Some((what, hint)) => Self::new(what, hint.strip_suffix(')').unwrap_or(hint)),
            None => Self::new(text, "`hairpin list` shows what there is"),
        }
    }
}

impl From<UnknownName> for Refused {
    fn from(unknown: UnknownName) -> Self {
        Self::from_text(&unknown.to_string())
    }
}

impl From<OptionError> for Refused {
    fn from(error: OptionError) -> Self {
        Self::from_text(&error.to_string())
    }
}

impl From<BadQuantity> for Refused {
    fn from(bad: BadQuantity) -> Self {
        Self::from_text(&bad.to_string())
    }
}

impl From<BadWrites> for Refused {
    fn from(bad: BadWrites) -> Self {
        Self::from_text(&bad.to_string())
    }
}

impl From<BadRemedy> for Refused {
    fn from(bad: BadRemedy) -> Self {
        Self::from_text(&bad.to_string())
    }
}

impl From<WhyNot> for Refused {
    fn from(why: WhyNot) -> Self {
        Self::new(why.reason, why.hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_said_once() {
        let unknown = hairpin_model::names::find("transport", "tpc", &["tcp", "udp"]).unwrap_err();
        let refused = Refused::from(unknown).while_reading("--transport");
        assert_eq!(refused.to_string(), "--transport: unknown transport `tpc` (hint: did you mean `tcp`?)");
    }
}
