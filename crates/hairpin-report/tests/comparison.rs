//! The text that compares two runs.

use hairpin_model::figure::NoInterval;
use hairpin_model::summary::Verdict;
use hairpin_model::{
    BudgetResult, Caution, ComparisonReport, ComparisonRow, Decision, Document, Figure, InvalidCase, Look, Unlike,
};
use hairpin_report::terminal::{markdown_comparison, render_comparison};

use crate::shown::plain;

fn comparison() -> ComparisonReport {
    let row = |case: &str, figure: &str, from: f64, to: f64, verdict| ComparisonRow {
        case: case.to_owned(),
        figure: figure.to_owned(),
        unit: "ns".to_owned(),
        baseline: Figure::new(from, from * 0.98, from * 1.02),
        candidate: Figure::new(to, to * 0.98, to * 1.02),
        ratio: Figure::new(to / from, to / from - 0.012, to / from + 0.012),
        verdict,
        smallest_detectable: Some(0.03),
        valid: true,
    };
    ComparisonReport {
        baseline: "hairpin-runs/2026-11-20-survey".to_owned(),
        candidate: "hairpin-runs/2026-11-21-survey".to_owned(),
        differs: None,
        invalid: Vec::new(),
        rows: vec![
            row("tcp block same-cpu", "p50", 13_400.0, 13_450.0, Verdict::CannotTell),
            row("tcp block same-cpu", "p99", 15_000.0, 16_900.0, Verdict::Slower),
            row("udp block same-cpu", "p50", 10_200.0, 9480.0, Verdict::Faster),
        ],
        unlike: vec![Unlike {
            what: "environment.kernel".to_owned(),
            baseline: "Linux 6.18.0".to_owned(),
            candidate: "Linux 6.18.1".to_owned(),
        }],
        only_in: vec![("icmp block cross-cpu".to_owned(), "the baseline".to_owned())],
        cautions: vec![Caution {
            run: "hairpin-runs/2026-11-21-survey".to_owned(),
            code: "noisy-machine".to_owned(),
            summary: "Other programs used the machine in 7 of 20 rounds.".to_owned(),
        }],
        budgets: vec![BudgetResult {
            case: "tcp block same-cpu".to_owned(),
            figure: "p99".to_owned(),
            allowed_share: Some(0.05),
            limit: None,
            ratio: Some(Figure::new(1.127, 1.115, 1.139)),
            value: None,
            kept: Some(false),
            baseline_usable: true,
            candidate_usable: true,
        }],
        looks: Vec::new(),
    }
}

#[test]
fn two_runs_compared() {
    insta::assert_snapshot!(render_comparison(&comparison(), &plain(80)));
}

#[test]
fn a_comparison_gives_the_reasons_for_missing_intervals() {
    let mut report = comparison();
    report.rows[0].ratio = Figure::without(1.46, NoInterval::SlowVariation);
    report.rows[1].ratio = Figure::without(1.3, NoInterval::SlowVariation);
    report.rows[2].ratio = Figure::without(0.8, NoInterval::Trend);
    let text = render_comparison(&report, &plain(200));
    let lines = "No interval for udp block same-cpu p50: it rose or fell throughout the run (hint: --over 40s)\n\
                 No interval for tcp block same-cpu p50 and 1 more: it varied too slowly for the length of the run (hint: \
                 --over 40s)\n";
    assert!(text.contains(lines), "{text}");
    assert!(
        text.contains("3 figures compared: 1 slower, 1 faster, 1 without"),
        "a verdict does not need an interval: {text}"
    );
    assert!(!render_comparison(&comparison(), &plain(200)).contains("No interval"));
    report.rows.iter_mut().for_each(|row| row.verdict = Verdict::CannotTell);
    let text = render_comparison(&report, &plain(200));
    assert!(text.contains("3 figures compared: cannot tell without an interval."), "{text}");
}

/// The comparison, with the TCP case invalid in one or both runs for these reasons.
fn invalid_comparison(baseline: &[&str], candidate: &[&str]) -> ComparisonReport {
    let whys = |whys: &[&str]| whys.iter().map(|why| (*why).to_owned()).collect::<Vec<_>>();
    let case = "tcp block same-cpu".to_owned();
    let mut report = comparison();
    for row in report.rows.iter_mut().filter(|row| row.case == case) {
        (row.valid, row.verdict) = (false, Verdict::CannotTell);
    }
    let usable = (baseline.is_empty(), candidate.is_empty());
    (report.budgets[0].baseline_usable, report.budgets[0].candidate_usable) = usable;
    report.invalid = vec![InvalidCase { case, baseline: whys(baseline), candidate: whys(candidate) }];
    report
}

#[test]
fn two_runs_with_an_invalid_case() {
    let late = "3 of 3 rounds are invalid, the first because the emulator was late by 1.37 ms at p99, bound 1.00 ms";
    let report = invalid_comparison(&[late], &[late, "messages were lost"]);
    insta::assert_snapshot!(render_comparison(&report, &plain(80)));
}

#[test]
fn the_unusable_side_is_named() {
    for (baseline, candidate, sides) in [
        (&["late"][..], &[][..], "the baseline"),
        (&[], &["late"], "the candidate"),
        (&["late"], &["late"], "the baseline and the candidate"),
    ] {
        let report = invalid_comparison(baseline, candidate);
        let text = render_comparison(&report, &plain(200));
        let first = format!("\n1 case is invalid in {sides} (marked with !): do not use its figures.\nbefore ");
        assert!(text.contains(&first), "{text}");
        assert!(text.contains(&format!(": NOT kept: no usable figure in {sides}\n")), "{text}");
    }
    let mut report = invalid_comparison(&["late"], &[]);
    report.rows.retain(|row| !row.valid);
    let text = render_comparison(&report, &plain(100));
    assert!(text.starts_with("The two runs have no usable figure in common. 1 budget NOT kept.\n"), "{text}");
}

