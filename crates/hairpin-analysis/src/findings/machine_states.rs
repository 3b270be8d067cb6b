//! `machine-states`: the machine had two speeds during the run.
//!
//! The probe before and after each round shows this on the CPU of each end, independently of the transport.

use hairpin_model::finding::{About, Severity};
use hairpin_model::{Finding, FindingCard, Run, finding_keys as keys};

use super::support::{blank, evidence};

pub(super) const CARD: FindingCard = FindingCard {
    code: "machine-states",
    about: About::Run,
    what: "the machine was slower for a part of the run, for every case",
    why: "figures from two states are not comparable; a shared core has such states, and no counter of the guest \
          shows them",
};

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let [fast, slow] = run.machine.states.as_slice() else { return Vec::new() };
    vec![Finding {
        evidence: vec![
            evidence(keys::PROBE, fast.probe_ns).of("faster"),
            evidence(keys::PROBE, slow.probe_ns).of("slower"),
            evidence(keys::SLOW_ROUNDS, slow.share),
            evidence(keys::STATE_CHANGES, run.machine.switches as f64),
        ],
        ..blank(&CARD, Severity::Note)
    }]
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, Probe};

    use super::*;
    use crate::fixture::{Fixture, figure_of, value};

    /// Rounds of 10 us, or of `slow_latency` while slowed; the probe takes 90 us or `slow_probe` ns.
    fn found(slowed: impl Fn(usize) -> bool, slow_probe: u64, slow_latency: u64) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        let latencies: Vec<u64> = (0..40).map(|k| if slowed(k) { slow_latency } else { 10_000 }).collect();
        fixture.rounds_of(&Case::ping_pong("tcp"), &latencies);
        for (place, round) in fixture.rounds.iter_mut().enumerate() {
            let hairpin_model::round::Outcome::Measured(measured) = &mut round.outcome else { panic!("measured") };
            let probe = if slowed(place) { slow_probe } else { 90_000 };
            measured.ends[0].probe_ns = Some(Probe { before: probe, after: probe });
        }
        fixture.findings("machine-states")
    }

    #[test]
    fn two_states_are_reported_with_levels_share_and_changes() {
        let found = found(|k| (10..20).contains(&k), 117_000, 13_000);
        assert_eq!(found.len(), 1);
        let probe = |state| figure_of(&found[0], keys::PROBE, state).unwrap().value;
        assert!((probe("slower") / probe("faster") - 1.3).abs() < 0.005, "{found:?}");
        assert_eq!([keys::SLOW_ROUNDS, keys::STATE_CHANGES].map(|key| value(&found[0], key)), [0.25, 2.0]);
    }

    #[test]
    fn states_differ_from_six_percent_on() {
        assert_eq!(found(|k| k % 8 < 3, 94_000, 10_000), []);
        assert_eq!(found(|k| k % 8 < 3, 96_000, 10_000).len(), 1);
    }

    #[test]
    fn one_level_of_the_probe_is_no_finding() {
        assert_eq!(found(|_| false, 90_000, 10_000), []);
        // Two latency levels and one probe level: a transport with two modes, not a state of the machine.
        assert_eq!(found(|k| k % 8 < 3, 90_000, 20_000), []);
    }
}
