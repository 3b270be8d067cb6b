//! The page of tested claims: published against measured, text by text.

use hairpin_model::judged_claim::{ClaimsReport, JudgedClaim, JudgedRow, TestRun};
use hairpin_model::quantities::{counted, utc};
use serde::Serialize;

use super::template::{SCRIPT, STYLE, rendered};
use crate::page_text::tied;
use crate::{claim_wording, wording};

const PAGE: &str = include_str!("claims.html");

#[derive(Serialize)]
struct View<'r> {
    style_html: &'static str,
    script_html: &'static str,
    answer: String,
    partial: Option<&'static str>,
    subtitle: Vec<String>,
    texts: Vec<Text<'r>>,
    runs: Vec<RunView<'r>>,
    command: String,
    tool: String,
}

#[derive(Serialize)]
struct Text<'r> {
    letter: &'r str,
    title: &'r str,
    what: &'r str,
    file: &'r str,
    setting: &'r str,
    claims: Vec<ClaimView<'r>>,
}

#[derive(Serialize)]
struct ClaimView<'r> {
    id: &'r str,
    text: String,
    published: String,
    verdict: &'static str,
    /// The class that colours it.
    class: &'static str,
    rows: Vec<RowView<'r>>,
}

#[derive(Serialize)]
struct RowView<'r> {
    name: &'r str,
    published: String,
    unit: Option<&'r str>,
    measured: String,
    interval: Option<String>,
    ratio: String,
    verdict: &'static str,
    class: &'static str,
    why: String,
    rule_because: Option<&'r str>,
    /// What stands in, and that it is no part of the claim's verdict.
    notes: Vec<String>,
}

#[derive(Serialize)]
struct RunView<'r> {
    name: &'r str,
    command: &'r str,
    because: &'r str,
    /// The page of the run, relative to this one.
    page: Option<String>,
    problem: Option<String>,
}

pub(super) fn render(report: &ClaimsReport) -> String {
    let mut subtitle = vec![utc(report.started_unix_s)];
    subtitle.extend(claim_wording::footer(report));
    let view = View {
        style_html: STYLE,
        script_html: SCRIPT,
        answer: tied(&claim_wording::answer(report)),
        partial: claim_wording::partial(report),
        subtitle,
        texts: texts(report),
        runs: report.runs.iter().map(run).collect(),
        command: match report.seed {
            Some(seed) => wording::repeated(&report.command_line, seed),
            None => hairpin_model::shell::command(&report.command_line),
        },
        tool: wording::tool_of(&report.tool),
    };
    rendered("claims.html", PAGE, &view)
}

fn texts(report: &ClaimsReport) -> Vec<Text<'_>> {
    let text = |source: &'_ hairpin_model::judged_claim::Source| {
        let own = report.claims.iter().filter(|claim| claim.source == source.letter);
        own.map(claim).collect::<Vec<_>>()
    };
    let sources = report.sources.iter();
    sources
        .map(|source| Text {
            letter: &source.letter,
            title: &source.title,
            what: &source.what,
            file: &source.file,
            setting: &source.setting,
            claims: text(source),
        })
        .collect()
}

fn claim(of: &JudgedClaim) -> ClaimView<'_> {
    ClaimView {
        id: &of.id,
        text: tied(&of.text),
        published: tied(&claim_wording::published(&of.published)),
        verdict: claim_wording::verdict(of.judgement.verdict),
        class: of.judgement.verdict.map_or("", |verdict| verdict.word()),
        rows: of.rows.iter().map(row).collect(),
    }
}

fn row(of: &JudgedRow) -> RowView<'_> {
    let judgement = &of.judgement;
    let is_order = of.published.unit.starts_with("order");
    RowView {
        name: &of.name,
        published: tied(&claim_wording::published(&of.published)),
        unit: is_order.then_some(of.published.unit.as_str()),
        measured: tied(&claim_wording::measured(judgement)),
        interval: judgement.measured.and_then(|figure| figure.low).map(|_| claim_wording::interval(judgement)),
        ratio: tied(&claim_wording::ratio(judgement)),
        verdict: claim_wording::verdict(judgement.verdict),
        class: judgement.verdict.map_or("", |verdict| verdict.word()),
        why: tied(&claim_wording::why(judgement)),
        rule_because: of.rule_because.as_deref(),
        notes: claim_wording::notes(of).iter().map(|note| tied(note)).collect(),
    }
}

fn run(of: &TestRun) -> RunView<'_> {
    let failed = (of.failed_rounds > 0).then(|| format!("{} failed", counted(of.failed_rounds, "round")));
    RunView {
        name: &of.name,
        command: &of.command,
        because: &of.because,
        page: of.folder.as_ref().map(|folder| format!("{folder}/report.html")),
        problem: of.problem.clone().or(failed),
    }
}
