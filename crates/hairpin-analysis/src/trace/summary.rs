//! What a run keeps of a case's traces, and what tracing costs.

use hairpin_model::figure::Figure;
use hairpin_model::round::{Measured, Purpose, RoundRecord};
use hairpin_model::time_sequence::{TraceFigures, TraceSummary};
use hairpin_model::trace::Capture;

use crate::compare::{as_ratio, difference_by_block, logarithms_by_block};
use crate::statistics::location::median;

/// The summary of a case's traced rounds; null where none was traced.
pub(crate) fn summary(rounds: &[&RoundRecord], seed: u64) -> Option<TraceSummary> {
    let is_saved = |figures: &TraceFigures| matches!(figures.capture, Capture::Saved { .. });
    // The last one whose packets were saved; where none were, the last.
    let traced = rounds.iter().filter_map(|round| Some((round.number, figures_of(round)?)));
    let (_, figures) = traced.max_by_key(|(number, figures)| (is_saved(figures), *number))?;
    let cost = cost(rounds, seed);
    Some(TraceSummary {
        sequence: figures.sequence.clone(),
        capture: figures.capture.clone(),
        cost_ns: cost.map(|(difference_ns, _)| difference_ns),
        cost_ratio: cost.map(|(_, ratio)| ratio),
    })
}

fn figures_of(round: &RoundRecord) -> Option<&TraceFigures> {
    of_purpose(round, Purpose::Traced)?.traced.as_ref()
}

fn of_purpose(round: &RoundRecord, purpose: Purpose) -> Option<&Measured> {
    round.measured_as(purpose).filter(|measured| measured.figures.samples > 0)
}

/// What tracing adds, in ns and as a ratio: the p50 of traced against untraced rounds, paired by block; null without
/// either.
fn cost(rounds: &[&RoundRecord], seed: u64) -> Option<(Figure, Figure)> {
    let p50s = |purpose: Purpose| -> Vec<(u32, f64)> {
        let of = |round: &&RoundRecord| {
            Some((round.order.block, of_purpose(round, purpose)?.figures.latency_ns.p50.max(1.0)))
        };
        rounds.iter().filter_map(of).collect()
    };
    let (untraced, traced) = (p50s(Purpose::Untraced), p50s(Purpose::Traced));
    let reference = median(&untraced.iter().map(|(_, p50)| *p50).collect::<Vec<_>>())?;
    let about = format!("{} cost of tracing", rounds.first()?.case_id);
    let [untraced, traced] = [untraced, traced].map(|values| logarithms_by_block(values.into_iter()));
    let ratio = as_ratio(&difference_by_block(&untraced, &traced, seed, &about)?.0);
    let in_ns = |ratio: f64| (ratio - 1.0) * reference;
    let difference = Figure { value: in_ns(ratio.value), low: ratio.low.map(in_ns), high: ratio.high.map(in_ns) };
    Some((difference, ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::{MadeUp, back_to_back, small_writes};

    #[test]
    fn tracing_costs_what_traced_rounds_take_longer_than_untraced_ones() {
        let case = small_writes("nodelay");
        let mut made_up = MadeUp::new();
        made_up.rounds_of(&case, &[500_000; 3]);
        for block in 0..8 {
            made_up.purpose = Purpose::Untraced;
            made_up.round(&case, block, &back_to_back(&[], &[1_000 + u64::from(block); 20]));
            made_up.purpose = Purpose::Traced;
            made_up.round_with(&case, block, &back_to_back(&[], &[1_500 + u64::from(block); 20]), |measured| {
                measured.traced =
                    Some(TraceFigures { autocorked: Some(u64::from(block)), ..TraceFigures::default() });
            });
        }
        let run = made_up.run();
        let trace = run.cases[0].trace.as_ref().unwrap();
        let (ratio, cost) = (trace.cost_ratio.unwrap(), trace.cost_ns.unwrap());
        assert!((ratio.value - 1503.5 / 1003.5).abs() < 0.001 && ratio.excludes(1.0), "{ratio:?}");
        assert!((cost.value - 500.0).abs() < 1.0 && cost.excludes(0.0), "{cost:?}");
        assert_eq!(trace.capture, hairpin_model::trace::Capture::default());
    }

    #[test]
    fn the_capture_told_of_is_the_last_that_was_saved() {
        let saved = |file: &str| Capture::Saved { file: file.to_owned(), packets: 9, dropped: 0 };
        let skipped = || Capture::Skipped { reason: "no space left".to_owned() };
        let of = |captures: &[Capture]| {
            let case = small_writes("none");
            let mut made_up = MadeUp::new();
            made_up.purpose = Purpose::Traced;
            for (block, capture) in (0..).zip(captures) {
                made_up.round_with(&case, block, &back_to_back(&[], &[1_000; 5]), |measured| {
                    measured.traced = Some(TraceFigures { capture: capture.clone(), ..TraceFigures::default() });
                });
            }
            made_up.run().cases[0].trace.as_ref().unwrap().capture.clone()
        };
        assert_eq!(of(&[saved("a"), saved("b"), skipped()]), saved("b"));
        assert_eq!(of(&[skipped(), skipped()]), skipped());
    }

    #[test]
    fn without_untraced_rounds_the_cost_is_unknown_and_without_traces_there_is_no_summary() {
        let (traced, plain) = (small_writes("none"), small_writes("cork"));
        let mut made_up = MadeUp::new();
        made_up.rounds_of(&plain, &[1_000]);
        made_up.purpose = Purpose::Traced;
        made_up.rounds_with(&traced, &[1_000], |measured| measured.traced = Some(TraceFigures::default()));
        made_up.round(&plain, 1, &back_to_back(&[], &[1_000; 5]));
        let run = made_up.run();
        assert_eq!(run.case(&traced.id()).unwrap().trace.as_ref().unwrap().cost_ns, None);
        assert_eq!(run.case(&plain.id()).unwrap().trace, None);
    }
}
