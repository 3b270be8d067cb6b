//! Every verdict of every rule, on made-up results.

use std::collections::BTreeMap;

use hairpin_model::case::{Case, Waiting};
use hairpin_model::claim::{Claim, Coverage, Value};
use hairpin_model::exchange::{Exchange, Remedy};
use hairpin_model::figure::Figure;
use hairpin_model::judged_claim::{JudgedClaim, Verdict};
use hairpin_model::run::{Run, Skipped, State};
use hairpin_model::summary::ExchangeFigures;
use hairpin_model::time_sequence::{Event, EventKind, Source, TimeSequence, TraceSummary};
use hairpin_model::trace::{Capture, End};
use serde_json::{Value as Json, json};

use super::{fits_unit, judge, listed};
use crate::made_up::{MadeUp, back_to_back};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// tcp at 100 us, udp at 50 us, pipe at 49 to 51 us, unix-stream with one round only, shm invalid, icmp failed.
fn run() -> Run {
    let mut made_up = MadeUp::new();
    let spread: Vec<u64> = (0..8).map(|k| 100 * US + k * 100).collect();
    made_up.rounds_of(&Case::ping_pong("tcp"), &spread);
    made_up.rounds_of(&Case::ping_pong("udp"), &[50 * US; 8]);
    made_up.rounds_of(&Case::ping_pong("pipe"), &[49, 51, 49, 51, 49, 51, 49, 51].map(|us| us * US));
    made_up.rounds_of(&Case::ping_pong("unix-stream"), &[100 * US]);
    made_up.rounds_of(&Case::ping_pong("shm"), &[100 * US; 8]);
    made_up.failed(&Case::ping_pong("icmp"), 0, "no permission");
    let mut run = made_up.run();
    let shm = run.cases.iter_mut().find(|case| case.case.transport == "shm").unwrap();
    (shm.valid, shm.why_invalid) = (false, vec!["messages were lost".to_owned()]);
    run.skipped.push(Skipped { transport: "fifo".to_owned(), case: None, reason: "no FIFOs here".to_owned() });
    run
}

/// A claim with one test of the run `r`.
fn claim(published: &Json, rule: &Json) -> Claim {
    let test = json!({"run": "r", "rule_because": "it is made up", "rule": rule});
    let written = json!({"id": "X1", "text": "a claim", "published": published, "test": test});
    serde_json::from_value(written).unwrap()
}

