//! `nagle-meets-delayed-ack`: written bytes were held until a delayed acknowledgment of earlier bytes arrived.
//!
//! Nagle's algorithm (RFC 896) holds a small segment while an earlier one is unacknowledged, and the other end delays its
//! acknowledgment (RFC 1122, 4.2.3.2) to send it with data of its own: 40 ms each time on Linux. Evidence, never the
//! latency alone: in traced rounds, writes of an end that left when a pure ACK, sent at least 10 ms after its data arrived,
//! covered all earlier bytes; in untraced rounds with the same exchanges, the same durations; `TCP_NODELAY` and `TCP_CORK`
//! granted as off to that end in the timed rounds too. The share is the time that writes were held, relative to the
//! duration of a timed exchange.

use hairpin_model::finding::{About, Severity};
use hairpin_model::{Evidence, Finding, FindingCard, Remedy, Run, finding_keys as keys};

use super::support::{Hit, Hits, Stall, add_case, evidence_of, p50_of_exchange, pure_acks, stall, without_nagle};

pub(super) const CARD: FindingCard = FindingCard {
    code: "nagle-meets-delayed-ack",
    about: About::Cause,
    what: "Nagle's algorithm held small writes until a delayed ACK arrived",
    why: "each end waits for the other, 40 ms or more per exchange, though neither network nor program is slow",
};

/// Minimum share of the exchanges' time to report.
const MIN_SHARE: f64 = 0.05;

pub(super) fn detect(run: &Run) -> Vec<Finding> {
    let shared = |stall: Stall| (stall.often.share >= MIN_SHARE).then_some((stall.often.share, stall));
    let hits = Hits::among(run, |case| stall(run, case).and_then(shared));
    let Some(first) = hits.first() else { return Vec::new() };
    // Prefer a case with default options: its change is the clearest.
    let plain = |hit: &&Hit<'_, Stall>| {
        hit.case.case.primary().load.exchange().is_some_and(|own| own.remedy == Remedy::Default)
    };
    let tried = hits.0.iter().find(plain).unwrap_or(first);
    let other = without_nagle(run, tried.case);
    let of_first = other.as_ref().filter(|_| tried.case.id == first.case.id);
    let share = of_first.map_or(first.share, |other| other.share(first.share));
    vec![Finding {
        evidence: all_evidence(first),
        proved: other
            .as_ref()
            .and_then(|other| other.proved.clone())
            .map(|proved| add_case(tried.case, first.case, proved)),
        counter_experiment: other.map(|other| other.experiment),
        share,
        ..first.data.add_facts(&first.case.case, hits.finding(&CARD, Severity::Warning))
    }]
}

fn all_evidence(first: &Hit<'_, Stall>) -> Vec<Evidence> {
    let (stall, case) = (&first.data, first.case);
    let mut every = Vec::new();
    for at in &stall.ends {
        let figures =
            [(keys::HELD_AT, at.held_ns), (keys::RELEASING_ACK, at.acknowledged_ns), (keys::NODELAY_OFF, 0.0.into())];
        every.extend(figures.map(|(key, value)| evidence_of(case, key, value).of(at.end.word())));
    }
    every.extend([
        evidence_of(case, keys::STALLED_EXCHANGES, stall.often.of_exchanges()),
        evidence_of(case, keys::WRITES, stall.writes),
        evidence_of(case, keys::SEGMENTS, stall.segments),
    ]);
    every.extend(pure_acks(case));
    every.extend(p50_of_exchange(case));
    every
}

#[cfg(test)]
mod tests {
    use hairpin_model::trace::StampKind;
    use hairpin_model::{Case, RoundTrace};

    use super::*;
    use crate::fixture::links::between_hosts;
    use crate::fixture::traces::{self, MS, US, switches, uncaptured};
    use crate::fixture::{
        self, Fixture, at_rate, evidence_rounds, figure_of, found_traced, in_flight, pair, shows, small_writes,
        traced_rounds, value,
    };

    const CODE: &str = "nagle-meets-delayed-ack";

    fn none() -> Case {
        small_writes("default")
    }

