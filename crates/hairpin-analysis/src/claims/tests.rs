//! Every verdict of every rule, on fixture results.

mod axes;
mod between_hosts;
mod in_states;
mod loops;
mod often;
mod one_way;
mod pools;
mod rare;
mod several;
mod supposed;
mod under_load;
mod warnings;
mod worlds;

use std::collections::BTreeMap;

use hairpin_model::claim::Kept;
use hairpin_model::judged_claim::{Headline, Verdict};
use hairpin_model::reason::{Bound, Place};
use hairpin_model::run::State;
use hairpin_model::time_sequence::{Event, EventKind, Source};
use hairpin_model::trace::End;
use hairpin_model::{
    Capture, Case, Claim, Exchange, ExchangeFigures, Figure, FigureName, JudgedClaim, Judgement, Outcome, Reason,
    Remedy, Run, Skipped, Source as TextSource, TimeSequence, TraceSummary, Value, Waiting,
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

/// A test of the run `r` with this rule.
fn test(rule: &Json) -> Json {
    let changed = json!({"on": "2026-11-26", "because": "first version"});
    json!({"run": "r", "rule_because": "it is a fixture", "changed": changed, "rule": rule})
}

/// A claim with this published value and these further fields: a test, or rows.
fn written(published: &Json, fields: &[(&str, Json)]) -> Claim {
    let mut written = json!({
        "id": "X1", "text": "a claim", "quote": "its words", "why": "a mechanism", "so_what": "advice",
        "about": "path", "published": published
    });
    for (name, value) in fields {
        written[*name] = value.clone();
    }
    serde_json::from_value(written).unwrap()
}

/// A claim with one test of the run `r`.
fn claim(published: &Json, rule: &Json) -> Claim {
    written(published, &[("test", test(rule))])
}

/// The text of the claims.
fn text() -> TextSource {
    TextSource { letter: "X".to_owned(), title: "A text".to_owned(), ..TextSource::default() }
}

/// The judgement on the only row of a claim with this rule.
fn judged(run: &Run, published: &Json, rule: &Json) -> Judgement {
    only_row(judge_on(&claim(published, rule), run))
}

fn only_row(claim: JudgedClaim) -> Judgement {
    let [row] = <[_; 1]>::try_from(claim.rows).unwrap();
    row.judgement
}

/// The claim judged on the run `r`.
fn judge_on(claim: &Claim, run: &Run) -> JudgedClaim {
    judge(claim, &text(), &BTreeMap::from([("r".to_owned(), Ok(run))]), 1.0)
}

fn verdict(run: &Run, published: &Json, rule: &Json) -> Verdict {
    judged(run, published, rule).verdict.unwrap()
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
    let unknown = of("unix-stream").reason;
    assert!(matches!(unknown, Some(Reason::Compared { place: Place::Unknown, .. })), "{unknown:?}");
    let label = |transport: &str| format!("{transport} block same-cpu");
    let invalid = Reason::Invalid { case: label("shm"), reasons: vec!["messages were lost".to_owned()] };
    let failed = |case: String, cause: &str| Reason::NotMeasured { case, cause: Some(cause.to_owned()) };
    for (transport, expected, reason) in [
        ("unix-stream", Verdict::Undecided, unknown),
        ("shm", Verdict::Undecided, Some(invalid)),
        ("icmp", Verdict::NotTested, Some(failed(label("icmp"), "round 33: no permission (hint: none)"))),
        ("fifo", Verdict::NotTested, Some(failed("fifo".to_owned(), "no FIFOs here"))),
        ("tcp6", Verdict::NotTested, Some(Reason::NoCase)),
    ] {
        let judged = of(transport);
        assert_eq!(judged.verdict, Some(expected), "{transport}: {judged:?}");
        assert_eq!(judged.reason, reason, "{transport}");
        assert_eq!(judged.measured.is_some(), transport == "unix-stream", "{transport}");
    }
}

#[test]
fn within_a_factor_of_the_published_number() {
    let run = run();
    let rule = |factor: f64| json!({"kind": "within", "factor": factor, "of": p50("tcp")});
    let published = |number: f64| json!({"value": number, "unit": "ms"});
    assert_eq!(verdict(&run, &published(0.15), &rule(2.0)), Verdict::Confirmed);
    assert_eq!(verdict(&run, &published(0.25), &rule(2.0)), Verdict::Refuted, "too small");
    assert_eq!(verdict(&run, &published(0.04), &rule(2.0)), Verdict::Refuted, "too large");
    assert_eq!(verdict(&run, &published(0.2007), &rule(2.0)), Verdict::Undecided, "the interval contains 0.10035");
    assert_absent_figures(
        &published(0.1),
        |case| json!({"kind": "within", "factor": 2, "of": {"figure": "p50", "case": case}}),
    );
    let judged = judged(&run, &published(0.15), &rule(2.0));
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
    assert_eq!(verdict(&run, &published(90.0, 110.0), &rule), Verdict::Confirmed);
    assert_eq!(verdict(&run, &published(110.0, 120.0), &rule), Verdict::Refuted);
    assert_eq!(verdict(&run, &published(90.0, 100.3), &rule), Verdict::Undecided);
    let wider = json!({"kind": "range", "factor": 2, "of": p50("tcp")});
    assert_eq!(verdict(&run, &published(110.0, 120.0), &wider), Verdict::Confirmed);
    let ratio = |from, to| judged(&run, &published(from, to), &rule).ratio.unwrap();
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
        (99.0, Verdict::Confirmed, Verdict::Refuted),
        (102.0, Verdict::Refuted, Verdict::Confirmed),
        (100.35, Verdict::Undecided, Verdict::Undecided),
    ] {
        let rule = |kind: &str| json!({"kind": kind, "of": p50("tcp")});
        assert_eq!(verdict(&run, &published(number), &rule("at-least")), least, "{number}");
        assert_eq!(verdict(&run, &published(number), &rule("at-most")), most, "{number}");
    }
    let own_bound = json!({"kind": "at-least", "of": p50("tcp"), "bound": 99});
    assert_eq!(verdict(&run, &published(5000.0), &own_bound), Verdict::Confirmed);
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
    let twice = judged(&run, &published, &rule("within", "udp"));
    assert_eq!(twice.verdict, Some(Verdict::Confirmed), "{twice:?}");
    assert!((twice.measured.unwrap().value - 2.0).abs() < 0.02);
    assert_eq!(twice.measured_unit.as_deref(), Some("x"));
    assert_eq!(verdict(&run, &json!({"value": 9, "unit": "x"}), &rule("within", "udp")), Verdict::Refuted);
    assert_eq!(verdict(&run, &published, &at_least(1.9)), Verdict::Confirmed);
    assert_eq!(verdict(&run, &published, &at_least(2.5)), Verdict::Refuted);
    assert_eq!(verdict(&run, &published, &at_least(2.008)), Verdict::Undecided);
    assert_eq!(verdict(&run, &published, &rule("within", "icmp")), Verdict::NotTested);
}

