//! Shared by detectors: looks up cases, builds findings and counter-experiments, and derives their verdicts.

mod alternative;
mod counter_experiment;
mod in_budget;
mod loss;
mod other_load;
mod stall;
mod traced;
mod without_cause;

use std::collections::BTreeMap;

use hairpin_model::finding::Severity;
use hairpin_model::summary::Verdict;
use hairpin_model::{
    Case, CaseSummary, Comparison, Evidence, ExchangeState, Figure, Finding, FindingCard, Key, Measured, Proved,
    RoundPoint, RoundRecord, Run, finding_keys as keys,
};

pub(super) use self::alternative::{checked_by, other_remedy, sibling_of, with_codel, without_nagle, without_stage};
pub(super) use self::counter_experiment::{
    counter_experiment, kept_awake, longer_run, needs_one_host, paired, with_longer_period, with_option,
};
pub(super) use self::in_budget::{from_budget, in_budget};
pub(super) use self::without_cause::{change_of, judge_by_block, judge_reduction};

pub(super) use self::loss::{arrived_per_s, losses_by, with_lower_rate};
pub(super) use self::other_load::{load_at, load_elsewhere, with_load_option};
pub(super) use self::stall::{Stall, stall};
pub(super) use self::traced::{Traced, WaitFrequency, held_ns};
use crate::compare::{as_ratio, by_block, difference_by_block, over_points};
use crate::statistics::interval::median_over;
use crate::valid_rounds;

/// Detects one cause in a run.
#[derive(Clone, Copy, Debug)]
pub struct Detector {
    /// The code of the finding, what it reports, and why it matters.
    pub card: FindingCard,
    /// The states of an exchange that the finding explains.
    pub states: &'static [ExchangeState],
    pub(super) detect: Detect,
}

type DetectInCase = fn(&Run, &CaseSummary) -> Option<Finding>;

/// How a run is searched. All but the first way show one of the findings on single cases, about all these cases.
#[derive(Clone, Copy, Debug)]
pub(super) enum Detect {
    /// Returns a few findings, each for many cases, rather than one finding per case.
    Run(fn(&Run) -> Vec<Finding>),
    /// Shows the case with the largest share.
    Strongest(DetectInCase),
    /// Prefers cases with a result of the counter-experiment.
    ProvedFirst(DetectInCase),
    /// Prefers cases of the first block to those that only counter-experiments measured.
    PlannedFirst(DetectInCase),
}

impl Detector {
    pub(super) fn detect(&self, run: &Run) -> Vec<Finding> {
        let hits = |detect: DetectInCase| Hits::findings(run, |case| detect(run, case));
        match self.detect {
            Detect::Run(detect) => detect(run),
            Detect::Strongest(detect) => hits(detect).joined(),
            Detect::ProvedFirst(detect) => hits(detect).proved_first().joined(),
            Detect::PlannedFirst(detect) => hits(detect).planned_first(run).joined(),
        }
    }
}

pub(super) fn blank(card: &FindingCard, severity: Severity) -> Finding {
    Finding {
        code: card.code.to_owned(),
        about: card.about,
        severity,
        facts: Some(BTreeMap::new()),
        ..Finding::default()
    }
}

pub(super) fn with_share(card: &FindingCard, severity: Severity, share: f64) -> Finding {
    Finding { share, shares: vec![share], ..blank(card, severity) }
}

/// Returns the finding with the largest share that `look` has on a case, about all cases on which it has one.
pub(super) fn strongest(run: &Run, look: impl Fn(&CaseSummary) -> Option<Finding>) -> Vec<Finding> {
    Hits::findings(run, look).joined()
}

pub(super) fn evidence(key: Key, value: impl Into<Figure>) -> Evidence {
    Evidence::new(key, value)
}

pub(super) fn evidence_of(case: &CaseSummary, key: Key, value: impl Into<Figure>) -> Evidence {
    Evidence { case: Some(case.id.clone()), ..Evidence::new(key, value) }
}

pub(super) fn known_evidence(
    case: &CaseSummary,
    figures: impl IntoIterator<Item = (Key, Option<Figure>)>,
) -> Vec<Evidence> {
    figures.into_iter().filter_map(|(key, figure)| Some(evidence_of(case, key, figure?))).collect()
}

pub(super) fn p50_of_exchange(case: &CaseSummary) -> Option<Evidence> {
    Some(evidence_of(case, keys::P50_OF_EXCHANGE, case.primary().latency_ns.p50?))
}

pub(super) fn pure_acks(case: &CaseSummary) -> Option<Evidence> {
    Some(evidence_of(case, keys::PURE_ACKS, case.primary().exchanges.as_ref()?.pure_acks_per_exchange?))
}

