//! The page of tested claims, with published and measured figures for each source.

use hairpin_model::judged_claim::Headline;
use hairpin_model::quantities::{counted, utc};
use hairpin_model::{ClaimsReport, JudgedClaim, JudgedRow, Source, TestRun};
use minijinja::value::Serde;
use minijinja::{Value, context};

use super::template::{SCRIPT, STYLE, render_template};
use crate::claim_wording::{self, Scale};
use crate::page_text::nbsp;
use crate::wording;

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

/// The texts in the order of their letters, each with its claims.
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
    let headline = of.headline.map_or("not tested", claim_wording::headline);
    context! {
        id => &of.id,
        statement => nbsp(&of.statement),
        sentence => nbsp(&of.text.sentence),
        headline,
        class => class(of.headline),
        axes => claim_wording::axes(&of.axes),
        decides => of.decides.as_ref().filter(|_| of.headline == Some(Headline::Undecided)),
        age => of.age_s.map(claim_wording::age),
        rows => of.rows.iter().map(row).collect::<Value>(),
        why => nbsp(&of.text.why),
        so_what => nbsp(&of.text.so_what),
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

fn row(of: &JudgedRow) -> Value {
    let judgement = &of.judgement;
    let is_order = of.published.unit.starts_with("order");
    context! {
        name => if of.name.is_empty() { of.axis.word() } else { of.name.as_str() },
        axis => of.axis.word(),
        published => nbsp(&claim_wording::published(&of.published)),
        unit => is_order.then_some(of.published.unit.as_str()),
        measured => nbsp(&claim_wording::measured(judgement)),
        interval => judgement.measured.and_then(|figure| figure.low).map(|_| claim_wording::interval(judgement)),
        verdict => claim_wording::verdict(judgement.verdict),
        class => judgement.verdict.map_or("", |verdict| verdict.word()),
        picture => picture(of),
        case => of.case.as_deref(),
        evidence => of.evidence.as_deref(),
        why => nbsp(&claim_wording::why(judgement)),
        rule_because => of.rule_because.as_deref(),
        rule_changed => of.rule_changed.as_deref(),
        notes => claim_wording::notes(of).iter().map(|note| nbsp(note)).collect::<Value>(),
    }
}

/// The published marks, the margin and the measured interval, in percent of the width.
fn picture(of: &JudgedRow) -> Option<Value> {
    let scale = Scale::of(of)?;
    let at = |value: f64| 100.0 * scale.at(value);
    let range = |low: f64, high: f64| context! { at => low, width => high - low };
    let margin = of.judgement.margin.map(|[from, to]| range(from.map_or(0.0, at), to.map_or(100.0, at)));
    let measured = of.judgement.measured?;
    Some(context! {
        margin,
        interval => measured.interval().map(|(low, high)| range(at(low), at(high))),
        measured => at(measured.value),
        published => Scale::published(of).into_iter().map(at).collect::<Value>(),
    })
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