    /// The findings in traced rounds with these values of TCP_NODELAY and TCP_CORK.
    fn found(case: &Case, latency: u64, trace: &RoundTrace, options: (&str, &str)) -> Vec<Finding> {
        found_traced(CODE, case, latency, trace, &switches(options.0, options.1))
    }

    #[test]
    fn the_stall_is_found_with_and_without_a_capture() {
        for trace in [traces::none(), uncaptured(traces::none())] {
            let found = found(&none(), 44 * MS, &trace, ("off", "off"));
            assert_eq!((found.len(), found[0].severity, found[0].proved.as_ref()), (1, Severity::Warning, None));
            assert!(found[0].share > 0.99, "{}", found[0].share);
            assert_eq!([keys::WRITES, keys::PIPELINE].map(|key| value(&found[0], key)), [100.0, 1.0]);
            assert_eq!(found[0].word(keys::HELD_OF_CLIENT), Some("all-but-the-first-write"));
            assert!(
                figure_of(&found[0], keys::HELD_AT, "client").is_some() && shows(&found[0], keys::HELD_AT, 40.1e6)
            );
            assert_eq!([keys::SEEN, keys::TRACED].map(|key| value(&found[0], key)), [15.0, 18.0]);
            let shares = [keys::SHARE_OF_SEEN, keys::SHARE_OF_UNTRACED].map(|key| value(&found[0], key) > 0.995);
            assert_eq!(shares, [true, true]);
            assert_eq!(pair(&found[0]), [none(), small_writes("nodelay")]);
        }
    }

    #[test]
    fn between_two_hosts_the_unknown_part_of_the_delay_is_stated() {
        let case = none().with(|case| case.path.across = between_hosts(none()).path.across);
        for trace in [traces::none(), uncaptured(traces::none())] {
            let trace = RoundTrace { server_has_own_clock: true, ..trace };
            let found = found(&case, 44 * MS, &trace, ("off", "off"));
            assert!(found[0].has(keys::TWO_HOSTS) && shows(&found[0], keys::RELEASING_ACK, 40.1e6), "{found:?}");
        }
        assert!(!found(&none(), 44 * MS, &traces::none(), ("off", "off"))[0].has(keys::TWO_HOSTS));
    }

    #[test]
    fn answers_that_wait_at_the_server_are_found_too() {
        let off = switches("off", "off");
        for trace in [traces::answers_held(), uncaptured(traces::answers_held())] {
            let found = found(&in_flight(4, "one-write"), 40 * MS, &trace, ("off", "off"));
            assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
            let held = [keys::HELD_OF_SERVER, keys::PLACES_OF_SERVER].map(|key| found[0].word(key));
            assert_eq!(held, [Some("all"), Some("2,3,4")]);
            let of_server =
                [keys::HELD_AT, keys::RELEASING_ACK].map(|key| figure_of(&found[0], key, "server").unwrap());
            assert!(of_server.iter().all(|ns| (ns.value - 40e6).abs() < 50e3), "{of_server:?}");
            let known = [keys::PIPELINE, keys::SEEN, keys::TRACED].map(|key| value(&found[0], key));
            assert_eq!(known, [4.0, 27.0, 36.0]);
            assert!(!found[0].has(keys::HELD_OF_CLIENT), "{found:?}");
            assert_eq!(pair(&found[0]), [in_flight(4, "one-write"), in_flight(4, "nodelay")]);
        }
        for echo in [switches("on", "off"), Vec::new()] {
            let mut fixture = Fixture::new();
            let evidence = (&traces::answers_held(), &[40 * MS; 12][..]);
            evidence_rounds(&mut fixture, &in_flight(4, "nodelay"), 40 * MS, evidence, [&off, &echo]);
            assert_eq!(fixture.findings(CODE), [], "the server was not granted Nagle's algorithm");
        }
    }

