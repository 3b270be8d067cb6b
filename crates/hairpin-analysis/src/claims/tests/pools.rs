//! Rows that pool several cases.

use super::*;

/// Cases of a transport with these ways of waiting and latencies in us; the rounds of a case differ by 1 % each.
fn run_of(cases: &[(&str, Waiting, u64)]) -> Run {
    let mut fixture = Fixture::new();
    for (transport, waiting, us) in cases {
        let case = Case::ping_pong(transport).with(|changed| changed.ends.waiting = *waiting);
        let rounds: Vec<u64> = [0, 2, 1, 3, 0, 2, 1, 3].iter().map(|k| us * (1000 + 10 * k)).collect();
        fixture.rounds_of(&case, if *us == 0 { &[] } else { &rounds });
    }
    fixture.run()
}

fn waiting(transport: &str, waiting: &str) -> Json {
    json!({"transport": transport, "waiting": waiting})
}

fn pool(transport: &str) -> Json {
    json!([waiting(transport, "block"), waiting(transport, "spin")])
}

fn ratio(published: f64, case: &Json, against: &Json) -> [Json; 2] {
    let of = json!({"figure": "p50", "case": case, "against": against});
    [json!({"value": published, "unit": "x"}), json!({"kind": "within", "factor": 1.1, "of": of})]
}

fn order(run: &Run) -> Judgement {
    let rule = json!({"kind": "order", "figure": "p50", "cases": [pool("udp"), pool("tcp")]});
    judged(run, &json!({"value": ["udp", "tcp"], "unit": "order"}), &rule)
}

#[test]
fn a_pooled_ratio_is_the_geometric_mean_of_its_pairs() {
    use Waiting::{Block, Spin};
    let run = run_of(&[("udp", Block, 50), ("tcp", Block, 100), ("udp", Spin, 10), ("tcp", Spin, 80)]);
    let [published, rule] = ratio(4.0, &pool("tcp"), &pool("udp"));
    let found = judged(&run, &published, &rule);
    assert_eq!(found.verdict, Some(Verdict::Confirmed), "of 2 and 8: {found:?}");
    assert!((found.measured.unwrap().value - 4.0).abs() < 0.01, "{found:?}");
    let Some(Reason::Compared { case, against, .. }) = &found.reason else { panic!("{found:?}") };
    assert_eq!(case, "tcp block same-cpu and tcp spin same-cpu");
    assert_eq!(against.as_deref(), Some("udp block same-cpu and udp spin same-cpu"));
    let [_, arithmetic] = ratio(5.0, &pool("tcp"), &pool("udp"));
    assert_eq!(verdict(&run, &json!({"value": 5, "unit": "x"}), &arithmetic), Verdict::Refuted);
    let once = json!([waiting("udp", "block"), waiting("udp", "block")]);
    let [published, rule] = ratio(1.6_f64.sqrt() * 2.0_f64.sqrt(), &pool("tcp"), &once);
    let found = judged(&run, &published, &rule);
    assert!((found.measured.unwrap().value - 3.2_f64.sqrt()).abs() < 0.01, "2 and 1.6: {found:?}");
    let Some(Reason::Compared { against, .. }) = &found.reason else { panic!("{found:?}") };
    assert_eq!(against.as_deref(), Some("udp block same-cpu"), "a case of both pairs is named once");
}

#[test]
fn a_pooled_order_is_judged_by_the_mean_of_its_pairs() {
    use Waiting::{Block, Spin};
    let of = |slow: u64, fast: u64| {
        order(&run_of(&[("udp", Block, 50), ("tcp", Block, slow), ("udp", Spin, 50), ("tcp", Spin, fast)]))
    };
    let confirmed = of(100, 40);
    assert_eq!(confirmed.verdict, Some(Verdict::Confirmed), "2 and 0.8: {confirmed:?}");
    assert!((confirmed.measured.unwrap().value - 1.6_f64.sqrt()).abs() < 0.01);
    assert_eq!(of(100, 25).verdict, Some(Verdict::Equal), "2 and 1/2");
    assert_eq!(of(60, 25).verdict, Some(Verdict::Refuted), "1.2 and 1/2");
}

#[test]
fn a_pair_that_is_missing_leaves_the_others() {
    use Waiting::{Block, Spin};
    let run = run_of(&[("udp", Block, 50), ("tcp", Block, 100), ("udp", Spin, 10), ("tcp", Spin, 0)]);
    let [published, rule] = ratio(2.0, &pool("tcp"), &pool("udp"));
    let found = judged(&run, &published, &rule);
    assert_eq!(found.verdict, Some(Verdict::Confirmed), "{found:?}");
    let Some(Reason::Compared { case, against, .. }) = &found.reason else { panic!("{found:?}") };
    let named = [case.as_str(), against.as_deref().unwrap()];
    assert_eq!(named, ["tcp block same-cpu", "udp block same-cpu"], "only what was measured is named");
    let found = order(&run);
    assert_eq!(found.verdict, Some(Verdict::Confirmed));
    assert!((found.measured.unwrap().value - 2.0).abs() < 0.01, "{found:?}");
    let none = order(&run_of(&[("udp", Block, 50), ("tcp", Block, 0), ("udp", Spin, 10), ("tcp", Spin, 0)]));
    assert_eq!((none.verdict, none.measured), (Some(Verdict::NotTested), None), "{none:?}");
}

#[test]
fn a_pooled_ratio_uses_the_blocks_that_all_its_cases_have() {
    let mut fixture = Fixture::new();
    let spin = |transport: &str| Case::ping_pong(transport).with(|changed| changed.ends.waiting = Waiting::Spin);
    for (transport, us) in [("udp", 50), ("tcp", 100)] {
        fixture.rounds_of(&Case::ping_pong(transport), &[us * US; 8]);
        fixture.rounds_of(&spin(transport), &[us * US; 6]);
    }
    let mut run = fixture.run();
    // In the two blocks that the other pair lacks, the ratio is another.
    for round in run.rounds.iter_mut().filter(|round| round.order.block >= 6) {
        let Outcome::Measured(measured) = &mut round.outcome else { panic!("all were measured") };
        measured.primary_mut().figures.latency_ns.p50 = 1e6;
    }
    let [published, rule] = ratio(2.0, &pool("tcp"), &pool("udp"));
    let found = judged(&run, &published, &rule).measured.unwrap();
    assert!((found.value - 2.0).abs() < 1e-3 && found.high.unwrap() - found.low.unwrap() < 0.02, "{found:?}");
}

#[test]
fn a_pool_can_be_divided_by_a_pool_of_another_run() {
    use Waiting::{Block, Spin};
    let slow = run_of(&[("tcp", Block, 100), ("tcp", Spin, 400)]);
    let fast = run_of(&[("tcp", Block, 50), ("tcp", Spin, 50)]);
    let [published, mut rule] = ratio(4.0, &pool("tcp"), &pool("tcp"));
    rule["of"]["against_run"] = json!("other");
    let claim = claim(&published, &rule);
    let runs = BTreeMap::from([("r".to_owned(), Ok(&slow)), ("other".to_owned(), Ok(&fast))]);
    let found = only_row(judge(&claim, &text(), &runs, 1.0));
    assert_eq!(found.verdict, Some(Verdict::Confirmed), "of 2 and 8: {found:?}");
    assert!((found.measured.unwrap().value - 4.0).abs() < 0.05, "{found:?}");
}
