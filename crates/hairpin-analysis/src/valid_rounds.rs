//! Selects the measured rounds of a case that count.
//!
//! A round whose link differed from its profile is no measurement of that link: the emulator was late by more than the
//! stated bound, or had no room for packets ([`LinkRecord::why_invalid`]). It is listed, and omitted from every figure,
//! comparison and curve. The same applies to a round under load with wrong phases, and to one between two hosts that
//! another client's round disturbed, and to one with a flow that failed: the others ran without it. If less than half of a case's rounds remain, the case is invalid, and all of them
//! are shown.

use hairpin_model::round::Purpose;
use hairpin_model::{LinkRecord, Measured, RoundRecord};

use crate::{two_hosts, under_load};

/// Why the round is omitted; `None` if it counts.
pub(crate) fn left_out(measured: &Measured) -> Option<String> {
    let failed = measured.failed_flows.first().map(|failed| format!("its flow `{}` failed", failed.id));
    failed
        .or_else(|| measured.link.as_ref().and_then(LinkRecord::why_invalid))
        .or_else(|| two_hosts::left_out(measured).map(|why| why.to_string()))
        .or_else(|| under_load::why_left_out(measured))
}

/// The timed rounds that make up a case's figures, in the order of `rounds`.
pub(crate) fn timed<'r>(
    rounds: impl Iterator<Item = &'r RoundRecord> + Clone,
) -> Vec<(&'r RoundRecord, &'r Measured)> {
    let all_shown = too_few(rounds.clone());
    let measured = rounds.filter_map(|round| Some((round, round.measured()?)));
    measured.filter(|(_, measured)| all_shown || left_out(measured).is_none()).collect()
}

/// The measured part of an evidence round that counts. Omitted rounds are never evidence, however few remain.
pub(crate) fn evidence(round: &RoundRecord, purpose: Purpose) -> Option<&Measured> {
    round.measured_as(purpose).filter(|measured| left_out(measured).is_none())
}

