//! Text for a terminal: the answer first, then the tables, then the explanations.
//!
//! Lines are never wider than [`Look::width`], unless a single word, such as a path, is wider. Control characters are
//! removed from the texts of the run, so that a name cannot control the terminal.

mod brief;
mod changes;
mod choice;
mod claims;
mod explanation;
mod first_table;
mod latency_budget;
mod look;
mod observers;
mod one_way;
mod page;
mod tables;
mod time_sequence;
mod tuning;

use anstyle::Style;
use hairpin_model::case::FALLBACK_MARK;
use hairpin_model::finding::{About, Severity};
use hairpin_model::quantities;
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::{CaseSummary, ClaimsReport, Comparison, Finding, Run, path};

use crate::orders::{self, orders};
use crate::{bound, exchanges, findings, hosts, links, trust, wording, words};
use hairpin_model::ComparisonReport;
use page::{BAD, CODE, DIM, GOOD, LEAD, PLAIN, Page, WARN};

use one_way::Extent;

pub use brief::{render_brief, render_more};
pub use changes::markdown_comparison;
pub use explanation::render_explanation;
pub use look::Look;
pub use time_sequence::render_time_sequences;
pub use tuning::render_tuning;

/// Renders the run as text. The binary adds the paths of the run folder and of the page.
pub fn render(run: &Run, look: &Look) -> String {
    let mut page = Page::new(*look);
    answer(&mut page, run);
    choice::table(&mut page, run);
    latency_budget::tables(&mut page, run);
    tables::tables(&mut page, run);
    above_bound(&mut page, run);
    one_way::tables(&mut page, run, Extent::All);
    below_the_ladder(&mut page, run);
    neighbours(&mut page, run);
    causes_and_run(&mut page, run);
    page.finish()
}

fn causes_and_run(page: &mut Page, run: &Run) {
    changes_of_one_thing(page, run);
    all_findings(page, run);
    failures(page, run);
    skipped(page, run);
    footer(page, run);
}

pub fn render_item(label: &str, text: &str, look: &Look) -> String {
    let mut page = Page::new(*look);
    page.item(label, PLAIN, text);
    page.finish()
}

pub fn render_comparison(report: &ComparisonReport, look: &Look) -> String {
    let mut page = Page::new(*look);
    changes::show(&mut page, report);
    page.finish()
}

pub fn render_claims(report: &ClaimsReport, look: &Look) -> String {
    let mut page = Page::new(*look);
    claims::show(&mut page, report);
    page.finish()
}

fn answer(page: &mut Page, run: &Run) {
    if let Some(alarm) = wording::partial(run) {
        page.paragraph(0, BAD, &alarm);
        page.gap();
    }
    let (headline, sentences) = words::answer(run);
    page.paragraph(0, LEAD, &headline);
    page.paragraph(0, PLAIN, &sentences.join(" "));
    if let Some(quick) = trust::quick(run) {
        page.paragraph(0, WARN, &quick);
    }
    for caution in wording::cautions(run) {
        page.paragraph(0, BAD, &caution);
    }
    if let Some(states) = trust::machine_states(run) {
        page.paragraph(0, WARN, &states);
    }
    for caution in [wording::busy(run), wording::cut(run)].into_iter().flatten() {
        page.paragraph(0, WARN, &caution);
    }
}

/// Shows how often the latency of each case exceeds the bound of the run, if it has one.
fn above_bound(page: &mut Page, run: &Run) {
    let Some((title, lines)) = bound::lines(run) else { return };
    page.heading(&title, bound::REMARK);
    lines.iter().for_each(|line| page.paragraph(2, PLAIN, line));
    page.paragraph(0, DIM, bound::LEGEND);
}

