//! `nagle-meets-delayed-ack`: written bytes were held until a delayed acknowledgment of earlier bytes arrived.
//!
//! Why: Nagle's algorithm (RFC 896) holds a small segment while an earlier one is unacknowledged, and the other end
//! delays its acknowledgment (RFC 1122, 4.2.3.2), hoping to send it with data of its own. The rest of a request then
//! waits at the client for the server, which cannot answer an incomplete request; with several requests in flight they
//! wait for each other, and their answers wait at the server for the client's end: 40 ms each time on Linux. Evidence,
//! never the latency alone: in traced rounds, writes of an end that left when all earlier bytes were acknowledged by a
//! pure ACK, 10 ms and more after its data; in untraced rounds with the same exchanges, the same durations;
//! `TCP_NODELAY` and `TCP_CORK` granted as off to that end in the timed rounds too. The share is the time that writes
//! were held, relative to the time of a timed exchange. Advice: one write, a cork, or `TCP_NODELAY`.

use hairpin_model::exchange::Remedy;
use hairpin_model::figure::Figure;
use hairpin_model::finding::{About, Evidence, Finding, FindingCard, Severity};
use hairpin_model::run::Run;
use hairpin_model::trace::End;

use super::support::{Hit, Hits, Stall, checked_on, evidence, p50_of_exchange, pure_acks, stall, without_nagle};

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
    // A change from the default options is the clearest.
    let plain = |hit: &&Hit<'_, Stall>| {
        hit.case.case.primary().load.exchange().is_some_and(|own| own.remedy == Remedy::Default)
    };
    let tried = hits.0.iter().find(plain).unwrap_or(first);
    let other = without_nagle(run, tried.case);
    let of_first = other.as_ref().filter(|_| tried.case.id == first.case.id);
    let share = of_first.map_or(first.share, |other| other.share(first.share));
    vec![Finding {
        summary: format!("{}{}", summary(first), hits.others()),
        evidence: all_evidence(first),
        advice: advice(first),
        proved: other
            .as_ref()
            .and_then(|other| other.proved.clone())
            .map(|proved| checked_on(tried.case, first.case, proved)),
        counter_experiment: other.map(|other| other.experiment),
        share,
        ..hits.finding(&CARD, Severity::Warning)
    }]
}

fn summary(first: &Hit<'_, Stall>) -> String {
    format!("{}: {}", first.case.label, first.with.told(&first.case.case))
}

fn advice(first: &Hit<'_, Stall>) -> String {
    if first.case.case.primary().load.exchange().is_none() {
        return "Set TCP_NODELAY at both ends: messages and answers are small and should leave at once. Send those \
                that are ready together in one write."
            .to_owned();
    }
    let nodelay = "set TCP_NODELAY, which ends the wait but sends a segment for each write";
    let at_the_client = format!(
        "Send a request in one write: collect its parts and use write or writev, or MSG_MORE, or TCP_CORK \
         released after the last part. If that is not possible, {nodelay}. Quick ACKs (TCP_QUICKACK) help only if \
         you own the server."
    );
    let in_flight = first.case.case.primary().load.exchange().is_some_and(|exchange| exchange.pipeline > 1);
    let server = first.with.ends.iter().any(|at| at.end == End::Server);
    match (in_flight, server) {
        (false, false) => at_the_client,
        (true, false) => format!("With several requests in flight {nodelay}. Send each request in one write."),
        (_, true) => format!(
            "Answers wait as requests do: {nodelay}, at both ends. Send each request and each answer in one \
             write, or several of them together."
        ),
    }
}

