//! Published claims: an overview with a line for each, or the page of each claim.

use anstyle::Style;
use hairpin_model::judged_claim::{Headline, Verdict};
use hairpin_model::quantities::counted;
use hairpin_model::{ClaimsReport, JudgedClaim, JudgedRow};

use super::page::{BAD, DIM, GOOD, LEAD, PLAIN, Page, WARN, clean};
use crate::claim_wording::{self, Scale};

/// With more claims, only the overview is shown.
const MAX_DETAILED: usize = 7;

pub(super) fn show(page: &mut Page, report: &ClaimsReport) {
    page.paragraph(0, LEAD, &claim_wording::answer(report));
    if let Some(partial) = claim_wording::partial(report) {
        page.paragraph(0, BAD, partial);
    }
    if report.claims.len() > MAX_DETAILED {
        overview(page, report);
    } else {
        report.claims.iter().for_each(|claim| details(page, claim));
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
const AGE_WIDTH: usize = 8;

/// One line for each claim: id, verdict and age, cut at the width of the terminal.
fn overview(page: &mut Page, report: &ClaimsReport) {
    for claim in &report.claims {
        let room = page.look.width.saturating_sub(ID_WIDTH + AGE_WIDTH).max(20);
        let text = match claim.headline {
            Some(Headline::NotYet) => format!("Not yet: {}", sentence(&claim.statement)),
            Some(_) => clean(&claim.text.sentence),
            None => sentence(&claim.statement),
        };
        let age = claim.age_s.filter(|_| claim.headline != Some(Headline::NotYet)).map(claim_wording::age);
        let age = age.unwrap_or_default();
        let line = format!("{:<ID_WIDTH$}{:<room$}{age:>AGE_WIDTH$}", claim.id, cut(&text, room));
        page.line(style(claim.headline), line.trim_end());
    }
}

/// Returns the statement with a full stop, unless it is a question.
fn sentence(statement: &str) -> String {
    let statement = clean(statement);
    if statement.ends_with('?') { statement } else { format!("{statement}.") }
}

/// Returns the text cut at a word, with dots.
fn cut(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let head: String = text.chars().take(room - 3).collect();
    let whole = head.rfind(' ').map_or(head.as_str(), |space| &head[..space]);
    format!("{} ...", whole.trim_end_matches([',', ';', ':']))
}

/// The page of a claim: the sentence, the picture, the evidence, why, and what follows.
fn details(page: &mut Page, claim: &JudgedClaim) {
    page.gap();
    page.item(&format!("{:<ID_WIDTH$}", claim.id), LEAD, &sentence(&claim.statement));
    if claim.headline.is_some() && !claim.text.sentence.is_empty() {
        page.paragraph(ID_WIDTH, style(claim.headline), &claim.text.sentence);
    }
    let axes = claim_wording::axes(&claim.axes);
    let decides = claim.decides.as_ref().filter(|_| claim.headline == Some(Headline::Undecided));
    if !axes.is_empty() {
        let decides = decides.map_or_else(String::new, |decides| format!("; would decide: {decides}"));
        page.paragraph(ID_WIDTH, DIM, &format!("By axis: {axes}{decides}."));
    }
    claim.rows.iter().for_each(|row| show_row(page, row));
    let mut labelled = |label: &str, text: &str| page.item(&format!("     {label:<8}"), PLAIN, text);
    labelled("Why:", &claim.text.why);
    labelled("So:", &claim.text.so_what);
    for error in &claim.text_errors {
        labelled("Text:", error);
    }
    labelled("Source:", &claim_wording::source(&claim.source));
}

fn show_row(page: &mut Page, row: &JudgedRow) {
    let of = &row.judgement;
    let name = if row.name.is_empty() { row.axis.word() } else { &row.name };
    let verdict = claim_wording::verdict(of.verdict);
    let published = claim_wording::published(&row.published);
    let (measured, interval) = (claim_wording::measured(of), claim_wording::interval(of));
    let figures = format!("published {published}; measured {measured}, 95 % {interval}");
    page.gap();
    page.item("     ", row_style(of.verdict), &format!("{name} ({}): {verdict}", row.axis));
    if of.measured.is_some() {
        page.paragraph(ID_WIDTH + 2, PLAIN, &format!("{figures}."));
    } else if of.verdict.is_none() {
        page.paragraph(ID_WIDTH + 2, PLAIN, &format!("published {published}."));
    }
    if let Some(picture) = picture(row, page.look.width.saturating_sub(ID_WIDTH + 4).clamp(20, 60)) {
        page.line(PLAIN, &format!("{:width$}{picture}", "", width = ID_WIDTH + 2));
    }
    let is_untested = row.missing.is_some() || row.skipped.is_some();
    let why = Some(claim_wording::why(of)).filter(|why| !why.is_empty() && !is_untested);
    for text in why.into_iter().chain(claim_wording::notes(row)) {
        page.paragraph(ID_WIDTH + 2, DIM, &format!("{}.", text.trim_end_matches('.')));
    }
    let rule = row.rule_because.as_ref().zip(row.rule_changed.as_ref());
    if let Some((because, changed)) = rule {
        let evidence = row.evidence.as_ref().map_or_else(String::new, |file| format!(" Evidence: {file}."));
        page.paragraph(
            ID_WIDTH + 2,
            DIM,
            &format!("Rule of {changed}: {}.{evidence}", because.trim_end_matches('.')),
        );
    }
}

/// A line with the margin (`=`), the published mark (`o`), the measured interval (`[`, `]`) and value (`*`).
fn picture(row: &JudgedRow, width: usize) -> Option<String> {
    let scale = Scale::of(row)?;
    let place = |value: f64| (scale.at(value) * (width - 1) as f64).round() as usize;
    let mut line = vec!['.'; width];
    if let Some([from, to]) = row.judgement.margin {
        let (from, to) = (from.map_or(0, place), to.map_or(width - 1, place));
        line[from..=to].fill('=');
    }
    for published in Scale::published(row) {
        line[place(published)] = 'o';
    }
    let measured = row.judgement.measured?;
    if let Some((low, high)) = measured.interval() {
        (line[place(low)], line[place(high)]) = ('[', ']');
    }
    line[place(measured.value)] = '*';
    Some(line.into_iter().collect())
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

fn row_style(verdict: Option<Verdict>) -> Style {
    match verdict {
        Some(Verdict::Confirmed) => GOOD,
        Some(Verdict::Refuted | Verdict::Equal) => BAD,
        Some(Verdict::Undecided) => WARN,
        _ => PLAIN,
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
