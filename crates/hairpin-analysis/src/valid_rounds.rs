//! Selects the measured rounds of a case that count.
//!
//! A round is omitted from all figures, comparisons and curves if a flow failed, if the emulator had no room for packets,
//! if its phases under load are invalid, if another client disturbed it at the server, or if the emulator or the machine
//! delayed its messages by more than the bound ([`lateness`](crate::lateness)). Where only its slowest messages were
//! delayed, only its p90 and above are omitted. If less than half of a case's rounds remain, the case is invalid, and all
//! its rounds are shown.

use std::collections::BTreeMap;

use hairpin_model::round::Purpose;
use hairpin_model::{LeftOut, LinkRecord, Measured, RoundRecord};

use crate::lateness::{self, Judged};
use crate::{two_hosts, under_load};

pub(crate) fn judged<'r>(rounds: impl Iterator<Item = &'r RoundRecord>) -> Vec<Judged<'r>> {
    let rounds: Vec<_> = rounds.filter_map(|round| Some((round, round.measured()?))).collect();
    let late = lateness::judge(&rounds);
    let judged = rounds.into_iter().zip(late).map(|((round, measured), [median, tail])| {
        let why = omission_reason(measured).or(median);
        Judged { round, measured, why_tail: tail.filter(|_| why.is_none()), why }
    });
    judged.collect()
}

pub(crate) fn by_case(rounds: &[RoundRecord]) -> BTreeMap<&str, Vec<&RoundRecord>> {
    let mut by_case: BTreeMap<&str, Vec<&RoundRecord>> = BTreeMap::new();
    rounds.iter().for_each(|round| by_case.entry(&round.case_id).or_default().push(round));
    by_case
}

/// Numbers of the timed rounds that the machine or the emulator disturbed so much that they do not count.
pub fn disturbed_rounds(rounds: &[RoundRecord]) -> Vec<u32> {
    let judged = by_case(rounds).into_values().flat_map(|rounds| judged(rounds.into_iter()));
    judged
        .filter(|judged| judged.why.as_ref().is_some_and(LeftOut::is_disturbance))
        .map(|of| of.round.number)
        .collect()
}

/// Returns why the round is omitted, for all reasons but lateness; `None` if it counts.
pub(crate) fn omission_reason(measured: &Measured) -> Option<LeftOut> {
    let failed = measured.failed_flows.first().map(|failed| LeftOut::FlowFailed { id: failed.id.clone() });
    failed
        .or_else(|| measured.link.as_ref().and_then(LinkRecord::no_room))
        .or_else(|| two_hosts::omission_reason(measured))
        .or_else(|| under_load::omission_reason(measured))
}

/// Returns the timed rounds that a case's figures are computed from, in the order of `rounds`.
pub(crate) fn timed_rounds<'r>(
    rounds: impl Iterator<Item = &'r RoundRecord>,
) -> Vec<(&'r RoundRecord, &'r Measured)> {
    counted(judged(rounds)).into_iter().map(|judged| (judged.round, judged.measured)).collect()
}

