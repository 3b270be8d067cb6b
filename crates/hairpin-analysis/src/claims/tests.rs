//! Every verdict of every rule, on fixture results.

mod between_hosts;
mod one_way;
mod tables;
mod under_load;

use std::collections::BTreeMap;

use hairpin_model::claim::{Coverage, Kept};
use hairpin_model::judged_claim::Verdict;
use hairpin_model::reason::{Bound, Place};
use hairpin_model::run::State;
use hairpin_model::time_sequence::{Event, EventKind, Source};
use hairpin_model::trace::End;
use hairpin_model::{
    Capture, Case, Claim, Exchange, ExchangeFigures, Figure, FigureName, JudgedClaim, Outcome, Reason, Remedy, Run,
    Skipped, TimeSequence, TraceSummary, Value, Waiting,
};
use serde_json::{Value as Json, json};

use super::{fits_unit, judge, listed};
use crate::fixture::{Fixture, at_rate, back_to_back, paced};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// tcp at 100 us, udp at 50 us, pipe at 49 to 51 us, unix-stream with only one round, shm invalid, icmp failed.
fn run() -> Run {
    let mut fixture = Fixture::new();
    let spread: Vec<u64> = (0..8).map(|k| 100 * US + k * 100).collect();
    fixture.rounds_of(&Case::ping_pong("tcp"), &spread);
    fixture.rounds_of(&Case::ping_pong("udp"), &[50 * US; 8]);
    fixture.rounds_of(&Case::ping_pong("pipe"), &[49, 51, 49, 51, 49, 51, 49, 51].map(|us| us * US));
    fixture.rounds_of(&Case::ping_pong("unix-stream"), &[100 * US]);
    fixture.rounds_of(&Case::ping_pong("shm"), &[100 * US; 8]);
    fixture.failed(&Case::ping_pong("icmp"), 0, "no permission");
    let mut run = fixture.run();
    let shm = run.cases.iter_mut().find(|case| case.case.primary().transport == "shm").unwrap();
    (shm.valid, shm.why_invalid) = (false, vec!["messages were lost".to_owned()]);
    run.skipped.push(Skipped { transport: "fifo".to_owned(), case: None, reason: "no FIFOs here".to_owned() });
    run
}

/// A claim with one test of the run `r`.
fn claim(published: &Json, rule: &Json) -> Claim {
    let test = json!({"run": "r", "rule_because": "it is a fixture", "rule": rule});
    let written = json!({"id": "X1", "text": "a claim", "about": "path", "published": published, "test": test});
    serde_json::from_value(written).unwrap()
}

fn judged(run: &Run, published: &Json, rule: &Json) -> JudgedClaim {
    judge_on(&claim(published, rule), run)
}

/// The claim judged on the run `r`.
fn judge_on(claim: &Claim, run: &Run) -> JudgedClaim {
    judge(claim, "X", &BTreeMap::from([("r".to_owned(), Ok(run))]))
}

fn verdict(run: &Run, published: &Json, rule: &Json) -> Verdict {
    judged(run, published, rule).judgement.verdict.unwrap()
}

fn p50(transport: &str) -> Json {
    json!({"figure": "p50", "case": {"transport": transport}})
}

fn case(transport: &str) -> Json {
    json!({"transport": transport})
}

/// Checks the verdicts of a rule if a figure is missing.
fn assert_absent_figures(published: &Json, rule: impl Fn(&Json) -> Json) {
    let run = run();
    let of = |transport: &str| judged(&run, published, &rule(&case(transport)));
    let unknown = of("unix-stream").judgement.reason;
    assert!(matches!(unknown, Some(Reason::Compared { place: Place::Unknown, .. })), "{unknown:?}");
    let label = |transport: &str| format!("{transport} block same-cpu");
    let invalid = Reason::Invalid { case: label("shm"), reasons: vec!["messages were lost".to_owned()] };
    let failed = |case: String, cause: &str| Reason::NotMeasured { case, cause: Some(cause.to_owned()) };
    for (transport, expected, reason) in [
        ("unix-stream", Verdict::CannotTell, unknown),
        ("shm", Verdict::CannotTell, Some(invalid)),
        ("icmp", Verdict::CannotRun, Some(failed(label("icmp"), "round 33: no permission (hint: none)"))),
        ("fifo", Verdict::CannotRun, Some(failed("fifo".to_owned(), "no FIFOs here"))),
        ("tcp6", Verdict::CannotRun, Some(Reason::NoCase)),
    ] {
        let judged = of(transport);
        assert_eq!(judged.judgement.verdict, Some(expected), "{transport}: {judged:?}");
        assert_eq!(judged.judgement.reason, reason, "{transport}");
        assert_eq!(judged.judgement.measured.is_some(), transport == "unix-stream", "{transport}");
    }
}