#[test]
fn the_published_order() {
    let run = run();
    let order = |transports: &[&str]| {
        let cases: Vec<Json> = transports.iter().map(|name| case(name)).collect();
        let published = json!({"value": transports, "unit": "order, the fastest first"});
        judged(&run, &published, &json!({"kind": "order", "figure": "p50", "cases": cases}))
    };
    assert_eq!(order(&["udp", "tcp"]).verdict, Some(Verdict::Confirmed));
    assert_eq!(order(&["tcp", "udp"]).verdict, Some(Verdict::Refuted));
    let alike = order(&["pipe", "udp", "tcp"]);
    assert_eq!(alike.verdict, Some(Verdict::Equal), "{alike:?}");
    let Some(Reason::Order { figure: FigureName::P50, steps, margin }) = &alike.reason else { panic!("{alike:?}") };
    let of_steps: Vec<_> =
        steps.iter().map(|step| (step.names.each_ref().map(String::as_str), step.verdict)).collect();
    assert_eq!(of_steps, [(["pipe", "udp"], Verdict::Equal), (["udp", "tcp"], Verdict::Confirmed)]);
    assert_eq!((*margin, alike.margin), (0.05, Some([Some(1.0 / 1.05), Some(1.05)])), "5 % without a word on it");
    assert!((alike.measured.unwrap().value - 1.0).abs() < 0.05, "the step that is least clear");
    assert_eq!(order(&["tcp", "udp", "icmp"]).verdict, Some(Verdict::Refuted), "reversed step");
    assert_eq!(order(&["shm", "tcp"]).verdict, Some(Verdict::Undecided), "an invalid case");
    assert_eq!(order(&["udp", "icmp", "tcp"]).verdict, Some(Verdict::NotTested), "no step was measured");
    let part = order(&["udp", "tcp", "icmp"]);
    assert_eq!(part.verdict, Some(Verdict::Undecided), "a step was not measured: {part:?}");
    let Some(Reason::Order { steps, .. }) = &part.reason else { panic!("{part:?}") };
    assert_eq!(steps.iter().map(|step| step.verdict).collect::<Vec<_>>(), [Verdict::Confirmed, Verdict::NotTested]);
    let names = json!({"value": ["udp", "tcp"], "unit": "order"});
    let three = json!({"kind": "order", "figure": "p50", "cases": [case("pipe"), case("udp"), case("tcp")]});
    let judgement = judged(&run, &names, &three);
    let needed = "order of 3 names".to_owned();
    assert_eq!(judgement.reason, Some(Reason::NotPublished { needed }), "each case has a published name");
}

