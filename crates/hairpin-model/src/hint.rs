//! The hint after an error.

use std::fmt;

/// Prints ` (hint: ...)` after the cause, or nothing if the hint is empty.
#[derive(Clone, Copy, Debug)]
pub struct Hint<'a>(pub &'a str);

impl fmt::Display for Hint<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(out, " (hint: {})", self.0) }
    }
}

/// An error with a separate cause and hint, so that a caller can print the operation first and the hint last.
pub trait Hinted {
    /// The operation, its object and the cause, without the hint.
    fn cause(&self) -> String;
    /// What would help; empty if unknown.
    fn hint(&self) -> String;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::WhyNot;
    use crate::failure::{Failure, FailureKind};

    #[test]
    fn an_empty_hint_is_not_printed() {
        let failure = |hint: &str| Failure::new(FailureKind::Other, "it failed", hint).to_string();
        let why_not = |hint: &str| WhyNot::new("it cannot", hint).to_string();
        assert_eq!([failure(""), why_not("")], ["it failed", "it cannot"]);
        let told = ["it failed (hint: try again)", "it cannot (hint: try again)"];
        assert_eq!([failure("try again"), why_not("try again")], told);
        assert_eq!(Hint("").to_string(), "");
    }
}
