//! Figures of one-way loads, ratios between runs, and gaps.

use hairpin_model::flow::Direction;
use hairpin_model::options::OptionName;
use hairpin_model::{
    CpuTimeLine, Effective, EndReport, Fact, Flow, Load, Measured, Options, Received, Sent, fact_names,
};

use super::*;
use crate::fixture::links::{late_by, over};

/// Eight rounds of messages of 1000 bytes up: 1000 are sent in 5 ms, 900 received in 9 ms. The warm-up has 1000
/// messages at the client and 100 at the server.
fn one_way_rounds(fixture: &mut Fixture, case: &Case, change: impl Fn(&mut Measured, u32)) {
    for block in 0..8 {
        fixture.round_with(case, block, &back_to_back(&[], &[100 * US; 900]), |measured| {
            let flow = measured.primary_mut();
            (flow.ledger.sent, flow.ledger.received, flow.figures.samples) = (1000, 900, 900);
            flow.received = Some(Received {
                bytes: 900_000,
                bytes_after_first: 900_000,
                over_ns: 9 * MS,
                connection_bytes: vec![600_000, 300_000],
                ..Received::default()
            });
            flow.sent = Some(Sent { messages: 1000, over_ns: 5 * MS, ..Sent::default() });
            let end = |role: End, warm_up: u64, calls: u64, cpu_ns: u64| EndReport {
                role,
                warm_up_messages: Some(warm_up),
                system_calls: Some(calls),
                cpu_ns,
                ..EndReport::default()
            };
            measured.ends = vec![end(End::Client, 1000, 500, 2 * MS), end(End::Server, 100, 4000, 9 * MS)];
            change(measured, block);
        });
    }
}

fn messages_up(transport: &str) -> Case {
    let load = Load::Messages { size_bytes: 1000, batch: 1, observer: hairpin_model::flow::Observer::Sampled };
    Case::ping_pong(transport).with(|changed| *changed.primary_mut() = Flow::one_way(transport, load, Direction::Up))
}

fn measured(run: &Run, figure: &str, unit: &str, case: &Json) -> f64 {
    let of = json!({"figure": figure, "case": case});
    let judgement =
        judged(run, &json!({"value": 1, "unit": unit}), &json!({"kind": "within", "factor": 2, "of": of}));
    judgement.measured.unwrap_or_else(|| panic!("{figure}: {judgement:?}")).value
}

#[test]
fn figures_of_a_one_way_load_are_from_the_end_that_counted_them() {
    let mut fixture = Fixture::new();
    one_way_rounds(&mut fixture, &messages_up("udp"), |_, _| {});
    let run = fixture.run();
    let expected = [
        ("received-per-s", "msg/s", 100_000.0),
        ("rate", "msg/s", run.cases[0].primary().rate_per_s.unwrap().value),
        ("sent-per-s", "1/s", 200_000.0),
        ("goodput-bytes-per-s", "bytes/s", 1e8),
        ("goodput-bytes-per-s", "MiB/s", 1e8 / 1_048_576.0),
        ("sent-bytes-per-s", "bytes/s", 2e8),
        ("received-bytes-per-s", "bytes/s", 1.8e8),
        ("lost-share", "share", 0.1),
        ("received-share", "share", 0.9),
        ("client-system-calls-per-message", "calls", 0.25),
        ("server-system-calls-per-message", "calls", 4.0),
        ("client-cpu-seconds-per-million", "s", 2.0),
        ("server-cpu-seconds-per-million", "s", 10.0),
        ("client-cpu-seconds-per-gb", "s", 2.0),
        ("server-cpu-seconds-per-gb", "ms", 10_000.0),
        ("fairness", "index", 0.9),
    ];
    for (figure, unit, value) in expected {
        let is = measured(&run, figure, unit, &case("udp"));
        assert!((is / value - 1.0).abs() < 1e-9, "{figure} in {unit}: {is}, not {value}");
    }
    let one_way = run.cases[0].one_way().unwrap();
    let summary = |figure: Option<Figure>| figure.unwrap().value;
    assert_eq!(summary(one_way.received_per_s), measured(&run, "received-per-s", "msg/s", &case("udp")));
    let calls = measured(&run, "server-system-calls-per-message", "calls", &case("udp"));
    assert_eq!(summary(one_way.system_calls_per_message.server), calls);
    let of_no_link = json!({"kind": "at-least", "of": {"figure": "reverse-share", "case": case("udp")}});
    assert_eq!(verdict(&run, &json!({"value": 0, "unit": "share"}), &of_no_link), Verdict::Undecided, "loopback");
}

