//! `rounds-left-out`: rounds between two hosts did not count.
//!
//! Why: the rounds of two clients at one server change each other's figures, and a datagram load without feedback from
//! a receiver is stopped early. Evidence: the number of rounds, and the first reason. Their data is kept. Advice by
//! reason: a longer wait for the turn, or the path.

use hairpin_model::figure::Figure;
use hairpin_model::finding::{About, Finding, FindingCard, Severity};
use hairpin_model::names::distinct;
use hairpin_model::quantities::counted;
use hairpin_model::run::Run;

use super::support::{blank, evidence};
use crate::two_hosts::{LeftOut, left_out};

pub(super) const CARD: FindingCard = FindingCard {
    code: "rounds-left-out",
    about: About::Run,
    what: "rounds between two hosts did not count",
    why: "another client's round at the same server changes the figures of this one, and a load that nobody receives is stopped",
};

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let measured = || run.rounds.iter().filter_map(|round| Some((round, round.measured()?)));
    let all: Vec<_> = measured().filter_map(|(round, measured)| Some((round, left_out(measured)?))).collect();
    let Some((first, why)) = all.first() else { return Vec::new() };
    let more = match all.len() {
        1 => String::new(),
        count => format!("; and {} more", count - 1),
    };
    let advice = match why {
        LeftOut::Overlapped => {
            "Measure while no other client does, or have rounds wait longer for their turn (`hairpin serve --limit wait=5min`)."
        }
        LeftOut::NoFeedback { .. } => {
            "Look at the path of datagrams: `hairpin check` says in which direction they do not come through."
        }
    };
    vec![Finding {
        cases: distinct(all.iter().map(|(round, _)| round.case_id.clone())),
        summary: format!(
            "{} of {} left out: round {}: {why}{more}.",
            all.len(),
            counted(measured().count() as u64, "round"),
            first.number
        ),
        evidence: vec![evidence("rounds left out", Figure::bare(all.len() as f64), "count")],
        advice: advice.to_owned(),
        counter_experiment: None,
        share: 0.0,
        ..blank(&CARD, Severity::Warning)
    }]
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;
    use hairpin_model::fact::Fact;
    use hairpin_model::fact_names;
    use hairpin_model::one_way::Sent;

    use super::*;
    use crate::fixture::{Fixture, back_to_back};

    /// A run of 4 rounds; `spoiled` lists the invalid ones.
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
    fn rounds_beside_those_of_another_client_are_named() {
        let overlapped = |measured: &mut hairpin_model::round::Measured| {
            measured.ends[1].facts.push(Fact::number(fact_names::OVERLAPPED, 1.0));
        };
        assert_eq!(found(&[], overlapped), []);
        let one = found(&[2], overlapped);
        assert_eq!(
            one[0].summary,
            "1 of 4 rounds left out: round 2: a round of another client ran at the same time on the server."
        );
        assert!(one[0].advice.contains("--limit wait"));
        assert!(found(&[1, 3], overlapped)[0].summary.ends_with("on the server; and 1 more."));
    }

    #[test]
    fn loads_that_were_stopped_are_named() {
        let stopped = |measured: &mut hairpin_model::round::Measured| {
            measured.flows[0].sent = Some(Sent { no_feedback_ns: Some(612_000_000), ..Sent::default() });
        };
        let found = found(&[0], stopped);
        assert!(found[0].summary.contains("the sender had heard nothing of the receiver for 612 ms"), "{found:?}");
        assert!(found[0].advice.contains("hairpin check"));
    }
}
