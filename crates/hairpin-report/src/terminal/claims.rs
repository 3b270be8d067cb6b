//! Published claims: an overview with a line for each, or the page of each claim.

use anstyle::Style;
use hairpin_model::judged_claim::{Headline, Verdict};
use hairpin_model::names::distinct;
use hairpin_model::quantities::counted;
use hairpin_model::{ClaimsReport, JudgedClaim, JudgedRow};

use super::page::{BAD, DIM, GOOD, LEAD, PLAIN, Page, WARN, clean};
use crate::claim_wording::{self, Picture};
use crate::page_text::columns;

const MAX_DETAILED: usize = 7;

pub(super) fn show(page: &mut Page, report: &ClaimsReport) {
    // The page of a single claim is its own answer.
    if report.claims.len() != 1 {
        page.paragraph(0, LEAD, &claim_wording::answer(report));
    }
    if let Some(partial) = claim_wording::partial(report) {
        page.paragraph(0, BAD, partial);
    }
    if report.claims.len() > MAX_DETAILED {
        overview(page, report);
    } else {
        report.claims.iter().for_each(|claim| details(page, report, claim));
        legend(page, report);
    }
    problems(page, report);
    for remark in &report.remarks {
        page.gap();
        page.paragraph(0, WARN, remark);
    }
    let footer = claim_wording::footer(report);
    if !footer.is_empty() {
        page.gap();
        page.paragraph(0, DIM, &format!("{}.", footer.join("; ")));
    }
}

/// Width of an id, including the spaces after it.
const ID_WIDTH: usize = 5;
const VERDICT_WIDTH: usize = 16;
const AGE_WIDTH: usize = 8;

/// One line for each claim: id, verdict, statement and age, cut at the width of the terminal.
fn overview(page: &mut Page, report: &ClaimsReport) {
    let age = |claim: &JudgedClaim| claim.age_s.and_then(claim_wording::age);
    let age_width = if report.claims.iter().any(|claim| age(claim).is_some()) { AGE_WIDTH } else { 0 };
    for claim in &report.claims {
        let room = page.look.width.saturating_sub(ID_WIDTH + VERDICT_WIDTH + age_width).max(12);
        let statement = cut(&clean(&claim.statement), room);
        let age = age(claim).unwrap_or_default();
        let fill = room.saturating_sub(columns(&statement)) + age_width;
        let line = format!(
            "{:<ID_WIDTH$}{:<VERDICT_WIDTH$}{statement}{age:>fill$}",
            claim.id,
            claim_wording::headline(claim.headline)[1]
        );
        page.line(style(claim.headline), line.trim_end());
    }
}

/// Returns the statement with a full stop, unless it is a question.
fn sentence(statement: &str) -> String {
    let statement = clean(statement);
    if statement.ends_with('?') { statement } else { format!("{statement}.") }
}

fn cut(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let fits = |end: &usize| columns(&text[..*end]) + 3 <= room;
    let mut ends = text.char_indices().map(|(place, _)| place);
    let most = ends.clone().rfind(fits).unwrap_or(0);
    let end = ends.rfind(|place| *place <= most && text[*place..].starts_with(' ')).unwrap_or(most);
    format!("{}...", text[..end].trim_end_matches([',', ';', ':']))
}

/// The page of a claim: the verdict, why, what follows, then the rows and the source.
fn details(page: &mut Page, report: &ClaimsReport, claim: &JudgedClaim) {
    page.gap();
    page.item(&format!("{:<ID_WIDTH$}", claim.id), LEAD, &sentence(&claim.statement));
    let is_built_in = !report.command_line.iter().any(|word| word.starts_with("--file"));
    let hint = if is_built_in { format!(" (hint: hairpin claims run {})", claim.id) } else { String::new() };
    let untested = format!("Not tested{hint}.");
    let verdict = if claim.headline.is_some() { &claim.text.sentence } else { &untested };
    page.paragraph(ID_WIDTH, style(claim.headline), verdict);
    page.paragraph(ID_WIDTH, DIM, &claim_wording::axes(claim));
    labelled(page, "Why:", PLAIN, &claim.text.why);
    labelled(page, "So:", PLAIN, &claim.text.so_what);
    labelled(page, "Warns:", WARN, &claim_wording::warnings(&claim.warnings));
    labelled(page, "With:", PLAIN, &claim_wording::congestion(claim));
    let mut told = clean(verdict);
    page.gap();
    claim.rows.iter().for_each(|row| show_row(page, row, &mut told));
    page.gap();
    claim.text_errors.iter().for_each(|error| labelled(page, "Text:", DIM, error));
    let reports = distinct(claim.rows.iter().filter_map(|row| row.evidence.as_deref())).join(", ");
    labelled(page, "Runs:", DIM, &reports);
    labelled(page, "Source:", DIM, &claim_wording::source(&claim.source));
}

fn labelled(page: &mut Page, label: &str, style: Style, text: &str) {
    page.item(&format!("{:ID_WIDTH$}{label:<8}", ""), style, text);
}

const ROW_INDENT: usize = ID_WIDTH + 2;
const PICTURE_WIDTH: usize = 60;