#[test]
fn the_reverse_share_is_bytes_in_the_opposite_direction_per_byte_received() {
    let mut fixture = Fixture::new();
    let down = messages_up("udp").with(|changed| changed.primary_mut().direction = Direction::Down);
    for (case, up_bytes, down_bytes) in [(messages_up("udp6"), 1_100_000, 20_000), (down, 40_000, 2_200_000)] {
        one_way_rounds(&mut fixture, &over("delay=2ms", case), |measured, _| {
            late_by(0)(measured);
            let link = measured.link.as_mut().unwrap();
            (link.up.in_bytes, link.down.in_bytes) = (up_bytes, down_bytes);
        });
    }
    let run = fixture.run();
    // The receiver got 900 measured messages of 1000 bytes. In the warm-up the client sent 1000, the server got 100.
    let near = |figure: &str, unit: &str, transport: &str, value: f64| {
        let is = measured(&run, figure, unit, &case(transport));
        assert!((is / value - 1.0).abs() < 1e-9, "{figure} of {transport}: {is}, not {value}");
    };
    near("reverse-share", "share", "udp6", 20_000.0 / 1_000_000.0);
    near("reverse-bytes-per-s", "KiB/s", "udp6", 0.02 * 1e8 / 1024.0);
    near("reverse-share", "share", "udp", 40_000.0 / 1_900_000.0);
}

#[test]
fn without_a_link_reverse_bytes_are_those_of_the_receivers_segments_without_payload() {
    let mut fixture = Fixture::new();
    let counted = |measured: &mut Measured, segments: [f64; 3]| {
        let names = [fact_names::SEGMENTS_OUT, fact_names::DATA_SEGMENTS_OUT, fact_names::HEADER_BYTES];
        let server = measured.ends.iter_mut().find(|end| end.role == End::Server).unwrap();
        server.facts.extend(names.into_iter().zip(segments).map(|(name, number)| Fact::number(name, number)));
    };
    one_way_rounds(&mut fixture, &messages_up("tcp"), |measured, _| {
        let ledger = &mut measured.primary_mut().ledger;
        (ledger.sent, ledger.unexplained) = (ledger.received, 0);
        counted(measured, [1001.0, 1.0, 52.0]);
    });
    let run = fixture.run();
    // The server received 1000 messages of 1000 bytes, 100 of them in the warm-up.
    let is = measured(&run, "reverse-share", "share", &case("tcp"));
    assert!((is - 0.052).abs() < 1e-9, "{is}");
}

#[test]
fn the_case_of_the_denominator_may_be_in_another_run() {
    let run_of = |latency: u64, failed: bool| {
        let mut fixture = Fixture::new();
        // Drift over the blocks of one run must not affect the other run.
        let spread: Vec<u64> = (0..8).map(|k| latency + k * latency / 100).collect();
        fixture.rounds_of(&Case::ping_pong("tcp"), if failed { &[] } else { &spread });
        fixture.run()
    };
    let (slow, fast) = (run_of(100 * US, false), run_of(25 * US, false));
    let rule = json!({"kind": "within", "factor": 1.2,
        "of": {"figure": "p50", "case": case("tcp"), "against": case("tcp"), "against_run": "other"}});
    let claim = claim(&json!({"value": 4, "unit": "x"}), &rule);
    assert_eq!(claim.runs(), ["r", "other"], "both runs are needed");
    let judged = |other: Result<&Run, String>| {
        only_row(judge(
            &claim,
            &text(),
            &BTreeMap::from([("r".to_owned(), Ok(&slow)), ("other".to_owned(), other)]),
            1.0,
        ))
    };
    let found = judged(Ok(&fast));
    let ratio = found.measured.unwrap();
    assert!((ratio.value - 4.0).abs() < 0.1 && ratio.low.unwrap() < ratio.high.unwrap() - 0.05, "{found:?}");
    assert_eq!(found.verdict, Some(Verdict::Confirmed));
    let absent = judged(Err("no permission".to_owned()));
    let no_run = Reason::NoRun { run: "other".to_owned(), cause: Some("no permission".to_owned()) };
    assert_eq!((absent.verdict, absent.reason), (Some(Verdict::NotTested), Some(no_run)));
}

#[test]
fn a_gap_widens_if_the_whole_interval_at_full_load_is_larger() {
    let run_of = |tcp: u64, rounds: u64| {
        let mut fixture = Fixture::new();
        for (transport, latency) in [("udp", 100 * US), ("tcp", tcp)] {
            let spread: Vec<u64> = (0..rounds).map(|k| latency + k * latency / 200).collect();
            fixture.rounds_of(&Case::ping_pong(transport), &spread);
        }
        fixture.run()
    };
    let rule = json!({"kind": "widens", "figure": "p50", "low_run": "low",
        "low": [case("udp"), case("tcp")], "full": [case("udp"), case("tcp")]});
    let claim = claim(&json!({"value": ["low load", "full load"], "unit": "order of gaps"}), &rule);
    assert_eq!(claim.runs(), ["r", "low"]);
    for (full, rounds, expected, wider) in [
        (600 * US, 8, Verdict::Confirmed, 3.0),
        (200 * US, 8, Verdict::Equal, 1.0),
        (206 * US, 8, Verdict::Equal, 1.03),
        (150 * US, 8, Verdict::Refuted, 0.75),
        (600 * US, 4, Verdict::Confirmed, 3.0),
        (600 * US, 3, Verdict::Undecided, 3.0),
    ] {
        let (low, full) = (run_of(200 * US, rounds), run_of(full, rounds));
        let runs = BTreeMap::from([("r".to_owned(), Ok(&full)), ("low".to_owned(), Ok(&low))]);
        let found = only_row(judge(&claim, &text(), &runs, 1.0));
        assert_eq!(found.verdict, Some(expected), "{found:?}");
        let measured = found.measured.unwrap();
        assert!((measured.value / wider - 1.0).abs() < 0.02, "{found:?}");
        assert_eq!(measured.low.is_some(), rounds > 4, "four rounds have outer bounds and no interval: {found:?}");
        let Some(Reason::Widens { full, low, .. }) = &found.reason else { panic!("{found:?}") };
        assert_eq!([full, low].map(|gap| gap.cases[0].as_str()), ["udp block same-cpu"; 2]);
        assert!((full.ratio.value / low.ratio.value / wider - 1.0).abs() < 0.02, "{found:?}");
    }
}

