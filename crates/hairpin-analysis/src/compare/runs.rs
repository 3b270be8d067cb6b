//! Compares runs case by case, unpaired: rounds of different runs are not close in time.

use std::collections::BTreeMap;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::summary::Verdict;
use hairpin_model::{CaseSummary, Figure, Measured, Placement, RoundPoint, Run, Unlike, ladder};

use super::keys::{Key, Keys};
use super::{as_ratio, difference_by_block, logarithms_by_block, over_points, resolution_share, widened};
use crate::states::MIN_STATE_RATIO;
use crate::statistics::interval::{ALPHA, Estimate, MIN_ROUNDS, Over, holm, span_s};
use crate::statistics::location::mean;
use crate::valid_rounds;

/// Minimum runs per side for Welch's interval, whose sample is the runs.
const RUNS_FOR_WELCH: usize = 3;

/// The comparison of two sides, each with one or more runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunComparison {
    /// The one choice that matching ignored, in which all cases of one side differ from all cases of the other side;
    /// `None` if the sides have equal cases.
    pub differs: Option<Unlike>,
    /// Cases that all runs have, in the order of the baseline.
    pub cases: Vec<CaseComparison>,
    pub only_in_baseline: Vec<String>,
    /// Labels of cases missing from the baselines.
    pub only_in_candidate: Vec<String>,
    /// The significance level of all verdicts together.
    pub alpha: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CaseComparison {
    /// The id of the case in the baseline.
    pub id: String,
    /// The label of the case, without words that differ between the sides.
    pub label: String,
    /// Why the baseline's figures must not be used; empty if they are valid.
    pub baseline_why_invalid: Vec<String>,
    pub candidate_why_invalid: Vec<String>,
    /// Whether all runs have rounds of the case in the same machine state.
    pub is_alike: bool,
    /// The figures of the case, in the order of [`ComparedBy::ALL`].
    pub figures: Vec<FigureComparison>,
}

impl CaseComparison {
    /// Whether the figures of both sides may be used. Otherwise the case gets no verdict.
    pub fn is_valid(&self) -> bool {
        self.baseline_why_invalid.is_empty() && self.candidate_why_invalid.is_empty()
    }
}

/// One figure of one case on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureComparison {
    pub figure: ComparedBy,
    /// Whether this figure of the case gets its own verdict ([`ladder::compared_by`]). The mean, and the rate of a
    /// closed loop, only repeat the median; a p99.9 depends on few messages per round.
    pub has_verdict: bool,
    /// With one run, the median over its rounds; with several, the geometric mean of these; `None` with too few
    /// samples.
    pub baseline: Option<Figure>,
    pub candidate: Option<Figure>,
    pub(super) candidate_logarithm: Option<Estimate>,
    /// The logarithm of candidate / baseline; `None` if either figure is missing.
    pub change: Option<Change>,
    /// Faster or slower, corrected over all cases and figures with a verdict (Holm). `CannotTell` if the change is
    /// not significant or the case is invalid on a side; `Unlike` if the runs were in different machine states.
    pub verdict: Verdict,
    /// The smallest change detectable with a power of 90 %, as a share; `None` without an interval.
    pub smallest_detectable: Option<f64>,
}

impl FigureComparison {
    /// Returns candidate / baseline with the interval that decides the verdict; `None` if either side lacks the figure.
    pub fn ratio(&self) -> Option<Figure> {
        self.change.as_ref().map(Change::ratio)
    }

    /// Returns the candidate's figure as a change from 1 (ns or per second).
    pub(super) fn candidate_alone(&self) -> Option<Change> {
        let logarithm = self.candidate_logarithm.clone()?;
        Some(Change { step: resolution_share(self.figure, logarithm.value.exp()), logarithm, alpha: ALPHA })
    }
}

/// A change between two sides, with its uncertainty.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The logarithm of candidate / baseline.
    pub logarithm: Estimate,
    /// The smallest change that can be resolved: the resolution of the figures plus the change of the machine.
    pub step: f64,
    /// The significance level of the verdict.
    pub alpha: f64,
}

impl Change {
    /// Returns the bounds of the logarithm ([`Estimate::bounds`]), widened by the step; `None` with too few rounds.
    pub(super) fn bounds(&self) -> Option<(f64, f64)> {
        self.logarithm.bounds(self.alpha).map(|(low, high)| (low - self.step, high + self.step))
    }

    /// Returns candidate / baseline with its interval at confidence 1 - `alpha`.
    pub fn ratio(&self) -> Figure {
        as_ratio(widened(self.logarithm.figure(self.alpha), self.step))
    }
}

