//! Texts about claims for the terminal and the page.

use hairpin_model::judged_claim::{Axes, Headline, Verdict};
use hairpin_model::names::joined;
use hairpin_model::quantities::{self, DASH, counted, thousandths, three_digits};
use hairpin_model::run::State;
use hairpin_model::{ClaimsReport, Figure, JudgedRow, Judgement, Published, Source, Value};

use crate::hosts;

pub(crate) fn published(of: &Published) -> String {
    match &of.value {
        Value::Number(number) => format!("{number} {}", of.unit),
        Value::Range([from, to]) => format!("{from} to {to} {}", of.unit),
        Value::Order(names) if of.unit.starts_with("order") => names.join(" < "),
        Value::Order(names) => names.join(", "),
        Value::Table(rows) => format!("{} in {}", counted(rows.len() as u64, "value"), of.unit),
    }
}

/// Returns the measured value without its interval.
pub(crate) fn measured(of: &Judgement) -> String {
    match (of.measured, &of.measured_unit) {
        (Some(figure), Some(unit)) => format!("{} {unit}", in_unit(figure.value, Some(unit))),
        _ => DASH.to_owned(),
    }
}

/// Returns the interval of the measured value: `4.40-4.61`.
pub(crate) fn interval(of: &Judgement) -> String {
    let unit = of.measured_unit.as_deref();
    match of.measured {
        Some(Figure { low: Some(low), high: Some(high), .. }) => {
            let dash = if low < 0.0 { " to " } else { "-" };
            format!("{}{dash}{}", in_unit(low, unit), in_unit(high, unit))
        }
        _ => DASH.to_owned(),
    }
}

fn in_unit(value: f64, unit: Option<&str>) -> String {
    if unit == Some("share") { thousandths(value) } else { three_digits(value) }
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

pub(crate) fn verdict(of: Option<Verdict>) -> &'static str {
    match of {
        Some(Verdict::NotTested) => "not tested",
        Some(Verdict::NotClaimed) => "not claimed",
        Some(other) => other.word(),
        None => DASH,
    }
}

/// Returns the verdict on each claimed axis.
pub(crate) fn axes(of: &Axes) -> String {
    let named = [("direction", of.direction), ("size", of.size), ("cause", of.cause)];
    let claimed = named.into_iter().filter(|(_, verdict)| *verdict != Verdict::NotClaimed);
    claimed.map(|(axis, of)| format!("{axis} {}", verdict(Some(of)))).collect::<Vec<_>>().join(", ")
}

/// Returns where the claim is found: author, title, publisher, address, date of retrieval and quotation.
pub(crate) fn source(of: &Source) -> String {
    let known = [&of.author, &of.title, &of.publisher, &of.url].into_iter().filter(|part| part.as_str() != "unknown");
    let known: Vec<&str> = known.map(String::as_str).collect();
    let retrieved = if of.retrieved == "unknown" { String::new() } else { format!(", retrieved {}", of.retrieved) };
    format!("{}{retrieved}: \u{201c}{}\u{201d}", known.join(", "), of.quote)
}

/// Returns notes on a row: its stand-in, why it only shows figures, and what is missing.
pub(crate) fn notes(row: &JudgedRow) -> Vec<String> {
    let stand_in = row.stand_in.as_ref().map(|stand_in| format!("Stand-in: {stand_in}"));
    let shown =
        row.shown.as_ref().map(|because| format!("Shown, decides nothing: {}", because.trim_end_matches('.')));
    let missing = row.missing.as_ref().map(|part| format!("Missing: {part}"));
    let skipped = row.skipped.as_ref().map(|why| format!("Skipped: {why}"));
    [shown, stand_in, missing, skipped].into_iter().flatten().collect()
}

