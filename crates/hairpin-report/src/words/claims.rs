//! Explains why a claim has its verdict.

use hairpin_model::claim::Kept;
use hairpin_model::judged_claim::{Headline, Verdict};
use hairpin_model::names::{distinct, joined};
use hairpin_model::quantities::{counted, thousandths, three_digits};
use hairpin_model::reason::{Bound, CaseRatio, OrderStep, Place};
use hairpin_model::time_sequence::EventKind;
use hairpin_model::{ClaimsReport, Effective, Figure, FigureName, JudgedClaim, JudgedRow, Judgement, Reason, Writes};

use crate::claim_wording;

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
        Headline::NotYet | Headline::NotTestable => vec![lacking(claim)],
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
    let begin = match (&claim.only_if, headline) {
        (Some(knob), Headline::HoldsOnlyIf) => format!("Holds only if {} is {}", knob.name, knob.value),
        _ => claim_wording::headline(headline).to_owned(),
    };
    let clauses = clauses.iter().map(|clause| clause.trim_end_matches('.')).collect::<Vec<_>>().join("; ");
    if clauses.is_empty() { format!("{begin}.") } else { format!("{begin}: {clauses}.") }
}

/// Returns the undecided rows: those with a figure, then the others with what they lack.
fn undecided(claim: &JudgedClaim) -> Vec<String> {
    let rows = claim.rows.iter().filter(|row| row.decides() && row.judgement.verdict == Some(Verdict::Undecided));
    let has_figure = |row: &&JudgedRow| row.judgement.measured.is_some();
    let (figures, others): (Vec<&JudgedRow>, Vec<&JudgedRow>) = rows.partition(has_figure);
    let lacks = distinct(others.iter().filter_map(|row| row.judgement.reason.as_ref()).map(lacks));
    figures.into_iter().take(MAX_CLAUSES).map(clause).chain(lacks).collect()
}

fn lacks(reason: &Reason) -> String {
    match reason {
        Reason::Order { steps, .. } => {
            steps.iter().find_map(|step| step.absent.as_deref()).map_or_else(String::new, lacks)
        }
        Reason::Invalid { case, .. } => format!("{case} was disturbed and has no usable figures"),
        other => why(other, &Judgement::default()),
    }
}

/// Maximum number of rows that a sentence names.
const MAX_CLAUSES: usize = 3;

/// Returns what a row shows, as a part of a sentence.
fn clause(row: &JudgedRow) -> String {
    let name = if row.name.is_empty() { String::new() } else { format!("{}: ", row.name) };
    let of = &row.judgement;
    let figures = || {
        let measured = claim_wording::measured(of);
        let published = claim_wording::published(&row.published);
        let interval = match claim_wording::interval(of) {
            interval if interval == hairpin_model::quantities::DASH => String::new(),
            interval => format!(" ({interval})"),
        };
        format!("{name}{measured}{interval} here, {published} in the text")
    };
    match of.reason.as_ref() {
        Some(Reason::Order { steps, margin, .. }) => {
            format!("{name}{}", steps.iter().map(|one| step(one, *margin)).collect::<Vec<_>>().join(", "))
        }
        Some(Reason::Compared { bound: Bound::SavesAtLeast { .. }, .. }) => {
            format!("{name}saves {} %", three_digits(100.0 * of.measured.map_or(0.0, |saved| saved.value)))
        }
        Some(Reason::Often { figure, rounds, reached, bound, .. }) => {
            let (figure, unit) = (figure_name(*figure), &row.published.unit);
            format!("{name}in {reached} of {rounds} rounds the {figure} reaches {bound} {unit}")
        }
        Some(Reason::Compared { .. }) if of.measured.is_some() => figures(),
        _ => format!("{name}{}", of.why),
    }
}

/// Returns what is missing for a verdict.
fn lacking(claim: &JudgedClaim) -> String {
    let missing = claim.rows.iter().filter_map(|row| row.missing.as_deref().or(row.skipped.as_deref()));
    let failed = claim.rows.iter().filter(|row| row.missing.is_none() && row.decides());
    let failed = failed.map(|row| row.judgement.why.as_str());
    let shown = claim.rows.iter().filter_map(|row| row.shown.as_deref());
    let all = distinct(missing.chain(failed).chain(shown).filter(|why| !why.is_empty()));
    all.iter().map(|why| why.trim_end_matches('.')).collect::<Vec<_>>().join("; ")
}