fn judged(run: &Run, published: &Json, rule: &Json) -> JudgedClaim {
    judge(&claim(published, rule), "X", &BTreeMap::from([("r".to_owned(), Ok(run))]))
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

/// The verdicts that any rule on one figure gives where there is no figure to judge.
fn assert_absent_figures(published: &Json, rule: impl Fn(&Json) -> Json) {
    let run = run();
    for (transport, expected, why) in [
        ("unix-stream", Verdict::CannotTell, "one round"),
        ("shm", Verdict::CannotTell, "messages were lost"),
        ("icmp", Verdict::CannotRun, "no permission"),
        ("fifo", Verdict::CannotRun, "no FIFOs here"),
        ("tcp6", Verdict::CannotRun, "no such case"),
    ] {
        let judged = judged(&run, published, &rule(&case(transport)));
        assert_eq!(judged.judgement.verdict, Some(expected), "{transport}: {judged:?}");
        assert!(judged.judgement.why.contains(why), "{transport}: {}", judged.judgement.why);
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
    assert_eq!(verdict(&run, &published(0.04), &rule(2.0)), Verdict::DoesNotHold, "too great");
    assert_eq!(verdict(&run, &published(0.2007), &rule(2.0)), Verdict::CannotTell, "the interval holds 0.10035");
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
    assert!(judged.why.contains("within a factor of 2 of 0.15 ms"), "{}", judged.why);
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
    assert!((ratio(200.0, 400.0) - 0.5).abs() < 0.01, "against the nearer end");
    assert!((ratio(10.0, 50.0) - 2.0).abs() < 0.02, "against the nearer end");
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
    assert!(alike.why.contains("pipe and udp cannot be told apart"), "{}", alike.why);
    assert!(alike.why.contains("udp < tcp: "), "{}", alike.why);
    assert!((alike.measured.unwrap().value - 1.0).abs() < 0.05, "the least clear step");
    assert_eq!(order(&["udp", "icmp", "tcp"]).verdict, Some(Verdict::CannotRun));
    assert_eq!(order(&["tcp", "udp", "icmp"]).verdict, Some(Verdict::DoesNotHold), "one reversed step refutes it");
    assert_eq!(order(&["shm", "tcp"]).verdict, Some(Verdict::CannotTell), "an invalid case");
}

/// The run of `small_writes`: `none` at 44 ms an exchange, `nodelay` at 0.5 ms, each with figures of exchanges.
fn small_writes() -> Run {
    let mut made_up = MadeUp::new();
    for (remedy, latency) in [(Remedy::None, 44 * MS), (Remedy::Nodelay, MS / 2)] {
        let exchange = Exchange { writes: "100x2".parse().unwrap(), gap_ns: 0, pipeline: 1, remedy };
        made_up.rounds_of(&Case::small_writes("tcp", exchange), &[latency; 8]);
    }
    let mut run = made_up.run();
    for (case, rate) in run.cases.iter_mut().zip([4.5, 400.0]) {
        let bytes_per_ms = Some(Figure::new(rate, rate * 0.9, rate * 1.1));
        let first_exchange_ns = Some(Figure::new(MS as f64, MS as f64, MS as f64));
        case.exchanges = Some(ExchangeFigures { bytes_per_ms, first_exchange_ns, ..ExchangeFigures::default() });
    }
    run
}

#[test]
fn the_share_that_is_gone() {
    let run = small_writes();
    let rule = |whole: &str, rest: &str, at_least: f64| {
        let [whole, rest] = [whole, rest].map(|remedy| json!({"remedy": remedy}));
        json!({"kind": "share", "figure": "p50", "whole": whole, "rest": rest, "at_least": at_least})
    };
    let published = json!({"value": 1, "unit": "share"});
    let gone = judged(&run, &published, &rule("none", "nodelay", 0.9)).judgement;
    assert_eq!(gone.verdict, Some(Verdict::Holds), "{gone:?}");
    assert!((gone.measured.unwrap().value - 0.9886).abs() < 1e-3 && gone.measured_unit.as_deref() == Some("share"));
    assert!((gone.ratio.unwrap() - 0.9886).abs() < 1e-3);
    assert_eq!(verdict(&run, &published, &rule("none", "nodelay", 0.999)), Verdict::DoesNotHold);
    assert_eq!(verdict(&run, &published, &rule("nodelay", "none", 0.1)), Verdict::DoesNotHold, "more, not less");
    assert_eq!(verdict(&run, &published, &rule("none", "cork", 0.9)), Verdict::CannotRun);
    let mut run = run;
    for point in &mut run.cases[1].round_points {
        point.p50_ns = MS as f64 * f64::from(1 + point.block % 4);
    }
    assert_eq!(verdict(&run, &published, &rule("none", "nodelay", 0.95)), Verdict::CannotTell);
}

#[test]
fn figures_of_exchanges() {
    let run = small_writes();
    let of = |figure: &str, remedy: &str| json!({"figure": figure, "case": {"remedy": remedy, "writes": "100x2"}});
    let rule = json!({"kind": "within", "factor": 2, "of": of("bytes-per-ms", "none")});
    assert_eq!(verdict(&run, &json!({"value": 4.873, "unit": "bytes/ms"}), &rule), Verdict::Holds);
    let first = json!({"kind": "within", "factor": 2, "of": of("first", "none")});
    assert_eq!(verdict(&run, &json!({"value": 1, "unit": "ms"}), &first), Verdict::Holds);
    let against = json!({"figure": "bytes-per-ms", "case": {"remedy": "nodelay"}, "against": {"remedy": "none"}});
    let ratio =
        judged(&run, &json!({"value": 100, "unit": "x"}), &json!({"kind": "within", "factor": 2, "of": against}));
    let measured = ratio.judgement.measured.unwrap();
    let bounds = (measured.low.unwrap(), measured.high.unwrap());
    assert!((bounds.0 - 360.0 / 4.95).abs() < 1e-9 && (bounds.1 - 440.0 / 4.05).abs() < 1e-9, "{measured:?}");
    let absent = json!({"kind": "at-most", "of": of("segments", "none")});
    assert_eq!(verdict(&run, &json!({"value": 4, "unit": "segments"}), &absent), Verdict::CannotTell);
    let other_unit = json!({"kind": "at-most", "of": of("segments", "none")});
    assert_eq!(verdict(&run, &json!({"value": 4, "unit": "ms"}), &other_unit), Verdict::CannotRun);
}

/// A sequence of those events, a microsecond apart.
fn sequence(source: Source, kinds: &[EventKind]) -> TimeSequence {
    let event = |(place, kind): (usize, &EventKind)| Event {
        at_ns: place as i64 * 1000,
        until_ns: None,
        end: End::Near,
        kind: *kind,
        first_byte: 0,
        end_byte: 0,
    };
    let events = kinds.iter().enumerate().map(event).collect();
    TimeSequence { exchange: 1, source, clock_error_ns: 0, duration_ns: 0, events, waits: Vec::new() }
}

#[test]
fn what_the_text_shows_is_seen_or_not() {
    use EventKind::{BareAck, Segment, Syn, SynAck, Write};
    let rule = json!({"kind": "presence", "case": {"remedy": "none"}, "events": ["syn", "syn-ack", "bare-ack"]});
    let published = json!({"value": ["SYN", "SYN-ACK", "ACK"], "unit": "packets"});
    let saved = Capture::Saved { file: "x".to_owned(), packets: 9, dropped: 0 };
    let with = |sequence: Option<TimeSequence>, capture: Capture| {
        let mut run = small_writes();
        run.cases[0].trace = Some(TraceSummary { sequence, capture, ..TraceSummary::default() });
        judged(&run, &published, &rule).judgement
    };
    let all = with(Some(sequence(Source::Capture, &[Syn, SynAck, BareAck, Write, Segment])), saved.clone());
    assert_eq!((all.verdict, all.measured), (Some(Verdict::Holds), None));
    let none = with(Some(sequence(Source::Capture, &[SynAck, Syn, BareAck])), saved.clone());
    assert_eq!(none.verdict, Some(Verdict::DoesNotHold));
    assert!(none.why.contains("not seen: syn-ack after these"), "{}", none.why);
    let skipped = Capture::Skipped { reason: "no CAP_NET_RAW".to_owned() };
    let stamps = with(Some(sequence(Source::KernelTimestamps, &[Syn, SynAck, BareAck])), skipped);
    assert_eq!(stamps.verdict, Some(Verdict::CannotRun));
    assert!(stamps.why.contains("no CAP_NET_RAW"), "{}", stamps.why);
    assert_eq!(with(None, saved).verdict, Some(Verdict::CannotRun));
    assert_eq!(verdict(&small_writes(), &published, &rule), Verdict::CannotRun, "nothing was traced");
}

#[test]
fn what_a_run_keeps_is_seen() {
    let run = run();
    let published = json!({"value": ["minimum", "maximum"], "unit": "outputs"});
    let rule = |kept: &[&str]| json!({"kind": "presence", "case": case("tcp"), "kept": kept});
    assert_eq!(verdict(&run, &published, &rule(&["max", "curve"])), Verdict::Holds);
    assert_eq!(verdict(&run, &published, &rule(&["max", "samples"])), Verdict::DoesNotHold, "none were saved");
    assert_eq!(verdict(&run, &published, &rule(&["percentiles"])), Verdict::DoesNotHold, "800 samples have no p99");
}

/// A claim whose rows are each a transport and a greatest p50 in us.
fn table(rows: &[(&str, f64)], missing: &[&str]) -> Claim {
    let test = |name: &str| json!({"run": "r", "rule_because": "b", "rule": {"kind": "at-most", "of": p50(name)}});
    let tested = rows.iter().map(|(name, _)| json!({"name": name, "test": test(name)}));
    let rest = missing.iter().map(|name| json!({"name": name, "missing": "a link"}));
    let values: serde_json::Map<String, Json> = rows
        .iter()
        .map(|(name, most)| ((*name).to_owned(), json!(most)))
        .chain(missing.iter().map(|name| ((*name).to_owned(), json!(1))))
        .collect();
    let published = json!({"value": values, "unit": "us"});
    let rows: Vec<Json> = tested.chain(rest).collect();
    serde_json::from_value(json!({"id": "X2", "text": "t", "published": published, "row": rows})).unwrap()
}

#[test]
fn a_table_is_judged_by_its_rows() {
    let run = run();
    let runs = BTreeMap::from([("r".to_owned(), Ok(&run))]);
    let overall = |rows: &[(&str, f64)], missing: &[&str]| judge(&table(rows, missing), "X", &runs);
    let all = overall(&[("tcp", 200.0), ("udp", 60.0)], &[]);
    assert_eq!((all.judgement.verdict, all.coverage), (Some(Verdict::Holds), Coverage::Covered));
    assert_eq!(all.judgement.measured, None, "a table has no one figure");
    assert!(all.rows.iter().all(|row| row.judgement.measured.is_some()));
    let part = overall(&[("tcp", 200.0)], &["wan"]);
    assert_eq!((part.judgement.verdict, part.coverage), (Some(Verdict::CannotTell), Coverage::Partly));
    assert_eq!(part.judgement.why, "holds: tcp; cannot-run: wan.");
    assert_eq!(part.rows[1].judgement.why, "missing: a link");
    assert_eq!(overall(&[("tcp", 20.0), ("udp", 60.0)], &["wan"]).judgement.verdict, Some(Verdict::DoesNotHold));
    let none = overall(&[("icmp", 20.0)], &["wan"]);
    assert_eq!((none.judgement.verdict, none.coverage), (Some(Verdict::CannotRun), Coverage::Partly));
    assert_eq!(overall(&[], &["wan"]).coverage, Coverage::NotCovered);
}

#[test]
fn a_run_that_could_not_be_made_says_why() {
    let claim = claim(&json!({"value": 1, "unit": "ms"}), &json!({"kind": "at-most", "of": p50("tcp")}));
    let refused = BTreeMap::from([("r".to_owned(), Err("there is no such transport".to_owned()))]);
    let judgement = judge(&claim, "X", &refused).judgement;
    assert_eq!((judgement.verdict, judgement.measured), (Some(Verdict::CannotRun), None));
    assert_eq!(judgement.why, "there is no such transport");
    assert_eq!(judge(&claim, "X", &BTreeMap::new()).judgement.verdict, Some(Verdict::CannotRun));
    let mut ended = run();
    ended.state = State::Interrupted;
    ended.cases.clear();
    let judgement = judge(&claim, "X", &BTreeMap::from([("r".to_owned(), Ok(&ended))])).judgement;
    assert_eq!(judgement.why, "the run was ended before it");
}

#[test]
fn a_selection_of_two_cases_is_none() {
    let mut made_up = MadeUp::new();
    made_up.rounds_of(&Case::ping_pong("tcp"), &[US; 8]);
    made_up.rounds_of(&Case { waiting: Waiting::Spin, ..Case::ping_pong("tcp") }, &[US; 8]);
    let rule = json!({"kind": "at-most", "of": p50("tcp")});
    let judgement = judged(&made_up.run(), &json!({"value": 1, "unit": "ms"}), &rule).judgement;
    assert_eq!(judgement.verdict, Some(Verdict::CannotRun));
    assert!(judgement.why.contains("tcp block together; tcp spin together"), "{}", judgement.why);
}

#[test]
fn a_stand_in_is_told_and_may_leave_a_claim_undecided() {
    let run = run();
    let runs = BTreeMap::from([("r".to_owned(), Ok(&run))]);
    let mut claim =
        claim(&json!({"value": 0.1, "unit": "ms"}), &json!({"kind": "within", "factor": 2, "of": p50("tcp")}));
    let mut change = |stand_in: Option<&str>, undecided: Option<&str>| {
        if let hairpin_model::claim::Means::Test(test) = &mut claim.rows[0].means {
            (test.stand_in, test.undecided) = (stand_in.map(str::to_owned), undecided.map(str::to_owned));
        }
        judge(&claim, "X", &runs).judgement
    };
    let told = change(Some("an echo half that sleeps"), None);
    assert_eq!(told.verdict, Some(Verdict::Holds));
    assert!(told.why.ends_with("Stand-in: an echo half that sleeps."), "{}", told.why);
    let open = change(Some("an echo half that sleeps"), Some("It delays no ACK."));
    assert_eq!(open.verdict, Some(Verdict::CannotTell));
    assert!(open.why.starts_with("It delays no ACK. What was measured: "), "{}", open.why);
    assert!(open.measured.is_some());
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
            // Without a summary there is nothing to show, whatever is published.
            let mut empty = run.clone();
            empty.cases.clear();
            let judgement = judged(&empty, &published, rule).judgement;
            assert_eq!((judgement.measured, judgement.ratio), (None, None), "{rule}");
            assert_eq!(judgement.verdict, Some(Verdict::CannotRun), "{rule}");
        }
        assert!(seen.len() >= 2 && seen.windows(2).all(|pair| pair[0] == pair[1]), "{rule}: {seen:?}");
    }
    let claim = claim(&json!({"value": 0.1, "unit": "ms"}), &rules[0]);
    let listed = listed(&claim, "X");
    assert_eq!((listed.judgement.measured, listed.judgement.verdict), (None, None));
    assert_eq!((listed.rows[0].judgement.measured, listed.rows[0].run.as_deref()), (None, Some("X-r")));
}

#[test]
fn a_figure_is_told_in_units_that_fit_it() {
    let of = |json: Json| serde_json::from_value(json).unwrap();
    assert!(fits_unit(&of(p50("tcp")), "ms") && !fits_unit(&of(p50("tcp")), "bytes/ms"));
    let ratio = json!({"figure": "p50", "case": case("tcp"), "against": case("udp")});
    assert!(fits_unit(&of(ratio.clone()), "x") && !fits_unit(&of(ratio), "ms"));
    let mut made_up = MadeUp::new();
    made_up.round(&Case::ping_pong("tcp"), 0, &back_to_back(&[], &[US; 10]));
    let rate = json!({"kind": "at-least", "of": {"figure": "rate", "case": case("tcp")}});
    let judgement = judged(&made_up.run(), &json!({"value": 1, "unit": "msg/s"}), &rate).judgement;
    assert!((judgement.measured.unwrap().value - 1e6).abs() < 2e5, "{judgement:?}");
}
