//! Shared by detectors: looking up cases, building findings, counter-experiments and their verdicts.

mod alternative;
mod counter_experiment;
mod loss;
mod other_load;
mod stall;
mod traced;
mod without_cause;

use std::collections::BTreeMap;

use hairpin_model::finding::Severity;
use hairpin_model::summary::Verdict;
use hairpin_model::{
    Case, CaseSummary, Comparison, Evidence, Figure, Finding, FindingCard, Key, Measured, Proved, RoundPoint,
    RoundRecord, Run, finding_keys as keys,
};

pub(super) use self::alternative::{other_remedy, sibling_of, with_codel, without_nagle, without_stage};
pub(super) use self::counter_experiment::{counter_experiment, for_longer, needs_one_host, paired, with_option};
pub(super) use self::without_cause::{change_of, gone, gone_by_block};

pub(super) use self::loss::{Lost, lost_to, slower};
pub(super) use self::other_load::{load_at, load_elsewhere, with_load_option};
pub(super) use self::stall::{Stall, stall};
pub(super) use self::traced::{Traced, WaitFrequency, held_ns};
use crate::compare::{as_ratio, by_block, difference_by_block, over_points};
use crate::statistics::interval::median_over;
use crate::valid_rounds;

/// Detects one cause in a run.
#[derive(Clone, Copy, Debug)]
pub struct Detector {
    /// Its code, what it reports, and why that matters.
    pub card: FindingCard,
    /// Returns few findings over many cases rather than one for each.
    pub(super) detect: fn(&Run) -> Vec<Finding>,
}

/// A finding to be filled in with `..`.
pub(super) fn blank(card: &FindingCard, severity: Severity) -> Finding {
    Finding {
        code: card.code.to_owned(),
        about: card.about,
        severity,
        facts: Some(BTreeMap::new()),
        ..Finding::default()
    }
}

pub(super) fn evidence(key: Key, value: impl Into<Figure>) -> Evidence {
    Evidence::new(key, value)
}

pub(super) fn evidence_of(case: &CaseSummary, key: Key, value: impl Into<Figure>) -> Evidence {
    Evidence { case: Some(case.id.clone()), ..Evidence::new(key, value) }
}

/// The p50 of an exchange of a case, if present.
pub(super) fn p50_of_exchange(case: &CaseSummary) -> Option<Evidence> {
    Some(evidence_of(case, keys::P50_OF_EXCHANGE, case.primary().latency_ns.p50?))
}

/// The pure ACKs per exchange of a case, if counted.
pub(super) fn pure_acks(case: &CaseSummary) -> Option<Evidence> {
    Some(evidence_of(case, keys::PURE_ACKS, case.primary().exchanges.as_ref()?.pure_acks_per_exchange?))
}

/// The measured rounds that make up a case's figures, in order of execution.
pub(super) fn rounds_of<'r>(run: &'r Run, id: &str) -> Vec<(&'r RoundRecord, &'r Measured)> {
    valid_rounds::timed(run.rounds.iter().filter(|round| round.case_id == id))
}

/// The median over the rounds of a case with such a value.
pub(super) fn median_of(run: &Run, case: &CaseSummary, of: impl Fn(&Measured) -> Option<f64>) -> Option<Figure> {
    let values = rounds_of(run, &case.id).into_iter().filter_map(|(_, measured)| of(measured));
    median_over(&values.collect::<Vec<_>>(), over_points(case, run.plan.alpha))
}

/// The median latency of a round, in ns.
pub(super) fn p50(measured: &Measured) -> Option<f64> {
    Some(measured.primary().figures.latency_ns.p50)
}

/// Cases in which a detector found its cause, each with the share that it explains, the largest first.
pub(super) struct Hits<'r, T>(pub(super) Vec<Hit<'r, T>>);

pub(super) struct Hit<'r, T> {
    pub(super) case: &'r CaseSummary,
    pub(super) share: f64,
    pub(super) with: T,
}

