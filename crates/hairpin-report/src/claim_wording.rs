//! Texts about claims for the terminal and the page.

use std::collections::BTreeMap;

use hairpin_model::judged_claim::{Axes, Headline, Verdict};
use hairpin_model::names::joined;
use hairpin_model::quantities::{self, DASH, counted, three_digits};
use hairpin_model::reason::{Bound, Place};
use hairpin_model::run::State;
use hairpin_model::{ClaimsReport, Figure, JudgedClaim, JudgedRow, Judgement, Published, Reason, Source, Value};

use crate::figure_words::figure_name;
use crate::hosts;
use crate::trust::why_no_interval;

/// The unit of shares, which are shown in percent.
const SHARE: &str = "share";

pub(crate) fn published(of: &Published) -> String {
    match &of.value {
        Value::Number(number) => exact(*number, &of.unit),
        Value::Range([from, to]) if of.unit == SHARE => format!("{} to {}", exact_percent(*from), exact(*to, SHARE)),
        Value::Range([from, to]) => format!("{from} to {to} {}", of.unit),
        Value::Order(names) if of.unit.starts_with("order") => names.join(" < "),
        Value::Order(names) => names.join(", "),
        Value::Table(rows) => format!("{} in {}", counted(rows.len() as u64, "value"), of.unit),
    }
}

/// Returns a published number or a bound in all its digits.
pub(crate) fn exact(number: f64, unit: &str) -> String {
    if unit == SHARE { format!("{} %", exact_percent(number)) } else { format!("{number} {unit}") }
}

/// Returns a share in percent, without the digits that the multiplication adds.
pub(crate) fn exact_percent(share: f64) -> String {
    format!("{}", (share * 1e8).round() / 1e6)
}

/// Returns the measured value without its interval.
pub(crate) fn measured(of: &Judgement) -> String {
    match (of.measured, &of.measured_unit) {
        (Some(figure), Some(unit)) => quantity(figure.value, unit),
        _ => DASH.to_owned(),
    }
}

/// Returns a measured value in its unit: `4.55 bytes/ms`, `99.98 %`.
fn quantity(value: f64, unit: &str) -> String {
    format!("{} {}", digits(value, unit), if unit == SHARE { "%" } else { unit })
}

fn digits(value: f64, unit: &str) -> String {
    let percent = 100.0 * value;
    match percent {
        _ if unit != SHARE => three_digits(value),
        99.0..99.99 => format!("{percent:.2}"),
        99.99..100.0 => format!("{percent:.3}"),
        // Only a share that falls can be below 0: it rises.
        ..0.0 => format!("{percent:.2}"),
        _ => three_digits(percent),
    }
}

/// Returns the interval of the measured value: `4.40-4.61`.
pub(crate) fn interval(of: &Judgement) -> Option<String> {
    bounds(&of.measured?, of.measured_unit.as_deref().unwrap_or_default())
}

fn bounds(of: &Figure, unit: &str) -> Option<String> {
    let (low, high) = of.interval()?;
    let dash = if low < 0.0 { " to " } else { "-" };
    Some(format!("{}{dash}{}", digits(low, unit), digits(high, unit)))
}

/// Returns a figure with its interval: `4.55 bytes/ms (4.40-4.61)`.
pub(crate) fn with_interval(of: &Figure, unit: &str) -> String {
    let value = quantity(of.value, unit);
    bounds(of, unit).map_or_else(|| value.clone(), |bounds| format!("{value} ({bounds})"))
}

/// Returns the condition of a bound: `within a factor of 2 of 5 ms`.
pub(crate) fn bound(of: &Bound, unit: &str) -> String {
    match of {
        Bound::Within { number, factor } => format!("within a factor of {factor} of {}", exact(*number, unit)),
        Bound::AtLeast { number } | Bound::SavesAtLeast { share: number } => {
            format!("at least {}", exact(*number, unit))
        }
        Bound::AtMost { number } => format!("at most {}", exact(*number, unit)),
        Bound::Range { from, to, factor } => {
            let from = if unit == SHARE { exact_percent(*from) } else { from.to_string() };
            let range = format!("between {from} and {}", exact(*to, unit));
            if *factor > 1.0 { format!("within a factor of {factor} of the range {range}") } else { range }
        }
    }
}

/// The reason of a row's verdict, before the correction for several rows.
fn measured_reason(row: &JudgedRow) -> Option<&Reason> {
    match row.judgement.reason.as_ref()? {
        Reason::OneOfSeveral { measured, .. } => Some(measured),
        reason => Some(reason),
    }
}

