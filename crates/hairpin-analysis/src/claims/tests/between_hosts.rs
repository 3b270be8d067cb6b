//! Verdicts between two hosts.

use hairpin_model::case::PathKind;
use hairpin_model::flow::Direction;
use hairpin_model::{Fallback, Flow, Load, RemotePath};

use super::*;

/// The case between two hosts; `instead_of` is the transport that was replaced, if any.
fn across(case: &Case, instead_of: Option<&str>) -> Case {
    let fallback = instead_of.map(|from| Fallback {
        from: from.to_owned(),
        to: case.primary().transport.clone(),
        evidence: "5 datagrams were sent, and none came back in 2 s".to_owned(),
    });
    case.clone().with(|changed| {
        changed.path.across = Some(RemotePath { kind: PathKind::Hosts, host: "lab".to_owned(), fallback });
    })
}

fn run_of(case: &Case) -> Run {
    Fixture::of(&[(case, &[100 * US; 8])]).run()
}

#[test]
fn a_fallback_is_reported_with_its_evidence_and_without_one_the_claim_is_undecided() {
    let published = json!({"value": ["UDP", "TCP"], "unit": "order of trying"});
    let rule = json!({"kind": "fallback", "case": {}, "from": "udp", "to": "tcp"});
    let of = |case: &Case| judged(&run_of(case), &published, &rule);
    let fell = of(&across(&Case::ping_pong("tcp"), Some("udp")));
    assert_eq!(fell.verdict, Some(Verdict::Confirmed));
    let fell_back = |reason: &Option<Reason>| match reason {
        Some(Reason::FellBack { fallback, .. }) => Some((fallback.from.clone(), fallback.to.clone())),
        _ => None,
    };
    assert_eq!(fell_back(&fell.reason), Some(("udp".to_owned(), "tcp".to_owned())));
    let other = of(&across(&Case::ping_pong("unix-stream"), Some("udp")));
    assert_eq!(other.verdict, Some(Verdict::Refuted), "{other:?}");
    assert_eq!(fell_back(&other.reason), Some(("udp".to_owned(), "unix-stream".to_owned())));
    for through in [across(&Case::ping_pong("udp"), None), Case::ping_pong("udp")] {
        let through = of(&through);
        assert_eq!(through.verdict, Some(Verdict::Undecided));
        assert!(matches!(through.reason, Some(Reason::NoFallback { .. })), "{through:?}");
    }
}

#[test]
fn one_way_latency_between_two_hosts_is_not_reported_as_too_few_samples() {
    let load = Load::Messages { size_bytes: 64, batch: 1, observer: hairpin_model::flow::Observer::Sampled };
    let case =
        Case::ping_pong("udp").with(|changed| *changed.primary_mut() = Flow::one_way("udp", load, Direction::Up));
    let mut run = run_of(&across(&case, None));
    run.cases[0].flows[0].latency_ns.p50 = None;
    let rule = json!({"kind": "within", "factor": 2, "of": p50("udp")});
    let judgement = judged(&run, &json!({"value": 1, "unit": "ms"}), &rule);
    assert_eq!(judgement.verdict, Some(Verdict::Undecided));
    assert!(matches!(judgement.reason, Some(Reason::NeedsClocks { .. })), "{judgement:?}");
}

#[test]
fn skipped_rows_do_not_decide_and_a_claim_of_skipped_rows_is_not_testable() {
    let number = json!({"value": 0.1, "unit": "ms"});
    let row = |name: &str, about: &str, factor: f64| {
        let rule = json!({"kind": "within", "factor": factor, "of": p50("tcp")});
        json!({"name": name, "about": about, "test": test(&rule)})
    };
    let judge_rows = |rows: Json| judge_on(&written(&number, &[("row", rows)]).between_hosts(), &run());
    let mixed = judge_rows(json!([row("over the path", "path", 2.0), row("here", "machine", 2.0)]));
    assert_eq!((mixed.headline, mixed.axes.size), (Some(Headline::Holds), Verdict::Confirmed));
    assert_eq!([0, 1].map(|row: usize| mixed.rows[row].decides()), [true, false]);
    assert_eq!(mixed.rows[1].skipped.as_deref(), Some("it is about one machine"));
    assert_eq!((&mixed.rows[1].run, mixed.rows[1].judgement.measured), (&None, None));
    let alone = judge_rows(json!([row("here", "machine", 2.0), row("there", "machine", 2.0)]));
    assert_eq!((alone.headline, alone.axes.size), (Some(Headline::NotTestable), Verdict::NotTested));
    let because = "it is about one machine".to_owned();
    for row in &alone.rows {
        assert!(!row.decides() && row.judgement.measured.is_none());
        assert_eq!(row.judgement.verdict, Some(Verdict::NotTested));
        assert_eq!(row.judgement.reason, Some(Reason::Skipped { because: because.clone() }));
    }
}
