//! Explains why a claim has its verdict.

use hairpin_model::claim::Kept;
use hairpin_model::judged_claim::{Headline, Verdict};
use hairpin_model::names::{distinct, joined};
use hairpin_model::quantities::{counted, exact_duration, three_digits};
use hairpin_model::reason::{OrderStep, OuterBounds, Place};
use hairpin_model::time_sequence::EventKind;
use hairpin_model::{ClaimsReport, Effective, Figure, JudgedClaim, JudgedRow, Reason, Writes};

use crate::claim_wording;
use crate::figure_words::figure_name;

/// Writes the sentence of each claim, the reason for the verdict on each row, and what would decide. Results of earlier
/// versions have no reasons as data, and so keep their texts.
pub fn write_claims(report: &mut ClaimsReport) {
    let is_listed = |claim: &JudgedClaim| claim.text.sentence.is_empty();
    let has_reason = |claim: &JudgedClaim| claim.rows.iter().any(|row| row.judgement.reason.is_some());
    for claim in report.claims.iter_mut().filter(|claim| is_listed(claim) || has_reason(claim)) {
        for row in &mut claim.rows {
            row.judgement.why = row.judgement.reason.as_ref().map_or_else(String::new, |reason| why(row, reason));
        }
        claim.text.sentence = sentence(claim);
        claim.decides = decides(claim);
    }
}

fn sentence(claim: &JudgedClaim) -> String {
    let Some(headline) = claim.headline else { return String::new() };
    let with = |verdicts: &[Verdict]| -> Vec<String> {
        let of = claim.rows.iter().filter(|row| row.decides());
        let of = of.filter(|row| row.judgement.verdict.is_some_and(|verdict| verdicts.contains(&verdict)));
        of.take(MAX_CLAUSES).map(clause).collect()
    };
    let clauses = match headline {
        Headline::NotYet | Headline::NotTestable => vec![lacking(claim, "it needs ")],
        Headline::OtherHardware => claim
            .rows
            .iter()
            .filter(|row| row.other_hardware && row.judgement.measured.is_some())
            .map(clause)
            .collect(),
        Headline::Contradicted => with(&[Verdict::Refuted]).into_iter().chain(confirmed(claim)).collect(),
        Headline::Undecided => undecided(claim),
        Headline::NoDifference => with(&[Verdict::Equal]),
        Headline::HoldsOtherSize => with(&[Verdict::Refuted]),
        Headline::Answered | Headline::HoldsOnlyIf | Headline::Holds => with(&[Verdict::Confirmed, Verdict::Refuted]),
    };
    let begin = claim_wording::headline_of(claim);
    let clauses = clauses.iter().map(|clause| clause.trim_end_matches('.')).collect::<Vec<_>>().join("; ");
    if clauses.is_empty() { format!("{begin}.") } else { format!("{begin}: {clauses}.") }
}

/// Names the rows of a contradicted claim that are confirmed.
fn confirmed(claim: &JudgedClaim) -> Option<String> {
    let rows = claim.rows.iter().filter(|row| row.decides() && !row.name.is_empty());
    let rows = rows.filter(|row| row.judgement.verdict == Some(Verdict::Confirmed)).take(MAX_CLAUSES);
    let names: Vec<&str> = rows.map(|row| row.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("confirmed: {}", joined(&names)))
}

/// Returns the undecided rows: those with a figure, then what the others lack.
fn undecided(claim: &JudgedClaim) -> Vec<String> {
    let rows = claim.rows.iter().filter(|row| row.decides() && row.judgement.verdict == Some(Verdict::Undecided));
    let (figures, others): (Vec<&JudgedRow>, Vec<&JudgedRow>) =
        rows.partition(|row| row.judgement.measured.is_some());
    let reasons = distinct(others.iter().filter_map(|row| row.judgement.reason.as_ref()).flat_map(absent));
    let invalid = |reason: &&Reason| match reason {
        Reason::Invalid { case, .. } => Some(case.clone()),
        _ => None,
    };
    let cases = distinct(reasons.iter().filter_map(invalid));
    let other = reasons.iter().filter(|reason| invalid(reason).is_none());
    let other = other.map(|reason| shows(reason, None));
    let has = if cases.len() == 1 { "has" } else { "have" };
    let invalid = (!cases.is_empty()).then(|| format!("{} {has} no valid figures", joined(&cases)));
    distinct(figures.into_iter().take(MAX_CLAUSES).map(clause).chain(invalid).chain(other))
}

