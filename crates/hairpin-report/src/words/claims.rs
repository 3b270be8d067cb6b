//! Explains why a claim has its verdict.

use hairpin_model::claim::Kept;
use hairpin_model::judged_claim::{Headline, Verdict};
use hairpin_model::names::{distinct, joined};
use hairpin_model::quantities::{counted, three_digits};
use hairpin_model::reason::{Bound, CaseRatio, OrderStep, Place};
use hairpin_model::time_sequence::EventKind;
use hairpin_model::{ClaimsReport, Effective, Figure, FigureName, JudgedClaim, JudgedRow, Judgement, Reason, Writes};

use crate::claim_wording;
use crate::figure_words::figure_name;

/// Writes the sentence of each claim, the reason for the verdict on each row, and what would decide.
pub fn write_claims(report: &mut ClaimsReport) {
    for claim in &mut report.claims {
        for row in &mut claim.rows {
            row.judgement.why =
                row.judgement.reason.as_ref().map_or_else(String::new, |reason| why(reason, &row.judgement));
        }
        claim.text.sentence = sentence(claim);
        claim.decides = decides(claim);
    }
}

/// Returns the verdict in one sentence; empty if the claim was only listed.
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
        Headline::Contradicted => with(&[Verdict::Refuted]),
        Headline::Undecided => undecided(claim),
        Headline::NoDifference => with(&[Verdict::Equal]),
        Headline::HoldsOtherSize => with(&[Verdict::Refuted]),
        Headline::Answered | Headline::HoldsOnlyIf | Headline::Holds => with(&[Verdict::Confirmed, Verdict::Refuted]),
    };
    let begin = claim_wording::headline_of(claim);
    let clauses = clauses.iter().map(|clause| clause.trim_end_matches('.')).collect::<Vec<_>>().join("; ");
    if clauses.is_empty() { format!("{begin}.") } else { format!("{begin}: {clauses}.") }
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
    let other = other.map(|reason| without_capital(&why(reason, &Judgement::default())));
    let has = if cases.len() == 1 { "has" } else { "have" };
    let invalid = (!cases.is_empty()).then(|| format!("{} {has} no valid figures", joined(&cases)));
    figures.into_iter().take(MAX_CLAUSES).map(clause).chain(invalid).chain(other).collect()
}

/// The reasons why figures are absent.
fn absent(reason: &Reason) -> Vec<&Reason> {
    match reason {
        Reason::Order { steps, .. } => steps.iter().filter_map(|step| step.absent.as_deref()).collect(),
        other => vec![other],
    }
}

/// Maximum number of rows that a sentence names.
const MAX_CLAUSES: usize = 3;

/// Returns what a row shows, as a part of a sentence.
fn clause(row: &JudgedRow) -> String {
    let name = if row.name.is_empty() { String::new() } else { format!("{}: ", row.name) };
    let shown = match row.judgement.reason.as_ref() {
        Some(Reason::OneOfSeveral { measured, rows }) => {
            format!("{}, {}", shows(row, measured), claim_wording::refuted_alone(*rows))
        }
        Some(reason) => shows(row, reason),
        None => row.judgement.why.clone(),
    };
    format!("{name}{shown}")
}

fn shows(row: &JudgedRow, reason: &Reason) -> String {
    match (reason, row.judgement.measured) {
        (Reason::Order { steps, margin, .. }, _) => all_steps(steps, *margin),
        (Reason::Widens { figure, full, low }, Some(wider)) => {
            let (figure, wider) = (figure_name(*figure), times(&wider));
            let [full, low] = [full, low].map(|gap| times(&gap.ratio));
            format!("the ratio of the {figure} is {full} at full load and {low} at low load, {wider} as large")
        }
        (Reason::Kept { reported, absent, .. }, _) => format!("the run {}", which_outputs(reported, absent)),
        _ => claim_wording::figures(row).unwrap_or_else(|| without_capital(&row.judgement.why)),
    }
}

