//! The progress bar. It is drawn between rounds only, by the thread that waits for them: nothing is redrawn while
//! anything is measured.

use hairpin_model::round::{Outcome, RoundOrder, RoundRecord};
use hairpin_model::run::Plan;
use hairpin_report::announcement;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::output;
use crate::measure::Watch;

/// A bar on standard error, where that is a terminal.
pub struct Progress {
    bar: ProgressBar,
    failed: u64,
    quiet: bool,
}

impl Progress {
    /// A bar; `quiet` draws none.
    #[must_use]
    pub fn new(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(20) };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} rounds, {elapsed}, {eta} left  {wide_msg}");
        bar.set_style(style.expect("the template is a constant").progress_chars("=> "));
        Self { bar, failed: 0, quiet }
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
        self.bar.set_message(format!("{}{failed}", order.case.label()));
    }

    fn done(&mut self, record: &RoundRecord) {
        self.failed += u64::from(matches!(record.outcome, Outcome::Failed(_)));
        self.bar.inc(1);
    }
}
