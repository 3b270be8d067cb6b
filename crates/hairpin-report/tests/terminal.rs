//! The terminal text: snapshots that were read by people, and rules that hold for any run.

mod support;

use hairpin_model::case::Case;
use hairpin_model::figure::Figure;
use hairpin_model::run::{Run, State};
use hairpin_model::summary::Verdict;
use hairpin_report::comparison::{BudgetResult, ComparisonReport, ComparisonRow, Unlike};
use hairpin_report::terminal::{Look, render, render_comparison};

fn plain(width: usize) -> Look {
    Look { width, colour: false }
}

#[test]
fn a_survey_at_80_columns() {
    insta::assert_snapshot!(render(&support::survey(1), &plain(80)));
}

#[test]
fn a_survey_at_100_columns() {
    insta::assert_snapshot!(render(&support::survey(1), &plain(100)));
}

#[test]
fn a_single_case() {
    let mut run = support::survey(1);
    run.cases.retain(|row| row.label == "tcp block together");
    run.comparisons.clear();
    run.findings.clear();
    run.skipped.clear();
    insta::assert_snapshot!(render(&run, &plain(80)));
}

#[test]
fn small_writes_at_80_columns() {
    insta::assert_snapshot!(render(&support::small_writes::run(false), &plain(80)));
}

#[test]
fn small_writes_at_100_columns() {
    insta::assert_snapshot!(render(&support::small_writes::run(true), &plain(100)));
}

/// The first paragraphs of the answer, in one line.
fn answer_of(run: &Run) -> String {
    let text = render(run, &plain(80));
    text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn no_remedy_is_called_faster_unless_its_interval_excludes_1() {
    let mut run = support::small_writes::run(false);
    for row in &mut run.cases {
        let figures = row.exchanges.as_mut().expect("it has exchanges");
        figures.speed_up_against_none = figures.speed_up_against_none.map(|_| Figure::new(1.3, 0.9, 1.7));
    }
    let answer = answer_of(&run);
    assert!(answer.contains("no remedy is proved to be faster"), "{answer}");
    assert!(!answer.contains("slower than nothing"), "{answer}");
}

#[test]
fn the_fastest_remedy_stands_alone_where_it_is_told_apart() {
    let mut run = support::small_writes::run(false);
    run.comparisons[0].verdict = Verdict::Slower;
    let answer = answer_of(&run);
    assert!(
        answer.contains("24.1 us with one-write: 831 times") && !answer.contains("cannot be told apart"),
        "{answer}"
    );
    run.comparisons.clear();
    let answer = answer_of(&run);
    assert!(answer.contains("writev cannot be told apart from one-write."), "their intervals overlap: {answer}");
}

#[test]
fn without_none_the_remedies_are_compared_with_each_other() {
    let mut run = support::small_writes::run(false);
    run.cases.retain(|row| !row.label.contains(" none "));
    for row in &mut run.cases {
        row.exchanges.as_mut().expect("it has exchanges").speed_up_against_none = None;
    }
    let answer = answer_of(&run);
    assert!(answer.starts_with("The fastest remedy for an exchange of 100x2 B over tcp is one-write at"), "{answer}");
}

#[test]
fn a_refuted_finding_is_no_part_of_the_answer() {
    let mut run = support::small_writes::run(false);
    assert!(answer_of(&run).contains("nagle-meets-delayed-ack explains 99 % of it"));
    run.findings[0].proved.as_mut().expect("it was proved").verdict = "refuted".to_owned();
    assert!(!answer_of(&run).contains("nagle-meets-delayed-ack"));
}

#[test]
fn exchanges_like_the_steady_state_are_not_shown_apart() {
    let mut run = support::small_writes::run(false);
    for row in &mut run.cases {
        let p50 = row.latency_ns.p50;
        row.exchanges.as_mut().expect("it has exchanges").early_exchanges_ns = p50.into_iter().collect();
    }
    assert!(!render(&run, &plain(80)).contains("First exchanges"));
}

#[test]
fn one_case_of_exchanges_is_told_by_its_exchanges() {
    let mut run = support::small_writes::run(false);
    run.cases.truncate(1);
    let answer = answer_of(&run);
    assert!(answer.starts_with("tcp block together none 100x2 B: p50 43.8 ms"), "{answer}");
    assert!(answer.contains("120 exchanges over 10 rounds"), "{answer}");
}

#[test]
fn an_interrupted_run_says_so_before_anything_else() {
    let mut run = support::survey(1);
    run.state = State::Interrupted;
    let text = render(&run, &plain(80));
    assert!(text.starts_with("PARTIAL RUN: it was ended by the user; 378 of 380 rounds were measured."), "{text}");
}

#[test]
fn a_run_without_any_measured_round_says_why_and_shows_no_empty_table() {
    let mut run = support::survey(1);
    run.cases.clear();
    run.comparisons.clear();
    run.findings.clear();
    let text = render(&run, &plain(80));
    assert!(text.starts_with("Nothing was measured: no case could be run."), "{text}");
    assert!(!text.contains("Round trips"), "{text}");
    assert!(text.contains("Skipped"), "{text}");
}

#[test]
fn no_line_is_wider_than_asked() {
    let runs = [support::survey(1), support::small_writes::run(false), support::small_writes::run(true)];
    for (run, width) in runs.iter().flat_map(|run| [60, 72, 80, 90, 100, 120, 200].map(|width| (run, width))) {
        let text = render(run, &plain(width));
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > width).collect();
        assert!(wide.is_empty(), "wider than {width}: {wide:#?}");
        assert!(text.lines().all(|line| line == line.trim_end()), "blanks at the end of a line at {width}");
    }
}

