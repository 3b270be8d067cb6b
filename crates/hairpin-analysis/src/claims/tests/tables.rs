//! Verdicts on claims with several rows.

use super::*;

/// A claim whose rows each have a transport and a maximum p50 in us.
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
    serde_json::from_value(json!({"id": "X2", "text": "t", "about": "path", "published": published, "row": rows}))
        .unwrap()
}

#[test]
fn a_table_is_judged_by_its_rows() {
    let run = run();
    let overall = |rows: &[(&str, f64)], missing: &[&str]| judge_on(&table(rows, missing), &run);
    let all = overall(&[("tcp", 200.0), ("udp", 60.0)], &[]);
    assert_eq!((all.judgement.verdict, all.coverage), (Some(Verdict::Holds), Coverage::Covered));
    assert_eq!(all.judgement.measured, None, "a table without a headline has no figure");
    assert!(all.rows.iter().all(|row| row.judgement.measured.is_some()));
    let part = overall(&[("tcp", 200.0)], &["wan"]);
    assert_eq!((part.judgement.verdict, part.coverage), (Some(Verdict::CannotTell), Coverage::Partly));
    assert_eq!(part.judgement.reason, Some(Reason::Rows));
    assert_eq!(part.rows[1].judgement.reason, Some(Reason::Missing { part: "a link".to_owned() }));
    assert_eq!(overall(&[("tcp", 20.0), ("udp", 60.0)], &["wan"]).judgement.verdict, Some(Verdict::DoesNotHold));
    let none = overall(&[("icmp", 20.0)], &["wan"]);
    assert_eq!((none.judgement.verdict, none.coverage), (Some(Verdict::CannotRun), Coverage::Partly));
    assert_eq!(overall(&[], &["wan"]).coverage, Coverage::NotCovered);
}

#[test]
fn a_table_has_the_figure_of_its_headline_row() {
    let row = |name: &str, rule: Json| json!({"name": name, "test": {"run": "r", "rule_because": "b", "rule": rule}});
    let mut ratio = row(
        "ratio",
        json!({"kind": "at-least", "of": {"figure": "p50", "case": case("tcp"), "against": case("udp")}}),
    );
    ratio["published"] = json!({"value": 1.5, "unit": "x"});
    let own = row("time", json!({"kind": "within", "factor": 2, "of": p50("tcp")}));
    let written = json!({"id": "X3", "text": "t", "about": "path", "published": {"value": 0.08, "unit": "ms"}, "row": [ratio, own]});
    let claim = serde_json::from_value(written).unwrap();
    let judged = judge_on(&claim, &run());
    assert_eq!(judged.judgement.verdict, Some(Verdict::Holds));
    assert_eq!(judged.judgement.measured, judged.rows[1].judgement.measured);
    assert_eq!(judged.judgement.measured_unit.as_deref(), Some("ms"));
    assert!((judged.judgement.ratio.unwrap() - 0.10035 / 0.08).abs() < 1e-3, "{:?}", judged.judgement);
    assert_eq!(judged.judgement.reason, Some(Reason::Rows));
    assert!(judged.rows.iter().all(|row| row.judgement.verdict == Some(Verdict::Holds)));
}

#[test]
fn a_row_about_another_setting_is_not_part_of_the_verdict() {
    let run = run();
    let of = |beside: bool| {
        let mut claim = table(&[("tcp", 200.0), ("udp", 10.0)], &[]);
        claim.rows[1].beside = beside.then(|| "another setting".to_owned());
        judge_on(&claim, &run)
    };
    assert_eq!(of(false).judgement.verdict, Some(Verdict::DoesNotHold));
    let beside = of(true);
    assert_eq!(beside.judgement.verdict, Some(Verdict::Holds));
    assert_eq!(beside.judgement.reason, Some(Reason::Rows));
    assert_eq!([0, 1].map(|row: usize| beside.rows[row].counts()), [true, false]);
    assert_eq!(beside.rows[1].beside.as_deref(), Some("another setting"));
    assert_eq!(beside.rows[1].judgement.verdict, Some(Verdict::DoesNotHold), "the row has its own verdict");
}
