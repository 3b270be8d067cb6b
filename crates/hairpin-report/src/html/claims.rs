//! The page of tested claims, with published and measured figures for each source.

use hairpin_model::judged_claim::Headline;
use hairpin_model::quantities::{counted, utc};
use hairpin_model::{ClaimsReport, JudgedClaim, JudgedRow, Source, TestRun};
use minijinja::value::Serde;
use minijinja::{Value, context};

use super::template::render_template;
use crate::claim_wording::{self, Picture};
use crate::page_text::nbsp;
use crate::wording;

const PAGE: &str = include_str!("claims.html");

pub fn render_claims(report: &ClaimsReport) -> String {
    let mut subtitle = vec![utc(report.started_unix_s)];
    subtitle.extend(claim_wording::footer(report));
    let view = context! {
        place => report.to.as_ref().map_or_else(|| "this machine".to_owned(), |host| format!("the path to {host}")),
        answer => nbsp(&claim_wording::answer(report)),
        partial => claim_wording::partial(report),
        caution => claim_wording::caution(report).map(|caution| nbsp(&caution)),
        subtitle,
        texts => texts(report),
        has_overview => report.claims.len() > 1,
        has_pictures => report.claims.iter().flat_map(|claim| &claim.rows).any(|row| Picture::of(row).is_some()),
        runs => report.runs.iter().map(run).collect::<Value>(),
        command => match report.seed {
            Some(seed) => wording::repeated(&report.command_line, seed),
            None => hairpin_model::shell::command(&report.command_line),
        },
        tool => wording::tool_of(&report.tool),
    };
    render_template("claims.html", PAGE, view)
}

fn texts(report: &ClaimsReport) -> Vec<Value> {
    let mut sources: Vec<&Source> = Vec::new();
    for claim in &report.claims {
        if sources.last().is_none_or(|last| last.letter != claim.source.letter) {
            sources.push(&claim.source);
        }
    }
    let text = |source: &&Source| {
        let own = report.claims.iter().filter(|claim| claim.source.letter == source.letter);
        context! { claims => own.map(claim).collect::<Value>(), ..Serde(source) }
    };
    sources.iter().map(text).collect()
}

fn claim(of: &JudgedClaim) -> Value {
    let common = common_notes(of);
    context! {
        id => &of.id,
        statement => nbsp(&of.statement),
        sentence => nbsp(claim_wording::after_headline(of)),
        headline => claim_wording::headline_of(of),
        class => class(of.headline),
        axes => claim_wording::axes(of),
        age => of.age_s.and_then(claim_wording::age),
        rows => of.rows.iter().map(|one| row(one, &common)).collect::<Value>(),
        common => common.iter().map(|note| nbsp(note)).collect::<Value>(),
        why => nbsp(&of.text.why),
        so_what => nbsp(&of.text.so_what),
        warnings => claim_wording::warnings(&of.warnings),
        congestion => claim_wording::congestion(of),
        text_errors => of.text_errors.iter().map(|error| nbsp(error)).collect::<Value>(),
        source => claim_wording::source(&of.source),
    }
}

/// The class of the badge, as of findings.
fn class(of: Option<Headline>) -> &'static str {
    match of {
        Some(Headline::Holds | Headline::HoldsOtherSize | Headline::HoldsOnlyIf | Headline::Answered) => "confirmed",
        Some(Headline::Contradicted | Headline::NoDifference) => "refuted",
        Some(Headline::Undecided) => "undecided",
        _ => "not-tested",
    }
}

fn common_notes(of: &JudgedClaim) -> Vec<String> {
    let [first, rest @ ..] = of.rows.as_slice() else { return Vec::new() };
    let is_common =
        |note: &String| !rest.is_empty() && rest.iter().all(|row| claim_wording::notes(row).contains(note));
    claim_wording::notes(first).into_iter().filter(is_common).collect()
}

fn row(of: &JudgedRow, common: &[String]) -> Value {
    let (judgement, notes) = (&of.judgement, claim_wording::notes(of));
    let is_order = of.published.unit.starts_with("order");
    let class = judgement.verdict.filter(|_| of.shown.is_none()).map_or("", |verdict| verdict.word());
    context! {
        name => claim_wording::row_name(of),
        axis => (!of.name.is_empty()).then(|| of.axis.word()),
        published => nbsp(&claim_wording::published(&of.published)),
        unit => is_order.then_some(of.published.unit.as_str()),
        measured => nbsp(&claim_wording::measured(judgement)),
        interval => claim_wording::interval(judgement),
        verdict => claim_wording::row_verdict(of),
        class,
        picture => Picture::of(of).map(picture),
        evidence => of.evidence.as_deref(),
        why => (of.missing.is_none() && of.skipped.is_none()).then(|| nbsp(&claim_wording::why(judgement))),
        rule => claim_wording::rule(of).map(|rule| nbsp(&rule)),
        notes => notes.iter().filter(|note| !common.contains(note)).map(|note| nbsp(note)).collect::<Value>(),
    }
}

fn picture(of: Picture) -> Value {
    let percent = |share: f64| 100.0 * share;
    let range = |[from, to]: [f64; 2]| context! { at => percent(from), width => percent(to - from) };
    context! {
        is_direction => of.is_direction,
        margin => of.margin.map(range),
        interval => of.bounds.map(range),
        measured => percent(of.measured),
        one => of.one.map(percent),
        published => of.published.into_iter().map(percent).collect::<Value>(),
    }
}

fn run(of: &TestRun) -> Value {
    let failed = (of.failed_rounds > 0).then(|| format!("{} failed", counted(of.failed_rounds, "round")));
    context! {
        name => &of.name,
        command => &of.command,
        because => &of.because,
        page => of.folder.as_ref().map(|folder| format!("{folder}/report.html")),
        problem => of.problem.clone().or(failed),
        warnings => claim_wording::warnings(&of.warnings),
    }
}