#[test]
fn an_order_is_equal_only_within_its_margin() {
    let fixture = |transport: &str, ns: u64| (Case::ping_pong(transport), [ns; 8]);
    let [(udp, slow), (tcp, slower)] = [fixture("udp", 100 * US), fixture("tcp", 103 * US)];
    let run = Fixture::of(&[(&udp, &slow), (&tcp, &slower)]).run();
    let of = |transports: [&str; 2], margin: f64| {
        let published = json!({"value": transports, "unit": "order"});
        let cases = transports.map(case);
        verdict(&run, &published, &json!({"kind": "order", "figure": "p50", "cases": cases, "margin": margin}))
    };
    assert_eq!(of(["udp", "tcp"], 0.05), Verdict::Equal, "3 % apart");
    assert_eq!(of(["tcp", "udp"], 0.05), Verdict::Equal);
    assert_eq!(of(["udp", "tcp"], 0.01), Verdict::Confirmed);
    assert_eq!(of(["tcp", "udp"], 0.01), Verdict::Refuted);
    assert_eq!(of(["udp", "tcp"], 0.0), Verdict::Confirmed, "without a margin nothing is equal");
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
    let gone = judged(&run, &published, &rule("default", "nodelay", 0.9));
    assert_eq!(gone.verdict, Some(Verdict::Confirmed), "{gone:?}");
    assert!((gone.measured.unwrap().value - 0.9886).abs() < 1e-3 && gone.measured_unit.as_deref() == Some("share"));
    assert!((gone.ratio.unwrap() - 0.9886).abs() < 1e-3);
    assert_eq!(verdict(&run, &published, &rule("default", "nodelay", 0.999)), Verdict::Refuted);
    assert_eq!(verdict(&run, &published, &rule("nodelay", "default", 0.1)), Verdict::Refuted, "more, not less");
    assert_eq!(verdict(&run, &published, &rule("default", "cork", 0.9)), Verdict::NotTested);
    let mut run = run;
    let nodelay = run.cases[1].id.clone();
    for round in run.rounds.iter_mut().filter(|round| round.case_id == nodelay) {
        let block = round.order.block;
        let Outcome::Measured(measured) = &mut round.outcome else { panic!("all were measured") };
        measured.primary_mut().figures.latency_ns.p50 = MS as f64 * f64::from(1 + block % 4);
    }
    assert_eq!(verdict(&run, &published, &rule("default", "nodelay", 0.95)), Verdict::Undecided);
}