#[test]
fn within_a_factor_of_the_published_number() {
    let run = run();
    let rule = |factor: f64| json!({"kind": "within", "factor": factor, "of": p50("tcp")});
    let published = |number: f64| json!({"value": number, "unit": "ms"});
    assert_eq!(verdict(&run, &published(0.15), &rule(2.0)), Verdict::Holds);
    assert_eq!(verdict(&run, &published(0.25), &rule(2.0)), Verdict::DoesNotHold, "too small");
    assert_eq!(verdict(&run, &published(0.04), &rule(2.0)), Verdict::DoesNotHold, "too large");
    assert_eq!(verdict(&run, &published(0.2007), &rule(2.0)), Verdict::CannotTell, "the interval contains 0.10035");
    assert_absent_figures(
        &published(0.1),
        |case| json!({"kind": "within", "factor": 2, "of": {"figure": "p50", "case": case}}),
    );
    let judged = judged(&run, &published(0.15), &rule(2.0)).judgement;
    let measured = judged.measured.unwrap();
    assert!(
        (measured.value - 0.10035).abs() < 1e-4 && measured.low.unwrap() < measured.high.unwrap(),
        "{measured:?}"
    );
    assert_eq!(judged.measured_unit.as_deref(), Some("ms"));
    assert!((judged.ratio.unwrap() - 0.669).abs() < 1e-3, "{judged:?}");
    let (figure, case) = (FigureName::P50, "tcp block same-cpu".to_owned());
    let bound = Bound::Within { number: 0.15, factor: 2.0 };
    let compared = Reason::Compared { figure, case, against: None, place: Place::Inside, bound };
    assert_eq!(judged.reason, Some(compared));
}

#[test]
fn in_the_published_range() {
    let run = run();
    let published = |from: f64, to: f64| json!({"value": [from, to], "unit": "us"});
    let rule = json!({"kind": "range", "of": p50("tcp")});
    assert_eq!(verdict(&run, &published(90.0, 110.0), &rule), Verdict::Holds);
    assert_eq!(verdict(&run, &published(110.0, 120.0), &rule), Verdict::DoesNotHold);
    assert_eq!(verdict(&run, &published(90.0, 100.3), &rule), Verdict::CannotTell);
    let wider = json!({"kind": "range", "factor": 2, "of": p50("tcp")});
    assert_eq!(verdict(&run, &published(110.0, 120.0), &wider), Verdict::Holds);
    let ratio = |from, to| judged(&run, &published(from, to), &rule).judgement.ratio.unwrap();
    assert!((ratio(90.0, 110.0) - 1.0).abs() < 1e-9, "inside");
    assert!((ratio(200.0, 400.0) - 0.5).abs() < 0.01, "relative to the nearer bound");
    assert!((ratio(10.0, 50.0) - 2.0).abs() < 0.02, "relative to the nearer bound");
    assert_absent_figures(
        &published(1.0, 200.0),
        |case| json!({"kind": "range", "of": {"figure": "p50", "case": case}}),
    );
}

#[test]
fn at_least_and_at_most() {
    let run = run();
    let published = |number: f64| json!({"value": number, "unit": "us"});
    for (number, least, most) in [
        (99.0, Verdict::Holds, Verdict::DoesNotHold),
        (102.0, Verdict::DoesNotHold, Verdict::Holds),
        (100.35, Verdict::CannotTell, Verdict::CannotTell),
    ] {
        let rule = |kind: &str| json!({"kind": kind, "of": p50("tcp")});
        assert_eq!(verdict(&run, &published(number), &rule("at-least")), least, "{number}");
        assert_eq!(verdict(&run, &published(number), &rule("at-most")), most, "{number}");
    }
    let own_bound = json!({"kind": "at-least", "of": p50("tcp"), "bound": 99});
    assert_eq!(verdict(&run, &published(5000.0), &own_bound), Verdict::Holds);
    assert_absent_figures(&published(1.0), |case| json!({"kind": "at-least", "of": {"figure": "p50", "case": case}}));
}

