//! Counter-experiments of `--prove`: for each finding with a check, rounds of its case alternate with rounds of the
//! same case with one change. Afterwards the findings are computed again, with verdicts.

use hairpin_experiments::{possible, proof};
use hairpin_model::names::distinct;
use hairpin_model::{Case, HostCapabilities, RoundOrder, Run, Skipped};

/// Rounds that check the findings without a verdict, and their total time in ns. Pairs that cannot run here are added
/// to the skipped cases of the run.
pub(crate) fn orders(run: &mut Run, capabilities: &HostCapabilities) -> (Vec<RoundOrder>, u64) {
    let open = run.findings.iter().filter(|finding| finding.proved.is_none());
    let open = open.filter_map(|finding| finding.counter_experiment.as_ref()?.pair.as_deref().cloned());
    let mut pairs = Vec::new();
    for pair in distinct(open) {
        match runs_here(&pair, capabilities) {
            Ok(()) => pairs.push(pair),
            Err(skipped) => run.skipped.push(*skipped),
        }
    }
    let first_block = run.rounds.iter().map(|round| round.order.block + 1).max().unwrap_or(0);
    proof::rounds(&pairs, &run.rounds, capabilities, run.seed, first_block)
}

/// Checks whether both cases can run here; the error is an entry for the skipped cases of the run.
fn runs_here(pair: &[Case; 2], capabilities: &HostCapabilities) -> Result<(), Box<Skipped>> {
    for case in pair {
        let candidate =
            capabilities.candidate(&case.primary().transport).expect("a measured case has a transport of this build");
        possible::check(case, &candidate.card, capabilities).map_err(|why| {
            let transport = case.primary().transport.clone();
            let case = Some(format!("{}, a counter-experiment", case.label()));
            Box::new(Skipped { transport, case, reason: why.to_string() })
        })?;
    }
    Ok(())
}
