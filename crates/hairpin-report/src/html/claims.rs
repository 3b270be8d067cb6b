//! The page of tested claims, with published and measured figures for each source.

use hairpin_model::quantities::{counted, utc};
use hairpin_model::{ClaimsReport, JudgedClaim, JudgedRow, Judgement, Source, TestRun};
use minijinja::value::Serde;
use minijinja::{Value, context};

use super::template::{SCRIPT, STYLE, render_template};
use crate::page_text::nbsp;
use crate::{claim_wording, wording};

const PAGE: &str = include_str!("claims.html");

pub(super) fn render(report: &ClaimsReport) -> String {
    let mut subtitle = vec![utc(report.started_unix_s)];
    subtitle.extend(claim_wording::footer(report));
    let view = context! {
        style_html => STYLE,
        script_html => SCRIPT,
        place => report.to.as_ref().map_or_else(|| "this machine".to_owned(), |host| format!("the path to {host}")),
        answer => nbsp(&claim_wording::answer(report)),
        partial => claim_wording::partial(report),
        caution => claim_wording::caution(report).map(|caution| nbsp(&caution)),
        subtitle,
        texts => texts(report),
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
    let text = |source: &Source| {
        let own = report.claims.iter().filter(|claim| claim.source == source.letter);
        context! { claims => own.map(claim).collect::<Value>(), ..Serde(source) }
    };
    report.sources.iter().map(text).collect()
}

fn claim(of: &JudgedClaim) -> Value {
    context! {
        id => &of.id,
        text => nbsp(&of.text),
        published => nbsp(&claim_wording::published(&of.published)),
        verdict => verdict(of.skipped.as_ref(), &of.judgement),
        class => of.judgement.verdict.map_or("", |verdict| verdict.word()),
        rows => of.rows.iter().map(row).collect::<Value>(),
    }
}

fn row(of: &JudgedRow) -> Value {
    let judgement = &of.judgement;
    let is_order = of.published.unit.starts_with("order");
    context! {
        name => &of.name,
        published => nbsp(&claim_wording::published(&of.published)),
        unit => is_order.then_some(of.published.unit.as_str()),
        measured => nbsp(&claim_wording::measured(judgement)),
        interval => judgement.measured.and_then(|figure| figure.low).map(|_| claim_wording::interval(judgement)),
        ratio => nbsp(&claim_wording::ratio(judgement)),
        verdict => verdict(of.skipped.as_ref(), judgement),
        class => judgement.verdict.map_or("", |verdict| verdict.word()),
        why => nbsp(&claim_wording::why(judgement)),
        rule_because => of.rule_because.as_deref(),
        notes => claim_wording::notes(of).iter().map(|note| nbsp(note)).collect::<Value>(),
    }
}

fn verdict(skipped: Option<&String>, of: &Judgement) -> &'static str {
    if skipped.is_some() { "skipped" } else { claim_wording::verdict(of.verdict) }
}

fn run(of: &TestRun) -> Value {
    let failed = (of.failed_rounds > 0).then(|| format!("{} failed", counted(of.failed_rounds, "round")));
    context! {
        name => &of.name,
        command => &of.command,
        because => &of.because,
        page => of.folder.as_ref().map(|folder| format!("{folder}/report.html")),
        problem => of.problem.clone().or(failed),
    }
}