/// Returns what would decide an undecided claim, or what is missing.
fn decides(claim: &JudgedClaim) -> Option<String> {
    match claim.headline? {
        Headline::NotYet | Headline::NotTestable => Some(lacking(claim)),
        Headline::Undecided => {
            let undecided = claim.rows.iter().filter(|row| row.judgement.verdict == Some(Verdict::Undecided));
            let reasons = undecided.filter(|row| row.decides()).filter_map(|row| row.judgement.reason.as_ref());
            Some(distinct(reasons.map(would_decide)).join(", "))
        }
        _ => None,
    }
}

fn would_decide(reason: &Reason) -> &'static str {
    match reason {
        Reason::Invalid { .. } => "a quiet machine",
        Reason::NeedsClocks { .. } => "clocks of both hosts that agree",
        Reason::NoFallback { .. } => "a path that blocks UDP",
        Reason::Order { steps, .. } => {
            steps.iter().filter_map(|step| step.absent.as_deref()).map(would_decide).next().unwrap_or("more rounds")
        }
        Reason::Compared { place: Place::Unknown, .. } => "more rounds on a machine in one state",
        _ => "more rounds",
    }
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
        Reason::Order { figure, steps, margin } => {
            let steps: Vec<String> = steps.iter().map(|one| step(one, *margin)).collect();
            format!("By {}: {}.", name(figure), steps.join(", "))
        }
        Reason::Often { figure, case, rounds, reached, bound, share, .. } => {
            let share = three_digits(100.0 * share);
            format!(
                "The {} of {case} reaches {bound} in {reached} of {rounds} rounds; the rule asks for {share} % of them.",
                name(figure)
            )
        }
        Reason::OneOfSeveral { measured, rows } => {
            format!(
                "{} With {} that could refute the claim by chance, this is not enough.",
                why(measured, judgement),
                counted(*rows, "row")
            )
        }
        Reason::Widens { figure, full, low } => {
            let of =
                |gap: &CaseRatio| format!("of {} against {} is {}", gap.cases[1], gap.cases[0], times(&gap.ratio));
            let wider = judgement.measured.map_or_else(String::new, |wider| times(&wider));
            format!("The {} {}; that {}. The first is {wider} the second.", name(figure), of(full), of(low))
        }
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

