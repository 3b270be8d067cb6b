//! Reasons to omit a round that exist only between two hosts.

use hairpin_model::{LeftOut, Measured, fact, fact_names};

pub(crate) fn omission_reason(measured: &Measured) -> Option<LeftOut> {
    let silent_ns = measured.flows.iter().filter_map(|flow| flow.sent.as_ref()?.no_feedback_ns).max();
    let overlapped = || measured.ends.iter().any(|end| fact::number(&end.facts, fact_names::OVERLAPPED).is_some());
    silent_ns
        .map(|silent_ns| LeftOut::NoFeedback { silent_ns })
        .or_else(|| overlapped().then_some(LeftOut::Overlapped))
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Fact};

    use super::*;
    use crate::fixture::{Fixture, back_to_back};

    #[test]
    fn a_round_that_another_client_disturbed_does_not_count() {
        let mut fixture = Fixture::new();
        let case = Case::ping_pong("tcp");
        for block in 0..4 {
            let latency = if block == 3 { 9_000_000 } else { 1_000_000 };
            fixture.round_with(&case, block, &back_to_back(&[], &[latency; 50]), |measured| {
                if block == 3 {
                    measured.ends[1].facts.push(Fact::number(fact_names::OVERLAPPED, 1.0));
                }
            });
        }
        let run = fixture.run();
        assert!(run.cases[0].valid);
        assert_eq!(run.cases[0].rounds, 3);
        assert!(run.cases[0].primary().latency_ns.max.unwrap().value < 1_001_000.0);
    }
}
