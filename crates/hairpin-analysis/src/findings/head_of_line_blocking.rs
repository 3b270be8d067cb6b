//! `head-of-line-blocking`: messages of a stream wait for lost data of another one on the same connection.
//!
//! One ordered channel delivers nothing behind a lost packet until it was sent again, whichever stream its data belong to.
//! Evidence: the messages that arrived late together with an earlier one of another stream, their waits, and the packets that the
//! link lost. The explained time is the mean wait over all messages. Congestion and pacing delay messages one by one and do not
//! count. The counter-experiment gives each stream a connection of its own.

use hairpin_model::finding::{About, Severity};
use hairpin_model::finding_keys::check::SEPARATE_CHANNELS;
use hairpin_model::flow::Channels;
use hairpin_model::{Case, CaseSummary, Finding, FindingCard, Measured, Run, finding_keys as keys};

use super::support::{evidence_of, judge_by_block, paired, rounds_of, with_share};
use crate::streams::blocked;

pub(super) const CARD: FindingCard = FindingCard {
    code: "head-of-line-blocking",
    about: About::Cause,
    what: "messages of a stream waited for lost data of another stream",
    why: "one ordered channel delivers nothing behind a lost packet until it was sent again",
};

/// Minimum share of the messages that waited to report.
const MIN_SHARE: f64 = 0.01;

fn mean_wait_ns(measured: &Measured) -> Option<f64> {
    let [timed, _, waited_ns] = blocked(measured.primary().received.as_ref()?)?;
    Some(waited_ns as f64 / timed as f64)
}

pub(super) fn detect(run: &Run, case: &CaseSummary) -> Option<Finding> {
    let flow = case.primary();
    if case.case.replicate != 0 || flow.flow.channels() != Channels::Shared {
        return None;
    }
    let received =
        rounds_of(run, &case.id).into_iter().filter_map(|(_, measured)| measured.primary().received.as_ref());
    let [timed, waited, waited_ns] = received
        .filter_map(blocked)
        .fold([0; 3], |sums: [u64; 3], round| std::array::from_fn(|at| sums[at].saturating_add(round[at])));
    let share = waited as f64 / timed.max(1) as f64;
    if share < MIN_SHARE {
        return None;
    }
    let mean_ns = waited_ns as f64 / timed as f64;
    let longest_ns = flow.by_stream.iter().map(|stream| stream.blocked_by_others.longest_ns).max()?;
    let check = paired(SEPARATE_CHANNELS, [case.case.clone(), with_separate_channels(&case.case)]);
    let evidence = [
        (keys::STREAMS, flow.by_stream.len() as f64),
        (keys::BLOCKED_SHARE, share),
        (keys::MEAN_WAIT, mean_ns),
        (keys::LONGEST_WAIT, longest_ns as f64),
    ];
    Some(Finding {
        evidence: evidence.map(|(key, value)| evidence_of(case, key, value)).into(),
        proved: judge_by_block(run, case, &check, mean_ns, mean_wait_ns),
        counter_experiment: Some(check),
        ..with_share(&CARD, Severity::Warning, mean_ns / flow.latency_ns.mean?.value)
    })
}

fn with_separate_channels(case: &Case) -> Case {
    case.clone().with(|case| case.primary_mut().set_channels(Channels::Separate))
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::{Direction, Pacing};
    use hairpin_model::{Arrivals, Flow, Load, Received, StreamReceived};

    use super::*;
    use crate::fixture::{Fixture, back_to_back, repeated, value};

    fn shared() -> Case {
        let (arrivals, pacing) = (Arrivals::Fixed, Pacing::SleepSpin);
        let load = Load::Offered { offered_per_s: 150.0, size_bytes: 200, arrivals, pacing };
        Case::of(Flow { streams: 4, ..Flow::one_way("quic", load, Direction::Up) })
    }

    /// The finding of rounds of 400 messages on 4 streams: the cases, and how many messages of each stream waited for 40 ms.
    fn found(cases: &[(Case, u64)]) -> Vec<Finding> {
        let mut fixture = Fixture::new();
        for (round, (case, blocked)) in (0..12).flat_map(|round| cases.iter().map(move |case| (round, case))) {
            fixture.round_with(case, round, &back_to_back(&[], &[20_000_000; 50]), |measured| {
                let stream = StreamReceived {
                    received: 100,
                    latency_counts: vec![(20_000_000, 100 - blocked), (60_000_000, *blocked)],
                    blocked: *blocked,
                    blocked_ns: blocked * 40_000_000,
                    longest_blocked_ns: 40_000_000,
                    late: 0,
                };
                let received = Received { streams: vec![stream; 4], ..Received::default() };
                measured.flows[0].received = Some(received);
            });
        }
        fixture.findings(CARD.code)
    }

    #[test]
    fn the_share_of_the_messages_and_their_waits_are_reported() {
        let finding = &found(&[(shared(), 10)])[0];
        let figures = [keys::STREAMS, keys::BLOCKED_SHARE, keys::MEAN_WAIT, keys::LONGEST_WAIT];
        assert_eq!(figures.map(|key| value(finding, key)), [4.0, 0.1, 4e6, 40e6]);
        let channels: Vec<Channels> = repeated(finding).iter().map(|case| case.primary().channels()).collect();
        assert_eq!(channels, [Channels::Shared, Channels::Separate]);
    }

    #[test]
    fn a_few_waits_and_streams_on_separate_channels_are_no_finding() {
        assert_eq!(found(&[(shared(), 0)]), []);
        assert_eq!(found(&[(with_separate_channels(&shared()), 10)]), []);
    }

    #[test]
    fn the_check_compares_the_mean_wait_of_both() {
        let effect = |of_separate: u64| {
            let finding = &found(&[(shared(), 10), (with_separate_channels(&shared()), of_separate)])[0];
            finding.proved.as_ref().map(|proved| (proved.effect.value, proved.verdict == "refuted"))
        };
        assert_eq!([effect(0), effect(10)], [Some((-4e6, false)), Some((0.0, true))]);
    }
}
