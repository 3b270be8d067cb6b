//! `rounds-left-out`: rounds between two hosts did not count. Their data is kept.

use hairpin_model::finding::{About, Severity};
use hairpin_model::names::distinct;
use hairpin_model::{Finding, FindingCard, LeftOut, Run, finding_keys as keys};

use super::support::{blank, evidence};
use crate::two_hosts::omission_reason;

pub(super) const CARD: FindingCard = FindingCard {
    code: "rounds-left-out",
    about: About::Run,
    what: "rounds between two hosts did not count",
    why: "another client's round at the same server changes the figures, and a load without feedback is stopped",
};

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let measured = || run.rounds.iter().filter_map(|round| Some((round, round.measured()?)));
    let all: Vec<_> = measured().filter_map(|(round, measured)| Some((round, omission_reason(measured)?))).collect();
    let Some((first, why)) = all.first() else { return Vec::new() };
    let finding = Finding {
        cases: distinct(all.iter().map(|(round, _)| round.case_id.clone())),
        evidence: vec![evidence(keys::ROUNDS_OUT, all.len() as f64)],
        ..blank(&CARD, Severity::Warning)
    };
    let finding = finding.with(keys::ROUNDS, measured().count() as f64).with(keys::ROUND, f64::from(first.number));
    vec![match why {
        LeftOut::NoFeedback { silent_ns } => {
            finding.with(keys::CAUSE, "no-feedback").with(keys::SILENT, *silent_ns as f64)
        }
        _ => finding.with(keys::CAUSE, "overlapped"),
    }]
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Fact, Sent, fact_names};

    use super::*;
    use crate::fixture::{Fixture, back_to_back, value};

    /// A run of 4 rounds; `spoiled` lists the invalid rounds.
    fn found(spoiled: &[u32], spoil: impl Fn(&mut hairpin_model::round::Measured)) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        for block in 0..4 {
            fixture.round_with(&Case::ping_pong("udp"), block, &back_to_back(&[], &[1_000_000; 50]), |measured| {
                if spoiled.contains(&block) {
                    spoil(measured);
                }
            });
        }
        fixture.findings("rounds-left-out")
    }

    #[test]
    fn rounds_that_overlap_those_of_another_client_are_reported() {
        let overlapped = |measured: &mut hairpin_model::round::Measured| {
            measured.ends[1].facts.push(Fact::number(fact_names::OVERLAPPED, 1.0));
        };
        assert_eq!(found(&[], overlapped), []);
        let one = found(&[2], overlapped);
        let known = [keys::ROUNDS_OUT, keys::ROUNDS, keys::ROUND].map(|key| value(&one[0], key));
        assert_eq!((known, one[0].word(keys::CAUSE)), ([1.0, 4.0, 2.0], Some("overlapped")));
        assert_eq!(value(&found(&[1, 3], overlapped)[0], keys::ROUNDS_OUT), 2.0);
    }

    #[test]
    fn loads_that_were_stopped_are_reported() {
        let stopped = |measured: &mut hairpin_model::round::Measured| {
            measured.flows[0].sent = Some(Sent { no_feedback_ns: Some(612_000_000), ..Sent::default() });
        };
        let found = found(&[0], stopped);
        assert_eq!((found[0].word(keys::CAUSE), value(&found[0], keys::SILENT)), (Some("no-feedback"), 612e6));
    }
}
