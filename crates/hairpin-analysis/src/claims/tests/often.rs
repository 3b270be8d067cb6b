//! Shares of rounds, and rows without an interval.

use super::*;

/// `slow` of `rounds` rounds with a maximum of 2 ms, the others of 50 us.
fn run_with(slow: usize, rounds: usize) -> Run {
    let latencies: Vec<u64> = (0..rounds).map(|round| if round < slow { 2 * MS } else { 50 * US }).collect();
    Fixture::of(&[(&Case::ping_pong("tcp"), &latencies)]).run()
}

fn often(run: &Run, reaches: f64, share: f64) -> Judgement {
    let rule = json!({"kind": "often", "figure": "max", "case": case("tcp"), "reaches": reaches, "share": share});
    judged(run, &json!({"value": 1, "unit": "ms"}), &rule)
}

#[test]
fn a_share_of_the_rounds_has_a_binomial_interval() {
    for (slow, verdict, interval, place) in [
        (10, Verdict::Confirmed, [0.6915, 1.0], Place::Inside),
        (0, Verdict::Refuted, [0.0, 0.3085], Place::Below),
        (5, Verdict::Undecided, [0.1871, 0.8129], Place::Across),
        (9, Verdict::Confirmed, [0.5550, 0.9975], Place::Inside),
        (8, Verdict::Undecided, [0.4439, 0.9748], Place::Across),
    ] {
        let found = often(&run_with(slow, 10), 1.0, 0.5);
        assert_eq!(found.verdict, Some(verdict), "{found:?}");
        let measured = found.measured.unwrap();
        assert_eq!(measured.value, slow as f64 / 10.0);
        let [low, high] = [measured.low, measured.high].map(Option::unwrap);
        assert!((low - interval[0]).abs() < 1e-4 && (high - interval[1]).abs() < 1e-4, "{measured:?}");
        assert_eq!((found.measured_unit.as_deref(), found.ratio), (Some("share"), None));
        let case = "tcp block same-cpu".to_owned();
        let (rounds, reached, bound, share) = (10, slow as u64, 1.0, 0.5);
        let reason = Reason::Often { figure: FigureName::Max, case, place, rounds, reached, bound, share };
        assert_eq!(found.reason, Some(reason));
    }
}

#[test]
fn rounds_that_reach_a_bound_are_counted_in_the_published_unit() {
    let run = run_with(10, 10);
    assert_eq!(often(&run, 1.99, 0.5).verdict, Some(Verdict::Confirmed));
    assert_eq!(often(&run, 2.1, 0.5).verdict, Some(Verdict::Refuted));
    assert_eq!(often(&run, 1.0, 0.9).verdict, Some(Verdict::Undecided), "10 of 10 may be three quarters");
    let rule = json!({"kind": "often", "figure": "max", "case": case("tcp"), "reaches": 1, "share": 0.5});
    assert_eq!(verdict(&run, &json!({"value": 1, "unit": "us"}), &rule), Verdict::Confirmed);
    let unit = judged(&run, &json!({"value": 1, "unit": "bytes/ms"}), &rule);
    assert!(matches!(unit.reason, Some(Reason::WrongUnit { .. })), "{unit:?}");
    let absent = json!({"kind": "often", "figure": "max", "case": case("icmp"), "reaches": 1, "share": 0.5});
    assert_eq!(verdict(&run, &json!({"value": 1, "unit": "ms"}), &absent), Verdict::NotTested);
}

#[test]
fn the_worst_sample_of_all_rounds_decides_nothing() {
    let latencies = [50 * US, 50 * US, 50 * US, 2 * MS, 50 * US, 50 * US];
    let run = Fixture::of(&[(&Case::ping_pong("tcp"), &latencies)]).run();
    let rule = json!({"kind": "at-least", "of": {"figure": "max", "case": case("tcp")}});
    assert_eq!(verdict(&run, &json!({"value": 1, "unit": "ms"}), &rule), Verdict::Undecided);
    assert_eq!(verdict(&run, &json!({"value": 2.1, "unit": "ms"}), &rule), Verdict::Refuted);
}

/// udp at 50 us, which rises by a third over the rounds, and tcp at 100 times that, which falls: no interval.
fn drifting(rounds: u64) -> Run {
    let mut fixture = Fixture::new();
    let drift = |ns: u64, k: u64| ns + ns * k / (3 * rounds);
    let udp: Vec<u64> = (0..rounds).map(|k| drift(50 * US, k)).collect();
    let tcp: Vec<u64> = (0..rounds).map(|k| drift(5 * MS, rounds - k)).collect();
    fixture.rounds_of(&Case::ping_pong("udp"), &udp);
    fixture.rounds_of(&Case::ping_pong("tcp"), &tcp);
    fixture.run()
}