#[test]
fn differences_between_the_runs_come_first() {
    let differs =
        Unlike { what: "option nodelay".to_owned(), baseline: "on".to_owned(), candidate: "off".to_owned() };
    let report = ComparisonReport { differs: Some(differs), ..comparison() };
    let text = render_comparison(&report, &plain(100));
    assert!(text.starts_with("The runs differ in: option nodelay (on, off).\n3 figures compared"), "{text}");
    assert!(!render_comparison(&comparison(), &plain(100)).contains("differ in"));
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
    let expected = serde_json::json!({"what": "option nodelay", "baseline": "on", "candidate": "off"});
    assert_eq!(json["differs"], expected);
}

#[test]
fn an_interval_beyond_ten_percent_is_too_noisy_to_tell() {
    let mut report = comparison();
    report.rows.iter_mut().for_each(|row| row.verdict = Verdict::CannotTell);
    let first = |report: &ComparisonReport| {
        let text = render_comparison(report, &plain(200));
        text.lines().next().unwrap().to_owned()
    };
    report.rows.iter_mut().for_each(|row| row.ratio = Figure::new(1.0, 0.91, 1.09));
    assert!(first(&report).starts_with("3 figures compared: no difference found."));
    report.rows[0].ratio = Figure::new(1.0, 0.78, 1.6);
    assert!(first(&report).starts_with("3 figures compared: no difference found in 2, 1 too noisy to tell."));
    report.rows[2].verdict = Verdict::Slower;
    let mixed = "3 figures compared: 1 slower, 0 faster, 1 without a difference found, 1 too noisy to tell.";
    assert!(first(&report).starts_with(mixed), "{}", first(&report));
    report.rows.truncate(1);
    assert!(first(&report).starts_with("1 figure compared: too noisy to tell."), "{}", first(&report));
    assert!(render_comparison(&report, &plain(200)).contains("  too noisy\n"));
}

/// The comparison of two interleaved runs: one budget broken, an absolute one kept.
fn looked_at() -> ComparisonReport {
    let mut report = comparison();
    report.rows[0].case = "tcp | over a|b".to_owned();
    let absolute = BudgetResult {
        allowed_share: None,
        limit: Some(5e6),
        ratio: None,
        value: Some(Figure::new(4.1e6, 3.9e6, 4.4e6)),
        kept: Some(true),
        ..report.budgets[0].clone()
    };
    report.budgets.push(absolute);
    let look = |after_s, verdict| Look { after_s, bound: 0.0182, verdict };
    report.looks = vec![look(10.02, Decision::Undecided), look(20.3, Decision::Broken)];
    report
}

#[test]
fn interleaved_runs_with_their_looks() {
    insta::assert_snapshot!(render_comparison(&looked_at(), &plain(80)));
}

#[test]
fn a_comparison_in_markdown() {
    insta::assert_snapshot!(markdown_comparison(&looked_at()));
}

#[test]
fn the_decision_follows_the_budgets_or_without_them_the_rows() {
    let decided = |kept: &[Option<bool>], usable: bool| {
        let mut report = comparison();
        let budget =
            |kept: &Option<bool>| BudgetResult { kept: *kept, candidate_usable: usable, ..report.budgets[0].clone() };
        report.budgets = kept.iter().map(budget).collect();
        report.decision()
    };
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(decided(&[yes, yes], true), Decision::Held);
    assert_eq!(decided(&[yes, None], true), Decision::Undecided);
    assert_eq!(decided(&[None, no], true), Decision::Broken);
    assert_eq!(decided(&[no], false), Decision::Unusable);
    assert_eq!(decided(&[], true), Decision::Undecided);
    let mut report = ComparisonReport { budgets: Vec::new(), ..comparison() };
    report.rows.iter_mut().for_each(|row| row.verdict = Verdict::Slower);
    assert_eq!(report.decision(), Decision::Decided);
    report.rows.iter_mut().for_each(|row| row.valid = false);
    assert_eq!(report.decision(), Decision::Unusable);
}

#[test]
fn two_runs_with_nothing_in_common() {
    let text = render_comparison(&ComparisonReport::default(), &plain(80));
    assert!(text.starts_with("The two runs have no figure in common."), "{text}");
}

#[test]
fn goodput_and_rates_have_units_and_the_verdicts_more_and_less() {
    let mut report = comparison();
    report.rows.truncate(2);
    for (row, (figure, unit, verdict)) in
        report.rows.iter_mut().zip([("goodput", "bytes_per_s", Verdict::Slower), ("rate", "per_s", Verdict::Faster)])
    {
        (row.figure, row.unit, row.verdict) = (figure.to_owned(), unit.to_owned(), verdict);
    }
    let text = render_comparison(&report, &plain(120));
    assert!(text.starts_with("2 figures compared: 1 worse, 1 better, 0 without a difference found."), "{text}");
    let line = |figure: &str| text.lines().find(|line| line.trim_start().starts_with(figure)).unwrap().to_owned();
    assert!(line("goodput").contains("13.4 kB/s") && line("goodput").ends_with("less"), "{text}");
    assert!(line("rate").contains("15.0 k/s") && line("rate").ends_with("more"), "{text}");
}

#[test]
fn a_very_large_smallest_detectable_change_is_shown_as_a_dash() {
    let shown = |share: f64| {
        let mut report = comparison();
        report.rows.iter_mut().for_each(|row| row.smallest_detectable = Some(share));
        render_comparison(&report, &plain(100))
    };
    assert!(shown(4.0).contains("+400"), "{}", shown(4.0));
    assert!(!shown(410.83).contains("+41083"), "{}", shown(410.83));
}