/// Compares the cases that all runs have in common. If the runs have no rounds, compares only p50, p90, p99 and the
/// rate, from the round points of the summaries.
///
/// With one or two runs on a side, the interval is computed from rounds. Variation between runs cannot be observed
/// then, so a minimum is assumed ([`crate::statistics::interval`]). With at least three runs on each side, the
/// interval is Welch's over the runs.
pub fn compare_runs(baselines: &[&Run], candidates: &[&Run]) -> RunComparison {
    compare(baselines, candidates, None)
}

/// Compares two runs whose rounds were interleaved in shared blocks. Rounds of one block are paired, so changes of the
/// machine cancel out. `alpha` is the significance level.
pub fn compare_interleaved(baseline: &Run, candidate: &Run, alpha: f64) -> RunComparison {
    compare(&[baseline], &[candidate], Some(alpha))
}

/// With `shared`, the two runs share blocks, and this is the significance level.
fn compare(baselines: &[&Run], candidates: &[&Run], shared: Option<f64>) -> RunComparison {
    let alpha = shared.unwrap_or(ALPHA);
    let (Some(baseline), Some(candidate)) = (baselines.first(), candidates.first()) else {
        return RunComparison { alpha, ..RunComparison::default() };
    };
    let keys = Keys::of(baselines, candidates);
    let sides = [baselines, candidates].map(|runs| runs.iter().map(|run| by_case(run, &keys)).collect::<Vec<_>>());
    let in_all = |side: &[BTreeMap<Key, Side<'_>>], key: &Key| side.iter().all(|cases| cases.contains_key(key));
    let only = |of: &Run, other: &[BTreeMap<Key, Side<'_>>]| {
        let alone = of.cases.iter().filter(|case| !in_all(other, &keys.key(case)));
        alone.map(|case| case.label.clone()).collect()
    };
    let both = baseline.cases.iter().map(|case| (case, keys.key(case)));
    let both = both.filter(|(_, key)| sides.iter().all(|side| in_all(side, key)));
    let mut cases: Vec<CaseComparison> = both
        .map(|(case, key)| {
            let [one, other] = sides.each_ref().map(|side| side.iter().map(|cases| &cases[&key]).collect::<Vec<_>>());
            CaseComparison { label: keys.label(case, other[0].summary), ..compare_case(&one, &other, shared) }
        })
        .collect();
    set_corrected_verdicts(&mut cases, alpha);
    RunComparison {
        alpha,
        cases,
        only_in_baseline: only(baseline, &sides[1]),
        only_in_candidate: only(candidate, &sides[0]),
        differs: keys.ignored_difference().cloned(),
    }
}

/// Sets the corrected verdicts of all cases and figures, which form one family.
fn set_corrected_verdicts(cases: &mut [CaseComparison], alpha: f64) {
    let usable = cases.iter_mut().filter(|case| case.is_valid() && case.is_alike);
    let figures = usable.flat_map(|case| &mut case.figures).filter(|figure| figure.has_verdict);
    let family: Vec<(ComparedBy, &mut Change, &mut Verdict, &mut Option<f64>)> = figures
        .filter_map(|one| Some((one.figure, one.change.as_mut()?, &mut one.verdict, &mut one.smallest_detectable)))
        .collect();
    let p_values: Vec<f64> = family.iter().map(|(_, change, ..)| change.logarithm.p_value(change.step)).collect();
    let each = alpha / family.len().max(1) as f64;
    let judged = family.into_iter().zip(holm(&p_values, alpha)).zip(&p_values);
    for (((figure, change, verdict, smallest), level), p_value) in judged {
        change.alpha = level;
        *verdict = super::verdict(figure, change.logarithm.value, *p_value <= level);
        // At the strictest level of the correction.
        *smallest = change.logarithm.smallest_detectable(each).map(|least| (least + change.step).exp_m1());
    }
}

/// Returns the cases of one run by the key that matches them to the cases of other runs.
fn by_case<'r>(run: &'r Run, keys: &Keys) -> BTreeMap<Key, Side<'r>> {
    let rounds = valid_rounds::by_case(&run.rounds);
    let side = |summary: &'r CaseSummary| {
        let rounds = rounds.get(summary.id.as_str()).map_or(&[][..], Vec::as_slice);
        let measured = valid_rounds::timed_rounds(rounds.iter().copied()).into_iter();
        Side { run, summary, measured: measured.map(|(round, measured)| (round.number, measured)).collect() }
    };
    run.cases.iter().map(|summary| (keys.key(summary), side(summary))).collect()
}