fn outputs(case: &str, reported: &[Kept], absent: &[Kept], options: &[Effective]) -> String {
    let listed = |kinds: &[Kept]| joined(&kinds.iter().map(|kind| output_name(*kind)).collect::<Vec<_>>());
    let what = match (reported, absent) {
        (reported, []) => format!("reports {}", listed(reported)),
        ([], absent) => format!("does not report {}", listed(absent)),
        (reported, absent) => format!("reports {}, but not {}", listed(reported), listed(absent)),
    };
    let granted = |option: &Effective| {
        let asked = option.asked.as_deref().unwrap_or("nothing");
        format!("{} {asked} requested, {} granted", option.name, option.before)
    };
    let granted: Vec<String> = options.iter().map(granted).collect();
    let granted = if granted.is_empty() { String::new() } else { format!(" At the client: {}.", joined(&granted)) };
    format!("This tests that a figure is reported, not its value. The run of {case} {what}.{granted}")
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

/// Returns `The p50 of tcp block same-cpu, 4.52 ms (4.07 to 4.97), is within a factor of 2 of 5 ms.`
fn compared([name, case, against]: [&str; 3], measured: &Figure, unit: &str, place: Place, bound: &Bound) -> String {
    let exactly = |number: &f64| format!("{number} {unit}");
    let of = if against.is_empty() { case.to_owned() } else { format!("{case} against {against}") };
    let bounds = match bound {
        Bound::SavesAtLeast { share } => format!("at least {share}"),
        Bound::Within { number, factor } => format!("within a factor of {factor} of {}", exactly(number)),
        Bound::AtLeast { number } => format!("at least {}", exactly(number)),
        Bound::AtMost { number } => format!("at most {}", exactly(number)),
        Bound::Range { from, to, factor } => {
            let range = format!("between {from} and {}", exactly(to));
            if *factor > 1.0 { format!("within a factor of {factor} of the range {range}") } else { range }
        }
    };
    let what = if matches!(bound, Bound::SavesAtLeast { .. }) {
        let saved = with_interval(measured, thousandths, "");
        format!("The share of the {name} of {against} that {case} saves, {saved},")
    } else {
        format!("The {name} of {of}, {},", with_interval(measured, three_digits, &format!(" {unit}")))
    };
    match place {
        Place::Inside => format!("{what} is {bounds}."),
        Place::Below => format!("{what} is not {bounds}: it is less."),
        Place::Above => format!("{what} is not {bounds}: it is more."),
        Place::Across => format!("{what} is {bounds} in a part of its interval only."),
        Place::Unknown => {
            let why = measured.why.map_or_else(
                || "too few rounds count".to_owned(),
                |why| crate::trust::why_no_interval(why).to_owned(),
            );
            format!("{what} has no interval: {why}.")
        }
    }
}

/// Returns `4.52 bytes/ms (4.40 to 4.61)`.
fn with_interval(of: &Figure, digits: fn(f64) -> String, unit: &str) -> String {
    let value = digits(of.value) + unit;
    match (of.low, of.high) {
        (Some(low), Some(high)) => format!("{value} ({} to {})", digits(low), digits(high)),
        _ => value,
    }
}

fn times(ratio: &Figure) -> String {
    with_interval(ratio, three_digits, " x")
}

/// Returns `0.0406 ms`.
fn milliseconds(ns: i64) -> String {
    three_digits(ns as f64 / 1e6) + " ms"
}

fn step(OrderStep { names: [first, second], verdict, ratio, absent }: &OrderStep, margin: f64) -> String {
    let Some(ratio) = ratio.as_ref().map(times) else {
        let absent = absent.as_ref().map_or_else(String::new, |reason| why(reason, &Judgement::default()));
        return format!("{first} and {second}: {}", absent.trim_end_matches('.'));
    };
    match verdict {
        Verdict::Confirmed => format!("{first} < {second}: {ratio}"),
        Verdict::Refuted => format!("{first} > {second}: {ratio}"),
        Verdict::Equal => {
            format!("{first} and {second} are equal within {} %: {ratio}", three_digits(100.0 * margin))
        }
        _ => format!("{first} and {second} are not separated: {ratio}"),
    }
}

fn output_name(kind: Kept) -> &'static str {
    match kind {
        Kept::Percentiles => "a median, a p99 and a mean",
        Kept::Extremes => "the minimum and the maximum",
        Kept::Curve => "a percentile curve, drawn on its page",
        Kept::Samples => "every sample, as CSV",
        Kept::RateOverTime => "the goodput over time, drawn on its page",
        Kept::CpuOverTime => "the CPU use of both ends over time",
        Kept::Options => "the options of its sockets as requested and as granted",
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

fn figure_name(name: FigureName) -> &'static str {
    match name {
        FigureName::P50 => "p50",
        FigureName::P99 => "p99",
        FigureName::P999 => "p99.9",
        FigureName::Max => "maximum",
        FigureName::Mean => "mean",
        FigureName::ServiceP50 => "p50 from the actual send",
        FigureName::ServiceMean => "mean from the actual send",
        FigureName::First => "first exchange",
        FigureName::Rate => "rate",
        FigureName::BytesPerMs => "bytes/ms",
        FigureName::Segments => "segments per exchange",
        FigureName::PureAcks => "pure ACKs per exchange",
        FigureName::LostShare => "share of lost messages",
        FigureName::ReceivedShare => "share of received messages",
        FigureName::SentBytes => "rate sent",
        FigureName::ReceivedBytes => "rate received",
        FigureName::InFlight => "number of requests in flight",
        FigureName::ReceivedPerS => "messages received per second",
        FigureName::SentPerS => "messages sent per second",
        FigureName::Goodput => "goodput",
        FigureName::ClientSystemCalls => "system calls of the client per message",
        FigureName::ServerSystemCalls => "system calls of the server per message",
        FigureName::ClientCpuPerMillion => "CPU time of the client per million messages",
        FigureName::ServerCpuPerMillion => "CPU time of the server per million messages",
        FigureName::ClientCpuPerGb => "CPU time of the client per GB",
        FigureName::ServerCpuPerGb => "CPU time of the server per GB",
        FigureName::Fairness => "fairness index of the connections",
        FigureName::ReverseShare => "bytes of the reverse direction per byte of messages",
        FigureName::ReverseBytes => "rate of the reverse direction",
    }
}
