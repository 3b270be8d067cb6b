//! Texts about claims for the terminal and the page.

use std::collections::BTreeMap;

use hairpin_model::judged_claim::{Axes, Headline, Verdict};
use hairpin_model::names::{joined, shortened};
use hairpin_model::quantities::{self, DASH, counted, three_digits};
use hairpin_model::reason::{Bound, OuterBounds, Place};
use hairpin_model::run::State;
use hairpin_model::{ClaimsReport, Figure, JudgedClaim, JudgedRow, Judgement, Published, Reason, Source, Value};

use crate::charts::axis::Axis;
use crate::figure_words::figure_name;
use crate::findings;
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

pub(crate) fn exact(number: f64, unit: &str) -> String {
    if unit == SHARE { format!("{} %", exact_percent(number)) } else { format!("{number} {unit}") }
}

/// Returns a share in percent, without the digits that the multiplication adds.
pub(crate) fn exact_percent(share: f64) -> String {
    format!("{}", (share * 1e8).round() / 1e6)
}

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

/// Returns the interval of the measured value, or the outer bounds of its rounds: `4.40-4.61`.
pub(crate) fn interval(of: &Judgement) -> Option<String> {
    bounds(&of.measured?, of.outer_bounds, of.measured_unit.as_deref().unwrap_or_default())
}

fn bounds(of: &Figure, outer: Option<OuterBounds>, unit: &str) -> Option<String> {
    let range = |low: f64, high: f64| {
        let dash = if low < 0.0 { " to " } else { "-" };
        format!("{}{dash}{}", digits(low, unit), digits(high, unit))
    };
    let outer = || {
        let OuterBounds { low, high, rounds } = outer?;
        Some(format!("outer bounds of {}: {}", counted(rounds, "round"), range(low, high)))
    };
    let open = || of.low.map(|low| format!("{} or more", digits(low, unit)));
    of.interval().map(|(low, high)| range(low, high)).or_else(outer).or_else(open)
}

/// Returns a figure with its interval, or the outer bounds of its rounds: `4.55 bytes/ms (4.40-4.61)`.
pub(crate) fn with_bounds(of: &Figure, outer: Option<OuterBounds>, unit: &str) -> String {
    let bounds = bounds(of, outer, unit).unwrap_or_else(|| "no interval".to_owned());
    format!("{} ({bounds})", quantity(of.value, unit))
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
    match measured_reason(row)? {
        Reason::Often { figure, rounds, reached, bound, .. } => {
            let (figure, bound) = (figure_name(*figure), exact(*bound, &row.published.unit));
            let share = bounds(&measured, None, SHARE).map_or_else(String::new, |share| format!(" ({share} %)"));
            Some(format!("the {figure} reaches {bound} in {reached} of {rounds} rounds{share}"))
        }
        Reason::Compared { figure, place, bound: of, .. } => {
            let value = with_bounds(&measured, row.judgement.outer_bounds, unit);
            let published = published(&row.published);
            let text = format!("{published} in the text");
            if let Bound::SavesAtLeast { .. } = of {
                let text = if row.published.unit == SHARE { format!(", {text}") } else { String::new() };
                return Some(format!("the {} falls by {value}{text}", figure_name(*figure)));
            }
            let is_told = *place != Place::Across && is_published(of, &row.published.value);
            let rule = if is_told {
                String::new()
            } else {
                format!(", {} in the rule", bound(of, unit).replace(&format!(" of {published}"), ""))
            };
            Some(format!("{value} here, {text}{rule}"))
        }
        _ => None,
    }
}

pub(crate) fn refuted_alone(comparisons: u64) -> String {
    format!("refuted alone, but not after the correction for {}", counted(comparisons, "comparison"))
}

fn no_interval(row: &JudgedRow) -> Option<String> {
    let measured = row.judgement.measured.filter(|measured| measured.interval().is_none())?;
    let why = measured.why.map_or("too few rounds count", why_no_interval);
    // The hint is about runs of other commands.
    let why = why.split_once(" (hint").map_or(why, |(why, _)| why);
    let is_decided = ![Some(Verdict::Undecided), Some(Verdict::Shown)].contains(&row.judgement.verdict);
    let decides = if is_decided && row.judgement.outer_bounds.is_some() {
        "; the outer bounds of its rounds decide"
    } else {
        ""
    };
    Some(format!("No interval: {why}{decides}."))
}

/// Whether a bound is that of the published value, widened by a factor or not.
fn is_published(of: &Bound, published: &Value) -> bool {
    match of {
        Bound::AtLeast { number } | Bound::AtMost { number } => *published == Value::Number(*number),
        Bound::Within { .. } | Bound::Range { .. } => true,
        Bound::SavesAtLeast { .. } => false,
    }
}

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