fn all_evidence(first: &Hit<'_, Stall>) -> Vec<Evidence> {
    let (stall, label) = (&first.with, &first.case.label);
    let mut every = Vec::new();
    for at in &stall.ends {
        let end = if at.end == End::Client { "the client" } else { "the server" };
        let granted = format!("TCP_NODELAY in force at {end} (0 is off), {label}");
        every.extend([
            evidence(format!("time that bytes written by {end} were held, traced, {label}"), at.held_ns, "ns"),
            evidence(format!("delay of the ACK that released them, traced, {label}"), at.acknowledged_ns, "ns"),
            evidence(granted, Figure::bare(0.0), "count"),
        ]);
    }
    every.extend([
        evidence(format!("traced exchanges with this stall, {label}"), stall.often.of_exchanges(), "share"),
        evidence(format!("write calls per request, traced, {label}"), stall.writes, "count"),
        evidence(format!("segments per request, traced, {label}"), stall.segments, "count"),
    ]);
    every.extend(pure_acks(first.case));
    every.extend(p50_of_exchange(first.case));
    every
}

#[cfg(test)]
mod tests {
    use hairpin_model::case::{Across, Case, PathKind};
    use hairpin_model::trace::{RoundTrace, StampKind};

    use super::*;
    use crate::fixture::traces::{self, MS, US, switches, uncaptured};
    use crate::fixture::{Fixture, at_rate, evidence_rounds, in_flight, small_writes, traced_rounds};

    const CODE: &str = "nagle-meets-delayed-ack";

    fn none() -> Case {
        small_writes("default")
    }