#[test]
fn the_ratio_of_two_cases() {
    let run = run();
    let rule = |kind: &str, against: &str| json!({"kind": kind, "factor": 1.5, "of": {"figure": "p50", "case": case("tcp"), "against": case(against)}});
    let at_least = |bound: f64| {
        let of = json!({"figure": "p50", "case": case("tcp"), "against": case("udp")});
        json!({"kind": "at-least", "bound": bound, "of": of})
    };
    let published = json!({"value": 2.2, "unit": "x"});
    let twice = judged(&run, &published, &rule("within", "udp")).judgement;
    assert_eq!(twice.verdict, Some(Verdict::Holds), "{twice:?}");
    assert!((twice.measured.unwrap().value - 2.0).abs() < 0.02);
    assert_eq!(twice.measured_unit.as_deref(), Some("x"));
    assert_eq!(verdict(&run, &json!({"value": 9, "unit": "x"}), &rule("within", "udp")), Verdict::DoesNotHold);
    assert_eq!(verdict(&run, &published, &at_least(1.9)), Verdict::Holds);
    assert_eq!(verdict(&run, &published, &at_least(2.5)), Verdict::DoesNotHold);
    assert_eq!(verdict(&run, &published, &at_least(2.008)), Verdict::CannotTell);
    assert_eq!(verdict(&run, &published, &rule("within", "icmp")), Verdict::CannotRun);
}

#[test]
fn the_published_order() {
    let run = run();
    let order = |transports: &[&str]| {
        let cases: Vec<Json> = transports.iter().map(|name| case(name)).collect();
        let published = json!({"value": transports, "unit": "order, the fastest first"});
        judged(&run, &published, &json!({"kind": "order", "figure": "p50", "cases": cases})).judgement
    };
    assert_eq!(order(&["udp", "tcp"]).verdict, Some(Verdict::Holds));
    assert_eq!(order(&["tcp", "udp"]).verdict, Some(Verdict::DoesNotHold));
    let alike = order(&["pipe", "udp", "tcp"]);
    assert_eq!(alike.verdict, Some(Verdict::CannotTell), "{alike:?}");
    let Some(Reason::Order { figure: FigureName::P50, steps }) = &alike.reason else { panic!("{alike:?}") };
    let of_steps: Vec<_> =
        steps.iter().map(|step| (step.names.each_ref().map(String::as_str), step.verdict)).collect();
    assert_eq!(of_steps, [(["pipe", "udp"], Verdict::CannotTell), (["udp", "tcp"], Verdict::Holds)]);
    assert!((alike.measured.unwrap().value - 1.0).abs() < 0.05, "no more than the resolution");
    assert_eq!(order(&["udp", "icmp", "tcp"]).verdict, Some(Verdict::CannotRun));
    assert_eq!(order(&["tcp", "udp", "icmp"]).verdict, Some(Verdict::DoesNotHold), "reversed step");
    assert_eq!(order(&["shm", "tcp"]).verdict, Some(Verdict::CannotTell), "an invalid case");
}

/// A run of small writes: `default` at 44 ms per exchange, `nodelay` at 0.5 ms, each with exchange figures.
fn small_writes() -> Run {
    let mut fixture = Fixture::new();
    for (remedy, latency) in [(Remedy::Default, 44 * MS), (Remedy::Nodelay, MS / 2)] {
        let exchange =
            Exchange { writes: "100x2".parse().unwrap(), gap_ns: 0, pipeline: 1, reply_writes: None, remedy };
        fixture.rounds_of(&Case::small_writes("tcp", exchange), &[latency; 8]);
    }
    let mut run = fixture.run();
    for (case, rate) in run.cases.iter_mut().zip([4.5, 400.0]) {
        let bytes_per_ms = Some(Figure::new(rate, rate * 0.9, rate * 1.1));
        let first_exchange_ns = Some(Figure::new(MS as f64, MS as f64, MS as f64));
        case.primary_mut().exchanges =
            Some(ExchangeFigures { bytes_per_ms, first_exchange_ns, ..ExchangeFigures::default() });
    }
    run
}