pub(crate) fn rule(row: &JudgedRow) -> Option<String> {
    let (because, changed) = row.rule_because.as_ref().zip(row.rule_changed.as_ref())?;
    let condition = condition(row).map_or_else(String::new, |condition| format!("{condition}; "));
    Some(format!("Rule of {changed}: {condition}{}.", because.trim_end_matches('.')))
}

/// Returns what a row's figure is of: `p50 of tcp block same-cpu`.
pub(crate) fn subject(row: &JudgedRow) -> Option<String> {
    match measured_reason(row)? {
        Reason::Compared { figure, .. } | Reason::Often { figure, .. } => {
            Some(format!("{} of {}", figure_name(*figure), row.case.as_ref()?))
        }
        Reason::Widens { figure, full, low } => {
            let [full, low] = [full, low].map(|ratio| format!("{} against {}", ratio.cases[1], ratio.cases[0]));
            Some(format!("{} of {full}; at low load of {low}", figure_name(*figure)))
        }
        _ => None,
    }
}

pub(crate) fn why(of: &Judgement) -> String {
    let why = of.why.trim_end();
    if why.is_empty() || why.ends_with(['.', ')']) { why.to_owned() } else { format!("{why}.") }
}

/// The words of each headline, in the order in which the answer counts them: alone, in the overview, and in a sentence
/// about several claims.
const HEADLINES: [(Headline, [&str; 3]); 10] = [
    (Headline::Holds, ["Holds", "Holds", "hold"]),
    (Headline::HoldsOtherSize, ["Holds, other size", "Other size", "hold with another size"]),
    (Headline::HoldsOnlyIf, ["Holds only if", "Holds only if", "hold only under a condition"]),
    (Headline::NoDifference, ["No difference", "No difference", "without a difference"]),
    (Headline::Contradicted, ["Contradicted", "Contradicted", "contradicted"]),
    (Headline::Undecided, ["Undecided", "Undecided", "undecided"]),
    (Headline::Answered, ["Answered", "Answered", "answered"]),
    (Headline::OtherHardware, ["Figures of other hardware", "Other hardware", "about other hardware"]),
    (Headline::NotTestable, ["Not testable here", "Not testable", "not testable here"]),
    (Headline::NotYet, ["Not yet", "Not yet", "without an experiment yet"]),
];

pub(crate) fn headline(of: Option<Headline>) -> [&'static str; 2] {
    let known = HEADLINES.iter().find(|(headline, _)| Some(*headline) == of);
    known.map_or(["Not tested"; 2], |(_, [alone, brief, _])| [alone, brief])
}

pub(crate) fn headline_of(claim: &JudgedClaim) -> String {
    match (&claim.only_if, claim.headline) {
        (Some(knob), Some(Headline::HoldsOnlyIf)) => format!("Holds only if {} is {}", knob.name, knob.value),
        (_, of) => headline(of)[0].to_owned(),
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

pub(crate) fn row_name(row: &JudgedRow) -> &str {
    if row.name.is_empty() { row.axis.word() } else { &row.name }
}

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
        Some(Reason::OneOfSeveral { comparisons, .. }) if figures(row).is_some() => Some(refuted_alone(comparisons)),
        _ => None,
    };
    let of_several = of_several.map(|text| format!("The row is {text}."));
    of_several.into_iter().chain(no_interval(row)).chain(shown).chain(notes.into_iter().flatten()).collect()
}

