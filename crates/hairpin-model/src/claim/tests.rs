//! Claims as written in their files.

use serde_json::{Value as Json, json};

use super::*;

fn claim(json: Json) -> Result<Claim, String> {
    serde_json::from_value(json).map_err(|error| error.to_string())
}

/// The fields that every claim has, with this published value.
fn head(id: &str, published: Json) -> Json {
    json!({"id": id, "text": "t", "quote": "q", "why": "w", "so_what": "s", "about": "path", "published": published})
}

/// A claim without rows of a table, with these fields besides those of [`head`].
fn single(published: Json, fields: &[(&str, Json)]) -> Result<Claim, String> {
    let mut written = head("A1", published);
    for (name, value) in fields {
        written[*name] = value.clone();
    }
    claim(written)
}

/// A claim with this published value and these rows.
fn of_rows(id: &str, published: Json, rows: Json) -> Result<Claim, String> {
    let mut written = head(id, published);
    written["row"] = rows;
    claim(written)
}

/// A test with this rule.
fn test(rule: Json) -> Json {
    json!({"run": "r", "rule_because": "b", "changed": {"on": "2026-11-26", "because": "c"}, "rule": rule})
}

fn within(transport: &str) -> Json {
    test(json!({"kind": "within", "factor": 2, "of": {"figure": "p50", "case": {"transport": transport}}}))
}

fn case(transport: &str) -> Json {
    json!({"transport": transport})
}

fn ms(value: Json) -> Json {
    json!({"value": value, "unit": "ms"})
}

#[test]
fn a_claim_without_rows_has_one_without_a_name() {
    let claim = single(ms(json!(0.25)), &[("test", within("tcp"))]).unwrap();
    assert_eq!((claim.rows.len(), claim.rows[0].name.as_str()), (1, ""));
    assert_eq!((&claim.rows[0].published, claim.rows[0].about), (&claim.published, About::Path));
    assert_eq!((claim.tests().count(), claim.missing().len(), claim.kind), (1, 0, ClaimKind::Statement));
    let [quote, why, so_what] = [&claim.quote, &claim.why, &claim.so_what].map(String::as_str);
    assert_eq!((quote, why, so_what), ("q", "w", "s"));
    let question = single(ms(json!(1)), &[("kind", json!("question")), ("missing", json!("a link"))]).unwrap();
    assert_eq!((question.kind, question.missing()), (ClaimKind::Question, vec!["a link"]));
}

#[test]
fn a_row_takes_its_published_value_from_the_claims_table() {
    let published = ms(json!({"near": [0.1, 0.5], "far": 10}));
    let rows =
        json!([{"name": "near", "test": within("tcp")}, {"name": "far", "about": "machine", "missing": "a link"}]);
    let claim = of_rows("A12", published, rows).unwrap();
    assert_eq!(claim.rows[0].published, Published { value: Value::Range([0.1, 0.5]), unit: "ms".to_owned() });
    assert_eq!(claim.rows[1].published.value, Value::Number(10.0));
    assert_eq!((claim.missing(), claim.rows[1].about), (vec!["a link"], About::Machine));
}

#[test]
fn every_claim_needs_its_quotation_reasons_and_the_record_of_its_rule() {
    for field in ["id", "text", "quote", "why", "so_what", "about", "published"] {
        let mut written = head("A1", ms(json!(1)));
        written["missing"] = json!("a link");
        written.as_object_mut().unwrap().remove(field);
        let error = claim(written).unwrap_err();
        assert!(error.contains(&format!("missing field `{field}`")), "{error}");
    }
    for field in ["run", "rule", "rule_because", "changed"] {
        let mut written = within("tcp");
        written.as_object_mut().unwrap().remove(field);
        let error = single(ms(json!(1)), &[("test", written)]).unwrap_err();
        assert!(error.contains(&format!("missing field `{field}`")), "{error}");
    }
    let mut undated = within("tcp");
    undated["changed"] = json!({"because": "c"});
    assert!(single(ms(json!(1)), &[("test", undated)]).unwrap_err().contains("missing field `on`"));
}

