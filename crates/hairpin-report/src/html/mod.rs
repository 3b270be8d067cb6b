//! One self-contained page: the answer, the charts, the findings, and all recorded facts about the machine.
//!
//! The content security policy prevents the page from loading anything. The page works without its script and follows
//! the reader's colour scheme. Its size grows with cases and rounds, not with samples.

mod claims;
mod explanation;
mod facts;
mod latency_budget;
mod links;
mod one_way;
mod table;
mod template;
mod time_sequence;

use std::collections::BTreeMap;

use minijinja::{Value, context};

use hairpin_model::case::FALLBACK_MARK;
use hairpin_model::finding::About;
use hairpin_model::phases::RESPONSIVENESS_DRAFT;
use hairpin_model::quantities;
use hairpin_model::{Finding, Run, ladder};

use crate::charts::quantity::Quantity;
use crate::charts::series::SeriesStyle;
use crate::charts::{latency_by_cpu, percentiles, ranking, rounds, series, svg};
use crate::one_way::Shared;
use crate::orders::{self, orders};
use crate::page_text::{command_words, nbsp};
use crate::{bound, exchanges, findings, hosts, trust, wording};
pub use claims::render_claims;
pub use explanation::render_explanation;
use template::render_template;

const PAGE: &str = include_str!("page.html");

pub fn render(run: &Run) -> String {
    render_template("page.html", PAGE, view(run))
}

/// Returns the template context. Fields that end in `_html` are markup; the template escapes all other fields.
fn view(run: &Run) -> Value {
    let looks = series::assign(run);
    let groups = ladder::groups(&run.cases);
    let all_groups: Vec<&ladder::Group<'_>> = groups.iter().collect();
    let shared = Shared::of(run.cases.iter());
    let has = |quantity: Quantity| groups.iter().any(|group| Quantity::of(group.kind) == quantity);
    let has_latency =
        groups.is_empty() || has(Quantity::Latency) || run.cases.iter().any(|row| row.p50_ns().is_some());
    let (lead, more, rest) = split_answer(run);
    let (sequences, sequences_left_out) = time_sequence::of(run);
    context! {
        tabs_html => tab_rules(groups.len()),
        symbols_html => svg::symbols(),
        title => format!("Hairpin: {}", run.plan.experiment),
        question => run.plan.question.clone(),
        subtitle => subtitle(run),
        partial => wording::partial(run).into_iter().collect::<Value>(),
        lead,
        more,
        rest,
        cautions => cautions(run),
        calibrations => calibrations(run),
        by_bytes => groups.iter().any(|group| group.kind == ladder::CaseKind::Exchanges),
        rankings => QUANTITIES.into_iter().filter_map(|quantity| ranking_of(run, &looks, quantity)).collect::<Value>(),
        shared_link => crate::links::shared(run),
        links => links::of(run),
        has_latency,
        has_goodput => has(Quantity::Goodput),
        draft => groups.iter().any(|group| group.kind == ladder::CaseKind::UnderLoad).then_some(RESPONSIVENESS_DRAFT),
        judged => judged_by(&groups),
        above_bound => bound::lines(run).map(|(title, lines)| (nbsp(&title), lines.iter().map(|line| nbsp(line)).collect::<Value>())),
        bound_notes => [bound::REMARK, bound::LEGEND],
        waiting_html => latency_by_cpu::charts(run).concat(),
        pictures => one_way::pictures(run, &groups),
        under_load => one_way::under_load(run, &groups),
        shared => shared.in_words(),
        over_time => one_way::over_time(&groups),
        curves => panels(&groups, |group| percentiles::chart(group, &looks, run)),
        no_curve => nbsp(&wording::no_curve(run)),
        courses => panels(&groups, |group| rounds::chart(group, &looks, &shared)),
        chains_heading => orders::heading(&orders(run)),
        chains => orders(run).iter().map(chain).collect::<Value>(),
        findings => run.findings.iter().map(|finding| card(run, finding)).collect::<Value>(),
        tables => table::of(&groups, &shared),
        gap_note => exchanges::gap_note(&all_groups).map(|note| nbsp(&note)),
        first_exchanges => table::first_exchanges(&groups, &shared),
        why_first => exchanges::WHY_FIRST,
        first_left_out => exchanges::first_left_out(&all_groups).map(|text| nbsp(&text)),
        other_states => table::other_states(&groups, &shared),
        sequences,
        sequences_left_out,
        budgets => latency_budget::of(run),
        evidence => evidence(run),
        invalid => wording::invalid(run),
        loads => wording::loads_left_out(run),
        ledger => wording::ledger_lines(run),
        paths => hosts::paths(run),
        options => wording::option_notes(run),
        failures => wording::failures(run),
        skipped => wording::skipped(run).into_iter().map(|(reason, names)| (names.join(", "), reason)).collect::<Value>(),
        facts => facts::of(run),
        command => command_words(&hairpin_model::shell::command(&run.command_line)),
        repeat => command_words(&wording::repeated(&run.command_line, run.seed)),
        seed => run.seed,
        format => run.format,
        tool => wording::tool_of(&run.tool),
    }
}

fn panels(groups: &[ladder::Group<'_>], chart: impl Fn(&ladder::Group<'_>) -> Option<String>) -> Value {
    let panel =
        |group: &ladder::Group<'_>| chart(group).map(|chart_html| context! { group => &group.name, chart_html });
    groups.iter().filter_map(panel).collect()
}

