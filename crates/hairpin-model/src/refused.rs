//! Refusals before anything runs.

use serde::Serialize;

use crate::hint::{Hint, Hinted};

/// Why a plan or a value is refused: bad usage or input, exit code 2.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error, crate::JsonSchema)]
#[error("{what}{}", Hint(.hint))]
pub struct Refused {
    /// The operation, its object and the cause, in one sentence without a full stop.
    pub what: String,
    /// What would help.
    pub hint: String,
}

impl Refused {
    pub fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }

    /// Prefixes the refusal with what was being read, for instance `--size`.
    pub fn while_reading(self, object: &str) -> Self {
        Self { what: format!("{object}: {}", self.what), hint: self.hint }
    }
}

impl<E: Hinted> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::new(error.cause(), error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_printed_once() {
        let unknown = crate::names::find("transport", "tpc", &["tcp", "udp"]).unwrap_err();
        let refused = Refused::from(unknown).while_reading("--transport");
        assert_eq!(refused.to_string(), "--transport: unknown transport `tpc` (hint: did you mean `tcp`?)");
    }
}
