//! The verdict on each axis of a claim, and every line of the table of verdicts.

use hairpin_model::claim::{Axis, Knob};
use hairpin_model::judged_claim::Axes;

use super::*;

/// A row on the direction: the first transport is faster than the second. tcp takes 100 us, udp and pipe 50 us.
fn faster(first: &str, second: &str) -> Json {
    let rule = json!({"kind": "order", "figure": "p50", "cases": [case(first), case(second)]});
    row(json!({"value": [first, second], "unit": "order"}), &rule)
}

/// A row on the size: tcp takes `times` as long as the other transport.
fn times(times: f64, other: &str) -> Json {
    let of = json!({"figure": "p50", "case": case("tcp"), "against": case(other)});
    row(json!({"value": times, "unit": "x"}), &json!({"kind": "within", "factor": 1.2, "of": of}))
}

/// A row on the cause: at least this share of tcp's time disappears with udp.
fn saved(at_least: f64) -> Json {
    let rule =
        json!({"kind": "share", "figure": "p50", "whole": case("tcp"), "rest": case("udp"), "at_least": at_least});
    row(json!({"value": 1, "unit": "share"}), &rule)
}

fn row(published: Json, rule: &Json) -> Json {
    json!({"published": published, "test": test(rule)})
}

fn with(mut row: Json, field: &str, value: impl Into<Json>) -> Json {
    row[field] = value.into();
    row
}

fn knob(row: Json, value: &str) -> Json {
    with(row, "knob", json!({"name": "waiting", "value": value}))
}

fn missing() -> Json {
    json!({"missing": "a link"})
}

/// The claim with these rows, which get names.
fn judge_kind(kind: &str, rows: &[Json]) -> JudgedClaim {
    let named = rows.iter().enumerate().map(|(place, row)| with(row.clone(), "name", format!("row {place}")));
    let rows = named.collect::<Vec<_>>();
    let published = json!({"value": 1, "unit": "x"});
    judge_on(&written(&published, &[("kind", json!(kind)), ("row", json!(rows))]), &run())
}

fn judge_rows(rows: &[Json]) -> JudgedClaim {
    judge_kind("statement", rows)
}

fn headline(rows: &[Json]) -> Headline {
    judge_rows(rows).headline.unwrap()
}

/// Direction, size and cause.
fn axes(rows: &[Json]) -> [Verdict; 3] {
    let Axes { direction, size, cause } = judge_rows(rows).axes;
    [direction, size, cause]
}

const UNDECIDED: &str = "unix-stream";
const ABSENT: &str = "icmp";

#[test]
fn the_axes_are_judged_separately_and_an_axis_by_its_worst_row() {
    use Verdict::{Confirmed, Equal, NotClaimed, NotTested, Refuted, Undecided};
    assert_eq!(axes(&[faster("udp", "tcp")]), [Confirmed, NotClaimed, NotClaimed]);
    assert_eq!(axes(&[times(9.0, "udp"), saved(0.4)]), [NotClaimed, Refuted, Confirmed]);
    assert_eq!(axes(&[faster("udp", "pipe"), times(2.0, "udp"), saved(0.6)]), [Equal, Confirmed, Refuted]);
    let order = [
        (faster("tcp", "udp"), Refuted),
        (faster("udp", UNDECIDED), Undecided),
        (faster("udp", "pipe"), Equal),
        (faster("udp", "tcp"), Confirmed),
        (faster("udp", ABSENT), NotTested),
    ];
    for (place, (row, worst)) in order.iter().enumerate() {
        let rest = order[place..].iter().map(|(row, _)| row.clone());
        assert_eq!(axes(&rest.collect::<Vec<_>>())[0], *worst, "the worst row decides: {row}");
    }
    let cause = with(times(2.0, "udp"), "axis", "cause");
    assert_eq!(axes(&[cause]), [NotClaimed, NotClaimed, Confirmed], "the axis that the file names");
    assert_eq!(judge_rows(&[saved(0.4)]).rows[0].axis, Axis::Cause);
    let shown = with(faster("tcp", "udp"), "other_setting", "two CPUs");
    assert_eq!(axes(&[shown, times(2.0, "udp")]), [NotClaimed, Confirmed, NotClaimed], "shown rows claim nothing");
    assert_eq!(axes(&[faster("udp", "tcp"), missing()]), [Confirmed, NotTested, NotClaimed]);
}

#[test]
fn figures_of_other_hardware_are_shown_and_decide_nothing() {
    let hardware = || with(times(9.0, "udp"), "other_hardware", true);
    let judged = judge_rows(&[hardware(), with(times(2.0, "udp"), "other_setting", "two CPUs")]);
    assert_eq!(judged.headline, Some(Headline::OtherHardware));
    let row = &judged.rows[0];
    assert_eq!((row.judgement.verdict, row.other_hardware), (Some(Verdict::Shown), true));
    assert!(row.judgement.measured.is_some() && row.judgement.ratio.is_some() && !row.decides());
    let mut set = hardware();
    set["test"]["given_back"] = json!("It was set.");
    assert_eq!(headline(&[set]), Headline::OtherHardware);
    assert_eq!(headline(&[with(times(9.0, ABSENT), "other_hardware", true)]), Headline::NotTestable, "no figure");
    assert_eq!(headline(&[hardware(), faster("udp", "tcp")]), Headline::Holds, "the other row decides");
    assert_eq!(headline(&[hardware(), missing()]), Headline::OtherHardware);
}