/// Returns the figures of a row: `4.55 bytes/ms (4.40-4.61) here, 4.873 bytes/ms in the text`.
pub(crate) fn figures(row: &JudgedRow) -> Option<String> {
    let (measured, unit) = (row.judgement.measured?, row.judgement.measured_unit.as_deref()?);
    let text = format!("{} in the text", published(&row.published));
    match measured_reason(row)? {
        Reason::Often { figure, rounds, reached, bound, .. } => {
            let (figure, bound) = (figure_name(*figure), exact(*bound, &row.published.unit));
            let share = bounds(&measured, SHARE).map_or_else(String::new, |share| format!(" ({share} %)"));
            Some(format!("the {figure} reaches {bound} in {reached} of {rounds} rounds{share}"))
        }
        Reason::Compared { figure, place, bound: Bound::SavesAtLeast { .. }, .. } => {
            let (saved, figure) = (with_interval(&measured, unit), figure_name(*figure));
            let text = if row.published.unit == SHARE { format!(", {text}") } else { String::new() };
            Some(format!("the {figure} falls by {saved}{}{text}", without_interval(*place)))
        }
        Reason::Compared { place, bound: of, .. } => {
            let is_open = *place == Place::Across && measured.interval().is_none();
            let place_of = if is_open { Place::Unknown } else { *place };
            let here = format!("{} here{}", with_interval(&measured, unit), without_interval(place_of));
            let rule = match of {
                Bound::Within { factor, .. } | Bound::Range { factor, .. }
                    if *place != Place::Across || *factor <= 1.0 =>
                {
                    None
                }
                Bound::Within { factor, .. } | Bound::Range { factor, .. } => {
                    Some(format!("within a factor of {factor}"))
                }
                other if *place != Place::Across && is_published(other, &row.published.value) => None,
                other => Some(bound(other, unit)),
            };
            let rule = rule.map_or_else(String::new, |rule| format!(", {rule} in the rule"));
            Some(format!("{here}, {text}{rule}"))
        }
        _ => None,
    }
}

fn without_interval(place: Place) -> &'static str {
    if place == Place::Unknown { ", without an interval" } else { "" }
}

pub(crate) fn refuted_alone(rows: u64) -> String {
    format!("refuted alone, but not after the correction for {}", counted(rows, "row"))
}

/// Returns why a row's figure has no interval, if it has none.
fn no_interval(row: &JudgedRow) -> Option<String> {
    let measured = row.judgement.measured.filter(|measured| measured.interval().is_none())?;
    let why = without_interval_because(&measured);
    let is_decided = ![Some(Verdict::Undecided), Some(Verdict::Shown)].contains(&row.judgement.verdict);
    let decides = if is_decided { "; the outer bounds of its rounds decide" } else { "" };
    Some(format!("No interval: {why}{decides}."))
}

/// Returns why a figure has no interval, without the hint for runs of other commands.
pub(crate) fn without_interval_because(of: &Figure) -> &'static str {
    let why = of.why.map_or("too few rounds count", why_no_interval);
    why.split_once(" (hint").map_or(why, |(why, _)| why)
}

/// Whether a bound is the published number.
fn is_published(of: &Bound, published: &Value) -> bool {
    let (Bound::AtLeast { number } | Bound::AtMost { number }) = of else { return false };
    matches!(published, Value::Number(published) if published == number)
}

/// Returns the condition that the rule of a row sets for its figure, if it is a bound.
fn condition(row: &JudgedRow) -> Option<String> {
    match measured_reason(row)? {
        Reason::Compared { bound: of, .. } => Some(bound(of, row.judgement.measured_unit.as_deref()?)),
        Reason::Often { bound, share, .. } => {
            let reached = exact(*bound, &row.published.unit);
            Some(format!("{reached} or more in at least {} of the rounds", exact(*share, SHARE)))
        }
        _ => None,
    }
}

/// Returns the rule of a row, with its condition, reason and date.
pub(crate) fn rule(row: &JudgedRow) -> Option<String> {
    let (because, changed) = row.rule_because.as_ref().zip(row.rule_changed.as_ref())?;
    let condition = condition(row).map_or_else(String::new, |condition| format!("{condition}; "));
    Some(format!("Rule of {changed}: {condition}{}.", because.trim_end_matches('.')))
}

/// Returns what a row's figure is of: `p50 of tcp block same-cpu`.
pub(crate) fn subject(row: &JudgedRow) -> Option<String> {
    let (Reason::Compared { figure, .. } | Reason::Often { figure, .. }) = measured_reason(row)? else { return None };
    Some(format!("{} of {}", figure_name(*figure), row.case.as_ref()?))
}