#[test]
fn the_share_by_which_a_figure_is_lower() {
    let run = small_writes();
    let rule = |whole: &str, rest: &str, at_least: f64| {
        let [whole, rest] = [whole, rest].map(|remedy| json!({"remedy": remedy}));
        json!({"kind": "share", "figure": "p50", "whole": whole, "rest": rest, "at_least": at_least})
    };
    let published = json!({"value": 1, "unit": "share"});
    let gone = judged(&run, &published, &rule("default", "nodelay", 0.9)).judgement;
    assert_eq!(gone.verdict, Some(Verdict::Holds), "{gone:?}");
    assert!((gone.measured.unwrap().value - 0.9886).abs() < 1e-3 && gone.measured_unit.as_deref() == Some("share"));
    assert!((gone.ratio.unwrap() - 0.9886).abs() < 1e-3);
    assert_eq!(verdict(&run, &published, &rule("default", "nodelay", 0.999)), Verdict::DoesNotHold);
    assert_eq!(verdict(&run, &published, &rule("nodelay", "default", 0.1)), Verdict::DoesNotHold, "more, not less");
    assert_eq!(verdict(&run, &published, &rule("default", "cork", 0.9)), Verdict::CannotRun);
    let mut run = run;
    let nodelay = run.cases[1].id.clone();
    for round in run.rounds.iter_mut().filter(|round| round.case_id == nodelay) {
        let block = round.order.block;
        let Outcome::Measured(measured) = &mut round.outcome else { panic!("all were measured") };
        measured.primary_mut().figures.latency_ns.p50 = MS as f64 * f64::from(1 + block % 4);
    }
    assert_eq!(verdict(&run, &published, &rule("default", "nodelay", 0.95)), Verdict::CannotTell);
}

#[test]
fn figures_of_exchanges() {
    let run = small_writes();
    let of = |figure: &str, remedy: &str| json!({"figure": figure, "case": {"remedy": remedy, "writes": "100x2"}});
    let rule = json!({"kind": "within", "factor": 2, "of": of("bytes-per-ms", "default")});
    assert_eq!(verdict(&run, &json!({"value": 4.873, "unit": "bytes/ms"}), &rule), Verdict::Holds);
    let first = json!({"kind": "within", "factor": 2, "of": of("first", "default")});
    assert_eq!(verdict(&run, &json!({"value": 1, "unit": "ms"}), &first), Verdict::Holds);
    let against = json!({"figure": "bytes-per-ms", "case": {"remedy": "nodelay"}, "against": {"remedy": "default"}});
    let ratio =
        judged(&run, &json!({"value": 100, "unit": "x"}), &json!({"kind": "within", "factor": 2, "of": against}));
    let measured = ratio.judgement.measured.unwrap();
    // 44 ms against 0.5 ms, round by round.
    assert!((measured.value - 88.0).abs() < 1e-6 && measured.high.unwrap() - measured.low.unwrap() < 1e-6, "paired");
    let absent = json!({"kind": "at-most", "of": of("segments", "default")});
    assert_eq!(verdict(&run, &json!({"value": 4, "unit": "segments"}), &absent), Verdict::CannotTell);
    let other_unit = json!({"kind": "at-most", "of": of("segments", "default")});
    assert_eq!(verdict(&run, &json!({"value": 4, "unit": "ms"}), &other_unit), Verdict::CannotRun);
}

/// A sequence of these events, 1 us apart.
fn sequence(source: Source, kinds: &[EventKind]) -> TimeSequence {
    let event = |(place, kind): (usize, &EventKind)| Event {
        at_ns: place as i64 * 1000,
        until_ns: None,
        end: End::Client,
        kind: *kind,
        first_byte: 0,
        end_byte: 0,
    };
    let (events, waits) = (kinds.iter().enumerate().map(event).collect(), Vec::new());
    TimeSequence { exchange: 1, source, clock_error_ns: 0, of_client_alone: false, duration_ns: 0, events, waits }
}