impl<'r, T> Hits<'r, T> {
    /// Checks every case of the run.
    pub(super) fn among(run: &'r Run, look: impl Fn(&'r CaseSummary) -> Option<(f64, T)>) -> Self {
        let hit = |case: &'r CaseSummary| look(case).map(|(share, with)| Hit { case, share, with });
        let mut hits: Vec<_> = run.cases.iter().filter_map(hit).collect();
        hits.sort_by(|a, b| b.share.total_cmp(&a.share));
        Self(hits)
    }

    /// The hit with the largest share.
    pub(super) fn first(&self) -> Option<&Hit<'r, T>> {
        self.0.first()
    }

    /// A finding on all hits with the share of the strongest, to be filled in with `..`.
    pub(super) fn finding(&self, card: &FindingCard, severity: Severity) -> Finding {
        let cases = self.0.iter().map(|hit| hit.case.id.clone()).collect();
        let shares = self.0.iter().map(|hit| hit.share).collect();
        Finding { cases, shares, share: self.first().map_or(0.0, |hit| hit.share), ..blank(card, severity) }
    }

    pub(super) fn cases(&self) -> Vec<&'r Case> {
        self.0.iter().map(|hit| &hit.case.case).collect()
    }
}

/// The change from case `from` to case `to` by the run's comparisons, whichever of the two is the baseline there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) ratio: Figure,
    /// to - from, in ns.
    pub(super) difference_ns: Figure,
    /// Whether `to` is faster.
    pub(super) verdict: Verdict,
}

impl Change {
    /// The share of `from` that `to` saves.
    pub(super) fn saved_share(&self) -> Figure {
        self.ratio.falling(|ratio| 1.0 - ratio)
    }

    /// The time saved, in ns.
    pub(super) fn saved_ns(&self) -> Figure {
        self.difference_ns.falling(|difference| -difference)
    }
}

/// Minimum factor of a clear difference without an interval, and minimum number of blocks for it.
const CLEAR: f64 = 2.0;
const MIN_BLOCKS: u64 = 3;

/// The change from one case to another if the run compares them and the result is clear, by interval or by factor.
pub(super) fn change(run: &Run, from: &CaseSummary, to: &CaseSummary) -> Option<Change> {
    run.comparisons.iter().find_map(|comparison| {
        let ratio = comparison.ratio;
        // Savings are reported as a time.
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

/// The time per 10^9 bytes in a round of a one-way load at full rate, in ns; `None` for other loads. The latency of
/// such a load is that of the queue that it fills.
pub(super) fn ns_per_gb(case: &CaseSummary, point: &RoundPoint) -> Option<f64> {
    let load = &case.case.primary().load;
    let goodput = point.goodput_bytes_per_s.filter(|goodput| *goodput > 0.0)?;
    (load.is_one_way() && load.rate_per_s().is_none()).then(|| 1e18 / goodput)
}

/// The change from one such case to another, in the time per 10^9 bytes.
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

/// The verdict of a comparison with an interval; else by the factor, and `None` if that is unclear.
fn verdict(comparison: &Comparison) -> Option<Verdict> {
    let ratio = comparison.ratio;
    if ratio.low.is_some() || comparison.verdict != Verdict::CannotTell {
        return Some(comparison.verdict);
    }
    match ratio.value {
        _ if comparison.blocks < MIN_BLOCKS => None,
        small if small <= 1.0 / CLEAR => Some(Verdict::Faster),
        large if large >= CLEAR => Some(Verdict::Slower),
        _ => None,
    }
}

/// Minimum possible saving of a counter-experiment; a smaller one refutes the explanation.
const REFUTED_BELOW: f64 = 0.1;

/// The verdict on a counter-experiment of that kind, which should be faster if the cause is right.
pub(super) fn proved(kind: &str, change: &Change) -> Proved {
    let small = change.saved_share().high.is_some_and(|most| most < REFUTED_BELOW);
    let verdict = match change.verdict {
        _ if small => REFUTED,
        Verdict::Faster => CONFIRMED,
        Verdict::Slower => REFUTED,
        Verdict::CannotTell | Verdict::Unlike => CANNOT_TELL,
    };
    checked(kind, verdict, change.difference_ns)
}

/// The outcome of a counter-experiment of that kind, in ns.
pub(super) fn checked(kind: &str, verdict: &str, effect: Figure) -> Proved {
    Proved { kind: kind.to_owned(), verdict: verdict.to_owned(), effect, unit: "ns".to_owned(), ..Proved::default() }
}

/// The check, with the case on which it was made if the finding is about another.
pub(super) fn checked_on(tried: &CaseSummary, first: &CaseSummary, proved: Proved) -> Proved {
    Proved { case: (tried.id != first.id).then(|| tried.id.clone()), ..proved }
}

pub(super) const CONFIRMED: &str = "confirmed";
pub(super) const REFUTED: &str = "refuted";
pub(super) const CANNOT_TELL: &str = "cannot-tell";