#[test]
fn without_an_interval_a_row_is_judged_by_the_outer_bounds_of_its_rounds() {
    for rounds in [4, 20] {
        let run = drifting(rounds);
        let at_most = |us: f64| {
            judged(&run, &json!({"value": us, "unit": "us"}), &json!({"kind": "at-most", "of": p50("udp")}))
        };
        let far = at_most(500.0);
        assert_eq!(far.measured.unwrap().low, None, "{rounds} rounds have no interval: {far:?}");
        let outer = far.outer_bounds.unwrap();
        assert!(outer.low < far.measured.unwrap().value && far.measured.unwrap().value < outer.high, "{far:?}");
        assert_eq!(outer.rounds, rounds, "the bounds that decide are data");
        assert_eq!([far.verdict, at_most(5.0).verdict], [Some(Verdict::Confirmed), Some(Verdict::Refuted)]);
        let near = at_most(60.0);
        assert_eq!(near.verdict, Some(Verdict::Undecided), "within the bounds: {near:?}");
        assert!(matches!(near.reason, Some(Reason::Compared { place: Place::Across, .. })));

        let published = json!({"value": 100, "unit": "x"});
        let of = json!({"figure": "p50", "case": case("tcp"), "against": case("udp")});
        let ratio = judged(&run, &published, &json!({"kind": "within", "factor": 4, "of": of}));
        assert_eq!((ratio.verdict, ratio.measured.unwrap().low), (Some(Verdict::Confirmed), None), "{ratio:?}");
        let order = |cases: [&str; 2]| {
            let rule = json!({"kind": "order", "figure": "p50", "cases": cases.map(case)});
            judged(&run, &json!({"value": cases, "unit": "order"}), &rule)
        };
        let [forth, back] = [order(["udp", "tcp"]), order(["tcp", "udp"])];
        assert_eq!([forth.verdict, back.verdict], [Some(Verdict::Confirmed), Some(Verdict::Refuted)]);
        let Some(Reason::Order { steps, .. }) = &forth.reason else { panic!("{forth:?}") };
        assert!(steps[0].outer_bounds.is_some_and(|outer| outer.low > 1.0), "{forth:?}");
        assert_eq!(forth.outer_bounds, steps[0].outer_bounds);
        let share = |at_least: f64| {
            let rule = json!({"kind": "share", "figure": "p50", "whole": case("tcp"), "rest": case("udp"), "at_least": at_least});
            verdict(&run, &json!({"value": 1, "unit": "share"}), &rule)
        };
        assert_eq!([share(0.9), share(0.9999)], [Verdict::Confirmed, Verdict::Refuted]);
    }
    let three = drifting(3);
    let rule = json!({"kind": "at-most", "of": p50("udp")});
    let few = judged(&three, &json!({"value": 500, "unit": "us"}), &rule);
    assert_eq!(few.verdict, Some(Verdict::Undecided), "three rounds are too few for a verdict");
    assert!(matches!(few.reason, Some(Reason::Compared { place: Place::Unknown, .. })));
    assert_eq!(few.outer_bounds, None);
    let exact = judged(&super::run(), &json!({"value": 500, "unit": "us"}), &rule);
    assert_eq!((exact.measured.unwrap().interval().is_some(), exact.outer_bounds), (true, None));
}

#[test]
fn the_margin_is_what_confirms_or_counts_as_equal() {
    let run = run();
    let margin = |published: Json, rule: Json| judged(&run, &published, &rule).margin;
    let ms = |value: Json| json!({"value": value, "unit": "ms"});
    let of = p50("tcp");
    let within = json!({"kind": "within", "factor": 2, "of": of});
    assert_eq!(margin(ms(json!(0.5)), within), Some([Some(0.25), Some(1.0)]));
    let range = json!({"kind": "range", "factor": 2, "of": of});
    assert_eq!(margin(ms(json!([1, 3])), range), Some([Some(0.5), Some(6.0)]));
    assert_eq!(margin(ms(json!([1, 3])), json!({"kind": "at-least", "of": of})), Some([Some(1.0), None]));
    assert_eq!(margin(ms(json!([1, 3])), json!({"kind": "at-most", "of": of})), Some([None, Some(3.0)]));
    let own = json!({"kind": "at-most", "bound": 2, "of": of});
    assert_eq!(margin(ms(json!([1, 3])), own), Some([None, Some(2.0)]));
    let share = json!({"kind": "share", "figure": "p50", "whole": case("tcp"), "rest": case("udp"), "at_least": 0.1});
    assert_eq!(margin(json!({"value": 1, "unit": "share"}), share), Some([Some(0.1), None]));
    let names = json!({"value": ["udp", "tcp"], "unit": "order"});
    let order = json!({"kind": "order", "figure": "p50", "margin": 0.25, "cases": [case("udp"), case("tcp")]});
    assert_eq!(margin(names, order), Some([Some(0.8), Some(1.25)]));
    let often = json!({"kind": "often", "figure": "max", "case": case("tcp"), "reaches": 1, "share": 0.5});
    assert_eq!(margin(ms(json!(1)), often), Some([Some(0.5), None]));
    let kept = json!({"kind": "kept", "case": case("tcp"), "kept": ["curve"]});
    assert_eq!(margin(json!({"value": ["curve"], "unit": "outputs"}), kept), None);
}