#[test]
fn figures_of_exchanges() {
    let run = small_writes();
    let of = |figure: &str, remedy: &str| json!({"figure": figure, "case": {"remedy": remedy, "writes": "100x2"}});
    let rule = json!({"kind": "within", "factor": 2, "of": of("bytes-per-ms", "default")});
    assert_eq!(verdict(&run, &json!({"value": 4.873, "unit": "bytes/ms"}), &rule), Verdict::Confirmed);
    let first = json!({"kind": "within", "factor": 2, "of": of("first", "default")});
    assert_eq!(verdict(&run, &json!({"value": 1, "unit": "ms"}), &first), Verdict::Confirmed);
    let against = json!({"figure": "bytes-per-ms", "case": {"remedy": "nodelay"}, "against": {"remedy": "default"}});
    let ratio =
        judged(&run, &json!({"value": 100, "unit": "x"}), &json!({"kind": "within", "factor": 2, "of": against}));
    let measured = ratio.measured.unwrap();
    // 44 ms against 0.5 ms, round by round.
    assert!((measured.value - 88.0).abs() < 1e-6 && measured.high.unwrap() - measured.low.unwrap() < 1e-6, "paired");
    let absent = json!({"kind": "at-most", "of": of("segments", "default")});
    assert_eq!(verdict(&run, &json!({"value": 4, "unit": "segments"}), &absent), Verdict::Undecided);
    let other_unit = json!({"kind": "at-most", "of": of("segments", "default")});
    assert_eq!(verdict(&run, &json!({"value": 4, "unit": "ms"}), &other_unit), Verdict::NotTested);
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
    TimeSequence {
        exchange: 1,
        source,
        clock_error_ns: 0,
        of_client_alone: false,
        duration_ns: 0,
        events,
        waits,
        states: Vec::new(),
    }
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
        judged(&run, &published, &rule)
    };
    let all = with(Some(sequence(Source::Capture, &[Syn, SynAck, PureAck, Write, Segment])), saved.clone());
    assert_eq!((all.verdict, all.measured), (Some(Verdict::Confirmed), None));
    let packets = |seen: &[(EventKind, i64)], absent| {
        Some(Reason::Packets { case: "tcp block same-cpu default 100x2 B".to_owned(), seen: seen.to_vec(), absent })
    };
    assert_eq!(all.reason, packets(&[(Syn, 0), (SynAck, 1_000), (PureAck, 2_000)], None));
    let wrong_order = with(Some(sequence(Source::Capture, &[SynAck, Syn, PureAck])), saved.clone());
    assert_eq!(wrong_order.verdict, Some(Verdict::Refuted));
    assert_eq!(wrong_order.reason, packets(&[(Syn, 1_000)], Some(SynAck)));
    let skipped = Capture::Skipped { reason: "no CAP_NET_RAW".to_owned() };
    let stamps = with(Some(sequence(Source::KernelTimestamps, &[Syn, SynAck, PureAck])), skipped);
    assert_eq!(stamps.verdict, Some(Verdict::NotTested));
    let skipped = matches!(&stamps.reason, Some(Reason::NotCaptured { reason, .. }) if reason == "no CAP_NET_RAW");
    assert!(skipped, "{stamps:?}");
    assert_eq!(with(None, saved).verdict, Some(Verdict::NotTested));
    assert_eq!(verdict(&small_writes(), &published, &rule), Verdict::NotTested, "nothing was traced");
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
        judged(&run, &published, &rule)
    };
    let pattern = [Write, Write, Read];
    assert_eq!(of(&pattern, 2, "2x2").verdict, Some(Verdict::Confirmed));
    let more = of(&pattern, 2, "3x2");
    assert_eq!(more.verdict, Some(Verdict::Refuted));
    let Some(Reason::Pattern { written, ended_ns, published: other, .. }) = more.reason else { panic!("no pattern") };
    assert_eq!((written, other), ("2x2".parse().ok(), "3x2".parse().ok()));
    assert_eq!(ended_ns, [Some(1_500), Some(2_500)]);
    assert_eq!(of(&pattern, 3, "2x2").verdict, Some(Verdict::Refuted), "other sizes");
    assert_eq!(of(&[Write, Read, Write], 2, "2x2").verdict, Some(Verdict::Refuted), "answer too early");
    assert_eq!(of(&[Write, Write], 2, "2x2").verdict, Some(Verdict::Refuted), "no answer");
    assert_eq!(of(&[Read], 2, "2x2").verdict, Some(Verdict::Refuted), "no write");
    let rule = json!({"kind": "pattern", "case": {"remedy": "default"}, "writes": "2x2"});
    assert_eq!(verdict(&small_writes(), &published, &rule), Verdict::NotTested, "nothing was traced");
}