#[test]
fn packets_must_be_captured_in_the_given_order() {
    use EventKind::{PureAck, Segment, Syn, SynAck, Write};
    let rule = json!({"kind": "packets", "case": {"remedy": "default"}, "events": ["syn", "syn-ack", "pure-ack"]});
    let published = json!({"value": ["SYN", "SYN-ACK", "ACK"], "unit": "packets"});
    let saved = Capture::Saved { file: "x".to_owned(), packets: 9, dropped: 0 };
    let with = |sequence: Option<TimeSequence>, capture: Capture| {
        let mut run = small_writes();
        run.cases[0].trace = Some(TraceSummary { sequence, capture, ..TraceSummary::default() });
        judged(&run, &published, &rule).judgement
    };
    let all = with(Some(sequence(Source::Capture, &[Syn, SynAck, PureAck, Write, Segment])), saved.clone());
    assert_eq!((all.verdict, all.measured), (Some(Verdict::Holds), None));
    let packets = |seen: &[(EventKind, i64)], absent| {
        Some(Reason::Packets { case: "tcp block same-cpu default 100x2 B".to_owned(), seen: seen.to_vec(), absent })
    };
    assert_eq!(all.reason, packets(&[(Syn, 0), (SynAck, 1_000), (PureAck, 2_000)], None));
    let wrong_order = with(Some(sequence(Source::Capture, &[SynAck, Syn, PureAck])), saved.clone());
    assert_eq!(wrong_order.verdict, Some(Verdict::DoesNotHold));
    assert_eq!(wrong_order.reason, packets(&[(Syn, 1_000)], Some(SynAck)));
    let skipped = Capture::Skipped { reason: "no CAP_NET_RAW".to_owned() };
    let stamps = with(Some(sequence(Source::KernelTimestamps, &[Syn, SynAck, PureAck])), skipped);
    assert_eq!(stamps.verdict, Some(Verdict::CannotRun));
    let skipped = matches!(&stamps.reason, Some(Reason::NotCaptured { reason, .. }) if reason == "no CAP_NET_RAW");
    assert!(skipped, "{stamps:?}");
    assert_eq!(with(None, saved).verdict, Some(Verdict::CannotRun));
    assert_eq!(verdict(&small_writes(), &published, &rule), Verdict::CannotRun, "nothing was traced");
}

#[test]
fn a_pattern_is_the_writes_followed_by_the_answer() {
    use EventKind::{Read, Write};
    let published = json!({"value": ["2 writes of 2 bytes", "answer"], "unit": "pattern"});
    let of = |kinds: &[EventKind], bytes: i64, writes: &str| {
        let mut run = small_writes();
        let mut sequence = sequence(Source::KernelTimestamps, kinds);
        for event in &mut sequence.events {
            (event.end_byte, event.until_ns) = (bytes, Some(event.at_ns + 500));
        }
        run.cases[0].trace = Some(TraceSummary { sequence: Some(sequence), ..TraceSummary::default() });
        let rule = json!({"kind": "pattern", "case": {"remedy": "default"}, "writes": writes});
        judged(&run, &published, &rule).judgement
    };
    let pattern = [Write, Write, Read];
    assert_eq!(of(&pattern, 2, "2x2").verdict, Some(Verdict::Holds));
    let more = of(&pattern, 2, "3x2");
    assert_eq!(more.verdict, Some(Verdict::DoesNotHold));
    let Some(Reason::Pattern { written, ended_ns, published: other, .. }) = more.reason else { panic!("no pattern") };
    assert_eq!((written, other), ("2x2".parse().ok(), "3x2".parse().ok()));
    assert_eq!(ended_ns, [Some(1_500), Some(2_500)]);
    assert_eq!(of(&pattern, 3, "2x2").verdict, Some(Verdict::DoesNotHold), "other sizes");
    assert_eq!(of(&[Write, Read, Write], 2, "2x2").verdict, Some(Verdict::DoesNotHold), "answer too early");
    assert_eq!(of(&[Write, Write], 2, "2x2").verdict, Some(Verdict::DoesNotHold), "no answer");
    assert_eq!(of(&[Read], 2, "2x2").verdict, Some(Verdict::DoesNotHold), "no write");
    let rule = json!({"kind": "pattern", "case": {"remedy": "default"}, "writes": "2x2"});
    assert_eq!(verdict(&small_writes(), &published, &rule), Verdict::CannotRun, "nothing was traced");
}

