//! Published claims: a list of claims, or tested claims with verdicts.

use anstyle::Style;
use hairpin_model::claim::Coverage;
use hairpin_model::judged_claim::Verdict;
use hairpin_model::names::distinct;
use hairpin_model::quantities::counted;
use hairpin_model::{ClaimsReport, JudgedClaim, JudgedRow, Source};

use super::page::{BAD, DIM, GOOD, HEADING, LEAD, PLAIN, Page, WARN, clean};
use super::tables::{Block, GAP, fill};
use crate::claim_wording;

pub(super) fn show(page: &mut Page, report: &ClaimsReport) {
    page.paragraph(0, LEAD, &claim_wording::answer(report));
    if let Some(partial) = claim_wording::partial(report) {
        page.paragraph(0, BAD, partial);
    }
    for source in &report.sources {
        let claims: Vec<&JudgedClaim> = report.claims.iter().filter(|claim| claim.source == source.letter).collect();
        page.gap();
        page.item(&format!("{}  ", source.letter), HEADING, &source.title);
        if report.seed.is_none() {
            list(page, source, &claims);
        } else {
            tested_claims(page, &claims, report.claims.len() <= MAX_DETAILED);
        }
    }
    problems(page, report);
    page.gap();
    let footer = claim_wording::footer(report);
    if footer.is_empty() {
        page.paragraph(
            0,
            DIM,
            "`hairpin claims run ID` tests one claim, `hairpin claims run` all that can be \
                                tested.",
        );
    } else {
        page.paragraph(0, DIM, &format!("{}.", footer.join("; ")));
    }
}

/// Width of an id, including the spaces after it.
const ID_WIDTH: usize = 5;

fn list(page: &mut Page, source: &Source, claims: &[&JudgedClaim]) {
    page.paragraph(0, DIM, &format!("{}. From {}.", source.what, source.setting));
    for claim in claims {
        let style = match claim.coverage {
            Coverage::Covered => GOOD,
            Coverage::Partly => PLAIN,
            Coverage::NotCovered => DIM,
        };
        page.item(&format!("{:<ID_WIDTH$}", claim.id), style, &format!("{}.", claim.text));
        let published = claim_wording::published(&claim.published);
        page.paragraph(ID_WIDTH, DIM, &format!("Published: {published}. {}.", claim_wording::how(claim)));
    }
}

/// Shows the table of a source, the reasons for the verdicts, and the claims that were not tested.
fn tested_claims(page: &mut Page, claims: &[&JudgedClaim], with_rules: bool) {
    let (skipped, others): (Vec<&JudgedClaim>, Vec<&JudgedClaim>) =
        claims.iter().partition(|claim| claim.skipped.is_some());
    let (tested, untested): (Vec<&JudgedClaim>, Vec<&JudgedClaim>) =
        others.into_iter().partition(|claim| claim.coverage != Coverage::NotCovered);
    let notes = Notes::of(&tested);
    table(page, &tested, &notes);
    notes.show(page);
    for claim in &tested {
        why(page, claim, with_rules);
    }
    let missing = |claim: &JudgedClaim| format!("Missing: {}", claim_wording::missing(claim));
    let why_skipped = |claim: &JudgedClaim| format!("Skipped: {}", claim.skipped.as_deref().unwrap_or_default());
    show_untested(page, "Not covered yet", &untested, missing);
    show_untested(page, "Skipped between two hosts", &skipped, why_skipped);
}

fn show_untested(page: &mut Page, title: &str, claims: &[&JudgedClaim], why: impl Fn(&JudgedClaim) -> String) {
    for (place, claim) in claims.iter().enumerate() {
        if place == 0 {
            page.gap();
            page.line(LEAD, title);
        }
        page.item(&format!("{:<ID_WIDTH$}", claim.id), DIM, &format!("{}. {}.", claim.text, why(claim)));
    }
}

/// Notes on rows of a table, without duplicates. Rows have marks, and the texts are below the table.
struct Notes(Vec<String>);

impl Notes {
    fn of(claims: &[&JudgedClaim]) -> Self {
        Self(distinct(claims.iter().flat_map(|claim| &claim.rows).flat_map(claim_wording::notes)))
    }

    fn with_marks(&self, name: &str, row: &JudgedRow) -> String {
        let marks: Vec<String> = claim_wording::notes(row)
            .iter()
            .filter_map(|note| self.0.iter().position(|known| known == note))
            .map(|place| (place + 1).to_string())
            .collect();
        if marks.is_empty() { name.to_owned() } else { format!("{name} [{}]", marks.join(",")) }
    }

    fn show(&self, page: &mut Page) {
        if self.0.is_empty() {
            return;
        }
        page.gap();
        for (place, note) in self.0.iter().enumerate() {
            page.item(&format!("{:<ID_WIDTH$}", format!("[{}]", place + 1)), DIM, &format!("{note}."));
        }
    }
}

/// The figure columns, each with the minimum terminal width. The reasons contain the figures too.
const COLUMNS: &[(&str, usize)] = &[("published", 76), ("measured", 0), ("95 %", 96), ("ratio", 76), ("verdict", 0)];
/// Maximum width of a published value. The first word of the unit replaces a longer value.
const MAX_PUBLISHED: usize = 16;
/// Minimum and maximum width of row names.
const NAME_WIDTHS: [usize; 2] = [14, 40];