#[test]
fn the_kept_data_of_a_run_is_described() {
    let mut run = run();
    let published = json!({"value": ["minimum", "maximum"], "unit": "outputs"});
    let rule = |kept: &[&str]| json!({"kind": "kept", "case": case("tcp"), "kept": kept});
    let extremes = judged(&run, &published, &rule(&["extremes", "curve"]));
    assert_eq!(extremes.verdict, Some(Verdict::Confirmed));
    let kept = |reported: &[Kept], absent: &[Kept]| {
        let (case, reported, absent) = ("tcp block same-cpu".to_owned(), reported.to_vec(), absent.to_vec());
        Some(Reason::Kept { case, reported, absent, options: Vec::new(), timer_slack_ns: None })
    };
    assert_eq!(extremes.reason, kept(&[Kept::Extremes, Kept::Curve], &[]));
    let samples = rule(&["extremes", "samples"]);
    let unsaved = judged(&run, &published, &samples);
    assert_eq!(unsaved.verdict, Some(Verdict::Refuted), "none were saved");
    assert_eq!(unsaved.reason, kept(&[Kept::Extremes], &[Kept::Samples]));
    assert_eq!(verdict(&run, &published, &rule(&["percentiles"])), Verdict::Refuted, "800 samples: no p99");
    let keep = |run: &mut Run, kept: u64| {
        for round in &mut run.rounds {
            if let Outcome::Measured(measured) = &mut round.outcome {
                (measured.primary_mut().samples_file, measured.primary_mut().samples_kept) =
                    (Some("samples".to_owned()), kept);
            }
        }
    };
    keep(&mut run, 120);
    assert_eq!(verdict(&run, &published, &samples), Verdict::Confirmed);
    keep(&mut run, 99);
    assert_eq!(verdict(&run, &published, &samples), Verdict::Refuted, "one of 100 samples is missing");
}

#[test]
fn a_run_that_could_not_be_made_is_reported_with_its_cause() {
    let claim = claim(&json!({"value": 1, "unit": "ms"}), &json!({"kind": "at-most", "of": p50("tcp")}));
    let refused = BTreeMap::from([("r".to_owned(), Err("there is no such transport".to_owned()))]);
    let judged = judge(&claim, &text(), &refused, 1.0);
    assert_eq!(judged.rows[0].evidence, None, "no run, no report");
    let judgement = only_row(judged);
    assert_eq!((judgement.verdict, judgement.measured), (Some(Verdict::NotTested), None));
    let no_run = |cause: Option<&str>| Some(Reason::NoRun { run: "r".to_owned(), cause: cause.map(str::to_owned) });
    assert_eq!(judgement.reason, no_run(Some("there is no such transport")));
    let judgement = only_row(judge(&claim, &text(), &BTreeMap::new(), 1.0));
    assert_eq!((judgement.verdict, judgement.reason), (Some(Verdict::NotTested), no_run(None)));
    let mut ended = run();
    ended.state = State::Interrupted;
    ended.cases.clear();
    let judgement = only_row(judge_on(&claim, &ended));
    assert_eq!(judgement.reason, Some(Reason::Ended { case: None }));
}

#[test]
fn a_selection_of_two_cases_is_an_error() {
    let spinning = Case::ping_pong("tcp").with(|changed| changed.ends.waiting = Waiting::Spin);
    let run = Fixture::of(&[(&Case::ping_pong("tcp"), &[US; 8]), (&spinning, &[US; 8])]).run();
    let rule = json!({"kind": "at-most", "of": p50("tcp")});
    let judgement = judged(&run, &json!({"value": 1, "unit": "ms"}), &rule);
    assert_eq!(judgement.verdict, Some(Verdict::NotTested));
    let cases = ["tcp block same-cpu", "tcp spin same-cpu"].map(str::to_owned).to_vec();
    assert_eq!(judgement.reason, Some(Reason::SeveralCases { cases }));
}

