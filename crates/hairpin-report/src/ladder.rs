//! The ladder: the cases of a run by waiting and placement, the fastest first.

use std::collections::BTreeMap;

use hairpin_model::case::{Pattern, Placement, Waiting};
use hairpin_model::figure::Figure;
use hairpin_model::run::Run;
use hairpin_model::summary::{CaseSummary, Comparison, Role, Verdict};

/// The cases with one waiting and one placement.
pub(crate) struct Group<'r> {
    /// `block, together`.
    pub(crate) name: String,
    /// The fastest first by p50; cases without a p50 last, in the order of the plan.
    pub(crate) rows: Vec<&'r CaseSummary>,
}

/// The groups, in the order of the words (block, poll, spin; together, apart, free).
pub(crate) fn groups(run: &Run) -> Vec<Group<'_>> {
    let mut sorted: BTreeMap<(Waiting, Placement), Vec<&CaseSummary>> = BTreeMap::new();
    for summary in &run.cases {
        sorted.entry((summary.case.waiting, summary.case.placement)).or_default().push(summary);
    }
    let mut groups = Vec::with_capacity(sorted.len());
    for ((waiting, placement), mut rows) in sorted {
        rows.sort_by(|a, b| p50_ns(a).unwrap_or(f64::INFINITY).total_cmp(&p50_ns(b).unwrap_or(f64::INFINITY)));
        groups.push(Group { name: format!("{waiting}, {placement}"), rows });
    }
    groups
}

/// The median that the ladder is sorted by.
pub(crate) fn p50_ns(summary: &CaseSummary) -> Option<f64> {
    finite(summary.latency_ns.p50)
}

/// The figure's value, where there is one that can be shown.
pub(crate) fn finite(figure: Option<Figure>) -> Option<f64> {
    figure.map(|figure| figure.value).filter(|value| value.is_finite())
}

/// The figure's interval, where both bounds can be shown.
pub(crate) fn interval(figure: Option<Figure>) -> Option<(f64, f64)> {
    let figure = figure?;
    let (low, high) = (figure.low?, figure.high?);
    (low.is_finite() && high.is_finite()).then_some((low, high))
}

/// The case within its group: the transport and what sets it apart.
pub(crate) fn row_name(summary: &CaseSummary) -> String {
    let mut words = vec![summary.case.transport.clone()];
    words.extend(summary.case.details());
    words.join(" ")
}

/// CPU time of both ends for one answered message, in ns.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(crate) fn cpu_ns_per_message(summary: &CaseSummary) -> Option<f64> {
    let seconds = summary.cpu_seconds.client + summary.cpu_seconds.echo.unwrap_or(0.0);
    let measured = summary.samples > 0 && seconds.is_finite() && seconds > 0.0;
    measured.then(|| seconds * 1e9 / summary.samples as f64)
}

/// Messages lost, whatever the cause, those without a cause included.
pub(crate) fn lost(summary: &CaseSummary) -> u64 {
    summary.ledger.lost.values().sum::<u64>() + u64::try_from(summary.ledger.unexplained).unwrap_or(0)
}

/// A case that the answer may name: valid, measured, closed loop, nothing planted, no second of a pair.
pub(crate) fn speaks_for_the_machine(summary: &CaseSummary) -> bool {
    let case = &summary.case;
    summary.valid
        && p50_ns(summary).is_some()
        && case.pattern == Pattern::PingPong
        && case.plant.is_none()
        && case.twin == 0
}

/// How a case stands to the one before it in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The first of the chain.
    First,
    /// Slower than the one before.
    Slower,
    /// Faster than the one before, although its p50 over rounds is greater.
    Faster,
    /// The two cannot be told apart.
    Same,
    /// The two were not compared.
    Unknown,
}

impl Step {
    /// The sign in the chain.
    pub(crate) fn sign(self) -> &'static str {
        match self {
            Self::First => "",
            Self::Slower => "<",
            Self::Faster => ">",
            Self::Same => "~",
            Self::Unknown => "?",
        }
    }

    /// The sign in words.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::First => "",
            Self::Slower => "is faster than",
            Self::Faster => "is slower than, although its p50 over rounds is smaller",
            Self::Same => "cannot be told apart from",
            Self::Unknown => "was not compared with",
        }
    }
}

/// The rows of a group that were compared with a neighbour, each with its step from the one before.
pub(crate) fn chain<'g>(run: &Run, group: &Group<'g>) -> Vec<(Step, &'g CaseSummary)> {
    let neighbours: BTreeMap<(&str, &str), &Comparison> = run
        .comparisons
        .iter()
        .filter(|comparison| comparison.role == Role::Neighbours)
        .map(|comparison| ((comparison.baseline.as_str(), comparison.candidate.as_str()), comparison))
        .collect();
    let compared: Vec<&CaseSummary> = group
        .rows
        .iter()
        .copied()
        .filter(|row| neighbours.keys().any(|(one, other)| *one == row.id || *other == row.id))
        .collect();
    let mut steps = Vec::with_capacity(compared.len());
    for (place, row) in compared.iter().enumerate() {
        let step = match place.checked_sub(1).map(|before| compared[before]) {
            None => Step::First,
            Some(before) => step(
                neighbours.get(&(before.id.as_str(), row.id.as_str())).map(|found| found.verdict),
                neighbours.get(&(row.id.as_str(), before.id.as_str())).map(|found| found.verdict),
            ),
        };
        steps.push((step, *row));
    }
    steps
}

/// `forward` compares this row with the one before as its baseline, `backward` the other way round.
fn step(forward: Option<Verdict>, backward: Option<Verdict>) -> Step {
    match (forward, backward) {
        (Some(Verdict::Slower), _) | (None, Some(Verdict::Faster)) => Step::Slower,
        (Some(Verdict::Faster), _) | (None, Some(Verdict::Slower)) => Step::Faster,
        (Some(Verdict::CannotTell), _) | (None, Some(Verdict::CannotTell)) => Step::Same,
        (None, None) => Step::Unknown,
    }
}
