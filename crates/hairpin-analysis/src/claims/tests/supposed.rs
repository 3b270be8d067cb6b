//! Claims judged by supposed figures.

use hairpin_model::{Row, Rule, TestMethod};

use super::*;
use crate::claims::place::{self, no_figure};
use crate::claims::{axes, bound, bound_of, new_claim};

/// Judges a claim as if each row had been measured with this value, in the unit of its rule, with a narrow interval. For a
/// rule without a figure, a value above 0 means that what the text describes was seen. `None`: not tested.
pub(super) fn suppose(
    claim: &Claim,
    source: &TextSource,
    measured: impl Fn(&Row, &Rule) -> Option<f64>,
) -> JudgedClaim {
    let of_row = |row: &Row| {
        let TestMethod::Test(test) = &row.means else { return no_figure(Verdict::NotTested, Reason::NoCase) };
        let Some(value) = measured(row, &test.rule) else { return no_figure(Verdict::NotTested, Reason::NoCase) };
        let bounds = Some((value - SUPPOSED_WIDTH * value.abs(), value + SUPPOSED_WIDTH * value.abs()));
        let verdict = match &test.rule {
            Rule::Order { margin, .. } | Rule::Widens { margin, .. } => place::direction(bounds, *margin),
            Rule::Often { share, .. } => {
                // A share of rounds is at most 1.
                let bounds = bounds.map(|(low, high)| (low, high.min(1.0)));
                place::verdict(place::locate(bounds, [*share, 1.0]))
            }
            rule => match bound_of(rule, &row.published) {
                Some(Ok(bound)) => place::verdict(place::locate(bounds, bound::range_of(bound))),
                Some(Err(absent)) => absent.verdict.unwrap_or(Verdict::NotTested),
                None if value > 0.0 => Verdict::Confirmed,
                None => Verdict::Refuted,
            },
        };
        let verdict = if row.shown().is_some() { Verdict::Shown } else { verdict };
        Judgement { measured: Some(Figure::bare(value)), ..no_figure(verdict, Reason::NoCase) }
    };
    let mut judged = new_claim(claim, source, of_row);
    axes::decide(&mut judged);
    judged
}

/// Half the width of a supposed interval, relative to its value.
const SUPPOSED_WIDTH: f64 = 0.001;

fn supposed(published: &Json, rule: &Json, value: f64) -> Verdict {
    let judged = suppose(&claim(published, rule), &text(), |_, _| Some(value));
    judged.rows[0].judgement.verdict.unwrap()
}

#[test]
fn a_supposed_figure_is_judged_like_a_measured_one() {
    use Verdict::{Confirmed, Equal, Refuted, Undecided};
    let ms = |value: Json| json!({"value": value, "unit": "ms"});
    let order = json!({"value": ["udp", "tcp"], "unit": "order"});
    let pair = json!([case("udp"), case("tcp")]);
    let share = json!({"kind": "share", "figure": "p50", "whole": case("tcp"), "rest": case("udp"), "at_least": 0.9});
    let often = json!({"kind": "often", "figure": "max", "case": case("tcp"), "reaches": 1, "share": 0.5});
    let within = json!({"kind": "within", "factor": 2, "of": p50("tcp")});
    let range = json!({"kind": "range", "of": p50("tcp")});
    let at_most = json!({"kind": "at-most", "of": p50("tcp")});
    let by_order = json!({"kind": "order", "figure": "p50", "cases": pair});
    let widens = json!({"kind": "widens", "figure": "p50", "low": pair, "full": pair, "low_run": "low"});
    let kept = json!({"kind": "kept", "case": case("tcp"), "kept": ["curve"]});
    for (published, rule, verdicts) in [
        (ms(json!(10)), &within, [(10.0, Confirmed), (1.0, Refuted), (100.0, Refuted), (20.0, Undecided)].as_slice()),
        (ms(json!([40, 200])), &range, &[(90.0, Confirmed), (9.0, Refuted), (900.0, Refuted), (40.0, Undecided)]),
        (ms(json!([1, 5])), &at_most, &[(0.1, Confirmed), (50.0, Refuted), (5.0, Undecided)]),
        (json!({"value": 1, "unit": "share"}), &share, &[(1.0, Confirmed), (0.0, Refuted), (-1.0, Refuted)]),
        (ms(json!(1)), &often, &[(1.0, Confirmed), (0.9, Confirmed), (0.5, Undecided), (0.0, Refuted)]),
        (
            order.clone(),
            &by_order,
            &[(1.5, Confirmed), (1.0, Equal), (0.9, Refuted), (1.05, Confirmed), (1.0005, Equal)],
        ),
        (order.clone(), &widens, &[(1.5, Confirmed), (1.0, Equal), (0.9, Refuted)]),
        (order, &kept, &[(1.0, Confirmed), (0.0, Refuted)]),
    ] {
        for (value, verdict) in verdicts {
            assert_eq!(supposed(&published, rule, *value), *verdict, "{rule} at {value}");
        }
    }
    let unpublished = json!({"value": ["a"], "unit": "ms"});
    assert_eq!(supposed(&unpublished, &within, 1.0), Verdict::NotTested, "no number is published");
}

#[test]
fn rows_are_supposed_one_by_one_and_decide_the_claim() {
    let of = |name: &str, number: f64| {
        let rule = json!({"kind": "within", "factor": 2, "of": p50(name)});
        json!({"name": name, "published": {"value": number, "unit": "ms"}, "test": test(&rule)})
    };
    let mut hardware = of("udp", 3.0);
    hardware["other_hardware"] = json!(true);
    let rows = json!([of("tcp", 1.0), hardware, {"name": "link", "missing": "a link"}]);
    let claim = written(&json!({"value": 1, "unit": "ms"}), &[("row", rows)]);
    let judged = suppose(&claim, &text(), |row: &Row, rule: &Rule| {
        assert!(rule.measure().is_some());
        (row.name == "udp").then_some(9.0)
    });
    let verdicts = judged.rows.iter().map(|row| row.judgement.verdict.unwrap()).collect::<Vec<_>>();
    assert_eq!(verdicts, [Verdict::NotTested, Verdict::Shown, Verdict::NotTested]);
    assert_eq!(judged.headline, Some(Headline::NotTestable), "nothing that decides was supposed");
    let judged = suppose(&claim, &text(), |_, _| Some(1.5));
    assert_eq!((judged.headline, judged.axes.size), (Some(Headline::Holds), Verdict::Confirmed));
    assert_eq!((judged.age_s, judged.rows[0].judgement.measured), (None, Some(Figure::bare(1.5))));
}