/// Returns the rounds from which a case's figures are computed, in order of execution.
pub(super) fn rounds_of<'r>(run: &'r Run, id: &str) -> Vec<(&'r RoundRecord, &'r Measured)> {
    valid_rounds::timed_rounds(run.rounds.iter().filter(|round| round.case_id == id))
}

pub(super) fn median_of(run: &Run, case: &CaseSummary, of: impl Fn(&Measured) -> Option<f64>) -> Option<Figure> {
    let values = rounds_of(run, &case.id).into_iter().filter_map(|(_, measured)| of(measured));
    median_over(&values.collect::<Vec<_>>(), over_points(case, run.plan.alpha))
}

pub(super) fn p50(measured: &Measured) -> Option<f64> {
    Some(measured.primary().figures.latency_ns.p50)
}

pub(super) fn mean(measured: &Measured) -> Option<f64> {
    Some(measured.primary().figures.latency_ns.mean)
}

/// Cases in which a detector found its cause, each with the share that the cause explains, largest share first.
pub(super) struct Hits<'r, T>(pub(super) Vec<Hit<'r, T>>);

pub(super) struct Hit<'r, T> {
    pub(super) case: &'r CaseSummary,
    pub(super) share: f64,
    pub(super) data: T,
}

impl<'r, T> Hits<'r, T> {
    pub(super) fn among(run: &'r Run, look: impl Fn(&'r CaseSummary) -> Option<(f64, T)>) -> Self {
        let hit = |case: &'r CaseSummary| look(case).map(|(share, data)| Hit { case, share, data });
        let mut hits: Vec<_> = run.cases.iter().filter_map(hit).collect();
        hits.sort_by(|a, b| b.share.total_cmp(&a.share));
        Self(hits)
    }

    /// Puts cases of the first block before those that only counter-experiments measured.
    pub(super) fn planned_first(mut self, run: &Run) -> Self {
        let is_planned = |id: &str| run.rounds.iter().any(|round| round.order.block == 0 && round.case_id == id);
        self.0.sort_by_key(|hit| !is_planned(&hit.case.id));
        self
    }

    /// Returns the first hit: that with the largest share, unless they were put in another order.
    pub(super) fn first(&self) -> Option<&Hit<'r, T>> {
        self.0.first()
    }

    /// Returns a finding on all hits with the largest share, as a base for struct update syntax (`..`).
    pub(super) fn finding(&self, card: &FindingCard, severity: Severity) -> Finding {
        let cases = self.0.iter().map(|hit| hit.case.id.clone()).collect();
        let shares = self.0.iter().map(|hit| hit.share).collect();
        Finding { cases, shares, share: self.first().map_or(0.0, |hit| hit.share), ..blank(card, severity) }
    }

    pub(super) fn cases(&self) -> Vec<&'r Case> {
        self.0.iter().map(|hit| &hit.case.case).collect()
    }
}

impl<'r> Hits<'r, Finding> {
    pub(super) fn findings(run: &'r Run, look: impl Fn(&'r CaseSummary) -> Option<Finding>) -> Self {
        Self::among(run, |case| look(case).map(|finding| (finding.shares[0], finding)))
    }

    pub(super) fn proved_first(mut self) -> Self {
        self.0.sort_by_key(|hit| hit.data.proved.is_none());
        self
    }

    /// Returns the first finding, about all cases.
    pub(super) fn joined(self) -> Vec<Finding> {
        let cases = self.0.iter().map(|hit| hit.case.id.clone()).collect();
        let shares = self.0.iter().map(|hit| hit.share).collect();
        let first = self.0.into_iter().next();
        first.map(|first| Finding { cases, shares, ..first.data }).into_iter().collect()
    }
}

/// The change from case `from` to case `to` in the run's comparisons, where either may be the baseline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) ratio: Figure,
    /// to - from, in ns.
    pub(super) difference_ns: Figure,
    /// Whether `to` is faster.
    pub(super) verdict: Verdict,
}

impl Change {
    pub(super) fn saved_share(&self) -> Figure {
        self.ratio.falling(|ratio| 1.0 - ratio)
    }

    pub(super) fn saved_ns(&self) -> Figure {
        self.difference_ns.falling(|difference| -difference)
    }
}

/// Minimum factor of a clear difference without an interval, and the minimum number of blocks for it.
const CLEAR_FACTOR: f64 = 2.0;
const MIN_BLOCKS: u64 = 3;