/// Returns the answer as a sentence: the number of claims per headline, or, before a test, how many can be tested.
pub(crate) fn answer(report: &ClaimsReport) -> String {
    let claims = counted(report.claims.len() as u64, "claim");
    let tested = report.claims.iter().any(|claim| claim.age_s.is_some());
    let untested = report.claims.iter().filter(|claim| claim.headline.is_none()).count();
    if !tested {
        return format!("{claims}: {untested} can be tested here, {} not yet.", report.claims.len() - untested);
    }
    let counts =
        HEADLINES.iter().map(|(of, [.., words])| (report.count(*of), *words)).filter(|(count, _)| *count > 0);
    let parts = counts.map(|(count, words)| match count {
        1 => format!("1 {}", words.replacen("hold", "holds", 1)),
        _ => format!("{count} {words}"),
    });
    let parts: Vec<String> = parts.chain((untested > 0).then(|| format!("{untested} not tested"))).collect();
    let place = report.to.as_ref().map_or_else(|| "here".to_owned(), |host| format!("on the path to {host}"));
    format!("{claims} {place}: {}.", parts.join(", "))
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

/// The picture of a row on one axis, with positions from 0 to 1. The axis is linear for a share and for values that can be
/// negative, else logarithmic.
pub(crate) struct Picture {
    /// Whether the figure is a ratio, of which 1 is no difference.
    pub(crate) is_direction: bool,
    /// What confirms the row, or, of a direction, what counts as equal.
    pub(crate) margin: Option<[f64; 2]>,
    /// The published numbers, if they are in the measured unit.
    pub(crate) published: Vec<f64>,
    pub(crate) one: Option<f64>,
    /// The interval, or the outer bounds of the rounds.
    pub(crate) bounds: Option<[f64; 2]>,
    pub(crate) measured: f64,
}

impl Picture {
    /// `None` without a measured value that the axis can show.
    pub(crate) fn of(row: &JudgedRow) -> Option<Self> {
        let is_direction = match measured_reason(row) {
            // A share of rounds needs no picture.
            Some(Reason::Often { .. }) => return None,
            reason => matches!(reason, Some(Reason::Order { .. } | Reason::Widens { .. })),
        };
        let (figure, unit) = (row.judgement.measured?, row.judgement.measured_unit.as_deref()?);
        let (measured, one) = (figure.finite()?, is_direction.then_some(1.0));
        let outer = row.judgement.outer_bounds.map(|outer| [outer.low, outer.high]);
        let bounds = figure.interval().map(|(low, high)| [low, high]).or(outer);
        let published = match row.published.value {
            Value::Number(number) if row.published.unit == unit => vec![number],
            Value::Range(range) if row.published.unit == unit => range.to_vec(),
            _ => Vec::new(),
        };
        let margin = row.judgement.margin.into_iter().flatten().flatten();
        let all = [measured].into_iter().chain(bounds.into_iter().flatten()).chain(margin).chain(one);
        let all: Vec<f64> = all.chain(published.iter().copied()).collect();
        let axis = if unit == SHARE || all.iter().any(|value| *value < 0.0) {
            Axis::linear(all)
        } else {
            Axis::log([measured]).and_then(|_| Axis::log(all))
        };
        let axis = axis?;
        let at = |value: f64| axis.place(value);
        let margin = row.judgement.margin.map(|[from, to]| [from.map_or(0.0, at), to.map_or(1.0, at)]);
        Some(Self {
            is_direction,
            margin: margin.filter(|[from, to]| from <= to),
            published: published.into_iter().map(at).collect(),
            one: one.map(at),
            bounds: bounds.map(|ends| ends.map(at)).filter(|[low, high]| low <= high),
            measured: at(measured),
        })
    }
}

pub(crate) fn partial(report: &ClaimsReport) -> Option<&'static str> {
    (report.state != State::Complete)
        .then_some("PARTIAL: ended by the user; claims whose runs were not executed have no verdict (hint: repeat the command with --out FOLDER).")
}

pub(crate) fn footer(report: &ClaimsReport) -> Vec<String> {
    let (runs, took) = (report.runs.len() as u64, quantities::duration(report.duration_ns as f64));
    let ran = report.seed.map(|seed| format!("{} in {took}, seed {seed}", counted(runs, "run")));
    report.environment.as_ref().map(hosts::machine_of).into_iter().chain(ran).collect()
}

/// Returns the warnings about the claims' runs, each with the claims that used them; `None` without warnings.
pub(crate) fn caution(report: &ClaimsReport) -> Option<String> {
    let mut claims: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for claim in &report.claims {
        claim.warnings.iter().for_each(|warning| claims.entry(warning).or_default().push(&claim.id));
    }
    let told = claims.iter().map(|(warning, ids)| format!("{} ({})", findings::title(warning), shortened(ids, 5)));
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("Warnings about the runs: {}.", told.join("; ")))
}

/// Returns what the runs of a claim warn of; empty if of nothing.
pub(crate) fn warnings(of: &[String]) -> String {
    of.iter().map(|warning| findings::title(warning)).collect::<Vec<_>>().join("; ")
}

pub(crate) fn congestion(of: &JudgedClaim) -> String {
    let controls = joined(&of.congestion_controls);
    if controls.is_empty() { controls } else { format!("streams had the congestion control {controls}") }
}

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
            [measured(&judgement), interval(&judgement).unwrap_or_default(), with_bounds(&figure, None, unit)]
        };
        let time = texts(Figure::new(0.070_23, 0.068, 0.0731), "ms");
        assert_eq!(time, ["0.0702 ms", "0.0680-0.0731", "0.0702 ms (0.0680-0.0731)"]);
        let share = texts(Figure::new(-0.000_7, -0.0893, 0.000_7), "share");
        assert_eq!(share, ["-0.07 %", "-8.93 to 0.0700", "-0.07 % (-8.93 to 0.0700)"]);
        let most = texts(Figure::new(0.999_83, 0.99, 0.999_95), "share");
        assert_eq!(most, ["99.98 %", "99.00-99.995", "99.98 % (99.00-99.995)"]);
        assert_eq!(texts(Figure::bare(1.0), "share"), ["100 %", "", "100 % (no interval)"]);
        let outer = Some(OuterBounds { low: 0.9, high: 1.0, rounds: 4 });
        assert_eq!(with_bounds(&Figure::bare(0.97), outer, "share"), "97.0 % (outer bounds of 4 rounds: 90.0-100)");
        let none = Judgement::default();
        assert_eq!((measured(&none).as_str(), interval(&none)), (DASH, None));
    }
}
