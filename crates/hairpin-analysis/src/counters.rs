//! Merges the kernel counters of a case's rounds.

use hairpin_model::names::grouped;
use hairpin_model::{Fact, FactValue, fact_names};

use crate::statistics::location::median;

/// The facts of all rounds as one list, in order of first appearance: counters as sums, other numbers as medians over
/// rounds, words from the last round.
pub fn merge_facts<'r>(rounds: impl Iterator<Item = &'r [Fact]>) -> Vec<Fact> {
    let by_name = grouped(rounds.flatten().map(|fact| (fact.name.as_str(), &fact.value)));
    by_name.into_iter().filter_map(|(name, values)| merge_values(name, &values)).collect()
}

fn merge_values(name: &str, values: &[&FactValue]) -> Option<Fact> {
    if let Some(word) = values.last()?.word() {
        return Some(Fact::word(name, word));
    }
    let numbers: Vec<f64> = values.iter().filter_map(|value| value.number()).collect();
    let value = if fact_names::EVENTS.contains(&name) { numbers.iter().sum() } else { median(&numbers)? };
    Some(Fact::number(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_rounds_add_up_and_quantities_do_not() {
        let round = |retransmits, rtt, address: &str| {
            vec![
                Fact::number(fact_names::RETRANSMITS, retransmits),
                Fact::number(fact_names::MIN_RTT_US, rtt),
                Fact::word(fact_names::LOCAL_ADDRESS, address),
            ]
        };
        let rounds = [round(1.0, 7.0, "a"), round(2.0, 9.0, "b"), round(0.0, 5.0, "c")];
        assert_eq!(merge_facts(rounds.iter().map(Vec::as_slice)), round(3.0, 7.0, "c"));
        assert!(merge_facts(std::iter::empty()).is_empty());
    }
}