#[test]
fn the_kept_data_of_a_run_is_described() {
    let mut run = run();
    let published = json!({"value": ["minimum", "maximum"], "unit": "outputs"});
    let rule = |kept: &[&str]| json!({"kind": "kept", "case": case("tcp"), "kept": kept});
    let extremes = judged(&run, &published, &rule(&["extremes", "curve"])).judgement;
    assert_eq!(extremes.verdict, Some(Verdict::Holds));
    let kept = |reported: &[Kept], absent: &[Kept]| {
        let (case, reported, absent) = ("tcp block same-cpu".to_owned(), reported.to_vec(), absent.to_vec());
        Some(Reason::Kept { case, reported, absent, options: Vec::new() })
    };
    assert_eq!(extremes.reason, kept(&[Kept::Extremes, Kept::Curve], &[]));
    let samples = rule(&["extremes", "samples"]);
    let unsaved = judged(&run, &published, &samples).judgement;
    assert_eq!(unsaved.verdict, Some(Verdict::DoesNotHold), "none were saved");
    assert_eq!(unsaved.reason, kept(&[Kept::Extremes], &[Kept::Samples]));
    assert_eq!(verdict(&run, &published, &rule(&["percentiles"])), Verdict::DoesNotHold, "800 samples: no p99");
    let keep = |run: &mut Run, kept: u64| {
        for round in &mut run.rounds {
            if let Outcome::Measured(measured) = &mut round.outcome {
                (measured.primary_mut().samples_file, measured.primary_mut().samples_kept) =
                    (Some("samples".to_owned()), kept);
            }
        }
    };
    keep(&mut run, 120);
    assert_eq!(verdict(&run, &published, &samples), Verdict::Holds);
    keep(&mut run, 99);
    assert_eq!(verdict(&run, &published, &samples), Verdict::DoesNotHold, "one of 100 samples is missing");
}

#[test]
fn a_maximum_beyond_a_bound_needs_no_interval() {
    let latencies = [50 * US, 50 * US, 50 * US, 2 * MS, 50 * US, 50 * US];
    let run = Fixture::of(&[(&Case::ping_pong("tcp"), &latencies)]).run();
    let rule = json!({"kind": "at-least", "of": {"figure": "max", "case": case("tcp")}});
    for (ms, expected) in [(1.0, Verdict::Holds), (1.99, Verdict::Holds), (2.1, Verdict::DoesNotHold)] {
        let judgement = judged(&run, &json!({"value": ms, "unit": "ms"}), &rule).judgement;
        assert_eq!(judgement.verdict, Some(expected), "{ms}: {judgement:?}");
        assert!(judgement.measured.unwrap().low.unwrap() < 0.06, "the interval over rounds is still reported");
    }
}

#[test]
fn requests_in_flight_follow_from_rate_and_latency() {
    let mut fixture = Fixture::of(&[(&Case::ping_pong("tcp"), &[MS; 8])]);
    // Four requests leave together; their answers arrive 1 ms later.
    fixture
        .rounds_with(&Case::ping_pong("udp"), &[MS; 8], |measured| measured.primary_mut().figures.rate_per_s *= 4.0);
    let run = fixture.run();
    let rule = |transport: &str| json!({"kind": "at-least", "of": {"figure": "in-flight", "case": case(transport)}});
    let published = json!({"value": 2, "unit": "requests"});
    let several = judged(&run, &published, &rule("udp")).judgement;
    assert_eq!(several.verdict, Some(Verdict::Holds));
    assert!((several.measured.unwrap().value - 4.0).abs() < 0.01, "{several:?}");
    let one = judged(&run, &published, &rule("tcp")).judgement;
    assert_eq!(one.verdict, Some(Verdict::DoesNotHold), "{one:?}");
    assert!((one.measured.unwrap().value - 1.0).abs() < 0.05, "{one:?}");
}

#[test]
fn losses_and_rates_are_from_the_ledger_over_the_scheduled_time() {
    let case = at_rate(Case::ping_pong("udp").with(|changed| changed.primary_mut().load.set_sizes(1400, 4)), 1000.0);
    let fixture = Fixture::alike_with(8, &case, &paced(MS, &[(0, 90 * US); 1000]), |measured| {
        let ledger = &mut measured.primary_mut().ledger;
        (ledger.sent, ledger.received, ledger.late) = (1000, 700, 100);
        // The last answers arrive after the scheduled end.
        measured.duration_ns = 2_000 * MS;
    });
    let run = fixture.run();
    let value = |figure: &str, unit: &str| {
        let of = json!({"figure": figure, "case": {"transport": "udp", "rate_per_s": 1000}});
        let judgement =
            judged(&run, &json!({"value": 1, "unit": unit}), &json!({"kind": "within", "factor": 2, "of": of}))
                .judgement;
        judgement.measured.unwrap_or_else(|| panic!("{judgement:?}")).value
    };
    assert!((value("lost-share", "share") - 0.2).abs() < 1e-12, "late messages are not lost");
    assert!((value("sent-bytes-per-s", "bytes/s") - 1_400_000.0).abs() < 1.0);
    assert!((value("received-bytes-per-s", "KiB/s") - 1_120_000.0 / 1024.0).abs() < 1e-3);
    assert!((value("received-bytes-per-s", "MiB/s") - 1_120_000.0 / 1_048_576.0).abs() < 1e-6);
}