/// Returns a sentence as a part of another one.
fn without_capital(text: &str) -> String {
    let begin = ["The ", "A ", "In ", "By "].into_iter().find(|begin| text.starts_with(begin));
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

/// Returns what would decide an undecided claim, or what is missing.
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
            None if steps.iter().any(lacks_interval) => MORE_ROUNDS_IN_STATE,
            None => "more rounds",
        },
        Reason::Compared { place: Place::Unknown, .. } => MORE_ROUNDS_IN_STATE,
        _ => "more rounds",
    }
}

const MORE_ROUNDS_IN_STATE: &str = "more rounds on a machine in one state";

fn lacks_interval(step: &OrderStep) -> bool {
    step.ratio.is_some_and(|ratio| ratio.interval().is_none())
}

fn why(reason: &Reason, judgement: &Judgement) -> String {
    let name = |figure: &FigureName| figure_name(*figure);
    match reason {
        Reason::Compared { figure, case, against, place, bound } => {
            let against = against.as_deref().unwrap_or_default();
            let of = [name(figure), case, against];
            let unit = judgement.measured_unit.as_deref().unwrap_or_default();
            judgement.measured.map_or_else(String::new, |measured| compared(of, &measured, unit, *place, bound))
        }
        Reason::Order { steps, margin, .. } if steps.iter().all(|step| step.ratio.is_none()) => {
            all_steps(steps, *margin)
        }
        Reason::Order { figure, steps, margin } => {
            format!("By {}: {}.", name(figure), all_steps(steps, *margin))
        }
        Reason::Often { figure, case, rounds, reached, bound, share, .. } => {
            let share = claim_wording::exact(*share, "share");
            format!(
                "The {} of {case} reaches {bound} in {reached} of {rounds} rounds; the rule asks for {share} of them.",
                name(figure)
            )
        }
        Reason::OneOfSeveral { measured, rows } => {
            let (measured, rows) = (why(measured, judgement), counted(*rows, "row"));
            format!("{measured} With {rows} that could refute the claim by chance, this is not enough.")
        }
        Reason::Widens { figure, full, low } => widens(name(figure), [full, low], judgement),
        Reason::Kept { case, reported, absent, options } => outputs(case, reported, absent, options),
        Reason::Packets { case, seen, absent } => packets(case, seen, *absent),
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
        Reason::NotPublished { needed } => format!("the published value is not {}", with_article(needed)),
        Reason::WrongUnit { figure, unit } => {
            format!("the {} is published in {unit}, which is not a unit of this figure", name(figure))
        }
        Reason::Zero { figure, cases } if cases.is_empty() => format!("the {} is 0", name(figure)),
        Reason::Zero { figure, cases } => format!("the {} of {} is 0", name(figure), cases.join(" or ")),
        Reason::NeedsClocks { case, figure } => {
            format!("{case} has no {}: one way between two hosts, it needs clocks that agree", name(figure))
        }
        Reason::TooFewSamples { case, figure, samples } => {
            format!("{case} has no {}: {samples} samples are too few", name(figure))
        }
        Reason::NotTraced { case } => format!("{case}: it was not traced"),
        Reason::NotCaptured { case, reason } => format!("{case}: it was not captured: {reason}"),
        Reason::NoExchange { case, captured } => {
            format!("{case}: no exchange was {} completely", if *captured { "captured" } else { "traced" })
        }
    }
}

fn widens(figure: &str, ratios: [&CaseRatio; 2], judgement: &Judgement) -> String {
    let of = |gap: &CaseRatio| format!("of {} against {} is {}", gap.cases[1], gap.cases[0], times(&gap.ratio));
    let [full, low] = ratios.map(of);
    let wider = judgement.measured.as_ref().map_or_else(String::new, times);
    format!("The {figure} {full}; that {low}. The first is {wider} the second.")
}

fn outputs(case: &str, reported: &[Kept], absent: &[Kept], options: &[Effective]) -> String {
    let granted = |option: &Effective| {
        let asked = option.asked.as_deref().unwrap_or("nothing");
        format!("{} {asked} requested, {} granted", option.name, option.before)
    };
    let granted: Vec<String> = options.iter().map(granted).collect();
    let granted = if granted.is_empty() { String::new() } else { format!(" At the client: {}.", joined(&granted)) };
    let what = which_outputs(reported, absent);
    format!("The run of {case} {what}. Only the existence of the output is tested.{granted}")
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
        None => format!("A captured exchange of {case} shows, from its first write on: {}.", joined(&seen)),
        Some(kind) => format!("A captured exchange of {case} shows no {}{after}.", packet(kind)),
    }
}

