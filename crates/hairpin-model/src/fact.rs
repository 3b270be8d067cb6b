//! Facts read from the system at one end: counters and where it ran.

use serde::{Deserialize, Serialize};

/// A named number that the kernel reported, for instance `tcp_info.min_rtt_us`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Group and name, ending in the unit where there is one: `tcp_info.min_rtt_us`, `socket.drops`.
    pub name: String,
    /// The value.
    pub value: FactValue,
}

/// A number or a word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FactValue {
    /// A count or a quantity in the unit that the name ends in.
    Number(f64),
    /// A word, for instance an address.
    Word(String),
}

impl Fact {
    /// A counted fact.
    #[must_use]
    pub fn number(name: &str, value: f64) -> Self {
        Self { name: name.to_owned(), value: FactValue::Number(value) }
    }

    /// A fact in words.
    #[must_use]
    pub fn word(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: FactValue::Word(value.into()) }
    }
}

/// The number of that name among `facts`.
#[must_use]
pub fn number(facts: &[Fact], name: &str) -> Option<f64> {
    facts.iter().find(|fact| fact.name == name).and_then(|fact| match fact.value {
        FactValue::Number(number) => Some(number),
        FactValue::Word(_) => None,
    })
}