/// A line of the table, for a claim or for one of its rows. A row's name may take several lines.
struct TableLine {
    style: Style,
    name: String,
    is_row: bool,
    cells: Vec<String>,
}

fn table(page: &mut Page, claims: &[&JudgedClaim], notes: &Notes) {
    if claims.is_empty() {
        return;
    }
    let width = page.look.width;
    let fitting = |cells: [String; COLUMNS.len()]| -> Vec<String> {
        cells.into_iter().zip(COLUMNS).filter(|(_, (_, from))| width >= *from).map(|(cell, _)| cell).collect()
    };
    let titles = fitting(std::array::from_fn(|column| COLUMNS[column].0.to_owned()));
    let lines: Vec<TableLine> = claims.iter().flat_map(|claim| lines(claim, notes, &fitting)).collect();
    let widest = |column: usize| {
        let cells = lines.iter().map(|line| &line.cells).chain([&titles]);
        cells.map(|cells| cells[column].chars().count()).max().unwrap_or(0)
    };
    let figures: usize = (0..titles.len()).map(|column| GAP + widest(column)).sum();
    let room = width.saturating_sub(figures).clamp(NAME_WIDTHS[0], NAME_WIDTHS[1]);
    let mut block = Block::new(titles.into_iter());
    for line in lines {
        let name = if line.is_row { name_lines(&line.name, room) } else { vec![line.name] };
        block.row(line.style, &name, line.cells.into_iter());
    }
    block.show(page);
}

/// Returns a single line for a claim with one row, otherwise a line for the claim and a line per tested row.
fn lines(
    claim: &JudgedClaim,
    notes: &Notes,
    fitting: &impl Fn([String; COLUMNS.len()]) -> Vec<String>,
) -> Vec<TableLine> {
    let style_of_claim = style(claim.judgement.verdict);
    if let [row] = claim.rows.as_slice() {
        let name = notes.with_marks(&claim.id, row);
        return vec![TableLine { style: style_of_claim, name, is_row: false, cells: fitting(cells(row)) }];
    }
    let mut overall: [String; COLUMNS.len()] = Default::default();
    overall[COLUMNS.len() - 1] = claim_wording::verdict(claim.judgement.verdict).to_owned();
    let overall = TableLine { style: style_of_claim, name: claim.id.clone(), is_row: false, cells: fitting(overall) };
    let of_row = |row: &JudgedRow| TableLine {
        style: style(row.judgement.verdict),
        name: notes.with_marks(&row.name, row),
        is_row: true,
        cells: fitting(cells(row)),
    };
    std::iter::once(overall)
        .chain(claim.rows.iter().filter(|row| row.missing.is_none() && row.skipped.is_none()).map(of_row))
        .collect()
}

/// Wraps the name of a row, indented below the name of the claim.
fn name_lines(name: &str, room: usize) -> Vec<String> {
    let name = clean(name);
    let (first, words) = name.split_once(' ').unwrap_or((&name, ""));
    let words = words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
    fill(format!("  {first}"), words, room)
}

/// Returns the cells in the order of [`COLUMNS`].
fn cells(row: &JudgedRow) -> [String; COLUMNS.len()] {
    let of = &row.judgement;
    let published = claim_wording::published(&row.published);
    let unit = clean(&row.published.unit);
    let short =
        if published.chars().count() > MAX_PUBLISHED { unit.split([' ', ',']).take(1).collect() } else { published };
    let verdict = claim_wording::verdict(of.verdict).to_owned();
    [short, claim_wording::measured(of), claim_wording::interval(of), claim_wording::ratio(of), verdict]
}

/// The reasons for the rules are shown for at most this many claims. The page and the JSON always contain them.
const MAX_DETAILED: usize = 7;

fn why(page: &mut Page, claim: &JudgedClaim, with_rules: bool) {
    page.gap();
    page.item(&format!("{:<ID_WIDTH$}", claim.id), LEAD, &format!("{}.", claim.text));
    for row in &claim.rows {
        let name = if row.name.is_empty() { String::new() } else { format!("{}: ", row.name) };
        page.item("     ", PLAIN, &format!("{name}{}", claim_wording::why(&row.judgement)));
        if let Some(because) = row.rule_because.as_ref().filter(|_| with_rules) {
            page.item("     ", DIM, &format!("Rule: {because}."));
        }
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

/// Shows runs that a busy machine may have affected, and runs that failed or are incomplete.
fn problems(page: &mut Page, report: &ClaimsReport) {
    if let Some(caution) = claim_wording::caution(report) {
        page.gap();
        page.paragraph(0, WARN, &caution);
    }
    let failed = report.runs.iter().filter(|run| run.problem.is_some() || run.failed_rounds > 0);
    for (place, run) in failed.enumerate() {
        if place == 0 {
            page.heading("Runs that failed", "");
        }
        let what = run.problem.clone();
        let what = what.unwrap_or_else(|| format!("{} failed", counted(run.failed_rounds, "round")));
        page.item(&format!("  {}: ", run.name), BAD, &what);
    }
}