#[test]
fn a_question_or_a_procedure_that_was_carried_out_is_answered() {
    let of = |kind: &str, rows: &[Json]| judge_kind(kind, rows).headline.unwrap();
    for kind in ["question", "procedure"] {
        assert_eq!(of(kind, &[times(2.0, "udp")]), Headline::Answered);
        assert_eq!(of(kind, &[times(2.0, "udp"), missing()]), Headline::Answered, "its part was");
        assert_eq!(of(kind, &[times(2.0, "udp"), times(2.0, ABSENT)]), Headline::Answered);
        assert_eq!(of(kind, &[times(9.0, "udp")]), Headline::Contradicted, "an output is missing");
        assert_eq!(of(kind, &[times(2.0, UNDECIDED)]), Headline::Undecided);
        assert_eq!(of(kind, &[times(2.0, ABSENT)]), Headline::NotTestable);
        assert_eq!(of(kind, &[missing()]), Headline::NotYet);
    }
    assert_eq!(of("statement", &[times(2.0, "udp")]), Headline::Holds);
}

#[test]
fn a_claim_without_an_experiment_is_not_yet_tested() {
    assert_eq!(headline(&[missing(), missing()]), Headline::NotYet);
    let elsewhere = with(times(2.0, "udp"), "other_setting", "two CPUs");
    let judged = judge_rows(&[missing(), elsewhere]);
    assert_eq!((judged.headline, judged.axes.size), (Some(Headline::NotYet), Verdict::NotTested));
    assert_eq!(judged.rows[0].missing.as_deref(), Some("a link"));
    assert_eq!(headline(&[missing(), times(2.0, ABSENT)]), Headline::NotTestable, "an experiment exists");
    assert_eq!(headline(&[missing(), times(2.0, "udp")]), Headline::Holds);
}

#[test]
fn a_claim_whose_rows_cannot_be_measured_here_is_not_testable() {
    assert_eq!(headline(&[faster("udp", ABSENT), times(2.0, ABSENT)]), Headline::NotTestable);
    let judged = judge_rows(&[times(2.0, ABSENT)]);
    let named = matches!(&judged.rows[0].judgement.reason, Some(Reason::NotMeasured { case, .. }) if case.starts_with(ABSENT));
    assert!(named, "{judged:?}");
    let mut set = times(2.0, "udp");
    set["test"]["given_back"] = json!("It was set.");
    assert_eq!(headline(&[set]), Headline::NotTestable, "a figure that was set tests nothing");
}

#[test]
fn a_refuted_direction_or_cause_or_a_size_alone_contradicts() {
    assert_eq!(headline(&[faster("tcp", "udp")]), Headline::Contradicted);
    assert_eq!(headline(&[saved(0.6)]), Headline::Contradicted);
    assert_eq!(headline(&[times(9.0, "udp")]), Headline::Contradicted);
    for rest in [times(2.0, "udp"), faster("udp", UNDECIDED), times(2.0, UNDECIDED), faster("udp", "pipe")] {
        assert_eq!(headline(&[saved(0.6), rest.clone()]), Headline::Contradicted, "{rest}");
        assert_eq!(headline(&[faster("tcp", "udp"), rest.clone()]), Headline::Contradicted, "{rest}");
    }
    assert_eq!(headline(&[times(9.0, "udp"), times(2.0, UNDECIDED)]), Headline::Contradicted);
}

#[test]
fn any_undecided_axis_leaves_a_claim_undecided() {
    for undecided in [faster("udp", UNDECIDED), times(2.0, UNDECIDED)] {
        for rest in [saved(0.4), times(2.0, "udp"), faster("udp", "tcp"), faster("udp", "pipe"), missing()] {
            assert_eq!(headline(&[undecided.clone(), rest.clone()]), Headline::Undecided, "{undecided}, {rest}");
        }
    }
    let size_refuted = [faster("udp", "tcp"), times(9.0, "udp"), with(times(2.0, UNDECIDED), "axis", "cause")];
    assert_eq!(headline(&size_refuted), Headline::Undecided);
}

#[test]
fn equal_figures_are_no_difference() {
    assert_eq!(headline(&[faster("udp", "pipe")]), Headline::NoDifference);
    assert_eq!(headline(&[faster("udp", "pipe"), times(9.0, "udp")]), Headline::NoDifference);
    assert_eq!(headline(&[faster("udp", "pipe"), times(2.0, "udp"), saved(0.4)]), Headline::NoDifference);
    assert_eq!(headline(&[faster("udp", "pipe"), faster("udp", "tcp")]), Headline::NoDifference, "of one step");
}

