//! What only a server on another host knows of a round.

use hairpin_model::fact;
use hairpin_model::fact_names;
use hairpin_model::quantities::duration;
use hairpin_model::round::Measured;

/// Why a round between two hosts is left out; null where it counts.
pub(crate) fn why_left_out(measured: &Measured) -> Option<String> {
    let silent_ns = measured.flows.iter().filter_map(|flow| flow.sent.as_ref()?.no_feedback_ns).max();
    if let Some(silent_ns) = silent_ns {
        let silent = duration(silent_ns as f64);
        return Some(format!("no feedback: the sender had heard nothing of the receiver for {silent}, and stopped"));
    }
    let overlapped = measured.ends.iter().any(|end| fact::number(&end.facts, fact_names::OVERLAPPED).is_some());
    overlapped.then(|| "a round of another client ran at the same time on the server".to_owned())
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::Case;
    use hairpin_model::fact::Fact;

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
        assert!(run.cases[0].flow().latency_ns.max.unwrap().value < 1_001_000.0);
    }
}