#[test]
fn columns_stand_below_each_other() {
    let text = render(&support::survey(1), &plain(100));
    let header = text.lines().find(|line| line.trim_start().starts_with("p50 ")).expect("the header");
    let ends = header.find("p50").unwrap() + 3;
    let rows: Vec<&str> = text.lines().skip_while(|line| *line != header).skip(1).collect();
    let figures = rows.iter().filter(|line| line.starts_with("  ") && line.contains(" us  ")).take(30);
    let mut seen = 0;
    for row in figures {
        let cell = &row[..ends];
        assert!(cell.ends_with("us") || cell.ends_with("ns") || cell.ends_with("ms"), "{row}");
        seen += 1;
    }
    assert_eq!(seen, 30);
}

#[test]
fn colour_is_there_only_when_asked_for_and_changes_no_text() {
    let run = support::survey(1);
    let (without, with) = (render(&run, &plain(80)), render(&run, &Look { width: 80, colour: true }));
    assert!(!without.contains('\u{1b}') && with.contains('\u{1b}'));
    let mut stripped = String::new();
    let mut inside = false;
    for letter in with.chars() {
        match letter {
            '\u{1b}' => inside = true,
            'm' if inside => inside = false,
            _ if inside => {}
            other => stripped.push(other),
        }
    }
    assert_eq!(stripped, without);
}

#[test]
fn a_failed_calibration_is_said_aloud() {
    let mut run = support::survey(1);
    run.comparisons[0].verdict = Verdict::Slower;
    run.comparisons[0].ratio = Figure::new(1.04, 1.02, 1.06);
    let text = render(&run, &plain(120)).replace('\n', " ");
    assert!(
        text.contains("is called slower, difference +2.0 % .. +6.0 % (10 paired rounds): NOT calibrated"),
        "{text}"
    );
}

#[test]
fn figures_that_are_missing_or_not_finite_are_dashes() {
    let mut run = support::survey(1);
    for row in &mut run.cases {
        row.latency_ns.p99 = None;
        row.latency_ns.max = Some(Figure::bare(f64::NAN));
        row.setup_ns = Some(Figure::bare(f64::INFINITY));
    }
    let text = render(&run, &plain(100));
    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
}

#[test]
fn names_from_the_run_cannot_steer_the_terminal() {
    let mut run = support::survey(1);
    let case = Case::ping_pong("tcp\u{1b}]0;title\u{7}\nfake line");
    run.cases[3].case = case.clone();
    run.cases[3].label = case.label();
    run.findings[0].summary = "a\u{1b}[2Jb".to_owned();
    run.skipped[0].reason = "x\r\ny".to_owned();
    let text = render(&run, &plain(80));
    assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
}

fn comparison() -> ComparisonReport {
    let row = |case: &str, figure: &str, from: f64, to: f64, verdict| ComparisonRow {
        case: case.to_owned(),
        figure: figure.to_owned(),
        unit: "ns".to_owned(),
        baseline: Figure::new(from, from * 0.98, from * 1.02),
        candidate: Figure::new(to, to * 0.98, to * 1.02),
        ratio: Figure::new(to / from, to / from - 0.012, to / from + 0.012),
        verdict,
    };
    ComparisonReport {
        baseline: "hairpin-runs/2026-11-20-survey".to_owned(),
        candidate: "hairpin-runs/2026-11-21-survey".to_owned(),
        rows: vec![
            row("tcp block together", "p50", 13_400.0, 13_450.0, Verdict::CannotTell),
            row("tcp block together", "p99", 15_000.0, 16_900.0, Verdict::Slower),
            row("udp block together", "p50", 10_200.0, 9480.0, Verdict::Faster),
        ],
        unlike: vec![Unlike {
            what: "environment.kernel".to_owned(),
            baseline: "Linux 6.18.0".to_owned(),
            candidate: "Linux 6.18.1".to_owned(),
        }],
        only_in: vec![("icmp block apart".to_owned(), "the baseline".to_owned())],
        budgets: vec![BudgetResult {
            case: "tcp block together".to_owned(),
            figure: "p99".to_owned(),
            allowed_share: 0.05,
            ratio: Some(Figure::new(1.127, 1.115, 1.139)),
            kept: Some(false),
            lost: false,
        }],
    }
}

#[test]
fn two_runs_compared() {
    insta::assert_snapshot!(render_comparison(&comparison(), &plain(80)));
}

#[test]
fn two_runs_with_nothing_in_common() {
    let text = render_comparison(&ComparisonReport::default(), &plain(80));
    assert!(text.starts_with("The two runs have no figure in common."), "{text}");
}
