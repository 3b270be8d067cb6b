//! Names what differs between compared transports besides the protocol itself.

use std::collections::BTreeMap;

use hairpin_model::answer::{Condition, Unequal};
use hairpin_model::card::{Protocol, SavedCard};
use hairpin_model::fact;
use hairpin_model::options::OptionName;
use hairpin_model::quantities::exact_bytes;
use hairpin_model::{CaseSummary, Run, Statement, fact_names};

/// Largest packets differ if one is this many times another.
const MIN_SIZE_RATIO: f64 = 1.5;

/// Returns the conditions that differ between the transports of the run, without those that differ within a transport: they
/// are a subject of the run.
pub(super) fn unequal(run: &Run) -> Option<Statement> {
    let rows = || run.cases.iter().filter(|row| row.valid && row.case.replicate == 0);
    let conditions: Vec<Unequal> = Condition::ALL
        .iter()
        .filter_map(|condition| {
            let values = rows().filter_map(|row| {
                let transport = &row.primary().flow.transport;
                let card = run
                    .cards
                    .get(transport)
                    .filter(|card| card.reliable && matches!(card.protocol, Protocol::Tcp | Protocol::Udp))?;
                Some((transport.as_str(), value(*condition, row, card)?))
            });
            differing(*condition, values.collect())
        })
        .collect();
    (!conditions.is_empty()).then_some(Statement::Unequal { conditions })
}

enum Value {
    Word(String),
    Bytes(f64),
}

fn value(condition: Condition, row: &CaseSummary, card: &SavedCard) -> Option<Value> {
    Some(match condition {
        Condition::Encryption => Value::Word(if card.is_encrypted { "yes" } else { "no" }.to_owned()),
        Condition::Congestion => {
            let options = &row.client().effective_options;
            let option = options.iter().find(|option| option.name == OptionName::Congestion)?;
            Value::Word(option.before.clone())
        }
        Condition::PacketSize => {
            let number = |name| fact::number(&row.client().facts, name);
            Value::Bytes(number(fact_names::QUIC_MTU_BYTES).or_else(|| number(fact_names::SND_MSS_BYTES))?)
        }
    })
}

fn differing(condition: Condition, values: Vec<(&str, Value)>) -> Option<Unequal> {
    let bytes =
        || values.iter().filter_map(|(_, value)| if let Value::Bytes(bytes) = value { Some(*bytes) } else { None });
    let [least, most] = [bytes().fold(f64::INFINITY, f64::min), bytes().fold(0.0, f64::max)];
    if most > 0.0 && most < least * MIN_SIZE_RATIO {
        return None;
    }
    let mut of_value = BTreeMap::<String, Vec<String>>::new();
    for (transport, value) in &values {
        let text = match value {
            Value::Word(word) => word.clone(),
            Value::Bytes(bytes) => exact_bytes(*bytes as u64),
        };
        let transports = of_value.entry(text).or_default();
        if !transports.iter().any(|known| known == transport) {
            transports.push((*transport).to_owned());
        }
    }
    let is_subject = of_value
        .values()
        .flatten()
        .any(|transport| of_value.values().filter(|transports| transports.contains(transport)).count() > 1);
    let values: Vec<(String, Vec<String>)> = of_value.into_iter().collect();
    (values.len() > 1 && !is_subject).then_some(Unequal { condition, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[(&str, &str)]) -> Option<Vec<(String, Vec<String>)>> {
        let values = values.iter().map(|(transport, value)| (*transport, Value::Word((*value).to_owned())));
        differing(Condition::Congestion, values.collect()).map(|unequal| unequal.values)
    }

    fn sizes(values: &[(&str, f64)]) -> Option<Vec<(String, Vec<String>)>> {
        let values = values.iter().map(|(transport, bytes)| (*transport, Value::Bytes(*bytes)));
        differing(Condition::PacketSize, values.collect()).map(|unequal| unequal.values)
    }

    #[test]
    fn each_value_is_listed_with_its_transports() {
        let expected = [("bbr", vec!["tcp", "tls"]), ("cubic", vec!["quic"])];
        let expected = expected
            .map(|(value, names)| (value.to_owned(), names.into_iter().map(str::to_owned).collect::<Vec<_>>()));
        let found = words(&[("tcp", "bbr"), ("quic", "cubic"), ("tls", "bbr"), ("tcp", "bbr")]);
        assert_eq!(found.as_deref(), Some(&expected[..]));
    }

    #[test]
    fn equal_conditions_and_subjects_of_the_run_are_not_listed() {
        assert_eq!(words(&[("tcp", "cubic"), ("quic", "cubic")]), None);
        assert_eq!(words(&[("tcp", "bbr"), ("tcp", "cubic"), ("quic", "cubic")]), None, "the run compares both");
        assert_eq!(words(&[]), None);
    }

    #[test]
    fn packet_sizes_differ_if_one_is_half_as_large_again() {
        assert_eq!(sizes(&[("tcp", 1448.0), ("quic", 1452.0)]), None);
        let found = sizes(&[("tcp", 65_483.0), ("quic", 1452.0)]).unwrap();
        assert_eq!(found.iter().map(|(size, _)| size.as_str()).collect::<Vec<_>>(), ["1452 B", "65483 B"]);
    }
}
