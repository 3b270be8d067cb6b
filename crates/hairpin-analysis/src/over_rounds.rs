//! Figures of a case over its rounds.

use hairpin_model::figure::NoInterval;
use hairpin_model::{Figure, FlowId, LatencyFigures, Measured, Percentiles, RoundFigures};

use crate::lateness::Judged;
use crate::states::States;
use crate::statistics::interval::{Over, median_over, span_s};

/// Minimum samples of a case for a p99: ten samples above it.
pub(crate) const SAMPLES_FOR_P99: u64 = 1_000;
pub(crate) const SAMPLES_FOR_P999: u64 = 10_000;

/// The measured rounds of a case in one machine state, in time order.
pub(crate) struct OverRounds<'r> {
    /// The index of the state in `Machine::states`.
    pub(crate) state: usize,
    pub(crate) share: f64,
    pub(crate) measured: Vec<&'r Measured>,
    /// The rounds whose slowest messages count too; empty if they are less than half.
    with_tail: Vec<&'r Measured>,
    over: Over,
}

/// Minimum rounds in a faster state to report it although another state has more rounds.
const MIN_ROUNDS_IN_STATE: usize = 8;

/// Returns the index of the reported state: the fastest state with enough rounds, or else the state with the most.
pub(crate) fn reported(by_state: &[OverRounds<'_>]) -> usize {
    let rounds = |place: usize| by_state[place].measured.len();
    let enough = (0..by_state.len()).find(|place| rounds(*place) >= MIN_ROUNDS_IN_STATE);
    enough.or_else(|| (0..by_state.len()).rev().max_by_key(|place| rounds(*place))).unwrap_or(0)
}

impl<'r> OverRounds<'r> {
    pub(crate) fn none() -> Self {
        Self { state: 0, share: 0.0, measured: Vec::new(), with_tail: Vec::new(), over: Over::seconds(0.0) }
    }

    /// Groups the rounds by state, fastest first, without empty states.
    pub(crate) fn by_state(kept: &[Judged<'r>], states: &States, alpha: f64) -> Vec<Self> {
        let span_s = span_s(kept.iter().map(|judged| judged.round.started_ns));
        let of_state = |state: usize| {
            let within = || kept.iter().filter(|judged| states.of_round(judged.round.number) == state);
            let measured: Vec<&Measured> = within().map(|judged| judged.measured).collect();
            let with_tail = within().filter(|judged| judged.why_tail.is_none()).map(|judged| judged.measured);
            let with_tail: Vec<&Measured> = with_tail.collect();
            let with_tail = if 2 * with_tail.len() < measured.len() { Vec::new() } else { with_tail };
            let share = measured.len() as f64 / kept.len() as f64;
            (!measured.is_empty()).then_some(Self {
                state,
                share,
                measured,
                with_tail,
                over: Over { alpha, ..Over::seconds(span_s * share) },
            })
        };
        (0..states.count().max(1)).filter_map(of_state).collect()
    }

    /// 1 - confidence of each interval.
    pub(crate) fn alpha(&self) -> f64 {
        self.over.alpha
    }

    pub(crate) fn median(&self, of: impl Fn(&Measured) -> Option<f64>) -> Option<Figure> {
        self.median_of(&self.measured, of)
    }

    fn median_of(&self, rounds: &[&Measured], of: impl Fn(&Measured) -> Option<f64>) -> Option<Figure> {
        let values: Vec<f64> = rounds.iter().filter_map(|measured| of(measured)).collect();
        let figure = median_over(&values, self.over)?;
        let why = figure.why.map(|why| match why {
            NoInterval::TooFewRounds if self.share < 1.0 => NoInterval::TooFewInState,
            why => why,
        });
        Some(Figure { why, ..figure })
    }

    pub(crate) fn latencies(
        &self,
        flow: &FlowId,
        of: fn(&RoundFigures) -> Option<Percentiles>,
    ) -> Option<LatencyFigures> {
        self.distribution(|measured| {
            let figures = &measured.flow(flow)?.figures;
            Some((figures.stamped.unwrap_or(figures.samples), of(figures)?))
        })
    }

    /// Computes figures from each round's number of samples and percentiles; `None` if no round has any.
    pub(crate) fn distribution(
        &self,
        of: impl Fn(&Measured) -> Option<(u64, Percentiles)>,
    ) -> Option<LatencyFigures> {
        // The percentiles of a round without answers are meaningless.
        let of = |measured: &Measured| of(measured).filter(|(samples, _)| *samples > 0);
        let median = |part: fn(Percentiles) -> f64| self.median(|measured| of(measured).map(|(_, all)| part(all)));
        let of_tail = |part: fn(Percentiles) -> f64| {
            self.median_of(&self.with_tail, |measured| of(measured).map(|(_, all)| part(all)))
        };
        let rounds: Vec<(u64, Percentiles)> = self.measured.iter().filter_map(|measured| of(measured)).collect();
        let samples: u64 = rounds.iter().map(|(samples, _)| samples).sum();
        let greatest: Vec<f64> = rounds.iter().map(|(_, all)| all.max).collect();
        let max = greatest.iter().copied().reduce(f64::max)?;
        let least = greatest.iter().copied().fold(max, f64::min);
        let p50 = median(|all| all.p50);
        let p90 = at_least(p50, of_tail(|all| all.p90));
        let p99 = at_least(p90, of_tail(|all| all.p99));
        let p999 = at_least(p99, of_tail(|all| all.p999));
        Some(LatencyFigures {
            p50,
            p90,
            p99: p99.filter(|_| samples >= SAMPLES_FOR_P99),
            p999: p999.filter(|_| samples >= SAMPLES_FOR_P999),
            max: Some(if greatest.len() > 1 { Figure::new(max, least, max) } else { Figure::bare(max) }),
            mean: median(|all| all.mean),
        })
    }
}
/// A percentile that is not below a lower one. Rounds whose tail is omitted count for the lower one alone, so the median of the others
/// may be below it.
fn at_least(lower: Option<Figure>, figure: Option<Figure>) -> Option<Figure> {
    let floor = lower.map_or(f64::NEG_INFINITY, |lower| lower.value);
    figure.map(|figure| Figure {
        value: figure.value.max(floor),
        high: figure.high.map(|high| high.max(floor)),
        ..figure
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_not_below_a_lower_one() {
        let p50 = Some(Figure::new(60.0, 54.0, 68.0));
        let values = |figure: Option<Figure>| figure.map(|one| (one.value, one.low, one.high));
        assert_eq!(values(at_least(p50, Some(Figure::new(59.0, 53.0, 59.5)))), Some((60.0, Some(53.0), Some(60.0))));
        assert_eq!(values(at_least(p50, Some(Figure::new(72.0, 60.0, 87.0)))), Some((72.0, Some(60.0), Some(87.0))));
        assert_eq!(
            (values(at_least(p50, None)), values(at_least(None, Some(Figure::bare(5.0))))),
            (None, Some((5.0, None, None)))
        );
    }
}