    #[test]
    fn it_is_found_with_a_capture_and_without() {
        for trace in [traces::none(), uncaptured(traces::none())] {
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &none(), 44 * MS, &trace, &switches("off", "off"));
            let found = fixture.findings(CODE);
            assert_eq!((found.len(), found[0].severity, found[0].proved.as_ref()), (1, Severity::Warning, None));
            assert!(found[0].share > 0.99, "{}", found[0].share);
            assert!(found[0].summary.contains("of the 100 writes of a request"), "{}", found[0].summary);
            assert!(found[0].summary.contains("for 40.1 ms"), "{}", found[0].summary);
            let often = "Seen in 15 of 18 traced exchanges, 100 % of their time (100 % of the time of untraced \
                         ones).";
            assert!(found[0].summary.contains(often), "{}", found[0].summary);
            let experiment = found[0].counter_experiment.as_ref().unwrap();
            assert_eq!(experiment.pair.as_deref(), Some(&[none(), small_writes("nodelay")]));
        }
    }

    #[test]
    fn between_two_hosts_the_unknown_part_of_the_delay_is_stated() {
        let case = none().with(|case| {
            case.path.across = Some(Across { kind: PathKind::Hosts, host: "lab".to_owned(), fallback: None });
        });
        let unknown =
            "cannot tell how much of it the network took: nothing bounds how far the clocks of the two hosts are";
        for trace in [traces::none(), uncaptured(traces::none())] {
            let trace = RoundTrace { server_has_own_clock: true, ..trace };
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &case, 44 * MS, &trace, &switches("off", "off"));
            let found = fixture.findings(CODE);
            assert!(
                found[0].summary.contains("the server or the network delays that ACK by 40.1 ms. The delay"),
                "{found:?}"
            );
            assert!(found[0].summary.contains(unknown), "{}", found[0].summary);
        }
        let mut fixture = Fixture::new();
        traced_rounds(&mut fixture, &none(), 44 * MS, &traces::none(), &switches("off", "off"));
        assert!(!fixture.findings(CODE)[0].summary.contains("cannot tell"));
    }

    #[test]
    fn answers_that_wait_at_the_server_are_found_too() {
        let off = switches("off", "off");
        for trace in [traces::answers_held(), uncaptured(traces::answers_held())] {
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &in_flight(4, "one-write"), 40 * MS, &trace, &off);
            let found = fixture.findings(CODE);
            assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
            let told = "answers 2 to 4 of each 4 in flight wait at the server for 40.0 ms";
            assert!(found[0].summary.contains(told), "{}", found[0].summary);
            assert!(found[0].summary.contains("the client delays that ACK by 40.0 ms. Seen in 27 of 36"));
            assert!(!found[0].summary.contains("writes of a request"), "{}", found[0].summary);
            assert!(found[0].advice.contains("at both ends"), "{}", found[0].advice);
            let pair = found[0].counter_experiment.as_ref().unwrap().pair.clone();
            assert_eq!(pair.as_deref(), Some(&[in_flight(4, "one-write"), in_flight(4, "nodelay")]));
        }
        for echo in [switches("on", "off"), Vec::new()] {
            let mut fixture = Fixture::new();
            let evidence = (&traces::answers_held(), &[40 * MS; 12][..]);
            evidence_rounds(&mut fixture, &in_flight(4, "nodelay"), 40 * MS, evidence, [&off, &echo]);
            assert_eq!(fixture.findings(CODE), [], "not by a server that was not granted Nagle's algorithm");
        }
    }

    #[test]
    fn requests_in_flight_wait_at_the_client_and_their_answers_at_the_server() {
        let mut fixture = Fixture::new();
        let trace = traces::requests_and_answers_held();
        let case = in_flight(4, "default");
        traced_rounds(&mut fixture, &case, 80 * MS, &trace, &switches("off", "off"));
        let found = fixture.findings(CODE);
        let summary = &found[0].summary;
        assert!(
            summary.contains(": requests 1 to 4 of each 4 in flight, whole or in part, wait at the client for 4")
        );
        assert!(summary.contains(". Answers 2 to 4 of each 4 in flight wait at the server for 40.0 ms"), "{summary}");
        assert!(summary.contains("Seen in all 36 traced exchanges, 100 % of their time ("), "{summary}");
        let granted = found[0].evidence.iter().filter(|piece| piece.what.starts_with("TCP_NODELAY in force at"));
        assert_eq!(granted.count(), 2);
    }

    /// Like `round-trip --rate`: answers are small, and the next message acknowledges the previous answer.
    #[test]
    fn answers_of_an_open_loop_that_wait_for_the_next_message_are_found() {
        let (off, on) = (switches("off", "off"), switches("on", "off"));
        let case = at_rate(Case::ping_pong("tcp"), 2000.0);
        for trace in [traces::messages(500 * US, false), uncaptured(traces::messages(500 * US, false))] {
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &case, 510 * US, &trace, &off);
            let found = fixture.findings(CODE);
            assert!(found[0].share > 0.9 && found[0].severity == Severity::Warning, "{}", found[0].share);
            let told = "answers wait at the server for 49";
            assert!(found[0].summary.contains(told), "{}", found[0].summary);
            assert!(found[0].summary.contains("the client delays that ACK by 4"), "{}", found[0].summary);
            let experiment = found[0].counter_experiment.as_ref().unwrap();
            let nodelay = hairpin_model::options::Options::parse("nodelay=on").unwrap();
            let changed = case.clone().with(|changed| changed.primary_mut().options = nodelay);
            assert_eq!(experiment.pair.as_deref(), Some(&[case.clone(), changed]));
        }
        for (trace, options) in [(traces::messages(500 * US, true), &off), (traces::messages(500 * US, false), &on)] {
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &case, 510 * US, &trace, options);
            assert_eq!(fixture.findings(CODE), []);
        }
    }

    /// The kernel gives merged segments in the receive queue the stamp of the last one: the first seems to have
    /// travelled for the interval between messages, as long as the answers wait.
    #[test]
    fn merged_receive_stamps_hide_no_stall() {
        let mut trace = traces::messages(500 * US, false);
        let received = trace.server.stamps.iter_mut().filter(|stamp| stamp.kind == StampKind::Received);
        let mut first_two: Vec<_> = received.take(2).collect();
        assert!(first_two[1].at_ns - first_two[0].at_ns > 400 * US);
        first_two[0].at_ns = first_two[1].at_ns;
        for trace in [trace.clone(), uncaptured(trace)] {
            let mut fixture = Fixture::new();
            traced_rounds(
                &mut fixture,
                &at_rate(Case::ping_pong("tcp"), 2000.0),
                510 * US,
                &trace,
                &switches("off", "off"),
            );
            let found = fixture.findings(CODE);
            assert!(found.first().is_some_and(|finding| finding.share > 0.9), "{found:?}");
        }
    }

    #[test]
    fn a_window_of_requests_is_not_reported_per_write() {
        let mut fixture = Fixture::new();
        traced_rounds(&mut fixture, &in_flight(4, "default"), 44 * MS, &traces::none(), &switches("off", "off"));
        let summary = &fixture.findings(CODE)[0].summary;
        assert!(!summary.contains("writes of a request"), "{summary}");
        assert!(summary.contains("of each 4 in flight, whole or in part,"), "{summary}");
    }

    /// As with a server that sleeps: only the traced exchanges stall, because tracing takes time.
    #[test]
    fn a_stall_that_only_tracing_makes_is_no_evidence() {
        let off = switches("off", "off");
        let stalling = traces::none();
        let found = |untraced: &[u64]| {
            let mut fixture = Fixture::new();
            evidence_rounds(&mut fixture, &none(), MS, (&stalling, untraced), [&off, &off]);
            fixture.findings(CODE)
        };
        assert_eq!(found(&[400 * US; 6]), []);
        assert_eq!(found(&[]), [], "nothing to hold the traced exchanges against");
        let both = found(&[400 * US, 400 * US, 400 * US, 400 * US, 40 * MS, 40 * MS]);
        assert!(both[0].summary.contains("Seen in 6 of 18 traced exchanges, 100 % of their time ("));
    }

    #[test]
    fn nodelay_in_the_same_run_proves_it_or_refutes_it() {
        for (with_nodelay, verdict, severity) in
            [(500 * US, "confirmed", Severity::Warning), (44 * MS, "refuted", Severity::Note)]
        {
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &none(), 44 * MS, &traces::none(), &switches("off", "off"));
            let nodelay = small_writes("nodelay");
            traced_rounds(&mut fixture, &nodelay, with_nodelay, &traces::nodelay(), &switches("on", "off"));
            let found = fixture.findings(CODE);
            let proved = found[0].proved.as_ref().unwrap();
            assert_eq!((proved.verdict.as_str(), found[0].severity), (verdict, severity));
            assert_eq!(found[0].share == 0.0, verdict == "refuted");
            assert_eq!(found[0].cases, [none().id()]);
        }
    }

    /// By chance only some traced exchanges of a round stall, but nearly all timed ones.
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
                let options = hairpin_model::options::Options::parse("nodelay=on").unwrap();
                fixture
                    .rounds_of(&case.clone().with(|changed| changed.primary_mut().options = options), &[30 * US; 6]);
            }
            fixture.findings(CODE)[0].share
        };
        assert!(share(false) < 0.8, "{}", share(false));
        assert!((share(true) - 0.94).abs() < 0.01, "{}", share(true));
    }

    #[test]
    fn no_remedy_has_it() {
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
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &none(), 40 * MS, &trace, &switches("off", "off"));
            assert_eq!(fixture.findings(CODE), []);
        }
    }

    #[test]
    fn without_a_trace_or_the_options_there_is_no_finding() {
        let mut untraced = Fixture::new();
        untraced.rounds_with(&none(), &[44 * MS; 6], |measured| measured.ends[0].options = switches("off", "off"));
        assert_eq!(untraced.findings(CODE), []);
        for options in [Vec::new(), switches("on", "off"), switches("off", "on")] {
            let mut fixture = Fixture::new();
            traced_rounds(&mut fixture, &none(), 44 * MS, &traces::none(), &options);
            assert_eq!(fixture.findings(CODE), [], "{options:?}");
        }
    }
}