    #[test]
    fn requests_in_flight_wait_at_the_client_and_their_answers_at_the_server() {
        let trace = traces::requests_and_answers_held();
        let found = found(&in_flight(4, "default"), 80 * MS, &trace, ("off", "off"));
        let held = [keys::HELD_OF_CLIENT, keys::PLACES_OF_CLIENT, keys::HELD_OF_SERVER, keys::PLACES_OF_SERVER];
        let expected = ["some", "1,2,3,4", "all", "2,3,4"].map(Some);
        assert_eq!(held.map(|key| found[0].word(key)), expected);
        let at = ["client", "server"].map(|end| figure_of(&found[0], keys::HELD_AT, end).unwrap().value);
        assert!((40e6..50e6).contains(&at[0]) && (at[1] - 40e6).abs() < 50e3, "{at:?}");
        let ends = found[0].evidence.iter().filter(|piece| piece.key == keys::NODELAY_OFF.name);
        let ends: Vec<&str> = ends.map(|piece| piece.of.as_str()).collect();
        assert_eq!(ends, ["client", "server"], "the end with more stalled exchanges first");
        assert_eq!([keys::SEEN, keys::TRACED].map(|key| value(&found[0], key)), [36.0, 36.0]);
        assert!(value(&found[0], keys::SHARE_OF_SEEN) > 0.995);
    }

    /// Like `round-trip --rate`: answers are small, and the next message acknowledges the previous answer.
    #[test]
    fn answers_of_an_open_loop_that_wait_for_the_next_message_are_found() {
        let case = at_rate(Case::ping_pong("tcp"), 2000.0);
        for trace in [traces::messages(500 * US, false), uncaptured(traces::messages(500 * US, false))] {
            let found = found(&case, 510 * US, &trace, ("off", "off"));
            assert!(found[0].share > 0.9 && found[0].severity == Severity::Warning, "{}", found[0].share);
            assert!(!found[0].has(keys::PIPELINE), "an open loop: {found:?}");
            let of_server = |key| figure_of(&found[0], key, "server").unwrap().value;
            assert!((490e3..500e3).contains(&of_server(keys::HELD_AT)), "{found:?}");
            assert!((400e3..500e3).contains(&of_server(keys::RELEASING_ACK)), "{found:?}");
            assert_eq!(pair(&found[0]), [case.clone(), without_nagle(&case)]);
        }
        assert_eq!(found(&case, 510 * US, &traces::messages(500 * US, true), ("off", "off")), []);
        assert_eq!(found(&case, 510 * US, &traces::messages(500 * US, false), ("on", "off")), []);
    }

    fn without_nagle(case: &Case) -> Case {
        let nodelay = hairpin_model::options::Options::parse("nodelay=on").unwrap();
        case.clone().with(|changed| changed.primary_mut().options = nodelay)
    }

    /// The kernel gives merged segments in the receive queue the timestamp of the last segment. The first segment
    /// then seems to have travelled for the interval between messages, which is as long as the answers wait.
    #[test]
    fn merged_receive_stamps_do_not_hide_a_stall() {
        let mut trace = traces::messages(500 * US, false);
        let received = trace.server.stamps.iter_mut().filter(|stamp| stamp.kind == StampKind::Received);
        let mut first_two: Vec<_> = received.take(2).collect();
        assert!(first_two[1].at_ns - first_two[0].at_ns > 400 * US);
        first_two[0].at_ns = first_two[1].at_ns;
        for trace in [trace.clone(), uncaptured(trace)] {
            let found = found(&at_rate(Case::ping_pong("tcp"), 2000.0), 510 * US, &trace, ("off", "off"));
            assert!(found.first().is_some_and(|finding| finding.share > 0.9), "{found:?}");
        }
    }

    #[test]
    fn a_window_of_requests_is_not_reported_per_write() {
        let found = found(&in_flight(4, "default"), 44 * MS, &traces::none(), ("off", "off"));
        assert_eq!(value(&found[0], keys::PIPELINE), 4.0);
        assert!(found[0].word(keys::HELD_OF_CLIENT).is_some_and(|part| part != "all"), "{found:?}");
    }