#[test]
fn opposite_verdicts_on_two_sides_of_a_knob_make_a_condition() {
    let [on, off] = ["spin", "block"].map(|value| Knob { name: "waiting".to_owned(), value: value.to_owned() });
    let [yes, no] = [faster("udp", "tcp"), faster("tcp", "udp")];
    let only_if = |rows: &[Json]| {
        let judged = judge_rows(rows);
        (judged.headline.unwrap(), judged.only_if)
    };
    let if_on = (Headline::HoldsOnlyIf, Some(on));
    assert_eq!(only_if(&[knob(yes.clone(), "spin"), knob(no.clone(), "block")]), if_on);
    let other_side = [knob(no.clone(), "spin"), knob(yes.clone(), "block")];
    assert_eq!(only_if(&other_side), (Headline::HoldsOnlyIf, Some(off)));
    assert_eq!(axes(&other_side)[0], Verdict::Confirmed, "on the side that is named");
    let sizes = [knob(times(2.0, "udp"), "spin"), knob(times(9.0, "udp"), "block")];
    assert_eq!(only_if(&sizes), if_on, "of a size alone");
    let of_three = [knob(yes.clone(), "spin"), knob(no.clone(), "block"), knob(no.clone(), "poll")];
    assert_eq!(only_if(&of_three), if_on);
    let other_size = [knob(yes.clone(), "spin"), knob(no.clone(), "block"), times(9.0, "udp")];
    assert_eq!(only_if(&other_size), if_on, "comes before another size");

    let none = |rows: &[Json]| {
        let (headline, only_if) = only_if(rows);
        assert_eq!(only_if, None);
        headline
    };
    assert_eq!(none(&[knob(yes.clone(), "spin"), knob(yes.clone(), "block")]), Headline::Holds);
    assert_eq!(none(&[knob(no.clone(), "spin"), knob(no.clone(), "block")]), Headline::Contradicted);
    let equal = knob(faster("udp", "pipe"), "block");
    assert_eq!(none(&[knob(yes.clone(), "spin"), equal]), Headline::NoDifference);
    let unknown = knob(faster("udp", UNDECIDED), "block");
    assert_eq!(none(&[knob(yes.clone(), "spin"), unknown]), Headline::Undecided);
    let absent = knob(faster("udp", ABSENT), "block");
    assert_eq!(none(&[knob(yes.clone(), "spin"), absent]), Headline::Holds, "the other side was not measured");
    let mixed = [knob(yes.clone(), "spin"), knob(no.clone(), "block"), knob(no.clone(), "spin")];
    assert_eq!(none(&mixed), Headline::Contradicted, "one side is not of one mind");
    let shown = with(knob(no.clone(), "block"), "other_setting", "two CPUs");
    assert_eq!(none(&[knob(yes.clone(), "spin"), shown]), Headline::Holds);
    let of_cause = [knob(yes.clone(), "spin"), knob(no.clone(), "block"), saved(0.6)];
    assert_eq!(none(&of_cause), Headline::Contradicted, "another axis is refuted");
    let without_knob = [knob(yes, "spin"), knob(no.clone(), "block"), no];
    assert_eq!(none(&without_knob), Headline::Contradicted, "a row without the knob is refuted");
}

#[test]
fn a_confirmed_direction_or_cause_with_a_refuted_size_holds_with_another_size() {
    assert_eq!(headline(&[faster("udp", "tcp"), times(9.0, "udp")]), Headline::HoldsOtherSize);
    assert_eq!(headline(&[saved(0.4), times(9.0, "udp")]), Headline::HoldsOtherSize);
    assert_eq!(axes(&[saved(0.4), times(9.0, "udp"), times(2.0, "udp")])[1], Verdict::Refuted);
}

#[test]
fn a_claim_holds_if_every_axis_is_confirmed() {
    for rows in [vec![faster("udp", "tcp")], vec![times(2.0, "udp")], vec![saved(0.4)]] {
        assert_eq!(headline(&rows), Headline::Holds, "{rows:?}");
    }
    let all = [faster("udp", "tcp"), times(2.0, "udp"), saved(0.4), missing(), times(2.0, ABSENT)];
    assert_eq!(headline(&all), Headline::Holds);
}

#[test]
fn a_row_whose_run_failed_is_undecided_beside_tested_rows() {
    let mut other_run = times(2.0, "udp");
    other_run["test"]["run"] = json!("other");
    let judged = judge_rows(&[faster("udp", "tcp"), other_run.clone()]);
    assert_eq!((judged.headline, judged.axes.size), (Some(Headline::Undecided), Verdict::Undecided));
    assert!(matches!(judged.rows[1].judgement.reason, Some(Reason::NoRun { .. })), "{judged:?}");
    assert_eq!(headline(&[other_run]), Headline::NotTestable, "without any other row");
}
