//! Computes the trace summary that a run stores for each case, and the cost of tracing.

use hairpin_model::round::Purpose;
use hairpin_model::{Capture, Figure, Measured, RoundRecord, StateUnion, TraceFigures, TraceSummary};

use super::exchange_states::times_in_states;
use crate::compare::{as_ratio, by_block, difference_by_block};
use crate::statistics::interval::{Over, span_s};
use crate::valid_rounds;

pub(crate) fn summary(rounds: &[&RoundRecord]) -> Option<TraceSummary> {
    let is_saved = |figures: &TraceFigures| matches!(figures.capture, Capture::Saved { .. });
    // The last round with saved packets, or else the last traced round.
    let traced =
        rounds.iter().filter_map(|round| Some((round.number, of_purpose(round, Purpose::Traced)?.traced.as_ref()?)));
    let (_, figures) = traced.clone().max_by_key(|(number, figures)| (is_saved(figures), *number))?;
    let count = |figures: &TraceFigures| figures.exchanges.len() as u64;
    let exchanges = traced.clone().map(|(_, figures)| count(figures)).sum();
    let times = traced.flat_map(|(_, figures)| {
        figures.states.iter().map(move |time| (time.state, time.who, time.ns * count(figures) as f64))
    });
    let states = times_in_states(times, exchanges);
    let cost = cost(rounds);
    Some(TraceSummary {
        sequence: figures.sequence.clone(),
        capture: figures.capture.clone(),
        cost_ns: cost.map(|(difference_ns, _)| difference_ns),
        cost_ratio: cost.map(|(_, ratio)| ratio),
        exchanges,
        unions: StateUnion::among(&states),
        states,
    })
}

fn of_purpose(round: &RoundRecord, purpose: Purpose) -> Option<&Measured> {
    valid_rounds::evidence_round(round, purpose).filter(|measured| measured.primary().figures.samples > 0)
}

/// Computes the cost of tracing per exchange, in ns and as a ratio, from the means of a traced round and of the
/// untraced round in its block. `None` if either is missing. Both rounds run the same exchanges. The mean counts all
/// of them; the median would hide that some took twice as long.
fn cost(rounds: &[&RoundRecord]) -> Option<(Figure, Figure)> {
    let evidence = rounds.iter().filter(|round| round.order.purpose != Purpose::Timed);
    let over = Over::evidence(span_s(evidence.map(|round| round.started_ns)));
    let difference = |value: fn(f64) -> f64| {
        let [untraced, traced] = [Purpose::Untraced, Purpose::Traced].map(|purpose| {
            let mean_ns = |round: &RoundRecord| Some(of_purpose(round, purpose)?.primary().figures.latency_ns.mean);
            let of = |round: &&RoundRecord| Some((round.order.block, value(mean_ns(round)?.max(1.0))));
            by_block(rounds.iter().filter_map(of))
        });
        Some(difference_by_block(&untraced, &traced, over)?.0.figure(over.alpha))
    };
    Some((difference(|ns| ns)?, as_ratio(difference(f64::ln)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, back_to_back, small_writes};

    /// The summary after `blocks` blocks, each with an untraced and a traced round with these latencies.
    fn traced(blocks: u32, latencies: impl Fn(u64) -> [Vec<u64>; 2]) -> TraceSummary {
        let case = small_writes("default");
        let mut fixture = Fixture::of(&[(&case, &[500_000; 3])]);
        for block in 0..blocks {
            let [untraced, traced] = latencies(block.into()).map(|latencies| back_to_back(&[], &latencies));
            fixture.purpose = Purpose::Untraced;
            fixture.round(&case, block, &untraced);
            fixture.purpose = Purpose::Traced;
            fixture.round_with(&case, block, &traced, |measured| measured.traced = Some(TraceFigures::default()));
        }
        fixture.run().cases.remove(0).trace.unwrap()
    }

    #[test]
    fn the_cost_of_tracing_is_traced_minus_untraced_rounds() {
        let trace = traced(8, |block| [vec![1_000 + block; 20], vec![1_500 + block; 20]]);
        let (ratio, cost) = (trace.cost_ratio.unwrap(), trace.cost_ns.unwrap());
        assert!((ratio.value - 1503.5 / 1003.5).abs() < 0.001 && ratio.excludes(1.0), "{ratio:?}");
        assert!((cost.value - 500.0).abs() < 1.0 && cost.excludes(0.0), "{cost:?}");
        assert_eq!(trace.capture, Capture::default());
    }

    #[test]
    fn two_slow_exchanges_of_four_raise_the_cost() {
        let slow = [40_000_000, 40_000_000, 80_000_000, 80_000_000];
        let trace = traced(3, |block| [vec![40_000_000 + block * 40_000; 4], slow.to_vec()]);
        let (ratio, cost) = (trace.cost_ratio.unwrap(), trace.cost_ns.unwrap());
        assert!((ratio.value - 60.0 / 40.04).abs() < 0.001 && ratio.excludes(1.0), "{ratio:?}");
        assert!((cost.value - 19_960_000.0).abs() < 20_000.0 && cost.excludes(0.0), "{cost:?}");
    }

    #[test]
    fn the_last_saved_capture_is_reported() {
        let saved = |file: &str| Capture::Saved { file: file.to_owned(), packets: 9, dropped: 0 };
        let skipped = || Capture::Skipped { reason: "no space left".to_owned() };
        let of = |captures: &[Capture]| {
            let case = small_writes("default");
            let mut fixture = Fixture::new();
            fixture.purpose = Purpose::Traced;
            for (block, capture) in (0..).zip(captures) {
                fixture.round_with(&case, block, &back_to_back(&[], &[1_000; 5]), |measured| {
                    measured.traced = Some(TraceFigures { capture: capture.clone(), ..TraceFigures::default() });
                });
            }
            fixture.run().cases[0].trace.as_ref().unwrap().capture.clone()
        };
        assert_eq!(of(&[saved("a"), saved("b"), skipped()]), saved("b"));
        assert_eq!(of(&[skipped(), skipped()]), skipped());
    }

    #[test]
    fn without_untraced_rounds_the_cost_is_unknown_and_without_traces_there_is_no_summary() {
        let (traced, plain) = (small_writes("default"), small_writes("cork"));
        let mut fixture = Fixture::new();
        fixture.rounds_of(&plain, &[1_000]);
        fixture.purpose = Purpose::Traced;
        fixture.rounds_with(&traced, &[1_000], |measured| measured.traced = Some(TraceFigures::default()));
        fixture.round(&plain, 1, &back_to_back(&[], &[1_000; 5]));
        let run = fixture.run();
        assert_eq!(run.case(&traced.id()).unwrap().trace.as_ref().unwrap().cost_ns, None);
        assert_eq!(run.case(&plain.id()).unwrap().trace, None);
    }
}