fn calibrations(run: &Run) -> Value {
    let one = |(good, text): (bool, String)| context! { good, text => nbsp(&text) };
    wording::calibrations(run).into_iter().map(one).collect()
}

fn cautions(run: &Run) -> Value {
    trust::quick(run)
        .into_iter()
        .chain(hosts::fallbacks(run).into_iter().map(|line| format!("{FALLBACK_MARK} {line}.")))
        .chain(wording::cautions(run))
        .chain(trust::machine_states(run))
        .chain(wording::busy(run))
        .chain(wording::cut(run))
        .chain(trust::until_missed(run))
        .chain(trust::without_interval(run))
        .map(|said| nbsp(&said))
        .collect()
}

/// Returns the names of the quantities by which these groups are compared, such as `p50 or goodput`.
fn judged_by(groups: &[ladder::Group<'_>]) -> String {
    let has = |quantity: &Quantity| groups.iter().any(|group| Quantity::of(group.kind) == *quantity);
    let names: Vec<&str> = QUANTITIES.into_iter().filter(has).map(Quantity::name).collect();
    if names.is_empty() { Quantity::Latency.name().to_owned() } else { names.join(" or ") }
}

/// Maximum characters of the sentences shown below the headline, so that they fit the first screen of a phone.
const MAX_LETTERS: usize = 320;

fn split_answer(run: &Run) -> (String, Vec<String>, Vec<String>) {
    let (headline, sentences) = crate::words::answer(run);
    let mut letters = 0;
    let mut sentences: Vec<String> = sentences.iter().map(|sentence| nbsp(sentence)).collect();
    let fit = sentences.iter().take_while(|sentence| {
        letters += sentence.chars().count();
        letters <= MAX_LETTERS
    });
    let shown = fit.count().max(1).min(sentences.len());
    let rest = sentences.split_off(shown);
    (nbsp(&headline), sentences, rest)
}

const QUANTITIES: [Quantity; 3] = [Quantity::Latency, Quantity::Rate, Quantity::Goodput];

/// Returns the ranking by a quantity; `None` if no case has a figure for it.
fn ranking_of(run: &Run, looks: &BTreeMap<String, SeriesStyle>, quantity: Quantity) -> Option<Value> {
    let chart_html = ranking::chart(run, looks, quantity)?;
    let is_latency = quantity == Quantity::Latency;
    let things = ladder::things_with_latency(&run.cases);
    let of = match quantity {
        Quantity::Latency => format!("Latency of {things}"),
        Quantity::Rate => "Messages received per second, one way,".to_owned(),
        Quantity::Goodput => "Goodput of one-way streams (bytes of messages received per second)".to_owned(),
    };
    let shared = Shared::of(run.cases.iter()).in_words();
    Some(context! { is_latency, chart_html, of, shared })
}

/// Returns CSS rules that show the panel of the selected tab and mark its label.
fn tab_rules(tabs: usize) -> String {
    let rule = |tab: usize| {
        let chosen = format!(".tabs > input:nth-of-type({tab}):checked");
        format!(
            "{chosen} ~ .panel:nth-of-type({}) {{ display: block; }}\n{chosen} ~ .tab-labels > :nth-child({tab}) {{ \
             background: var(--ink); border-color: var(--ink); color: var(--paper); }}\n",
            tab + 1
        )
    };
    (1..=tabs).map(rule).collect()
}

fn subtitle(run: &Run) -> Vec<String> {
    let mut parts = vec![quantities::utc(run.started_unix_s)];
    let hosts = hosts::lines(run);
    parts.extend(if hosts.is_empty() { vec![hosts::machine_of(run.environment())] } else { hosts });
    parts.extend(
        (run.duration_ns > 0).then(|| nbsp(&format!("took {}", quantities::duration(run.duration_ns as f64)))),
    );
    parts.retain(|part| !part.is_empty());
    parts
}

fn chain(chain: &crate::orders::Order<'_>) -> Value {
    let steps: Value =
        chain.places().iter().map(|place| (place.mark.clone(), place.meaning, place.names.join(", "))).collect();
    context! { group => chain.title(), steps, note => chain.beyond_p50() }
}

fn card(run: &Run, finding: &Finding) -> Value {
    let experiment = finding.counter_experiment.as_ref();
    let proof =
        |proved: &hairpin_model::finding::Proved| (proved.verdict == "confirmed", nbsp(&findings::proof(proved)));
    let explains = finding.about == About::Cause && finding.share > 0.0 && finding.share.is_finite();
    context! {
        code => &finding.code,
        severity => finding.severity.word(),
        share => explains
            .then(|| (quantities::share(finding.share), (finding.share * 100.0).clamp(0.0, 100.0).round())),
        summary => nbsp(&finding.summary),
        cases => findings::case_labels(run, &finding.cases),
        evidence => findings::evidence(finding).iter().map(|line| nbsp(line)).collect::<Value>(),
        advice => nbsp(&finding.advice),
        change => experiment.map(|experiment| nbsp(&experiment.change)),
        command => experiment.map(|experiment| command_words(&experiment.command)).unwrap_or_default(),
        proof => finding.proved.as_ref().map(proof),
    }
}

/// Returns notes on the cost of tracing and on captures. True marks missing data.
fn evidence(run: &Run) -> Vec<(bool, String)> {
    let cost = exchanges::tracing_cost(run).map(|cost| (false, nbsp(&format!("Tracing: {cost}."))));
    let captures = exchanges::captures(run).into_iter().map(|(lost, note)| (lost, format!("Capture: {note}")));
    cost.into_iter().chain(captures).collect()
}