fn absent(reason: &Reason) -> Vec<&Reason> {
    match reason {
        Reason::Order { steps, .. } => steps.iter().filter_map(|step| step.absent.as_deref()).collect(),
        other => vec![other],
    }
}

const MAX_CLAUSES: usize = 3;

fn clause(row: &JudgedRow) -> String {
    let name = if row.name.is_empty() { String::new() } else { format!("{}: ", row.name) };
    let shown =
        row.judgement.reason.as_ref().map_or_else(|| row.judgement.why.clone(), |reason| shows(reason, Some(row)));
    format!("{name}{shown}")
}

/// Returns a sentence as a part of another one.
fn without_capital(text: &str) -> String {
    let begin = ["The ", "A "].into_iter().find(|begin| text.starts_with(begin));
    begin.map_or_else(|| text.to_owned(), |begin| begin.to_lowercase() + &text[begin.len()..])
}

/// Returns what is missing for a verdict: the missing parts after `needs`, then the other reasons.
fn lacking(claim: &JudgedClaim, needs: &str) -> String {
    let parts = distinct(claim.rows.iter().filter_map(|row| row.missing.as_deref())).join("; ");
    let parts = (!parts.is_empty()).then(|| format!("{needs}{parts}"));
    let skipped = claim.rows.iter().filter_map(|row| row.skipped.as_deref());
    let failed = claim.rows.iter().filter(|row| row.missing.is_none() && row.decides());
    let failed = failed.map(|row| row.judgement.why.as_str());
    let shown = claim.rows.iter().filter_map(|row| row.shown.as_deref());
    let other = skipped.chain(failed).chain(shown).filter(|why| !why.is_empty());
    let other = other.map(|why| without_capital(why.trim_end_matches('.')));
    distinct(parts.into_iter().chain(other)).join("; ")
}

fn decides(claim: &JudgedClaim) -> Option<String> {
    match claim.headline? {
        Headline::NotYet | Headline::NotTestable => Some(lacking(claim, "")),
        Headline::Undecided => {
            let undecided = claim.rows.iter().filter(|row| row.judgement.verdict == Some(Verdict::Undecided));
            let reasons = undecided.filter(|row| row.decides()).filter_map(|row| row.judgement.reason.as_ref());
            let all = distinct(reasons.map(would_decide));
            // More rounds on a machine in one state are more rounds.
            let is_said = |one: &&&str| !all.iter().any(|other| other.len() > one.len() && other.starts_with(**one));
            Some(joined(&all.iter().filter(is_said).collect::<Vec<_>>()))
        }
        _ => None,
    }
}

fn would_decide(reason: &Reason) -> &'static str {
    match reason {
        Reason::Invalid { .. } => "valid rounds (on a quiet machine)",
        Reason::NoRun { .. } | Reason::Ended { .. } => "the missing run",
        Reason::NeedsClocks { .. } => "clocks of both hosts that agree",
        Reason::NoFallback { .. } => "a path that blocks UDP",
        Reason::Order { steps, .. } => match steps.iter().find_map(|step| step.absent.as_deref()) {
            Some(absent) => would_decide(absent),
            None if steps.iter().filter_map(|step| step.ratio).any(|ratio| ratio.interval().is_none()) => {
                MORE_ROUNDS_IN_STATE
            }
            None => "more rounds",
        },
        Reason::Compared { place: Place::Unknown, .. } => MORE_ROUNDS_IN_STATE,
        _ => "more rounds",
    }
}

const MORE_ROUNDS_IN_STATE: &str = "more rounds on a machine in one state";

fn why(row: &JudgedRow, reason: &Reason) -> String {
    let shown = shows(reason, Some(row));
    match (reason, claim_wording::subject(row)) {
        (Reason::OneOfSeveral { measured, comparisons }, _) => {
            let (measured, comparisons) = (why(row, measured), counted(*comparisons, "comparison"));
            format!("{measured} With {comparisons} that could refute the claim by chance, this is not enough.")
        }
        (Reason::Order { figure, .. }, _) if row.judgement.measured.is_some() => {
            format!("By {}: {shown}.", figure_name(*figure))
        }
        (Reason::Kept { case, options, timer_slack_ns, .. }, _) => {
            let granted = granted(options, *timer_slack_ns);
            format!("{case}: {shown}. Only the existence of the output is tested.{granted}")
        }
        (Reason::Packets { case, seen, absent }, _) => packets(case, seen, *absent),
        (Reason::Pattern { .. }, _) => shown.replacen("in", "In", 1),
        (_, Some(subject)) => format!("The {subject}: {shown}."),
        _ => shown,
    }
}