struct Side<'r> {
    run: &'r Run,
    summary: &'r CaseSummary,
    measured: BTreeMap<u32, &'r Measured>,
}

impl Side<'_> {
    fn why_invalid(&self) -> Vec<String> {
        match (self.summary.valid, self.summary.why_invalid.as_slice()) {
            (true, _) => Vec::new(),
            (false, []) => vec!["no reason was recorded".to_owned()],
            (false, reasons) => reasons.to_vec(),
        }
    }

    /// Returns the states with enough rounds for an interval; the reported state comes first, even with fewer rounds.
    fn states(&self) -> Vec<usize> {
        let reported = self.summary.state.map_or(0, |state| state.index);
        let rounds = |state: usize| self.summary.round_points.iter().filter(|point| point.state == state).count();
        let others = self.summary.other_states.iter().map(|other| other.index);
        std::iter::once(reported).chain(others.filter(|state| rounds(*state) >= MIN_ROUNDS)).collect()
    }

    /// Returns the probe time in a state, in ns; `None` for runs without a probe.
    fn probe_ns(&self, state: usize) -> Option<f64> {
        self.run.machine.states.get(state).map(|state| state.probe_ns)
    }

    /// Returns the time to wake the other CPU, in ns, if messages of the case wake it; `None` if not measured.
    fn waking_ns(&self) -> Option<f64> {
        let case = &self.summary.case;
        let is_woken = case.ends.placement != Placement::SameCpu && !case.ends.waiting.spins();
        self.run.machine.waking_ns.filter(|_| is_woken)
    }

    /// Returns the first state with about the same probe time; any state matches if either run has no probe.
    fn state_like(&self, probe_ns: Option<f64>) -> Option<usize> {
        let is_like = |own: Option<f64>| match (own, probe_ns) {
            (Some(own), Some(other)) => (own / other).ln().abs() < MIN_STATE_RATIO.ln(),
            _ => true,
        };
        self.states().into_iter().find(|state| is_like(self.probe_ns(*state)))
    }

    /// Estimates the logarithm of the figure over the rounds of a state.
    fn estimate(&self, which: ComparedBy, state: usize) -> Option<Estimate> {
        self.summary.compared(which)?;
        let points = &self.summary.round_points;
        let span = span_s(points.iter().map(|point| point.started_ns));
        let within: Vec<_> = points.iter().filter(|point| point.state == state).collect();
        let values: Vec<f64> = within.iter().filter_map(|point| self.round_value(which, point)).collect();
        Estimate::of_logarithms(&values, Over::seconds(span * within.len() as f64 / points.len() as f64))
    }

    /// Returns the figure of one round, if above 0: from its record, or else from its point in the summary.
    fn round_value(&self, which: ComparedBy, point: &RoundPoint) -> Option<f64> {
        let figures = self.measured.get(&point.number).map(|measured| &measured.primary().figures);
        let recorded = figures.and_then(|figures| match which {
            ComparedBy::Rate => Some(figures.rate_per_s),
            latency => figures.latency_ns.of(latency),
        });
        // A round without answers has percentiles of 0.
        recorded.filter(|value| *value > 0.0).or_else(|| point.compared(which))
    }
}