fn below_the_ladder(page: &mut Page, run: &Run) {
    if run.cases.is_empty() {
        return;
    }
    page.gap();
    fallbacks(page, run);
    calibrations(page, run);
    for line in trust::until_missed(run).into_iter().chain(trust::without_interval(run)) {
        page.paragraph(0, WARN, &line);
    }
    for (label, why) in wording::invalid(run) {
        page.item("! ", BAD, &format!("{label} {why}"));
    }
    for (label, usual, lines) in notes(run) {
        for (is_bad, line) in lines {
            page.item(label, if is_bad { BAD } else { usual }, &line);
        }
    }
}

/// True marks a bad note.
type Note = (bool, String);

/// Returns notes by subject, with a label and the usual style.
fn notes(run: &Run) -> [(&'static str, Style, Vec<Note>); 7] {
    let good = |lines: Vec<String>| lines.into_iter().map(|line| (false, line)).collect();
    [
        ("Link: ", PLAIN, links::notes(run)),
        ("Load: ", WARN, wording::loads_left_out(run)),
        ("Ledger: ", WARN, good(wording::ledger_lines(run))),
        ("Path: ", DIM, good(hosts::paths(run))),
        ("Tracing: ", DIM, good(exchanges::tracing_cost(run).into_iter().collect())),
        ("Capture: ", DIM, exchanges::captures(run)),
        ("Options: ", DIM, wording::option_notes(run)),
    ]
}

fn calibrations(page: &mut Page, run: &Run) {
    for (calibrated, line) in wording::calibrations(run) {
        page.paragraph(0, if calibrated { GOOD } else { BAD }, &line);
    }
}

fn fallbacks(page: &mut Page, run: &Run) {
    for line in hosts::fallbacks(run) {
        page.item(&format!("{FALLBACK_MARK} "), WARN, &line);
    }
}

/// Shows the comparisons that the user requested: cases that differ in options, in CPU sleep depth or in the link.
fn changes_of_one_thing(page: &mut Page, run: &Run) {
    let asked = |comparison: &&Comparison| {
        let pair = run.case(&comparison.baseline).zip(run.case(&comparison.candidate));
        let changed = |(one, other): (&CaseSummary, &CaseSummary)| {
            one.case.primary().options != other.case.primary().options
                || one.case.ends.cpu_idle != other.case.ends.cpu_idle
                || !path::alike(&one.case, &other.case)
        };
        comparison.role == Role::CounterExperiment && pair.is_some_and(changed)
    };
    let comparisons: Vec<&Comparison> = run.comparisons.iter().filter(asked).collect();
    if comparisons.is_empty() {
        return;
    }
    page.heading(
        "One thing changed",
        "the second against the first, with its 95 % interval: p50, or rate or goodput",
    );
    for comparison in comparisons {
        let label = |id: &str| run.case(id).map_or_else(|| id.to_owned(), |case| case.label.clone());
        let verdict = match comparison.verdict {
            Verdict::CannotTell if comparison.ratio.low.is_none() => "cannot tell without an interval",
            Verdict::CannotTell if wording::is_too_noisy(&comparison.ratio) => "too noisy to tell",
            Verdict::CannotTell => "no difference found",
            verdict => verdict.in_words(comparison.figure),
        };
        let (one, other) = (label(&comparison.baseline), label(&comparison.candidate));
        let text = format!("{one} -> {other}: {verdict}, {}", quantities::change_figure(comparison.ratio));
        page.item("  ", PLAIN, &text);
    }
}

/// A label wider than 1 / `LABEL_PART` of the width gets its own line.
const LABEL_PART: usize = 2;

fn neighbours(page: &mut Page, run: &Run) {
    let rankings = orders(run);
    if rankings.is_empty() {
        return;
    }
    page.heading(orders::heading(&rankings), orders::legend(&rankings));
    let titles: Vec<String> = rankings.iter().map(orders::Order::title).collect();
    let widest = titles.iter().map(|title| title.chars().count()).max().unwrap_or(0);
    let beside = LABEL_PART * (widest + 2) <= page.look.width;
    for (chain, title) in rankings.iter().zip(&titles) {
        let label = if beside { format!("{title:<widest$}  ") } else { "  ".to_owned() };
        if !beside {
            page.paragraph(0, LEAD, title);
        }
        let room = page.look.width - label.chars().count();
        // What fits one line is not broken.
        let whole = |text: String| match text.chars().count() <= room {
            true => text.replace(' ', page::NO_BREAK),
            false => text,
        };
        let places: Vec<String> = chain.places().iter().map(|place| whole(place.text())).collect();
        page.item(&label, PLAIN, &places.join("; "));
        if let Some(note) = chain.beyond_p50() {
            page.item(&" ".repeat(label.chars().count()), DIM, &note);
        }
    }
    for line in trust::split_winners(run) {
        page.item("  ", PLAIN, &line);
    }
}

fn all_findings(page: &mut Page, run: &Run) {
    for (title, of_subject) in findings::by_subject(run) {
        if of_subject.is_empty() {
            continue;
        }
        page.heading(title, "");
        for (place, finding) in of_subject.into_iter().enumerate() {
            if place > 0 && !is_brief(finding) {
                page.gap();
            }
            one_finding(page, finding);
        }
    }
}

/// Notes that explain a smaller share than this are shown in one sentence.
const BRIEF_BELOW: f64 = 0.01;

fn is_brief(finding: &Finding) -> bool {
    finding.severity == Severity::Note && (finding.about == About::Run || finding.share < BRIEF_BELOW)
}

fn one_finding(page: &mut Page, finding: &Finding) {
    let style = match finding.severity {
        Severity::Note => DIM,
        Severity::Warning => WARN,
        Severity::Problem => BAD,
    };
    if is_brief(finding) {
        let said = format!("{}: {}", finding.code, findings::first_sentence(&finding.summary));
        page.item(&format!("{}: ", finding.severity), style, &said);
        return;
    }
    let explains = finding.about == About::Cause && finding.share > 0.0;
    let share = if explains { format!(", explains {}", quantities::share(finding.share)) } else { String::new() };
    page.titled(style, &finding.severity.to_string(), &format!("{}{share}", finding.code));
    page.paragraph(2, PLAIN, &finding.summary);
    if !finding.advice.is_empty() {
        page.item("  fix    ", PLAIN, &finding.advice);
    }
    match (&finding.proved, &finding.counter_experiment) {
        (Some(proved), _) => {
            let style = if proved.verdict == "confirmed" { GOOD } else { WARN };
            page.item("  check  ", style, &findings::proof(proved));
        }
        (None, Some(experiment)) => {
            page.item("  check  ", PLAIN, &experiment.change);
            page.command("         ", CODE, &experiment.command);
        }
        (None, None) => {}
    }
}

fn failures(page: &mut Page, run: &Run) {
    page.section("Failed rounds", "", failure_lines(run).map(|line| (PLAIN, line)));
}

fn failure_lines(run: &Run) -> impl Iterator<Item = String> {
    wording::failures(run).into_iter().map(|(label, times, cause)| format!("{label}: {times} failed: {cause}"))
}

fn skipped(page: &mut Page, run: &Run) {
    let told = |(reason, names): (String, Vec<String>)| (PLAIN, format!("{}: {reason}", names.join(", ")));
    page.section("Skipped", "", wording::skipped(run).into_iter().map(told));
}

fn footer(page: &mut Page, run: &Run) {
    page.gap();
    let took = if run.duration_ns > 0 {
        format!(" in {}", quantities::duration(run.duration_ns as f64))
    } else {
        String::new()
    };
    let rounds = format!("{}{took}, seed {}", wording::rounds(run), run.seed);
    let hosts = hosts::lines(run);
    for line in &hosts {
        page.paragraph(0, DIM, line);
    }
    let machine = if hosts.is_empty() { hosts::machine_of(run.environment()) } else { String::new() };
    let parts: Vec<String> = [machine, rounds].into_iter().filter(|part| !part.is_empty()).collect();
    page.paragraph(0, DIM, &format!("{}.", parts.join("; ")));
    trust::recorder(run).iter().for_each(|line| page.paragraph(0, DIM, line));
}