fn shows(reason: &Reason, row: Option<&JudgedRow>) -> String {
    match reason {
        Reason::Compared { .. } | Reason::Often { .. } => row.and_then(claim_wording::figures).unwrap_or_default(),
        Reason::OneOfSeveral { measured, comparisons } => {
            format!("{}, {}", shows(measured, row), claim_wording::refuted_alone(*comparisons))
        }
        Reason::Order { steps, margin, .. } => all_steps(steps, *margin),
        Reason::Widens { figure, full, low } => {
            let [full, low] = [full, low].map(|gap| times(&gap.ratio, None));
            let wider = row.and_then(|row| Some(times(&row.judgement.measured?, row.judgement.outer_bounds)));
            let (figure, wider) = (figure_name(*figure), wider.unwrap_or_default());
            format!("the ratio of the {figure} is {full} at full load and {low} at low load, {wider} as large")
        }
        Reason::Kept { reported, absent, .. } => format!("the run {}", which_outputs(reported, absent)),
        Reason::Packets { absent: None, .. } => "a capture shows these packets in this order".to_owned(),
        Reason::Packets { absent: Some(kind), .. } => format!("a capture shows no {} there", packet(*kind)),
        Reason::Pattern { case, written, ended_ns, published } => {
            pattern(case, [written, published].map(Option::as_ref), *ended_ns)
        }
        Reason::FellBack { case, fallback } => {
            format!("{case} used {} instead of {}: {}.", fallback.to, fallback.from, fallback.evidence)
        }
        Reason::NoFallback { case, from, to } => {
            format!("{case}: nothing fell back. A fallback needs a path that blocks {from}, and --fallback {to}")
        }
        Reason::Missing { part } => format!("missing: {part}"),
        Reason::Skipped { because } => format!("skipped: {because}"),
        Reason::NoRun { cause: Some(cause), .. } => cause.clone(),
        Reason::NoRun { run, cause: None } => format!("the run `{run}` was not executed"),
        Reason::NoCase => "the run has no such case".to_owned(),
        Reason::SeveralCases { cases } => format!("several cases match: {}", cases.join("; ")),
        Reason::Ended { case: None } => "the run was ended before this case".to_owned(),
        Reason::Ended { case: Some(case) } => format!("{case}: the run was ended before this case"),
        Reason::NotMeasured { case, cause } => {
            format!("{case}: {}", cause.as_deref().unwrap_or("none of its rounds was measured"))
        }
        Reason::Invalid { case, reasons } => format!("{case} is invalid: {}", reasons.join("; ")),
        Reason::NotPublished { needed } => {
            let article = if needed.starts_with('o') { "an" } else { "a" };
            format!("the published value is not {article} {needed}")
        }
        Reason::WrongUnit { figure, unit } => {
            format!("the {} is published in {unit}, which is not a unit of this figure", figure_name(*figure))
        }
        Reason::Zero { figure, cases } if cases.is_empty() => format!("the {} is 0", figure_name(*figure)),
        Reason::Zero { figure, cases } => format!("the {} of {} is 0", figure_name(*figure), cases.join(" or ")),
        Reason::NeedsClocks { case, figure } => {
            let figure = figure_name(*figure);
            format!("{case} has no {figure}: one way between two hosts, it needs clocks that agree")
        }
        Reason::TooFewSamples { case, figure, samples } => {
            format!("{case} has no {}: {samples} samples are too few", figure_name(*figure))
        }
        Reason::NotTraced { case } => format!("{case}: it was not traced"),
        Reason::NotCaptured { case, reason } => format!("{case}: it was not captured: {reason}"),
        Reason::NoExchange { case, captured } => {
            format!("{case}: no exchange was {} completely", if *captured { "captured" } else { "traced" })
        }
    }
}