#[test]
fn service_time_starts_at_the_send_and_means_are_paired_by_round() {
    let mut fixture = Fixture::new();
    for (transport, service) in [("tcp", 90 * US), ("udp", 60 * US)] {
        for block in 0..8 {
            // The slowdown from block to block cancels out.
            let service = service * u64::from(10 + block) / 10;
            let case = at_rate(Case::ping_pong(transport), 1000.0);
            fixture.round(&case, block, &paced(MS, &[(400 * US, service); 50]));
        }
    }
    let run = fixture.run();
    let within = |figure: &str, number: f64| {
        let rule = json!({"kind": "within", "factor": 2, "of": {"figure": figure, "case": case("tcp")}});
        verdict(&run, &json!({"value": number, "unit": "us"}), &rule)
    };
    assert_eq!(within("service-mean", 120.0), Verdict::Holds);
    assert_eq!(within("mean", 120.0), Verdict::DoesNotHold, "400 us longer from the due time");
    for figure in ["service-mean", "service-p50"] {
        let rule = json!({"kind": "order", "figure": figure, "cases": [case("udp"), case("tcp")]});
        let order = judged(&run, &json!({"value": ["UDP", "TCP"], "unit": "order"}), &rule).judgement;
        assert_eq!(order.verdict, Some(Verdict::Holds), "{order:?}");
        let ratio = order.measured.unwrap();
        assert!((ratio.value - 1.5).abs() < 0.01 && ratio.low.unwrap() > 1.49, "{ratio:?}");
        assert!(matches!(&order.reason, Some(Reason::Order { steps, .. }) if steps[0].ratio == order.measured));
    }
    let closed = json!({"kind": "at-least", "of": {"figure": "service-p50", "case": case("tcp")}});
    assert_eq!(
        verdict(&self::run(), &json!({"value": 1, "unit": "us"}), &closed),
        Verdict::CannotTell,
        "a closed loop"
    );
}

#[test]
fn a_run_that_could_not_be_made_is_reported_with_its_cause() {
    let claim = claim(&json!({"value": 1, "unit": "ms"}), &json!({"kind": "at-most", "of": p50("tcp")}));
    let refused = BTreeMap::from([("r".to_owned(), Err("there is no such transport".to_owned()))]);
    let judgement = judge(&claim, "X", &refused).judgement;
    assert_eq!((judgement.verdict, judgement.measured), (Some(Verdict::CannotRun), None));
    let no_run = |cause: Option<&str>| Some(Reason::NoRun { run: "r".to_owned(), cause: cause.map(str::to_owned) });
    assert_eq!(judgement.reason, no_run(Some("there is no such transport")));
    let judgement = judge(&claim, "X", &BTreeMap::new()).judgement;
    assert_eq!((judgement.verdict, judgement.reason), (Some(Verdict::CannotRun), no_run(None)));
    let mut ended = run();
    ended.state = State::Interrupted;
    ended.cases.clear();
    let judgement = judge_on(&claim, &ended).judgement;
    assert_eq!(judgement.reason, Some(Reason::Ended { case: None }));
}

#[test]
fn a_selection_of_two_cases_is_an_error() {
    let spinning = Case::ping_pong("tcp").with(|changed| changed.ends.waiting = Waiting::Spin);
    let run = Fixture::of(&[(&Case::ping_pong("tcp"), &[US; 8]), (&spinning, &[US; 8])]).run();
    let rule = json!({"kind": "at-most", "of": p50("tcp")});
    let judgement = judged(&run, &json!({"value": 1, "unit": "ms"}), &rule).judgement;
    assert_eq!(judgement.verdict, Some(Verdict::CannotRun));
    let cases = ["tcp block same-cpu", "tcp spin same-cpu"].map(str::to_owned).to_vec();
    assert_eq!(judgement.reason, Some(Reason::SeveralCases { cases }));
}