/// Whether less than half of the case's timed rounds remain.
pub(crate) fn too_few<'r>(rounds: impl Iterator<Item = &'r RoundRecord>) -> bool {
    let (mut all, mut left) = (0, 0);
    for measured in rounds.filter_map(|round| round.measured()) {
        all += 1;
        left += usize::from(left_out(measured).is_none());
    }
    2 * left < all
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, FailedFlow, Failure, Flow, FlowRecord, Ledger, RoundFigures};

    use crate::fixture::links::{late_by, over};
    use crate::fixture::{Fixture, back_to_back};

    /// Rounds of 1 ms with a punctual emulator, and of 9 ms with one that was 140 us late.
    fn fixture(on_time: u32, late: u32) -> Fixture {
        let mut fixture = Fixture::new();
        let case = over("delay=400us", Case::ping_pong("tcp"));
        for block in 0..on_time + late {
            let (latency, lateness) = if block < on_time { (1_000_000, 2_000) } else { (9_000_000, 140_000) };
            fixture.round_with(&case, block, &back_to_back(&[], &[latency; 50]), late_by(lateness));
        }
        fixture
    }

    #[test]
    fn late_rounds_are_omitted_from_figures_and_listed() {
        let run = fixture(3, 3).run();
        let case = &run.cases[0];
        assert_eq!((case.valid, case.rounds, case.primary().samples, case.round_points.len()), (true, 3, 150, 3));
        assert_eq!(case.primary().ledger.received, 150);
        assert!(case.primary().curve.last().unwrap().latency_ns < 1_001_000.0, "{:?}", case.primary().curve.last());
        assert!(case.primary().latency_ns.max.unwrap().value < 1_001_000.0);
        let link = case.path.relay.as_ref().unwrap();
        assert_eq!(link.rounds_left_out.len(), 3);
        assert_eq!(link.rounds_left_out[0], "round 3: the relay was late by 140 us at p50, bound 100 us");
        assert_eq!((link.lateness_ns.unwrap().p50, link.packets.entered), (2_000, 600));
    }

    #[test]
    fn a_round_with_a_failed_flow_is_omitted_and_a_flow_without_results_has_no_figures() {
        let case = Case::ping_pong("tcp").with(|case| {
            case.flows.push(Flow { id: "second".into(), ..Flow::ping_pong("udp") });
        });
        // The second flow fails in these rounds.
        for (failed, rounds, is_valid) in [(&[1][..], 2, true), (&[0, 2], 3, false), (&[0, 1, 2], 3, false)] {
            let mut fixture = Fixture::new();
            for block in 0..3 {
                fixture.round_with(&case, block, &back_to_back(&[], &[1_000_000; 50]), |measured| {
                    let figures = RoundFigures { samples: 7, rate_per_s: 7.0, ..RoundFigures::default() };
                    let ledger = Ledger { sent: 7, received: 7, ..Ledger::default() };
                    let second = FlowRecord { figures, ledger, setup_ns: 7, ..FlowRecord::of(&case.flows[1]) };
                    let failure = Failure { cause: "it ended".to_owned(), hint: String::new() };
                    match failed.contains(&block) {
                        true => measured.failed_flows.push(FailedFlow { id: second.id, failure }),
                        false => measured.flows.push(second),
                    }
                });
            }
            let run = fixture.run();
            let of_case = &run.cases[0];
            assert_eq!((of_case.rounds, of_case.valid), (rounds, is_valid), "{failed:?}");
            let causes: Vec<String> = failed.iter().map(|block| format!("round {block}: it ended")).collect();
            assert_eq!((&of_case.failed_rounds, run.failed_rounds()), (&causes, causes.len()));
            let second = of_case.flow(&"second".into()).unwrap();
            let median = (failed.len() < 3).then_some(7.0);
            assert_eq!([second.rate_per_s, second.setup_ns].map(|figure| figure.map(|one| one.value)), [median; 2]);
            assert_eq!((second.samples, second.ledger.received), (7 * (3 - failed.len() as u64), second.samples));
            assert_eq!(of_case.primary().samples, 50 * rounds);
        }
    }

    #[test]
    fn with_less_than_half_of_the_rounds_the_case_is_invalid_and_all_are_shown() {
        for (on_time, late) in [(2, 3), (0, 2)] {
            let run = fixture(on_time, late).run();
            let case = &run.cases[0];
            assert_eq!((case.valid, case.rounds), (false, u64::from(on_time + late)));
            assert_eq!(case.primary().samples, 50 * u64::from(on_time + late));
            assert!((9_000_000.0..9_010_000.0).contains(&case.primary().curve.last().unwrap().latency_ns));
            let why = &case.why_invalid[0];
            assert!(why.starts_with(&format!("{late} of {} rounds are invalid, ", on_time + late)), "{why}");
            assert!(why.contains("the relay was late by 140 us at p50"), "{why}");
            assert_eq!(case.path.relay.as_ref().unwrap().rounds_left_out.len(), late as usize);
            assert_eq!(run.comparisons, []);
        }
    }

    #[test]
    fn a_relay_without_room_spoils_its_round_as_well() {
        let mut fixture = fixture(1, 0);
        let case = over("delay=400us", Case::ping_pong("tcp"));
        fixture.round_with(&case, 1, &back_to_back(&[], &[9_000_000; 50]), |measured| {
            late_by(0)(measured);
            measured.link.as_mut().unwrap().relay.as_mut().unwrap().overrun = 3;
        });
        let run = fixture.run();
        let left_out = &run.cases[0].path.relay.as_ref().unwrap().rounds_left_out;
        assert_eq!(left_out, &["round 1: the sockets of the relay had no room for 3 packets"]);
        assert_eq!((run.cases[0].rounds, run.cases[0].valid), (1, true));
    }
}