/// Returns the reason for a verdict as a sentence.
pub(crate) fn why(of: &Judgement) -> String {
    let why = of.why.trim_end();
    if why.is_empty() || why.ends_with(['.', ')']) { why.to_owned() } else { format!("{why}.") }
}

pub(crate) fn headline(of: Headline) -> &'static str {
    match of {
        Headline::OtherHardware => "Figures of other hardware",
        Headline::Answered => "Answered",
        Headline::NotYet => "Not yet",
        Headline::NotTestable => "Not testable here",
        Headline::Contradicted => "Contradicted",
        Headline::Undecided => "Undecided",
        Headline::NoDifference => "No difference",
        Headline::HoldsOnlyIf => "Holds only if",
        Headline::HoldsOtherSize => "Holds, other size",
        Headline::Holds => "Holds",
    }
}

/// Returns the headline of a claim, with the condition if it holds only under one.
pub(crate) fn headline_of(claim: &JudgedClaim) -> String {
    match (&claim.only_if, claim.headline) {
        (Some(knob), Some(Headline::HoldsOnlyIf)) => format!("Holds only if {} is {}", knob.name, knob.value),
        (_, Some(of)) => headline(of).to_owned(),
        (_, None) => "Not tested".to_owned(),
    }
}

/// Returns the sentence of a claim after its headline; empty if nothing follows.
pub(crate) fn after_headline(claim: &JudgedClaim) -> &str {
    let begin = headline_of(claim);
    claim.text.sentence.strip_prefix(begin.as_str()).map_or("", |rest| rest.trim_start_matches([':', '.', ' ']))
}

pub(crate) fn verdict(of: Option<Verdict>) -> &'static str {
    match of {
        Some(Verdict::NotTested) => "not tested",
        Some(Verdict::NotClaimed) => "not claimed",
        Some(other) => other.word(),
        None => DASH,
    }
}

/// Returns the verdict on each claimed axis, and what would decide an undecided claim; empty if nothing was tested.
pub(crate) fn axes(claim: &JudgedClaim) -> String {
    let Axes { direction, size, cause } = claim.axes;
    let named = [("direction", direction), ("size", size), ("cause", cause)];
    let claimed = named.into_iter().filter(|(_, verdict)| *verdict != Verdict::NotClaimed);
    let claimed: Vec<(&str, Verdict)> = claimed.collect();
    if claimed.iter().all(|(_, verdict)| *verdict == Verdict::NotTested) {
        return String::new();
    }
    let all: Vec<String> = claimed.into_iter().map(|(axis, of)| format!("{axis} {}", verdict(Some(of)))).collect();
    let decides = claim.decides.as_ref().filter(|_| claim.headline == Some(Headline::Undecided));
    let decides = decides.map_or_else(String::new, |decides| format!(" Would decide: {decides}."));
    format!("By axis: {}.{decides}", all.join(", "))
}

/// Returns the verdict on a row; of one that decides nothing, whether its figure is shown.
pub(crate) fn row_verdict(row: &JudgedRow) -> &'static str {
    match (row.judgement.verdict, row.judgement.measured) {
        (None, _) => DASH,
        (Some(_), Some(_)) if row.shown.is_some() => "shown",
        (Some(_), None) if row.shown.is_some() => "not measured",
        (of, _) => verdict(of),
    }
}

/// Returns the name of a row; that of its axis if it has none.
pub(crate) fn row_name(row: &JudgedRow) -> &str {
    if row.name.is_empty() { row.axis.word() } else { &row.name }
}

/// Returns where the claim is found: author, title, publisher, address, date of retrieval and quotation.
pub(crate) fn source(of: &Source) -> String {
    let known = [&of.author, &of.title, &of.publisher, &of.url].into_iter().filter(|part| part.as_str() != "unknown");
    let known: Vec<&str> = known.map(String::as_str).collect();
    let retrieved = if of.retrieved == "unknown" { String::new() } else { format!(", retrieved {}", of.retrieved) };
    format!("{}{retrieved}: \u{201c}{}\u{201d}", known.join(", "), of.quote)
}

/// Returns notes on a row: why its figure has no interval, why it decides nothing, its stand-in, and what is missing.
pub(crate) fn notes(row: &JudgedRow) -> Vec<String> {
    let note = |label: &str, text: &Option<String>| {
        text.as_ref().map(|text| format!("{label}: {}.", text.trim_end_matches('.')))
    };
    let shown = note("Decides nothing", &row.shown);
    let notes = [note("Stand-in", &row.stand_in), note("Missing", &row.missing), note("Skipped", &row.skipped)];
    let of_several = match row.judgement.reason {
        Some(Reason::OneOfSeveral { rows, .. }) if figures(row).is_some() => Some(refuted_alone(rows)),
        _ => None,
    };
    let of_several = of_several.map(|text| format!("The row is {text}."));
    of_several.into_iter().chain(no_interval(row)).chain(shown).chain(notes.into_iter().flatten()).collect()
}

