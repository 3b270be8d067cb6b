//! A trace of sending opportunities, in the format of mahimahi (Netravali et al., USENIX ATC 2015; mm-link(1)).
//!
//! Each line of a trace is a whole number of milliseconds, not less than the line before: an opportunity to send 1500
//! bytes at that time after the start. A time given twice is two opportunities. The trace restarts after its last
//! line, offset by the time of that line.

use std::sync::Arc;

use hairpin_model::Hint;

pub(crate) const OPPORTUNITY_BYTES: u32 = 1500;

/// The times at which packets can leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// In ms, not decreasing. The last time is the period, and is above 0.
    pub(crate) opportunities_ms: Arc<[u64]>,
}

/// An error in the text of a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the trace, `{word}`: {problem}{}", Hint(.hint))]
pub struct BadTrace {
    /// Line number, from 1.
    pub line: usize,
    /// The content of the line, shortened.
    pub word: String,
    pub problem: &'static str,
    pub hint: &'static str,
}

impl Trace {
    pub fn parse(text: &str) -> Result<Self, BadTrace> {
        const HINT: &str = "each line is a whole number of milliseconds, not less than the line before";
        let bad = |line: usize, word: &str, problem| BadTrace {
            line,
            word: word.chars().take(40).collect(),
            problem,
            hint: HINT,
        };
        let mut opportunities_ms: Vec<u64> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let word = line.trim();
            let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let Some(at_ms) = digits.then(|| word.parse::<u32>().ok()).flatten() else {
                let problem = if digits { "more than 4294967295 ms" } else { "not a whole number" };
                return Err(bad(number, word, problem));
            };
            if opportunities_ms.last().is_some_and(|last| *last > u64::from(at_ms)) {
                return Err(bad(number, word, "earlier than the line before"));
            }
            opportunities_ms.push(u64::from(at_ms));
        }
        match opportunities_ms.last() {
            None => Err(bad(1, "", "the trace is empty")),
            Some(0) => Err(bad(opportunities_ms.len(), "0", "the trace takes no time, so it cannot repeat")),
            Some(_) => Ok(Self { opportunities_ms: opportunities_ms.into() }),
        }
    }

    /// Time until the trace restarts, in ms.
    pub fn period_ms(&self) -> u64 {
        self.opportunities_ms.last().copied().unwrap_or(1)
    }

    pub fn mean_bits_per_s(&self) -> u64 {
        let bits = self.opportunities_ms.len() as u64 * u64::from(OPPORTUNITY_BYTES) * 8;
        bits.saturating_mul(1000) / self.period_ms()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wrong_trace_is_refused_with_its_line_and_word() {
        let said = |text: &str| Trace::parse(text).unwrap_err().to_string();
        assert!(said("1\n2\nx3\n").starts_with("line 3 of the trace, `x3`: not a whole number (hint: "));
        assert!(said("1\n\n3\n").starts_with("line 2 of the trace, ``: not a whole number"));
        assert!(said("5\n4\n").starts_with("line 2 of the trace, `4`: earlier than the line before"));
        assert!(said("4294967296").starts_with("line 1 of the trace, `4294967296`: more than"));
        assert!(said("").starts_with("line 1 of the trace, ``: the trace is empty"));
        assert!(said("0\n0\n").starts_with("line 2 of the trace, `0`: the trace takes no time"));
    }

    #[test]
    fn the_mean_rate_is_the_opportunities_divided_by_the_period() {
        assert_eq!(Trace::parse("1\n2\n3\n4").unwrap().mean_bits_per_s(), 12_000_000);
        assert_eq!(Trace::parse("0\n4294967295").unwrap().period_ms(), 4_294_967_295);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([0-9]{1,11}\r?\n|.{0,3}\n){0,6}") {
            let _ = Trace::parse(&text);
        }
    }
}