/// Returns the answer as a sentence: the number of claims per headline, or, before a test, how many can be tested.
pub(crate) fn answer(report: &ClaimsReport) -> String {
    let claims = counted(report.claims.len() as u64, "claim");
    let tested = report.claims.iter().any(|claim| claim.age_s.is_some());
    let count = |headline: &Headline| (report.count(*headline), *headline);
    let mut counts: Vec<(usize, Headline)> =
        Headline::ALL.iter().map(count).filter(|(count, _)| *count > 0).collect();
    let untested = report.claims.iter().filter(|claim| claim.headline.is_none()).count();
    if !tested {
        return format!("{claims}: {untested} can be tested here, {} not yet.", report.claims.len() - untested);
    }
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let parts = counts.into_iter().map(|(count, of)| format!("{count} {}", in_sentence(of)));
    let parts: Vec<String> = parts.chain((untested > 0).then(|| format!("{untested} not tested"))).collect();
    let place = report.to.as_ref().map_or_else(|| "here".to_owned(), |host| format!("on the path to {host}"));
    format!("{claims} {place}: {}.", parts.join(", "))
}

/// Returns the headline with a small initial.
fn in_sentence(of: Headline) -> String {
    let text = headline(of);
    text[..1].to_lowercase() + &text[1..]
}

/// Returns the age of a verdict: `2 h`.
pub(crate) fn age(age_s: u64) -> String {
    match age_s {
        0..120 => "now".to_owned(),
        120..7_200 => format!("{} min", age_s / 60),
        7_200..172_800 => format!("{} h", age_s / 3_600),
        _ => format!("{} d", age_s / 86_400),
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
        let values: Vec<f64> = Self::values(row)?.into_iter().filter(|value| *value > 0.0).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        (low > 0.0 && high.is_finite()).then_some(Self { low: low / 1.5, high: high * 1.5 })
    }

    fn values(row: &JudgedRow) -> Option<Vec<f64>> {
        let measured = row.judgement.measured.filter(|figure| figure.value > 0.0)?;
        let interval = measured.interval().map(|(low, high)| [low, high]);
        let margin = row.judgement.margin.into_iter().flatten().flatten();
        let all = [measured.value].into_iter().chain(interval.into_iter().flatten()).chain(margin);
        Some(all.chain(Self::published(row)).collect())
    }

    /// The published numbers, if they are in the measured unit; 1 for an order.
    pub(crate) fn published(row: &JudgedRow) -> Vec<f64> {
        let has_unit = row.judgement.measured_unit.as_ref() == Some(&row.published.unit);
        match row.published.value {
            Value::Number(number) if has_unit => vec![number],
            Value::Range(range) if has_unit => range.to_vec(),
            Value::Order(_) => vec![1.0],
            _ => Vec::new(),
        }
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        ((value.max(self.low) / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }
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

/// Returns a caution that names the runs with warnings; `None` if no run has any.
pub(crate) fn caution(report: &ClaimsReport) -> Option<String> {
    let warned = report.runs.iter().filter(|run| !run.warnings.is_empty());
    let told: Vec<String> = warned.map(|run| format!("{} ({})", run.name, run.warnings.join(", "))).collect();
    (!told.is_empty()).then(|| format!("Verdicts of these runs may differ on an idle machine: {}.", joined(&told)))
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
    }

    #[test]
    fn measured_figures_have_three_digits() {
        let judgement = Judgement {
            measured: Some(Figure::new(0.070_23, 0.068, 0.0731)),
            measured_unit: Some("ms".to_owned()),
            ratio: Some(0.281),
            ..Judgement::default()
        };
        let shown = [measured(&judgement), interval(&judgement), ratio(&judgement)];
        assert_eq!(shown, ["0.0702 ms", "0.0680-0.0731", "0.281 x"]);
        let share = Judgement {
            measured: Some(Figure::new(-0.000_7, -0.0893, 0.000_7)),
            measured_unit: Some("share".to_owned()),
            ..Judgement::default()
        };
        assert_eq!([super::measured(&share), interval(&share)], ["-0.001 share", "-0.089 to 0.001"]);
        let none = Judgement::default();
        assert_eq!([measured(&none), interval(&none), ratio(&none)], [DASH; 3]);
    }
}