fn compare_case(baselines: &[&Side<'_>], candidates: &[&Side<'_>], shared: Option<f64>) -> CaseComparison {
    let alpha = shared.unwrap_or(ALPHA);
    let all = || baselines.iter().chain(candidates);
    let first = baselines[0];
    let states_like = |state: usize| {
        let probe_ns = first.probe_ns(state);
        all().map(|side| side.state_like(probe_ns)).collect::<Option<Vec<usize>>>()
    };
    let alike = first.states().into_iter().find_map(states_like);
    let is_alike = alike.is_some() || shared.is_some();
    let states = alike.unwrap_or_else(|| all().map(|side| side.states()[0]).collect());
    let (of_baselines, of_candidates) = states.split_at(baselines.len());
    let machine =
        if is_alike { machine_change([(baselines, of_baselines), (candidates, of_candidates)]) } else { 0.0 };
    let why = |sides: &[&Side<'_>]| sides.iter().flat_map(|side| side.why_invalid()).collect::<Vec<_>>();
    let (baseline_why_invalid, candidate_why_invalid) = (why(baselines), why(candidates));
    let judged_by = ladder::compared_by(&all().map(|side| side.summary).collect::<Vec<_>>());
    let compared = |figure: &ComparedBy| {
        let estimates = |sides: &[&Side<'_>], states: &[usize]| -> Option<Vec<Estimate>> {
            sides.iter().zip(states).map(|(side, state)| side.estimate(*figure, *state)).collect()
        };
        let (one, other) = (estimates(baselines, of_baselines), estimates(candidates, of_candidates));
        let change = match shared {
            None => one.as_ref().zip(other.as_ref()).and_then(|(one, other)| change(*figure, one, other, machine)),
            Some(alpha) => change_by_block(*figure, [first, candidates[0]], alpha),
        };
        let has_verdict = judged_by.contains(figure);
        let unlike = if is_alike { Verdict::CannotTell } else { Verdict::Unlike };
        let [baseline, candidate] = [one, other].map(|estimates| estimates.as_deref().and_then(Estimate::mean));
        let shown = |mean: &Estimate| as_ratio(mean.figure(alpha));
        FigureComparison {
            figure: *figure,
            has_verdict,
            baseline: baseline.as_ref().map(shown),
            candidate: candidate.as_ref().map(shown),
            candidate_logarithm: candidate,
            change,
            verdict: unlike,
            smallest_detectable: None,
        }
    };
    CaseComparison {
        id: first.summary.id.clone(),
        label: first.summary.label.clone(),
        is_alike,
        figures: ComparedBy::ALL.iter().map(compared).collect(),
        baseline_why_invalid,
        candidate_why_invalid,
    }
}

/// Returns the change of the machine between the sides, as a logarithm: the change of the probe time or, if messages
/// wake another CPU, the change of the wake-up time, whichever is larger. An unknown change counts as 0.
fn machine_change(sides: [(&[&Side<'_>], &[usize]); 2]) -> f64 {
    let change = |of: &dyn Fn(&Side<'_>, usize) -> Option<f64>| {
        let [one, other] = sides.map(|(runs, states)| {
            let each = runs.iter().zip(states).map(|(side, state)| of(side, *state).map(f64::ln));
            mean(&each.collect::<Option<Vec<f64>>>()?)
        });
        one.zip(other).map_or(0.0, |(one, other)| (other - one).abs())
    };
    change(&|side, state| side.probe_ns(state)).max(change(&|side, _| side.waking_ns()))
}

/// Returns the change between the runs of two sides; `machine` is the change of the machine.
fn change(figure: ComparedBy, baselines: &[Estimate], candidates: &[Estimate], machine: f64) -> Option<Change> {
    let (one, other) = (Estimate::mean(baselines)?, Estimate::mean(candidates)?);
    let step = resolution_share(figure, one.value.min(other.value).exp());
    let values = |runs: &[Estimate]| runs.iter().map(|run| run.value).collect::<Vec<_>>();
    let logarithm = if baselines.len().min(candidates.len()) < RUNS_FOR_WELCH {
        other.minus(&one)
    } else {
        Estimate::welch(&values(baselines), &values(candidates))?
    };
    Some(Change { logarithm, step: step + machine, alpha: ALPHA })
}

/// Returns the change between two runs with the same blocks, paired by block.
fn change_by_block(figure: ComparedBy, sides: [&Side<'_>; 2], alpha: f64) -> Option<Change> {
    let [one, other] = sides.map(|side| {
        let points = side.summary.round_points.iter();
        logarithms_by_block(points.filter_map(|point| Some((point.block, side.round_value(figure, point)?))))
    });
    let least = sides[0].summary.compared(figure)?.value.min(sides[1].summary.compared(figure)?.value);
    let (logarithm, _) = difference_by_block(&one, &other, over_points(sides[0].summary, alpha))?;
    Some(Change { logarithm, step: resolution_share(figure, least), alpha })
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, MachineState};

    use super::*;
    use crate::fixture::Fixture;

    fn run(latencies: &[u64], transports: &[&str]) -> Run {
        let mut fixture = Fixture::new();
        for transport in transports {
            fixture.rounds_of(&Case::ping_pong(transport), latencies);
        }
        fixture.run()
    }

    #[test]
    fn a_slower_run_is_called_slower_and_its_rate_too() {
        let latencies: Vec<u64> = (0..10).map(|k| 10_000 + 50 * (k * 7 % 10)).collect();
        let slower: Vec<u64> = latencies.iter().map(|latency| latency * 6 / 5).collect();
        let compared = compare_runs(&[&run(&latencies, &["tcp", "udp"])], &[&run(&slower, &["tcp", "pipe"])]);
        assert_eq!(compared.only_in_baseline, ["udp block same-cpu"]);
        assert_eq!(compared.only_in_candidate, ["pipe block same-cpu"]);
        assert_eq!(compared.cases.len(), 1);
        let figures = &compared.cases[0].figures;
        let verdicts: Vec<_> = figures.iter().map(|figure| (figure.figure.word(), figure.verdict)).collect();
        let (slower, dash) = (Verdict::Slower, Verdict::CannotTell);
        // 10 rounds of 100 messages are 1 000 samples: enough for a p99, not for a p99.9.
        let expected = [
            ("p50", slower),
            ("p90", slower),
            ("p99", slower),
            ("p999", dash),
            ("mean", dash),
            ("rate", dash),
            ("goodput", dash),
        ];
        assert_eq!(verdicts, expected, "the mean and the rate repeat the median");
        assert!(figures[4].ratio().unwrap().excludes(1.0) && figures[5].ratio().unwrap().excludes(1.0));
        assert!((figures[0].ratio().unwrap().value - 1.2).abs() < 0.003);
        assert_eq!(figures[3].ratio(), None);
    }

    #[test]
    fn the_change_is_the_difference_of_the_shown_figures() {
        // Two modes, as on a machine that is busy at times: other estimators of the shift would differ.
        let fast = |k: u64| 1_000_000 + 1_000 * k;
        let slow = |k: u64| 2_500_000 + 1_000 * k;
        let one: Vec<u64> = (0..6).map(fast).chain((0..4).map(slow)).collect();
        let other: Vec<u64> = (0..4).map(fast).chain((0..6).map(slow)).collect();
        for figure in &compare_runs(&[&run(&one, &["tcp"])], &[&run(&other, &["tcp"])]).cases[0].figures {
            let Some(ratio) = figure.ratio() else { continue };
            let shown = figure.candidate.unwrap().value / figure.baseline.unwrap().value;
            assert!((ratio.value / shown - 1.0).abs() < 1e-9, "{figure:?}");
            assert_eq!(figure.verdict, Verdict::CannotTell, "{figure:?}");
        }
    }

    #[test]
    fn figures_that_must_not_be_used_have_no_verdict_and_their_side_is_named() {
        let fine = run(&[10_000; 6], &["tcp"]);
        let mut spoiled = run(&[20_000; 6], &["tcp"]);
        spoiled.cases[0].valid = false;
        let compared = |one: &Run, other: &Run| compare_runs(&[one], &[other]).cases.remove(0);
        let case = compared(&spoiled, &fine);
        assert_eq!((case.is_valid(), case.candidate_why_invalid.len()), (false, 0));
        assert_eq!(case.baseline_why_invalid, ["no reason was recorded"]);
        assert!(case.figures[0].ratio().is_some(), "the measured ratio is still shown");
        assert!(case.figures.iter().all(|figure| figure.verdict == Verdict::CannotTell), "{case:?}");
        spoiled.cases[0].why_invalid = vec!["the emulator was late".to_owned()];
        assert_eq!(compared(&fine, &spoiled).candidate_why_invalid, ["the emulator was late"]);
        assert!(compared(&fine, &fine).is_valid());
    }

    #[test]
    fn a_change_of_the_machine_is_not_a_difference() {
        let latencies: Vec<u64> = (0..10).map(|k| 10_000 + 10 * (k * 7 % 10)).collect();
        let slower: Vec<u64> = latencies.iter().map(|latency| latency * 104 / 100).collect();
        let at_level = |latencies: &[u64], probe_ns: f64| {
            let mut run = run(latencies, &["tcp"]);
            run.machine.states = vec![MachineState { probe_ns, share: 1.0, rounds: 10 }];
            run
        };
        let p50 = |one: f64, other: f64| {
            let compared = compare_runs(&[&at_level(&latencies, one)], &[&at_level(&slower, other)]);
            compared.cases[0].figures[0].verdict
        };
        assert_eq!(p50(80_000.0, 80_000.0), Verdict::Slower);
        assert_eq!(p50(80_000.0, 84_000.0), Verdict::CannotTell, "5 % slower by the probe");
        assert_eq!(p50(84_000.0, 80_000.0), Verdict::CannotTell, "the direction of the machine's change is ignored");
        assert_eq!(p50(80_000.0, 86_000.0), Verdict::Unlike);
    }

    #[test]
    fn without_rounds_the_points_of_the_summaries_are_used() {
        let mut one = run(&[10_000, 10_100, 10_200, 10_300, 10_400, 10_500], &["tcp"]);
        one.rounds.clear();
        let compared = compare_runs(&[&one], &[&one.clone()]);
        let told: Vec<bool> = compared.cases[0].figures.iter().map(|figure| figure.ratio().is_some()).collect();
        assert_eq!(told, [true, true, false, false, false, true, false], "600 samples have no p99");
        assert_eq!(compared.cases[0].figures[0].verdict, Verdict::CannotTell);
    }
}