#[test]
fn names_of_earlier_versions_are_unknown_fields() {
    let missing = ("missing", json!("a link"));
    for field in ["mising", "beside", "tests", "knob"] {
        let error = single(ms(json!(1)), &[missing.clone(), (field, json!("x"))]).unwrap_err();
        assert!(error.contains(&format!("unknown field `{field}`")), "{error}");
    }
    for field in ["undecided", "path_undecided", "because"] {
        let mut written = within("tcp");
        written[field] = json!("x");
        let error = single(ms(json!(1)), &[("test", written)]).unwrap_err();
        assert!(error.contains(&format!("unknown field `{field}`")), "{error}");
    }
    let beside = json!([{"name": "n", "beside": "another", "test": within("tcp")}]);
    assert!(of_rows("A1", ms(json!(1)), beside).unwrap_err().contains("unknown field `beside`"));
}

#[test]
fn a_claim_needs_exactly_one_of_test_missing_and_rows() {
    let order = json!({"value": ["a", "b"], "unit": "order"});
    let missing = ("missing", json!("y"));
    let begins = "A1 does not have exactly one of `test`, `missing` and rows (hint: ";
    let rows = ("row", json!([{"name": "a", "missing": "y"}]));
    for fields in [
        vec![],
        vec![("test", within("x")), missing.clone()],
        vec![missing, rows.clone()],
        vec![("between_hosts", within("x")), rows],
        vec![("between_hosts", within("x"))],
    ] {
        let error = single(order.clone(), &fields).unwrap_err();
        assert!(error.starts_with(begins), "{fields:?}: {error}");
    }
    let both = json!([{"name": "b", "test": within("x"), "missing": "y"}]);
    let both = of_rows("A3", order, both).unwrap_err();
    assert!(both.starts_with("row `b` of A3 does not have exactly one of"), "{both}");
    let stray = of_rows("A3", ms(json!({"a": 1})), json!([{"name": "b", "missing": "y"}])).unwrap_err();
    assert_eq!(stray, "row `b` of A3 has no published value (hint: add `published`, or a row of the claim's table)");
}

#[test]
fn one_row_at_least_is_about_the_texts_own_setting() {
    let own = json!({"name": "own", "test": within("tcp")});
    let other = json!({"name": "fair", "other_setting": "two CPUs", "test": within("udp")});
    let written = |rows| of_rows("B2", ms(json!(1)), rows);
    let both = written(json!([other, own])).unwrap();
    assert_eq!(both.rows.iter().map(Row::shown).collect::<Vec<_>>(), [Some("two CPUs"), None]);
    let none =
        "no row of B2 is about the text's own setting (hint: omit `other_setting` in the row that tests the text)";
    assert_eq!(written(json!([other])).unwrap_err(), none);
    let single = single(ms(json!(1)), &[("test", within("tcp")), ("other_setting", json!("two CPUs"))]);
    assert!(single.unwrap_err().starts_with("no row of A1 is about the text's own setting"));
}

#[test]
fn rows_of_other_hardware_or_given_back_are_shown() {
    let hardware = single(ms(json!(1)), &[("test", within("tcp")), ("other_hardware", json!(true))]).unwrap();
    assert!(hardware.rows[0].other_hardware);
    assert_eq!(hardware.rows[0].shown(), Some("a figure of the text's own hardware"));
    for key in ["given_back", "path_given_back"] {
        let mut set = within("udp");
        set[key] = json!("It was set.");
        let claim = single(ms(json!(1)), &[("test", set)]).unwrap();
        assert_eq!(claim.rows[0].shown(), Some("It was set."), "{key}");
    }
    let plain = single(ms(json!(1)), &[("test", within("udp")), ("other_hardware", json!(false))]).unwrap();
    assert_eq!(plain.rows[0].shown(), None);
    let missing = json!([{"name": "w", "other_hardware": true, "missing": "Windows"}]);
    assert!(of_rows("A3", ms(json!(1)), missing).unwrap().rows[0].shown().is_some());
}

