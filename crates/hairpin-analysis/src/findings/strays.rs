//! `strays`: datagrams that were not from the other end arrived.
//!
//! Evidence: the number of datagrams without a valid code, and of ICMP errors, at both ends. They are dropped and counted.

use hairpin_model::finding::{About, Severity};
use hairpin_model::names::distinct;
use hairpin_model::round::Measured;
use hairpin_model::{Finding, FindingCard, Run, fact, fact_names, finding_keys as keys};

use super::support::{blank, evidence};

pub(super) const CARD: FindingCard = FindingCard {
    code: "strays",
    about: About::Run,
    what: "datagrams that were not from the other end arrived",
    why: "anyone can send datagrams to an address and port; between hosts, those without the flow's code are dropped",
};

fn count(measured: &Measured, name: &str) -> f64 {
    measured.ends.iter().filter_map(|end| fact::number(&end.facts, name)).sum()
}

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let measured: Vec<_> = run.rounds.iter().filter_map(|round| Some((round, round.measured()?))).collect();
    let total = |name| measured.iter().map(|(_, measured)| count(measured, name)).sum::<f64>();
    let [strays, icmp_errors] = [fact_names::STRAYS, fact_names::ICMP_ERRORS].map(total);
    if strays + icmp_errors == 0.0 {
        return Vec::new();
    }
    let is_affected =
        |measured: &Measured| count(measured, fact_names::STRAYS) + count(measured, fact_names::ICMP_ERRORS) > 0.0;
    let affected = measured.iter().filter(|(_, measured)| is_affected(measured));
    let finding = Finding {
        cases: distinct(affected.map(|(round, _)| round.case_id.clone())),
        evidence: vec![evidence(keys::STRAYS, strays)],
        ..blank(&CARD, Severity::Warning)
    };
    vec![finding.with(keys::ICMP_ERRORS, icmp_errors)]
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Fact};

    use super::*;
    use crate::fixture::{Fixture, back_to_back, value};

    #[test]
    fn strays_at_both_ends_are_added_and_none_is_no_finding() {
        let found = |strays: [f64; 2]| {
            let mut fixture = Fixture::new();
            fixture.round_with(&Case::ping_pong("udp"), 0, &back_to_back(&[], &[1_000_000; 50]), |measured| {
                for (end, strays) in measured.ends.iter_mut().zip(strays) {
                    end.facts.push(Fact::number(fact_names::STRAYS, strays));
                    end.facts.push(Fact::number(fact_names::ICMP_ERRORS, 0.0));
                }
            });
            fixture.findings("strays")
        };
        assert_eq!(found([0.0; 2]), []);
        let one = &found([2.0, 5.0])[0];
        assert_eq!([keys::STRAYS, keys::ICMP_ERRORS].map(|key| value(one, key)), [7.0, 0.0]);
        assert_eq!(one.cases.len(), 1);
    }
}