#[test]
fn a_substitute_is_reported_and_may_leave_a_claim_undecided() {
    let run = run();
    let mut claim =
        claim(&json!({"value": 0.1, "unit": "ms"}), &json!({"kind": "within", "factor": 2, "of": p50("tcp")}));
    let mut change = |stand_in: Option<&str>, undecided: Option<&str>| {
        if let hairpin_model::claim::TestMethod::Test(test) = &mut claim.rows[0].means {
            (test.stand_in, test.undecided) = (stand_in.map(str::to_owned), undecided.map(str::to_owned));
        }
        judge_on(&claim, &run)
    };
    let told = change(Some("a server that sleeps"), None);
    assert_eq!((told.judgement.verdict, told.coverage), (Some(Verdict::Holds), Coverage::Covered));
    let stand_in = Some("a server that sleeps");
    assert_eq!((told.stand_in.as_deref(), told.rows[0].stand_in.as_deref()), (stand_in, stand_in));
    let open = change(Some("a server that sleeps"), Some("It delays no ACK."));
    assert_eq!((open.judgement.verdict, open.coverage), (Some(Verdict::CannotTell), Coverage::Partly));
    let (because, measured) = ("It delays no ACK.".to_owned(), Box::new(told.judgement.reason.unwrap()));
    assert_eq!(open.judgement.reason, Some(Reason::Undecided { because, measured }));
    assert!(open.judgement.measured.is_some());
    assert_eq!(change(None, None).stand_in, None);
}

#[test]
fn a_published_figure_never_becomes_a_measured_one() {
    let run = run();
    let rules = [
        json!({"kind": "within", "factor": 3, "of": p50("tcp")}),
        json!({"kind": "at-least", "of": p50("tcp")}),
        json!({"kind": "at-most", "bound": 7, "of": p50("tcp")}),
        json!({"kind": "range", "of": p50("tcp")}),
        json!({"kind": "share", "figure": "p50", "whole": case("tcp"), "rest": case("udp"), "at_least": 0.1}),
        json!({"kind": "order", "figure": "p50", "cases": [case("udp"), case("tcp")]}),
    ];
    let values = [Value::Number(0.1), Value::Number(77.0), Value::Range([0.1, 5.0]), Value::Range([77.0, 78.0])];
    let orders = [vec!["udp", "tcp"], vec!["0.1", "77"]]
        .map(|names| Value::Order(names.into_iter().map(str::to_owned).collect()));
    for rule in &rules {
        let mut seen: Vec<Figure> = Vec::new();
        for value in values.iter().chain(&orders) {
            let published = json!({"value": value, "unit": "ms"});
            seen.extend(judged(&run, &published, rule).judgement.measured);
            // Without a summary, no figure is measured, whatever was published.
            let mut empty = run.clone();
            empty.cases.clear();
            let judgement = judged(&empty, &published, rule).judgement;
            assert_eq!((judgement.measured, judgement.ratio), (None, None), "{rule}");
            assert_eq!(judgement.verdict, Some(Verdict::CannotRun), "{rule}");
        }
        assert!(seen.len() >= 2 && seen.windows(2).all(|pair| pair[0] == pair[1]), "{rule}: {seen:?}");
    }
    let listed = listed(&claim(&json!({"value": 0.1, "unit": "ms"}), &rules[0]), "X");
    assert_eq!((listed.judgement.measured, listed.judgement.verdict), (None, None));
    assert_eq!((listed.rows[0].judgement.measured, listed.rows[0].run.as_deref()), (None, Some("X-r")));
}

#[test]
fn a_figure_accepts_only_its_own_units() {
    let of = |json: Json| serde_json::from_value(json).unwrap();
    assert!(fits_unit(&of(p50("tcp")), "ms") && !fits_unit(&of(p50("tcp")), "bytes/ms"));
    let ratio = json!({"figure": "p50", "case": case("tcp"), "against": case("udp")});
    assert!(fits_unit(&of(ratio.clone()), "x") && !fits_unit(&of(ratio), "ms"));
    let run = Fixture::alike(1, &Case::ping_pong("tcp"), &back_to_back(&[], &[US; 10])).run();
    let rate = json!({"kind": "at-least", "of": {"figure": "rate", "case": case("tcp")}});
    let judgement = judged(&run, &json!({"value": 1, "unit": "msg/s"}), &rate).judgement;
    assert!((judgement.measured.unwrap().value - 1e6).abs() < 2e5, "{judgement:?}");
}