pub(crate) fn counted(judged: Vec<Judged<'_>>) -> Vec<Judged<'_>> {
    let all_shown = too_few_valid(&judged);
    judged.into_iter().filter(|judged| all_shown || judged.why.is_none()).collect()
}

pub(crate) fn too_few_valid(judged: &[Judged<'_>]) -> bool {
    2 * judged.iter().filter(|judged| judged.why.is_none()).count() < judged.len()
}

/// Returns the measurement of an evidence round if it counts. Omitted rounds are never evidence, however few remain.
pub(crate) fn evidence_round(round: &RoundRecord, purpose: Purpose) -> Option<&Measured> {
    round.measured_as(purpose).filter(|measured| evidence_omission(measured).is_none())
}

/// Evidence rounds are few, so fixed bounds apply to the emulator's lateness.
pub(crate) fn evidence_omission(measured: &Measured) -> Option<LeftOut> {
    omission_reason(measured).or_else(|| measured.link.as_ref().and_then(LinkRecord::why_invalid))
}

#[cfg(test)]
mod tests {
    use hairpin_model::round::Purpose;
    use hairpin_model::{
        Case, FailedFlow, Failure, FailureKind, Flow, FlowRecord, Invalid, Ledger, LeftOut, RoundFigures,
        RoundLeftOut,
    };

    use crate::fixture::links::{late_by, over};
    use crate::fixture::{Fixture, back_to_back};

    /// Whether the emulator was late by this time at p50, on both crossings of the link together.
    fn is_late_by(why: &LeftOut, expected_ns: u64) -> bool {
        matches!(why, LeftOut::RelayLate { late_ns, tail_of: None, .. } if *late_ns == expected_ns)
    }

    /// Rounds of 1 ms with the emulator on time, and rounds of 9 ms with the emulator 400 us late.
    fn fixture(on_time: u32, late: u32) -> Fixture {
        let mut fixture = Fixture::new();
        let case = over("delay=400us", Case::ping_pong("tcp"));
        for block in 0..on_time + late {
            let (latency, lateness) = if block < on_time { (1_000_000, 2_000) } else { (9_000_000, 400_000) };
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
        assert!(link.left_out.iter().all(|out| is_late_by(&out.why, 800_000) && !out.only_tail), "{link:?}");
        assert_eq!(link.left_out.iter().map(|out| out.round).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(link.left_out, case.omitted_rounds);
        assert_eq!((link.lateness_ns.unwrap().p50, link.packets.entered), (2_000, 600));
    }

    #[test]
    fn a_round_with_a_failed_flow_is_omitted_and_a_flow_without_results_has_no_figures() {
        let case = Case::ping_pong("tcp").with(|case| {
            case.flows.push(Flow { id: "second".into(), ..Flow::ping_pong("udp") });
        });
        // The second flow fails in the rounds `failed`.
        for (failed, rounds, is_valid) in [(&[1][..], 2, true), (&[0, 2], 3, false), (&[0, 1, 2], 3, false)] {
            let mut fixture = Fixture::new();
            for block in 0..3 {
                fixture.round_with(&case, block, &back_to_back(&[], &[1_000_000; 50]), |measured| {
                    if failed.contains(&block) {
                        let failure = Failure::new(FailureKind::Killed, "it ended", "");
                        measured.failed_flows.push(FailedFlow { id: "second".into(), failure });
                    } else {
                        let figures = RoundFigures { samples: 7, rate_per_s: 7.0, ..RoundFigures::default() };
                        let ledger = Ledger { sent: 7, received: 7, ..Ledger::default() };
                        let record = FlowRecord::of(&case.flows[1]);
                        measured.flows.push(FlowRecord { figures, ledger, setup_ns: 7, ..record });
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
            let [Invalid::RoundsLeftOut { left_out, rounds, first }] = case.reasons.as_slice() else {
                panic!("{:?}", case.reasons)
            };
            assert!(is_late_by(first, 800_000), "{first:?}");
            assert_eq!((*left_out, *rounds), (u64::from(late), u64::from(on_time + late)));
            assert_eq!(case.path.relay.as_ref().unwrap().left_out.len(), late as usize);
            assert_eq!(run.comparisons, []);
        }
    }

    #[test]
    fn a_round_whose_relay_had_no_room_is_omitted() {
        let mut fixture = fixture(1, 0);
        let case = over("delay=400us", Case::ping_pong("tcp"));
        fixture.round_with(&case, 1, &back_to_back(&[], &[9_000_000; 50]), |measured| {
            late_by(0)(measured);
            measured.link.as_mut().unwrap().relay.as_mut().unwrap().overrun = 3;
        });
        let run = fixture.run();
        let why = LeftOut::NoRoom { in_sockets: 3, in_memory: 0 };
        let left_out = &run.cases[0].path.relay.as_ref().unwrap().left_out;
        assert_eq!(left_out, &[RoundLeftOut { round: 1, purpose: Purpose::Timed, why, only_tail: false }]);
        assert_eq!((run.cases[0].rounds, run.cases[0].valid), (1, true));
    }
}