#[test]
fn what_a_row_claims_follows_from_its_rule_unless_it_is_written() {
    let of = json!({"figure": "p50", "case": case("tcp")});
    let pair = json!([case("udp"), case("tcp")]);
    let rules = [
        (json!({"kind": "order", "figure": "p50", "cases": pair}), Axis::Direction),
        (json!({"kind": "widens", "figure": "p50", "low": pair, "full": pair}), Axis::Direction),
        (
            json!({"kind": "share", "figure": "p50", "whole": case("a"), "rest": case("b"), "at_least": 0.5}),
            Axis::Cause,
        ),
        (json!({"kind": "packets", "case": case("tcp"), "events": ["syn"]}), Axis::Cause),
        (json!({"kind": "within", "factor": 2, "of": of}), Axis::Size),
        (json!({"kind": "range", "of": of}), Axis::Size),
        (json!({"kind": "at-least", "of": of}), Axis::Size),
        (json!({"kind": "at-most", "of": of}), Axis::Size),
        (json!({"kind": "often", "figure": "max", "case": case("tcp"), "reaches": 1, "share": 0.5}), Axis::Size),
        (json!({"kind": "kept", "case": case("tcp"), "kept": ["curve"]}), Axis::Size),
        (json!({"kind": "pattern", "case": case("tcp"), "writes": "15x2"}), Axis::Size),
        (json!({"kind": "fallback", "case": case("tcp"), "from": "udp", "to": "tcp"}), Axis::Size),
    ];
    for (rule, axis) in rules {
        let row = |extra: &[(&str, Json)]| {
            let fields = [&[("test", test(rule.clone()))], extra].concat();
            single(ms(json!(1)), &fields).unwrap().rows[0].clone()
        };
        assert_eq!(row(&[]).axis, axis, "{rule}");
        assert_eq!(row(&[("axis", json!("cause"))]).axis, Axis::Cause, "{rule}");
    }
    assert_eq!(single(ms(json!(1)), &[("missing", json!("x"))]).unwrap().rows[0].axis, Axis::Size, "no rule");
    let there = test(json!({"kind": "order", "figure": "p50", "cases": pair}));
    let between = single(ms(json!(1)), &[("missing", json!("x")), ("between_hosts", there)]).unwrap();
    assert_eq!(between.rows[0].axis, Axis::Direction, "of the test between two hosts");
}

#[test]
fn a_row_can_be_about_one_side_of_a_knob() {
    let knob = |value: &str| json!({"name": "waiting", "value": value});
    let row = |name: &str, knob: Json| json!({"name": name, "knob": knob, "test": within("tcp")});
    let sides = of_rows("A14", ms(json!(1)), json!([row("a", knob("block")), row("b", knob("spin"))])).unwrap();
    let named = |value: &str| Some(Knob { name: "waiting".to_owned(), value: value.to_owned() });
    assert_eq!([0, 1].map(|row: usize| sides.rows[row].knob.clone()), [named("block"), named("spin")]);
    let unnamed = of_rows("A14", ms(json!(1)), json!([row("a", json!({"value": "block"}))]));
    assert!(unnamed.unwrap_err().contains("missing field `name`"));
}