/// Returns the change from one case to another if the run compares them and the interval or the factor is clear.
pub(super) fn change(run: &Run, from: &CaseSummary, to: &CaseSummary) -> Option<Change> {
    run.comparisons.iter().find_map(|comparison| {
        let ratio = comparison.ratio;
        // Savings are reported as times, so other figures do not count.
        let difference_ns = comparison.difference_ns?;
        let verdict = verdict(comparison)?;
        if comparison.baseline == from.id && comparison.candidate == to.id {
            return Some(Change { ratio, difference_ns, verdict });
        }
        if comparison.baseline != to.id || comparison.candidate != from.id {
            return None;
        }
        let ratio = ratio.falling(|ratio| 1.0 / ratio);
        let difference_ns = difference_ns.falling(|difference| -difference);
        let verdict = match verdict {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            undecided => undecided,
        };
        Some(Change { ratio, difference_ns, verdict })
    })
}

/// Returns the time per 10^9 bytes in a round of a one-way load at full rate, in ns; `None` for other loads. This
/// time replaces the latency, which only shows the queue that such a load fills.
pub(super) fn ns_per_gb(case: &CaseSummary, point: &RoundPoint) -> Option<f64> {
    let load = &case.case.primary().load;
    let goodput = point.goodput_bytes_per_s.filter(|goodput| *goodput > 0.0)?;
    (load.is_one_way() && load.rate_per_s().is_none()).then(|| 1e18 / goodput)
}

/// Returns the change of the time per 10^9 bytes between two cases of one-way loads at full rate.
pub(super) fn change_of_goodput(run: &Run, from: &CaseSummary, to: &CaseSummary) -> Option<Change> {
    let by_block = |case: &CaseSummary, of: fn(f64) -> f64| {
        by_block(case.round_points.iter().filter_map(|point| Some((point.block, of(ns_per_gb(case, point)?)))))
    };
    let over = over_points(from, run.plan.alpha);
    let difference =
        |of| Some(difference_by_block(&by_block(from, of), &by_block(to, of), over)?.0.figure(over.alpha));
    let (logarithm, difference_ns) = (difference(f64::ln)?, difference(|ns| ns)?);
    let verdict = match logarithm.excludes(0.0) {
        false => Verdict::CannotTell,
        true if logarithm.value < 0.0 => Verdict::Faster,
        true => Verdict::Slower,
    };
    Some(Change { ratio: as_ratio(logarithm), difference_ns, verdict })
}

/// Returns the verdict of a comparison; without an interval the verdict by the factor, `None` if unclear.
fn verdict(comparison: &Comparison) -> Option<Verdict> {
    let ratio = comparison.ratio;
    if ratio.low.is_some() || comparison.verdict != Verdict::CannotTell {
        return Some(comparison.verdict);
    }
    match ratio.value {
        _ if comparison.blocks < MIN_BLOCKS => None,
        small if small <= 1.0 / CLEAR_FACTOR => Some(Verdict::Faster),
        large if large >= CLEAR_FACTOR => Some(Verdict::Slower),
        _ => None,
    }
}

/// Minimum saving; if even the upper bound of the saving is smaller, the explanation is refuted.
const MIN_POSSIBLE_SAVING: f64 = 0.1;

/// Judges a counter-experiment of the given kind, whose candidate is faster if the cause is right.
pub(super) fn judge_check(kind: &str, change: &Change) -> Proved {
    let small = change.saved_share().high.is_some_and(|most| most < MIN_POSSIBLE_SAVING);
    let verdict = match change.verdict {
        _ if small => REFUTED,
        // The verdict is corrected for several comparisons, and may rest on the ratio only.
        Verdict::Faster if change.difference_ns.high.is_none_or(|high| high < 0.0) => CONFIRMED,
        Verdict::Faster => CANNOT_TELL,
        Verdict::Slower => REFUTED,
        Verdict::CannotTell | Verdict::Unlike => CANNOT_TELL,
    };
    check_result(kind, verdict, change.difference_ns)
}

pub(super) fn check_result(kind: &str, verdict: &str, effect: Figure) -> Proved {
    Proved { kind: kind.to_owned(), verdict: verdict.to_owned(), effect, unit: "ns".to_owned(), ..Proved::default() }
}

/// Adds the checked case to the result if it is not the first case of the finding.
pub(super) fn add_case(tried: &CaseSummary, first: &CaseSummary, proved: Proved) -> Proved {
    Proved { case: (tried.id != first.id).then(|| tried.id.clone()), ..proved }
}

pub(super) const CONFIRMED: &str = "confirmed";
pub(super) const REFUTED: &str = "refuted";
pub(super) const CANNOT_TELL: &str = "cannot-tell";