/// The headlines in the order in which the answer counts them.
const COUNTED: [Headline; 10] = [
    Headline::Holds,
    Headline::HoldsOtherSize,
    Headline::HoldsOnlyIf,
    Headline::NoDifference,
    Headline::Contradicted,
    Headline::Undecided,
    Headline::Answered,
    Headline::OtherHardware,
    Headline::NotTestable,
    Headline::NotYet,
];

/// Returns the answer as a sentence: the number of claims per headline, or, before a test, how many can be tested.
pub(crate) fn answer(report: &ClaimsReport) -> String {
    let claims = counted(report.claims.len() as u64, "claim");
    let tested = report.claims.iter().any(|claim| claim.age_s.is_some());
    let untested = report.claims.iter().filter(|claim| claim.headline.is_none()).count();
    if !tested {
        return format!("{claims}: {untested} can be tested here, {} not yet.", report.claims.len() - untested);
    }
    let counts = COUNTED.into_iter().map(|of| (report.count(of), of)).filter(|(count, _)| *count > 0);
    let parts = counts.map(|(count, of)| format!("{count} {}", in_sentence(of, count)));
    let parts: Vec<String> = parts.chain((untested > 0).then(|| format!("{untested} not tested"))).collect();
    let place = report.to.as_ref().map_or_else(|| "here".to_owned(), |host| format!("on the path to {host}"));
    format!("{claims} {place}: {}.", parts.join(", "))
}

/// Returns the headline as the verb of a sentence about this number of claims.
fn in_sentence(of: Headline, count: usize) -> &'static str {
    match (of, count) {
        (Headline::Holds, 1) => "holds",
        (Headline::Holds, _) => "hold",
        (Headline::HoldsOtherSize, 1) => "holds with another size",
        (Headline::HoldsOtherSize, _) => "hold with another size",
        (Headline::HoldsOnlyIf, 1) => "holds only under a condition",
        (Headline::HoldsOnlyIf, _) => "hold only under a condition",
        (Headline::NoDifference, _) => "without a difference",
        (Headline::Contradicted, _) => "contradicted",
        (Headline::Undecided, _) => "undecided",
        (Headline::Answered, _) => "answered",
        (Headline::OtherHardware, _) => "about other hardware",
        (Headline::NotTestable, _) => "not testable here",
        (Headline::NotYet, _) => "without an experiment yet",
    }
}

/// Returns the age of a verdict: `2 h`; `None` of a new one.
pub(crate) fn age(age_s: u64) -> Option<String> {
    match age_s {
        0..120 => None,
        120..7_200 => Some(format!("{} min", age_s / 60)),
        7_200..172_800 => Some(format!("{} h", age_s / 3_600)),
        _ => Some(format!("{} d", age_s / 86_400)),
    }
}

