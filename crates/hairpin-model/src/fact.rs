//! Facts that an end reads from the system: counters, and the end's address.

use serde::{Deserialize, Serialize};

use crate::fact_names;

/// A named number that the kernel reported, for instance `tcp_info.min_rtt_us`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Fact {
    /// Group and name, with the unit at the end if there is one: `tcp_info.min_rtt_us`, `socket.drops`.
    pub name: String,
    pub value: FactValue,
}

/// A number or a word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(untagged)]
pub enum FactValue {
    /// A count, or a quantity in the unit at the end of the name.
    Number(f64),
    /// A word, for instance an address.
    Word(String),
}

impl FactValue {
    pub fn number(&self) -> Option<f64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    pub fn word(&self) -> Option<&str> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }
}

impl From<f64> for FactValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for FactValue {
    fn from(word: &str) -> Self {
        Self::Word(word.to_owned())
    }
}

impl Fact {
    pub fn number(name: &str, value: f64) -> Self {
        Self { name: name.to_owned(), value: FactValue::Number(value) }
    }

    pub fn word(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: FactValue::Word(value.into()) }
    }
}

/// Returns the word called `name` in `facts`; `None` if absent or a number.
pub fn word<'f>(facts: &'f [Fact], name: &str) -> Option<&'f str> {
    facts.iter().find(|fact| fact.name == name)?.value.word()
}

/// Returns the number called `name` in `facts`; `None` if absent or a word.
///
/// # Panics
/// In a debug build, if no fact can have this name; a typo would otherwise look like an absent fact.
pub fn number(facts: &[Fact], name: &str) -> Option<f64> {
    debug_assert!(fact_names::exists(name), "no fact is named `{name}`");
    facts.iter().find(|fact| fact.name == name)?.value.number()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_name() {
        let facts =
            [Fact::word(fact_names::LOCAL_ADDRESS, "here"), Fact::number(fact_names::SND_MSS_BYTES, 65_483.0)];
        assert_eq!(number(&facts, fact_names::SND_MSS_BYTES), Some(65_483.0));
        assert_eq!((number(&facts, fact_names::LOCAL_ADDRESS), number(&facts, fact_names::RTT_US)), (None, None));
    }

    #[test]
    #[should_panic(expected = "no fact is named `tcp_info.snd_mss`")]
    fn an_unknown_name_panics() {
        let _ = number(&[], "tcp_info.snd_mss");
    }
}