#[test]
fn a_substitute_is_reported_and_a_figure_that_was_set_is_shown() {
    let run = run();
    let mut claim =
        claim(&json!({"value": 0.1, "unit": "ms"}), &json!({"kind": "within", "factor": 2, "of": p50("tcp")}));
    let mut change = |stand_in: Option<&str>, given_back: Option<&str>| {
        if let hairpin_model::claim::TestMethod::Test(test) = &mut claim.rows[0].means {
            (test.stand_in, test.given_back) = (stand_in.map(str::to_owned), given_back.map(str::to_owned));
        }
        let judged = judge_on(&claim, &run);
        (judged.headline, judged.rows[0].clone())
    };
    let (headline, told) = change(Some("a server that sleeps"), None);
    assert_eq!((told.judgement.verdict, headline), (Some(Verdict::Confirmed), Some(Headline::Holds)));
    assert_eq!((told.stand_in.as_deref(), told.given_back), (Some("a server that sleeps"), false));
    let (headline, set) = change(Some("a server that sleeps"), Some("It delays no ACK."));
    assert_eq!((set.judgement.verdict, headline), (Some(Verdict::Shown), Some(Headline::NotTestable)));
    assert_eq!((set.shown.as_deref(), set.given_back), (Some("It delays no ACK."), true));
    assert_eq!(set.judgement.reason, told.judgement.reason, "what was measured");
    assert!(set.judgement.measured.is_some() && !set.decides());
    assert_eq!(change(None, None).1.stand_in, None);
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
            seen.extend(judged(&run, &published, rule).measured);
            // Without a summary, no figure is measured, whatever was published.
            let mut empty = run.clone();
            empty.cases.clear();
            let judgement = judged(&empty, &published, rule);
            assert_eq!((judgement.measured, judgement.ratio), (None, None), "{rule}");
            assert_eq!(judgement.verdict, Some(Verdict::NotTested), "{rule}");
        }
        assert!(seen.len() >= 2 && seen.windows(2).all(|pair| pair[0] == pair[1]), "{rule}: {seen:?}");
    }
    let listed = listed(&claim(&json!({"value": 0.1, "unit": "ms"}), &rules[0]), &text());
    let row = &listed.rows[0];
    assert_eq!((row.judgement.measured, row.judgement.verdict, listed.headline), (None, None, None));
    assert_eq!((row.run.as_deref(), row.evidence.as_deref(), listed.age_s), (Some("X-r"), None, None));
    assert_eq!(
        (row.rule_because.as_deref(), row.rule_changed.as_deref()),
        (Some("it is a fixture"), Some("2026-11-26"))
    );
}

#[test]
fn a_judged_claim_has_its_source_and_the_report_of_its_run() {
    let claim = claim(&json!({"value": 0.1, "unit": "ms"}), &json!({"kind": "at-most", "of": p50("tcp")}));
    let judged = judge_on(&claim, &run());
    assert_eq!(judged.source, TextSource { quote: "its words".to_owned(), ..text() });
    assert_eq!((judged.text.why.as_str(), judged.text.so_what.as_str()), ("a mechanism", "advice"));
    assert_eq!((judged.rows[0].evidence.as_deref(), judged.age_s), (Some("X-r/report.html"), Some(0)));
    assert_eq!(judged.rows[0].case.as_deref(), Some("tcp block same-cpu"));
}

#[test]
fn a_figure_accepts_only_its_own_units() {
    let of = |json: Json| serde_json::from_value(json).unwrap();
    assert!(fits_unit(&of(p50("tcp")), "ms") && !fits_unit(&of(p50("tcp")), "bytes/ms"));
    let ratio = json!({"figure": "p50", "case": case("tcp"), "against": case("udp")});
    assert!(fits_unit(&of(ratio.clone()), "x") && !fits_unit(&of(ratio), "ms"));
    let run = Fixture::alike(1, &Case::ping_pong("tcp"), &back_to_back(&[], &[US; 10])).run();
    let rate = json!({"kind": "at-least", "of": {"figure": "rate", "case": case("tcp")}});
    let judgement = judged(&run, &json!({"value": 1, "unit": "msg/s"}), &rate);
    assert!((judgement.measured.unwrap().value - 1e6).abs() < 2e5, "{judgement:?}");
}