/// The position of a value between the ends of a picture, from 0 to 1, on a logarithmic scale.
pub(crate) struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// The scale of a row's picture, which shows the published mark, the margin and the measured interval. `None` without
    /// a measured value above 0.
    pub(crate) fn of(row: &JudgedRow) -> Option<Self> {
        // A share of rounds needs no picture.
        let is_drawn = !matches!(measured_reason(row), Some(Reason::Often { .. }));
        let measured = row.judgement.measured.filter(|figure| is_drawn && figure.value > 0.0)?;
        let interval = measured.interval().map(|(low, high)| [low, high]);
        let margin = row.judgement.margin.into_iter().flatten().flatten();
        let all = [measured.value].into_iter().chain(interval.into_iter().flatten()).chain(margin);
        let all = all.chain(published_marks(row)).chain(is_direction(row).then_some(1.0));
        let drawn: Vec<f64> = all.filter(|value| DRAWN.contains(value)).collect();
        let low = drawn.iter().copied().fold(f64::INFINITY, f64::min);
        let high = drawn.iter().copied().fold(0.0, f64::max);
        DRAWN.contains(&measured.value).then_some(Self { low: low / 1.5, high: high * 1.5 })
    }

    /// Values beyond the ends are at the ends.
    pub(crate) fn at(&self, value: f64) -> f64 {
        // The quotient of the ends may exceed the range of numbers.
        let [value, low, high] = [value.max(self.low), self.low, self.high].map(f64::ln);
        ((value - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The ends of the row's margin: what confirms it, or, of a direction, what counts as equal.
    pub(crate) fn margin(&self, row: &JudgedRow) -> Option<[f64; 2]> {
        let [from, to] = row.judgement.margin?;
        let ends = [from.map_or(0.0, |from| self.at(from)), to.map_or(1.0, |to| self.at(to))];
        (ends[0] <= ends[1]).then_some(ends)
    }
}

/// The values that a picture can show.
const DRAWN: std::ops::Range<f64> = 1e-200..1e200;

/// The published numbers, if they are in the measured unit.
pub(crate) fn published_marks(row: &JudgedRow) -> Vec<f64> {
    let has_unit = row.judgement.measured_unit.as_ref() == Some(&row.published.unit);
    match row.published.value {
        Value::Number(number) if has_unit => vec![number],
        Value::Range(range) if has_unit => range.to_vec(),
        _ => Vec::new(),
    }
}

/// Whether the figure of a row is a ratio, of which 1 is no difference.
pub(crate) fn is_direction(row: &JudgedRow) -> bool {
    matches!(measured_reason(row), Some(Reason::Order { .. } | Reason::Widens { .. }))
}

/// Returns a warning for the top of an incomplete report.
pub(crate) fn partial(report: &ClaimsReport) -> Option<&'static str> {
    (report.state != State::Complete)
        .then_some("PARTIAL: ended by the user; claims whose runs were not executed have no verdict (hint: repeat the command with --out FOLDER).")
}

/// Returns the machine, the duration and the seed, if known.
pub(crate) fn footer(report: &ClaimsReport) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(environment) = &report.environment {
        parts.push(hosts::machine_of(environment));
    }
    if let Some(seed) = report.seed {
        let took = quantities::duration(report.duration_ns as f64);
        parts.push(format!("{} in {took}, seed {seed}", counted(report.runs.len() as u64, "run")));
    }
    parts
}

/// Returns a caution about runs with warnings; `None` if no run has any.
pub(crate) fn caution(report: &ClaimsReport) -> Option<String> {
    let mut runs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for run in &report.runs {
        run.warnings.iter().for_each(|warning| runs.entry(warning).or_default().push(&run.name));
    }
    let told = runs.iter().map(|(warning, names)| match names.len() {
        1..=MAX_NAMED_RUNS => format!("{warning} in {}", joined(names)),
        many => format!("{warning} in {many} of {}", counted(report.runs.len() as u64, "run")),
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("Verdicts may differ on an idle machine: {}.", told.join("; ")))
}

/// Maximum number of runs that a caution names.
const MAX_NAMED_RUNS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_are_shown_as_published() {
        let text = |value: Value, unit: &str| published(&Published { value, unit: unit.to_owned() });
        let names = || Value::Order(["pipe", "UDP"].map(str::to_owned).to_vec());
        assert_eq!(text(Value::Number(4.873), "bytes/ms"), "4.873 bytes/ms");
        assert_eq!(text(Value::Range([40.0, 200.0]), "ms"), "40 to 200 ms");
        assert_eq!(text(names(), "order, the fastest first"), "pipe < UDP");
        assert_eq!(text(names(), "transports"), "pipe, UDP");
        assert_eq!(text(Value::Number(0.979), "share"), "97.9 %");
        assert_eq!(text(Value::Range([0.000_15, 0.07]), "share"), "0.015 to 7 %");
    }

    #[test]
    fn measured_figures_have_three_digits_and_shares_are_in_percent() {
        let texts = |figure: Figure, unit: &str| {
            let judgement =
                Judgement { measured: Some(figure), measured_unit: Some(unit.to_owned()), ..Judgement::default() };
            [measured(&judgement), interval(&judgement).unwrap_or_default(), with_interval(&figure, unit)]
        };
        let time = texts(Figure::new(0.070_23, 0.068, 0.0731), "ms");
        assert_eq!(time, ["0.0702 ms", "0.0680-0.0731", "0.0702 ms (0.0680-0.0731)"]);
        let share = texts(Figure::new(-0.000_7, -0.0893, 0.000_7), "share");
        assert_eq!(share, ["-0.07 %", "-8.93 to 0.0700", "-0.07 % (-8.93 to 0.0700)"]);
        let most = texts(Figure::new(0.999_83, 0.99, 0.999_95), "share");
        assert_eq!(most, ["99.98 %", "99.00-99.995", "99.98 % (99.00-99.995)"]);
        assert_eq!(texts(Figure::bare(1.0), "share"), ["100 %", "", "100 %"]);
        let none = Judgement::default();
        assert_eq!((measured(&none).as_str(), interval(&none)), (DASH, None));
    }
}
