//! Published claims: as a list of what can be tested, or tested, with the verdicts.

use anstyle::Style;
use hairpin_model::claim::Coverage;
use hairpin_model::judged_claim::{ClaimsReport, JudgedClaim, JudgedRow, Source, Verdict};

use super::page::{BAD, DIM, GOOD, LEAD, PLAIN, Page, WARN, clean, wrapped};
use super::tables::Block;
use crate::{claim_wording, wording};

pub(super) fn show(page: &mut Page, report: &ClaimsReport) {
    page.paragraph(0, LEAD, &claim_wording::answer(report));
    if let Some(partial) = claim_wording::partial(report) {
        page.paragraph(0, BAD, partial);
    }
    for source in &report.sources {
        let claims: Vec<&JudgedClaim> = report.claims.iter().filter(|claim| claim.source == source.letter).collect();
        page.heading(&format!("{}  {}", source.letter, clean(&source.title)), "");
        if report.seed.is_none() {
            list(page, source, &claims);
        } else {
            judged(page, &claims);
        }
    }
    problems(page, report);
    page.gap();
    let footer = claim_wording::footer(report);
    if footer.is_empty() {
        page.paragraph(0, DIM, "`hairpin claims run ID` tests one, `hairpin claims run` all that can be tested.");
    } else {
        page.paragraph(0, DIM, &format!("{}.", footer.join("; ")));
    }
}

/// An id and the blanks after it.
const ID: usize = 5;

/// Lines that the text of a claim may take in the list.
const LINES: usize = 2;

fn list(page: &mut Page, source: &Source, claims: &[&JudgedClaim]) {
    page.paragraph(0, DIM, &format!("{}. From {}.", source.what, source.setting));
    let (published, how) = (page.width() / 5, page.width() * 3 / 10);
    let text = page.width() - ID - published - how - 4;
    for claim in claims {
        let columns = [
            (ID - 2, vec![claim.id.clone()]),
            (text, shortened(&claim.text, text)),
            (published, shortened(&claim_wording::published(&claim.published), published)),
            (how, wrapped(&claim_wording::how(claim), how)),
        ];
        let style = match claim.coverage {
            Coverage::Covered => GOOD,
            Coverage::Partly => PLAIN,
            Coverage::NotCovered => DIM,
        };
        let lines = columns.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
        for place in 0..lines {
            let cell = |(width, lines): &(usize, Vec<String>)| {
                format!("{:<width$}", lines.get(place).map_or("", String::as_str))
            };
            page.line(style, &columns.iter().map(cell).collect::<Vec<_>>().join("  "));
        }
    }
}

/// The text in lines of so many columns, cut where it takes more than [`LINES`].
fn shortened(text: &str, width: usize) -> Vec<String> {
    let mut lines = wrapped(text, width);
    if lines.len() > LINES {
        lines.truncate(LINES);
        if let Some(last) = lines.last_mut() {
            while last.chars().count() + 2 > width {
                last.pop();
            }
            last.push_str("..");
        }
    }
    lines
}

/// The table of a text, why each verdict was reached, and what is not covered.
fn judged(page: &mut Page, claims: &[&JudgedClaim]) {
    let (tested, untested): (Vec<&JudgedClaim>, Vec<&JudgedClaim>) =
        claims.iter().partition(|claim| claim.coverage != Coverage::NotCovered);
    table(page, &tested);
    for claim in &tested {
        why(page, claim);
    }
    if !untested.is_empty() {
        page.gap();
        page.line(LEAD, "Not covered yet");
    }
    for claim in &untested {
        let text = format!("{}. Missing: {}.", claim.text, claim_wording::missing(claim));
        page.item(&format!("{:<ID$}", claim.id), DIM, &text);
    }
}

/// The columns of figures, and the width from which each is shown; what is left out stands in the reasons.
const COLUMNS: &[(&str, usize)] = &[("published", 76), ("measured", 0), ("95 %", 96), ("ratio", 76), ("verdict", 0)];
/// Columns of what is published; longer lists are told by what they are of.
const PUBLISHED: usize = 16;
/// Columns of a row's name.
const NAME: usize = 24;

fn table(page: &mut Page, claims: &[&JudgedClaim]) {
    if claims.is_empty() {
        return;
    }
    let width = page.width();
    let fitting = |cells: [String; COLUMNS.len()]| {
        cells.into_iter().zip(COLUMNS).filter(move |(_, (_, from))| width >= *from).map(|(cell, _)| cell)
    };
    let mut block = Block::new(fitting(std::array::from_fn(|column| COLUMNS[column].0.to_owned())));
    for claim in claims {
        let of_claim = style(claim.judgement.verdict);
        if let [row] = claim.rows.as_slice() {
            block.row(of_claim, std::slice::from_ref(&claim.id), fitting(cells(row)));
            continue;
        }
        let mut overall: [String; COLUMNS.len()] = Default::default();
        overall[COLUMNS.len() - 1] = claim_wording::verdict(claim.judgement.verdict).to_owned();
        block.row(of_claim, std::slice::from_ref(&claim.id), fitting(overall));
        for row in claim.rows.iter().filter(|row| row.missing.is_none()) {
            block.row(style(row.judgement.verdict), &name_lines(&row.name), fitting(cells(row)));
        }
    }
    block.show(page);
}

/// The name below its claim, in lines that the column holds.
fn name_lines(name: &str) -> Vec<String> {
    let mut lines = vec![String::from(" ")];
    for word in clean(name).split(' ') {
        let last = lines.last_mut().expect("it has one");
        if last.trim().is_empty() || last.chars().count() + 1 + word.chars().count() <= NAME {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(format!("    {word}"));
        }
    }
    lines
}

/// In the order of [`COLUMNS`].
fn cells(row: &JudgedRow) -> [String; COLUMNS.len()] {
    let of = &row.judgement;
    let published = claim_wording::published(&row.published);
    let unit = clean(&row.published.unit);
    let short =
        if published.chars().count() > PUBLISHED { unit.split([' ', ',']).take(1).collect() } else { published };
    let verdict = claim_wording::verdict(of.verdict).to_owned();
    [short, claim_wording::measured(of), claim_wording::interval(of), claim_wording::ratio(of), verdict]
}

fn why(page: &mut Page, claim: &JudgedClaim) {
    page.gap();
    page.item(&format!("{:<ID$}", claim.id), LEAD, &format!("{}.", claim.text));
    for row in &claim.rows {
        let name = if row.name.is_empty() { String::new() } else { format!("{}: ", row.name) };
        page.item("     ", PLAIN, &format!("{name}{}", claim_wording::why(&row.judgement)));
    }
}

fn style(verdict: Option<Verdict>) -> Style {
    match verdict {
        Some(Verdict::Holds) => GOOD,
        Some(Verdict::DoesNotHold) => BAD,
        Some(Verdict::CannotTell) => WARN,
        Some(Verdict::CannotRun) | None => DIM,
    }
}

/// Runs that could not be made, or not in full.
fn problems(page: &mut Page, report: &ClaimsReport) {
    let failed = report.runs.iter().filter(|run| run.problem.is_some() || run.failed_rounds > 0);
    for (place, run) in failed.enumerate() {
        if place == 0 {
            page.heading("Runs that failed", "");
        }
        let what = run.problem.clone();
        let what = what.unwrap_or_else(|| format!("{} failed", wording::counted(run.failed_rounds, "round")));
        page.item(&format!("  {}: ", run.name), BAD, &what);
    }
}
