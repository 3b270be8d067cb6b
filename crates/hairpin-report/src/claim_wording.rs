//! Texts about claims for the terminal and the page.

use hairpin_model::claim::Coverage;
use hairpin_model::judged_claim::Verdict;
use hairpin_model::names::{distinct, joined};
use hairpin_model::quantities::{self, DASH, counted, thousandths, three_digits};
use hairpin_model::run::State;
use hairpin_model::{ClaimsReport, Figure, JudgedClaim, JudgedRow, Judgement, Published, Value};

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

/// Returns measured / published.
pub(crate) fn ratio(of: &Judgement) -> String {
    of.ratio.map_or_else(|| DASH.to_owned(), |ratio| format!("{} x", three_digits(ratio)))
}

/// Returns the reason for a verdict as a sentence.
pub(crate) fn why(of: &Judgement) -> String {
    let why = of.why.trim_end();
    if why.is_empty() || why.ends_with(['.', ')']) { why.to_owned() } else { format!("{why}.") }
}

pub(crate) fn verdict(of: Option<Verdict>) -> &'static str {
    match of {
        Some(Verdict::Holds) => "holds",
        Some(Verdict::DoesNotHold) => "does not hold",
        Some(Verdict::CannotTell) => "cannot tell",
        Some(Verdict::CannotRun) => "cannot run",
        None => DASH,
    }
}

/// Returns how a claim is tested and what is missing, as sentences. The last sentence has no full stop.
pub(crate) fn how(claim: &JudgedClaim) -> String {
    let runs = distinct(claim.rows.iter().filter_map(|row| row.run.as_deref())).join(", ");
    let mut parts = Vec::new();
    if !runs.is_empty() {
        parts.push(format!("Tested by {runs}"));
    }
    parts.extend(claim.stand_in.as_ref().map(|stand_in| format!("Stand-in: {stand_in}")));
    let missing = missing(claim);
    if !missing.is_empty() {
        parts.push(format!("Missing: {missing}"));
    }
    parts.join(". ")
}

/// Returns notes on a row: its stand-in, and whether the row is not part of the verdict.
pub(crate) fn notes(row: &JudgedRow) -> Vec<String> {
    let stand_in = row.stand_in.as_ref().map(|stand_in| format!("Stand-in: {stand_in}"));
    let beside = row.beside.as_ref().map(|setting| format!("Also measured, not part of the verdict: {setting}"));
    stand_in.into_iter().chain(beside).collect()
}

pub(crate) fn missing(claim: &JudgedClaim) -> String {
    distinct(claim.rows.iter().filter_map(|row| row.missing.as_deref())).join(", ")
}

/// Returns the answer as a sentence: the number of claims per verdict, or, before a test, per coverage.
pub(crate) fn answer(report: &ClaimsReport) -> String {
    let claims = counted(report.claims.len() as u64, "claim");
    if report.seed.is_none() {
        let [all, part, none] =
            [Coverage::Covered, Coverage::Partly, Coverage::NotCovered].map(|coverage| report.covered(coverage));
        return format!("{claims}: {all} can be tested in full, {part} in part, {none} not yet.");
    }
    let [holds, not, untold, unrun] =
        [Verdict::Holds, Verdict::DoesNotHold, Verdict::CannotTell, Verdict::CannotRun].map(|of| report.count(of));
    let does = |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let (holds, not) = (does(holds, "holds", "hold"), does(not, "does", "do"));
    let (place, skipped) = match &report.to {
        Some(host) => (format!("on the path to {host}"), format!("; {} skipped", were(report.skipped()))),
        None => ("here".to_owned(), String::new()),
    };
    format!("{claims}: {holds} {place}, {not} not, {untold} cannot be decided, {unrun} could not be run{skipped}.")
}

fn were(count: usize) -> String {
    format!("{count} {}", if count == 1 { "was" } else { "were" })
}

/// Returns a warning for the top of an incomplete report.
pub(crate) fn partial(report: &ClaimsReport) -> Option<&'static str> {
    (report.state != State::Complete)
        .then_some("PARTIAL: ended by the user; claims whose runs were not executed have no verdict.")
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
