//! The progress bar. It is drawn between rounds only, by the thread that waits for them: nothing is redrawn while
//! anything is measured.

use std::collections::BTreeMap;
use std::fmt;

use hairpin_model::quantities;
use hairpin_model::round::{Failure, Outcome, RoundOrder, RoundRecord};
use hairpin_model::run::{Plan, Skipped};
use hairpin_report::announcement;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::cli::output;
use crate::measure::Watch;

/// A bar on standard error, where that is a terminal.
pub struct Progress {
    bar: ProgressBar,
    failed: u64,
    quiet: bool,
    /// The p50 of each round so far, in ns, by case.
    p50_ns: BTreeMap<String, Vec<f64>>,
}

impl Progress {
    /// A bar; `quiet` draws none.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(20) };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} rounds, {elapsed}{left}\n{wide_msg}");
        let style = style.expect("the template is a constant").progress_chars("=> ");
        // The time that is left is known from the first round on.
        bar.set_style(style.with_key("left", |state: &ProgressState, out: &mut dyn fmt::Write| {
            if state.pos() > 0 {
                let _ = write!(out, ", {} left", HumanDuration(state.eta()));
            }
        }));
        Self { bar, failed: 0, quiet, p50_ns: BTreeMap::new() }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watch for Progress {
    fn announced(&mut self, plan: &Plan, cases: usize) {
        if !self.quiet {
            output::note(&announcement(plan, cases));
        }
    }

    fn ordered(&mut self, rounds: usize) {
        self.bar.inc_length(rounds as u64);
    }

    fn next(&mut self, order: &RoundOrder) {
        let failed = if self.failed > 0 { format!(" ({} failed)", self.failed) } else { String::new() };
        let so_far = self.p50_ns.get(&order.case.id()).map_or_else(String::new, |rounds| so_far(rounds));
        self.bar.set_message(format!("{}{so_far}{failed}", order.case.label()));
    }

    fn done(&mut self, record: &RoundRecord) {
        self.failed += u64::from(matches!(record.outcome, Outcome::Failed(_)));
        let p50_ns = record.measured().map(|measured| measured.flow().figures.latency_ns.p50);
        if let Some(p50_ns) = p50_ns.filter(|p50_ns| *p50_ns > 0.0) {
            self.p50_ns.entry(record.case_id.clone()).or_default().push(p50_ns);
        }
        self.bar.inc(1);
    }

    fn given_up(&mut self, case: &Skipped, failure: &Failure) {
        if !self.quiet {
            let what = case.case.as_ref().unwrap_or(&case.transport);
            self.bar.suspend(|| output::note(&format!("{what}: {}: {}", case.reason, failure.cause)));
        }
    }

    fn left_out(&mut self) {
        self.bar.set_length(self.bar.length().unwrap_or(0).saturating_sub(1));
    }
}

/// `: p50 4.77 us, 4.60-5.12 over 3 rounds`: the median of the rounds, and their range, which is no interval of it.
fn so_far(rounds_ns: &[f64]) -> String {
    let mut sorted = rounds_ns.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (median, last) = (sorted[sorted.len() / 2], sorted.len() - 1);
    let range =
        if last == 0 { String::new() } else { format!(", {}", quantities::bounds(median, sorted[0], sorted[last])) };
    let rounds = quantities::counted(sorted.len() as u64, "round");
    format!(": p50 {}{range} over {rounds}", quantities::duration(median))
}