/// Shows a row: its verdict, the figures, the picture and the rule. A text in `told` is not repeated.
fn show_row(page: &mut Page, row: &JudgedRow, told: &mut String) {
    let of = &row.judgement;
    let mut new = |text: String| {
        let is_new = !told.contains(clean(&text).trim_start_matches("Missing: ").trim_end_matches('.'));
        told.push_str(&clean(&text));
        Some(text).filter(|text| is_new && !text.is_empty())
    };
    let is_untested = row.missing.is_some() || row.skipped.is_some();
    let reason = if is_untested { String::new() } else { claim_wording::why(of) };
    let (figures, has_reason) = (claim_wording::figures(row), !reason.is_empty());
    // A reason names what was measured.
    let subject = claim_wording::subject(row).filter(|_| figures.is_some());
    let subject = subject.map(|subject| format!("Measured: {subject}."));
    let reason = if figures.is_some() { None } else { new(reason) };
    let notes: Vec<String> = claim_wording::notes(row).into_iter().filter_map(&mut new).collect();
    let rule = claim_wording::rule(row).filter(|_| row.shown.is_none()).and_then(&mut new);
    let is_told = of.measured.is_none() && has_reason && reason.is_none();
    if row.name.is_empty() && of.measured.is_none() && rule.is_none() && reason.is_none() && notes.is_empty() {
        return;
    }
    let axis = if row.name.is_empty() { String::new() } else { format!(" ({})", row.axis) };
    let verdict = of.verdict.map_or_else(String::new, |_| format!(": {}", claim_wording::row_verdict(row)));
    let told = if is_told { ", as above" } else { "" };
    let published = match (of.measured, of.verdict) {
        (Some(_), _) => String::new(),
        (None, Some(_)) => format!("; {} in the text", claim_wording::published(&row.published)),
        (None, None) => format!(": {} in the text", claim_wording::published(&row.published)),
    };
    page.item("     ", row_style(row), &format!("{}{axis}{verdict}{told}{published}", claim_wording::row_name(row)));
    // The figures are above the picture; of a direction they are in the reason.
    let (figures, reason) = if of.measured.is_some() { (figures.or(reason), None) } else { (None, reason) };
    if let Some(figures) = figures {
        page.paragraph(ROW_INDENT, PLAIN, &capitalised(&figures));
    }
    if let Some(picture) = picture(row, page.look.width.saturating_sub(ROW_INDENT + 2).clamp(20, PICTURE_WIDTH)) {
        page.line(PLAIN, &format!("{:ROW_INDENT$}{picture}", ""));
    }
    for text in subject.into_iter().chain(reason).chain(notes).chain(rule) {
        page.paragraph(ROW_INDENT, DIM, &text);
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map_or_else(String::new, |first| first.to_uppercase().to_string());
    format!("{first}{}.", letters.as_str())
}

/// A line with the margin (`=`, or `~` of a direction), the published mark (`o`), the ratio of no difference (`1`), the
/// measured interval (`[`, `]`) or outer bounds (`(`, `)`), and the measured value (`*`).
fn picture(row: &JudgedRow, width: usize) -> Option<String> {
    let picture = Picture::of(row)?;
    let place = |share: f64| (share * (width - 1) as f64).round() as usize;
    let mut line = vec!['.'; width];
    if let Some([from, to]) = picture.margin {
        line[place(from)..=place(to)].fill(if picture.is_direction { '~' } else { '=' });
    }
    let published = picture.published.iter().map(|mark| (*mark, 'o'));
    for (mark, letter) in published.chain(picture.one.map(|one| (one, '1'))) {
        line[place(mark)] = letter;
    }
    if let Some([low, high]) = picture.bounds {
        let has_interval = row.judgement.measured.is_some_and(|measured| measured.interval().is_some());
        (line[place(low)], line[place(high)]) = if has_interval { ('[', ']') } else { ('(', ')') };
    }
    line[place(picture.measured)] = '*';
    Some(line.into_iter().collect())
}

fn legend(page: &mut Page, report: &ClaimsReport) {
    let rows = report.claims.iter().flat_map(|claim| &claim.rows);
    let pictures: Vec<_> = rows.filter_map(|row| Some((Picture::of(row)?, row.judgement.outer_bounds))).collect();
    let has = |is_direction: bool| pictures.iter().any(|(picture, _)| picture.is_direction == is_direction);
    let has_outer_bounds = pictures.iter().any(|(_, outer)| outer.is_some());
    let parts = [
        has(false).then_some("o published, = confirms, "),
        has(true).then_some("1 no difference, ~ counts as equal, "),
        (!pictures.is_empty()).then_some("[*] measured"),
        has_outer_bounds.then_some(", (*) with the outer bounds of its rounds"),
        (!pictures.is_empty()).then_some(" (logarithmic axis; linear for shares)"),
    ];
    page.gap();
    page.paragraph(0, DIM, &parts.into_iter().flatten().collect::<String>());
}

fn style(headline: Option<Headline>) -> Style {
    match headline {
        Some(Headline::Holds | Headline::HoldsOtherSize | Headline::HoldsOnlyIf | Headline::Answered) => GOOD,
        Some(Headline::Contradicted | Headline::NoDifference) => BAD,
        Some(Headline::Undecided) => WARN,
        Some(Headline::OtherHardware) => PLAIN,
        Some(Headline::NotYet | Headline::NotTestable) | None => DIM,
    }
}

fn row_style(row: &JudgedRow) -> Style {
    match row.judgement.verdict {
        _ if row.shown.is_some() => PLAIN,
        Some(Verdict::Confirmed) => GOOD,
        Some(Verdict::Refuted | Verdict::Equal) => BAD,
        Some(Verdict::Undecided) => WARN,
        _ => PLAIN,
    }
}

/// Shows runs that a busy machine may have affected, and runs that failed or are incomplete.
fn problems(page: &mut Page, report: &ClaimsReport) {
    if let Some(caution) = claim_wording::caution(report).filter(|_| report.claims.len() > MAX_DETAILED) {
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