    /// Only the traced exchanges stall, because tracing takes time.
    #[test]
    fn a_stall_caused_only_by_tracing_is_not_evidence() {
        let off = switches("off", "off");
        let stalling = traces::none();
        let found = |untraced: &[u64]| {
            let mut fixture = Fixture::new();
            evidence_rounds(&mut fixture, &none(), MS, (&stalling, untraced), [&off, &off]);
            fixture.findings(CODE)
        };
        assert_eq!(found(&[400 * US; 6]), []);
        assert_eq!(found(&[]), [], "no untraced exchanges to compare with");
        let both = found(&[400 * US, 400 * US, 400 * US, 400 * US, 40 * MS, 40 * MS]);
        assert_eq!([keys::SEEN, keys::TRACED].map(|key| value(&both[0], key)), [6.0, 18.0]);
        assert!(value(&both[0], keys::SHARE_OF_SEEN) > 0.995);
    }

    #[test]
    fn nodelay_in_the_same_run_confirms_or_refutes_the_cause() {
        for (with_nodelay, verdict, severity) in
            [(500 * US, "confirmed", Severity::Warning), (44 * MS, "refuted", Severity::Note)]
        {
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &none(), 44 * MS, &traces::none(), &switches("off", "off"));
            let nodelay = small_writes("nodelay");
            traced_rounds(&mut fixture, &nodelay, with_nodelay, &traces::nodelay(), &switches("on", "off"));
            let found = fixture.findings(CODE);
            assert_eq!((fixture::verdict(&found[0]), found[0].severity), (verdict, severity));
            assert_eq!(found[0].share == 0.0, verdict == "refuted");
            assert_eq!(found[0].cases, [none().id()]);
        }
    }

    /// By chance, only some traced exchanges of a round stall, although nearly all timed exchanges do.
    #[test]
    fn the_share_is_the_nodelay_saving_if_few_traced_messages_stalled() {
        let case = at_rate(Case::ping_pong("tcp"), 2000.0);
        let trace = traces::messages(500 * US, false);
        let quick: Vec<u64> = (0..12).map(|place| if place < 2 { 500 * US } else { 20 * US }).collect();
        let off = switches("off", "off");
        let share = |with_nodelay: bool| {
            let mut fixture = Fixture::new();
            evidence_rounds(&mut fixture, &case, 500 * US, (&trace, &quick), [&off, &off]);
            if with_nodelay {
                fixture.rounds_of(&without_nagle(&case), &[30 * US; 6]);
            }
            fixture.findings(CODE)[0].share
        };
        assert!(share(false) < 0.8, "{}", share(false));
        assert!((share(true) - 0.94).abs() < 0.01, "{}", share(true));
    }

    #[test]
    fn exchanges_with_a_remedy_do_not_have_the_finding() {
        let (off, on) = (switches("off", "off"), switches("on", "off"));
        let all = [
            ("nodelay", traces::nodelay(), on),
            ("cork", traces::cork(), off.clone()),
            ("cork-forgotten", traces::cork_forgotten(), switches("off", "on")),
            ("more", traces::more(0), off.clone()),
            ("one-write", traces::one_write(5 * US), off),
        ];
        let mut fixture = Fixture::new();
        for (remedy, trace, options) in all {
            traced_rounds(&mut fixture, &small_writes(remedy), MS, &trace, &options);
        }
        assert_eq!(fixture.findings(CODE), []);
    }

    /// The same 40 ms with Nagle's algorithm on, but from another cause.
    #[test]
    fn a_server_that_sleeps_40_ms_is_not_called_nagle() {
        let sleeping = [
            traces::one_write(40 * MS),
            traces::one_write(44 * MS),
            traces::acknowledged_in_time(),
            uncaptured(traces::one_write(44 * MS)),
            uncaptured(traces::acknowledged_in_time()),
        ];
        for trace in sleeping {
            assert_eq!(found(&none(), 40 * MS, &trace, ("off", "off")), []);
        }
    }

    #[test]
    fn without_a_trace_or_the_options_there_is_no_finding() {
        let mut untraced = Fixture::new();
        untraced.rounds_with(&none(), &[44 * MS; 6], |measured| measured.ends[0].options = switches("off", "off"));
        assert_eq!(untraced.findings(CODE), []);
        for options in [Vec::new(), switches("on", "off"), switches("off", "on")] {
            assert_eq!(found_traced(CODE, &none(), 44 * MS, &traces::none(), &options), [], "{options:?}");
        }
    }
}