#[test]
fn a_pool_is_one_case_or_several_and_pools_of_a_rule_have_one_length() {
    let [tcp, udp, pipe] = ["tcp", "udp", "pipe"].map(case);
    let order = |cases: Json| test(json!({"kind": "order", "figure": "p50", "cases": cases}));
    let ratio = |case: Json, against: Json| {
        test(json!({"kind": "at-least", "of": {"figure": "p50", "case": case, "against": against}}))
    };
    let read = |test: Json| single(json!({"value": ["a", "b"], "unit": "order"}), &[("test", test)]);
    let pools = |test: Json| match &read(test).unwrap().tests().next().unwrap().rule {
        Rule::Order { cases, .. } => cases.iter().map(|pool| pool.0.len()).collect::<Vec<_>>(),
        rule => {
            let of = rule.measure().unwrap();
            std::iter::once(&of.case).chain(&of.against).map(|pool| pool.0.len()).collect()
        }
    };
    assert_eq!(pools(order(json!([tcp, udp]))), [1, 1]);
    assert_eq!(pools(order(json!([[tcp, udp], [pipe, pipe]]))), [2, 2]);
    assert_eq!(pools(order(json!([[tcp], udp]))), [1, 1], "a list of one case is one case");
    assert_eq!(pools(ratio(json!([tcp, udp]), json!([pipe, pipe]))), [2, 2]);
    assert_eq!(pools(ratio(tcp.clone(), Json::Null)), [1]);
    let differs =
        "the pools of A1 differ in length, or several cases have none to divide by (hint: give lists of one length)";
    for unequal in [
        order(json!([[tcp, udp], pipe])),
        order(json!([[], []])),
        ratio(json!([tcp, udp]), pipe),
        ratio(tcp.clone(), json!([tcp, udp])),
        ratio(json!([tcp, udp]), Json::Null),
        ratio(json!([]), json!([])),
    ] {
        assert_eq!(read(unequal.clone()).unwrap_err(), differs, "{unequal}");
    }
    let there = single(ms(json!(1)), &[("missing", json!("x")), ("between_hosts", order(json!([[tcp, udp], udp])))]);
    assert_eq!(there.unwrap_err(), differs, "of the test between two hosts");
    let also_there =
        single(ms(json!(1)), &[("test", within("tcp")), ("between_hosts", order(json!([[tcp, udp], udp])))]);
    assert_eq!(also_there.unwrap_err(), differs, "of the second test");
    let typo = read(order(json!([[{"transprot": "tcp"}], udp]))).unwrap_err();
    assert!(typo.starts_with("unknown field `transprot`, expected"), "{typo}");
    let text = read(order(json!(["tcp", udp]))).unwrap_err();
    assert!(text.contains("expected a case or a list of cases"), "{text}");
    assert!(read(order(json!([["tcp", "block"], udp]))).is_err());
}

#[test]
fn a_rule_names_its_cases_with_their_runs() {
    let selectors = |rule: Json| -> Vec<(Option<String>, Option<String>)> {
        let rule: Rule = serde_json::from_value(rule).unwrap();
        let named = rule.selectors().into_iter();
        named.map(|(run, selector)| (run.map(str::to_owned), selector.transport.clone())).collect()
    };
    let named = |all: &[(Option<&str>, &str)]| -> Vec<(Option<String>, Option<String>)> {
        all.iter().map(|(run, transport)| (run.map(str::to_owned), Some((*transport).to_owned()))).collect()
    };
    let [a, b, c, d] = ["a", "b", "c", "d"].map(case);
    let of = json!({"figure": "p50", "case": [a, b], "against": [c, d], "against_run": "other"});
    let other = Some("other");
    assert_eq!(
        selectors(json!({"kind": "at-least", "of": of})),
        named(&[(None, "a"), (None, "b"), (other, "c"), (other, "d")])
    );
    let order = json!({"kind": "order", "figure": "p50", "cases": [[a, b], [c, d]]});
    assert_eq!(selectors(order), named(&[(None, "a"), (None, "b"), (None, "c"), (None, "d")]));
    let widens = json!({"kind": "widens", "figure": "p50", "low": [a, b], "low_run": "other", "full": [c, d]});
    assert_eq!(selectors(widens), named(&[(other, "a"), (other, "b"), (None, "c"), (None, "d")]));
    let share = json!({"kind": "share", "figure": "p50", "whole": a, "rest": b, "at_least": 0.5});
    assert_eq!(selectors(share), named(&[(None, "a"), (None, "b")]));
    let often = json!({"kind": "often", "figure": "max", "case": a, "reaches": 1, "share": 0.5});
    assert_eq!(selectors(often), named(&[(None, "a")]));
}