#[test]
fn kept_data_includes_courses_over_time_and_options() {
    let mut fixture = Fixture::new();
    let options = Options::parse("sndbuf=4096").unwrap();
    let asked = messages_up("udp6").with(|changed| changed.primary_mut().options = options);
    one_way_rounds(&mut fixture, &asked, |measured, _| {
        let received = measured.primary_mut().received.as_mut().unwrap();
        (received.interval_ns, received.interval_bytes) = (MS, vec![100_000; 9]);
        for end in &mut measured.ends {
            end.cpu_time_line = Some(CpuTimeLine { at_ns: vec![4 * MS, 9 * MS], cpu_ns: vec![MS, MS] });
        }
        let granted = Effective {
            name: OptionName::Sndbuf,
            asked: Some("4096".to_owned()),
            before: "4608".to_owned(),
            after: "4608".to_owned(),
            met: true,
        };
        measured.ends[0].options = vec![granted];
    });
    one_way_rounds(&mut fixture, &messages_up("udp"), |measured, _| {
        let received = measured.primary_mut().received.as_mut().unwrap();
        (received.interval_ns, received.interval_bytes) = (MS, vec![100_000; 9]);
    });
    let run = fixture.run();
    let kept = |transport: &str, outputs: Json| {
        let rule = json!({"kind": "kept", "case": case(transport), "kept": outputs});
        judged(&run, &json!({"value": ["a"], "unit": "outputs"}), &rule)
    };
    let all = kept("udp6", json!(["rate-over-time", "cpu-over-time", "options"]));
    assert_eq!(all.verdict, Some(Verdict::Confirmed), "{all:?}");
    let Some(Reason::Kept { options, absent, .. }) = &all.reason else { panic!("{all:?}") };
    assert_eq!((options[0].asked.as_deref(), options[0].before.as_str()), (Some("4096"), "4608"));
    assert!(options.len() == 1 && absent.is_empty(), "{all:?}");
    let without = kept("udp", json!(["rate-over-time", "cpu-over-time", "options"]));
    assert_eq!(without.verdict, Some(Verdict::Refuted));
    let Some(Reason::Kept { reported, absent, options, .. }) = &without.reason else { panic!("{without:?}") };
    assert_eq!(reported, &[Kept::RateOverTime]);
    assert_eq!((absent.as_slice(), options.len()), (&[Kept::CpuOverTime, Kept::Options][..], 0));
}

#[test]
fn a_share_of_the_messages_is_at_most_one() {
    for (figure, received) in [("lost-share", [0, 400]), ("received-share", [1000, 600])] {
        let mut fixture = Fixture::new();
        one_way_rounds(&mut fixture, &messages_up("udp"), |measured, block| {
            measured.primary_mut().ledger.received = received[block as usize % 2];
        });
        let rule = json!({"kind": "at-least", "of": {"figure": figure, "case": case("udp")}});
        let found = judged(&fixture.run(), &json!({"value": 0, "unit": "share"}), &rule);
        assert_eq!(found.measured.unwrap().high, Some(1.0), "{figure}: {found:?}");
    }
}

#[test]
fn a_claim_about_streams_has_their_congestion_controls() {
    let mut fixture = Fixture::new();
    fixture.rounds_of(&Case::ping_pong("udp"), &[100 * US; 8]);
    one_way_rounds(&mut fixture, &messages_up("tcp"), |_, _| {});
    let mut run = fixture.run();
    for (end, control) in run.cases.iter_mut().flat_map(|case| &mut case.ends).zip(["bbr", "cubic"].iter().cycle()) {
        let (name, before) = (OptionName::Congestion, (*control).to_owned());
        end.effective_options = vec![Effective { name, asked: None, after: before.clone(), before, met: true }];
    }
    let controls = |figure: &str, transport: &str| {
        let of = json!({"figure": figure, "case": case(transport)});
        let claim = claim(&json!({"value": 1, "unit": "1/s"}), &json!({"kind": "at-least", "of": of}));
        judge_on(&claim, &run).congestion_controls
    };
    assert_eq!(controls("received-per-s", "tcp"), ["bbr", "cubic"], "of both ends");
    assert_eq!(controls("rate", "udp"), [""; 0], "a round trip is no stream");
}