fn granted(options: &[Effective], timer_slack_ns: Option<[u64; 2]>) -> String {
    let of = |option: &Effective| {
        let asked = option.asked.as_deref().unwrap_or("nothing");
        format!("{} {asked} requested, {} granted", option.name, option.before)
    };
    let slack = timer_slack_ns.map(|slack_ns| slack_ns.map(exact_duration));
    let slack = slack.map(|[asked, granted]| format!("a timer slack of {asked} requested, {granted} granted"));
    let all: Vec<String> = options.iter().map(of).chain(slack).collect();
    if all.is_empty() { String::new() } else { format!(" At the client: {}.", joined(&all)) }
}

fn which_outputs(reported: &[Kept], absent: &[Kept]) -> String {
    let listed = |kinds: &[Kept]| joined(&kinds.iter().map(|kind| output_name(*kind)).collect::<Vec<_>>());
    match (reported, absent) {
        (reported, []) => format!("reports {}", listed(reported)),
        ([], absent) => format!("does not report {}", listed(absent)),
        (reported, absent) => format!("reports {}, but not {}", listed(reported), listed(absent)),
    }
}

fn packets(case: &str, seen: &[(EventKind, i64)], absent: Option<EventKind>) -> String {
    let seen: Vec<String> =
        seen.iter().map(|(kind, at_ns)| format!("{} at {}", packet(*kind), milliseconds(*at_ns))).collect();
    let after = if seen.is_empty() { String::new() } else { format!(" after {}", joined(&seen)) };
    match absent {
        None => {
            format!("A captured exchange of {case}, at the client, from its first write on: {}.", joined(&seen))
        }
        Some(kind) => format!("A captured exchange of {case} shows no {}{after}.", packet(kind)),
    }
}

fn pattern(case: &str, [written, published]: [Option<&Writes>; 2], ended_ns: [Option<i64>; 2]) -> String {
    let written = written.map_or_else(|| "nothing".to_owned(), |written| format!("{written} B"));
    let at = |ns: i64| format!("after {}", milliseconds(ns));
    let [last, answer] = ended_ns.map(|ns| ns.map_or_else(|| "never".to_owned(), at));
    let other = published.map_or_else(String::new, |text| format!(" The text has {text} B, then the answer."));
    format!(
        "in a traced exchange of {case} the client wrote {written}, the last of it {last}, and had read the \
         answer {answer}.{other}"
    )
}

/// Returns `0.0406 ms`.
fn milliseconds(ns: i64) -> String {
    three_digits(ns as f64 / 1e6) + " ms"
}

fn times(ratio: &Figure, outer: Option<OuterBounds>) -> String {
    claim_wording::with_bounds(ratio, outer, "x")
}

fn all_steps(steps: &[OrderStep], margin: f64) -> String {
    if steps.iter().all(|step| step.ratio.is_none()) {
        let absent = distinct(steps.iter().filter_map(|step| step.absent.as_deref()));
        return absent.into_iter().map(|reason| shows(reason, None)).collect::<Vec<_>>().join("; ");
    }
    steps.iter().map(|one| step(one, margin)).collect::<Vec<_>>().join(", ")
}

fn step(of: &OrderStep, margin: f64) -> String {
    let OrderStep { names: [first, second], verdict, ratio, outer_bounds, absent } = of;
    let Some(ratio) = ratio.as_ref().map(|ratio| times(ratio, *outer_bounds)) else {
        let absent = absent.as_deref().map_or_else(String::new, |reason| shows(reason, None));
        return format!("{first} and {second}: {absent}");
    };
    match verdict {
        Verdict::Confirmed => format!("{first} < {second}: {ratio}"),
        Verdict::Refuted => format!("{first} > {second}: {ratio}"),
        Verdict::Equal => {
            format!("{first} and {second} are equal within {} %: {ratio}", claim_wording::exact_percent(margin))
        }
        _ => format!("{first} and {second} are not separated: {ratio}"),
    }
}

fn output_name(kind: Kept) -> &'static str {
    match kind {
        Kept::Percentiles => "the percentiles",
        Kept::Extremes => "the extremes",
        Kept::Curve => "the percentile curve",
        Kept::Samples => "every sample (CSV)",
        Kept::RateOverTime => "the goodput over time",
        Kept::CpuOverTime => "the CPU use of both ends over time",
        Kept::TimerSlack => "the timer slack as requested and as granted",
        Kept::Options => "the socket options as requested and as granted",
    }
}

fn packet(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Syn => "SYN",
        EventKind::SynAck => "SYN-ACK",
        EventKind::PureAck => "pure ACK",
        EventKind::Segment => "segment with data",
        other => other.word(),
    }
}