fn pattern(case: &str, [written, published]: [Option<&Writes>; 2], ended_ns: [Option<i64>; 2]) -> String {
    let written = written.map_or_else(|| "nothing".to_owned(), |written| format!("{written} B"));
    let at = |ns: i64| format!("after {}", milliseconds(ns));
    let [last, answer] = ended_ns.map(|ns| ns.map_or_else(|| "never".to_owned(), at));
    let other = published.map_or_else(String::new, |text| format!(" The text has {text} B, then the answer."));
    format!(
        "In a traced exchange of {case} the client wrote {written}, the last of it {last}, and had read the \
         answer {answer}.{other}"
    )
}

fn with_article(noun: &str) -> String {
    format!("{} {noun}", if noun.starts_with('o') { "an" } else { "a" })
}

/// Returns `The p50 of tcp block same-cpu, 4.52 ms (4.07-4.97), is within a factor of 2 of 5 ms.`
fn compared([name, case, against]: [&str; 3], measured: &Figure, unit: &str, place: Place, bound: &Bound) -> String {
    let of = if against.is_empty() { case.to_owned() } else { format!("{case} against {against}") };
    let (value, bounds) = (claim_wording::with_interval(measured, unit), claim_wording::bound(bound, unit));
    let what = if matches!(bound, Bound::SavesAtLeast { .. }) {
        format!("The share by which the {name} falls from {against} to {case}, {value},")
    } else {
        format!("The {name} of {of}, {value},")
    };
    match place {
        Place::Inside => format!("{what} is {bounds}."),
        Place::Below => format!("{what} is not {bounds}: it is less."),
        Place::Above => format!("{what} is not {bounds}: it is more."),
        Place::Across if measured.interval().is_none() => {
            let why = claim_wording::without_interval_because(measured);
            format!(
                "{what} has no interval: {why}; the outer bounds of its rounds are on both sides of the bound, {bounds}."
            )
        }
        Place::Across => format!("{what} is {bounds} in a part of its interval only."),
        Place::Unknown => {
            format!("{what} has no interval: {}.", claim_wording::without_interval_because(measured))
        }
    }
}

fn times(ratio: &Figure) -> String {
    claim_wording::with_interval(ratio, "x")
}

/// Returns `0.0406 ms`.
fn milliseconds(ns: i64) -> String {
    three_digits(ns as f64 / 1e6) + " ms"
}

fn all_steps(steps: &[OrderStep], margin: f64) -> String {
    if steps.iter().all(|step| step.ratio.is_none()) {
        let absent = distinct(steps.iter().filter_map(|step| step.absent.as_deref()));
        let absent = absent.into_iter().map(|reason| why(reason, &Judgement::default()));
        return absent.map(|why| why.trim_end_matches('.').to_owned()).collect::<Vec<_>>().join("; ");
    }
    steps.iter().map(|one| step(one, margin)).collect::<Vec<_>>().join(", ")
}

fn step(of: &OrderStep, margin: f64) -> String {
    let OrderStep { names: [first, second], verdict, ratio, absent } = of;
    let Some(ratio) = ratio.as_ref().map(times) else {
        let absent = absent.as_ref().map_or_else(String::new, |reason| why(reason, &Judgement::default()));
        return format!("{first} and {second}: {}", absent.trim_end_matches('.'));
    };
    match verdict {
        Verdict::Confirmed => format!("{first} < {second}: {ratio}"),
        Verdict::Refuted => format!("{first} > {second}: {ratio}"),
        Verdict::Equal => {
            format!("{first} and {second} are equal within {} %: {ratio}", claim_wording::exact_percent(margin))
        }
        _ if lacks_interval(of) => format!("{first} and {second}: {ratio} without an interval"),
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
