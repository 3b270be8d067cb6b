//! The progress bar. The thread that waits for rounds draws the bar, and draws only between rounds, so that drawing
//! does not disturb a measurement.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hairpin_model::ladder::CaseKind;
use hairpin_model::{Failure, FailureKind, Measured, RoundOrder, RoundRecord, Skipped, quantities};
use hairpin_report::announcement;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::output;
use crate::Event;

/// A progress bar on standard error, if that is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    failed: u64,
    quiet: bool,
    /// Transport and kind of failure of abandoned cases. Each pair is reported once.
    given_up: BTreeSet<(String, FailureKind)>,
    figures: BTreeMap<String, Vec<f64>>,
}

impl Progress {
    /// A new bar; hidden if `quiet`.
    pub(super) fn new(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(20) };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} rounds, {elapsed}{left}\n{wide_msg}");
        let style = style.expect("the template is a constant").progress_chars("=> ");
        // The remaining time is known after the first round.
        bar.set_style(style.with_key("left", |state: &ProgressState, out: &mut dyn fmt::Write| {
            if state.pos() > 0 {
                let _ = write!(out, ", {} left", HumanDuration(state.eta()));
            }
        }));
        Self { bar, failed: 0, quiet, given_up: BTreeSet::new(), figures: BTreeMap::new() }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    pub(super) fn on(&mut self, event: Event<'_>) {
        match event {
            Event::Planned { plan, cases } if !self.quiet => output::note(&announcement(plan, cases)),
            Event::Proving { rounds, lasts_ns } if !self.quiet => {
                let rounds = quantities::counted(rounds as u64, "round");
                let seconds = quantities::rounded(lasts_ns as f64 / 1e9);
                self.bar.suspend(|| output::note(&format!("Counter-experiments: {rounds}, about {seconds} s")));
            }
            Event::Planned { .. } | Event::Proving { .. } => {}
            Event::Ordered { rounds } => self.bar.inc_length(rounds as u64),
            Event::Starts(order) => self.next(order),
            Event::Ended(record) => self.done(record),
            Event::GivenUp { case, failure } => self.given_up(case, failure),
            Event::LeftOut => self.bar.set_length(self.bar.length().unwrap_or(0).saturating_sub(1)),
        }
    }

    fn next(&mut self, order: &RoundOrder) {
        let failed = if self.failed > 0 { format!(" ({} failed)", self.failed) } else { String::new() };
        let kind = CaseKind::of(&order.case);
        let so_far = self.figures.get(&order.case.id()).map_or_else(String::new, |rounds| so_far(kind, rounds));
        self.bar.set_message(format!("{}{so_far}{failed}", order.case.label()));
    }

    fn done(&mut self, record: &RoundRecord) {
        self.failed += u64::from(record.failure().is_some());
        let figure = record.measured().and_then(|measured| figure(CaseKind::of(&record.order.case), measured));
        if let Some(figure) = figure.filter(|figure| *figure > 0.0) {
            self.figures.entry(record.case_id.clone()).or_default().push(figure);
        }
        self.bar.inc(1);
    }

    fn given_up(&mut self, case: &Skipped, failure: &Failure) {
        // The report lists all abandoned cases.
        if let Some(note) = self.note_of(case, failure) {
            self.bar.suspend(|| output::note(&note));
        }
    }

    /// The note about an abandoned case; `None` if a note with its transport and kind of failure was printed.
    fn note_of(&mut self, case: &Skipped, failure: &Failure) -> Option<String> {
        let is_new = !self.quiet && self.given_up.insert((case.transport.clone(), failure.kind));
        let what = case.case.as_ref().unwrap_or(&case.transport);
        is_new.then(|| format!("{what}: {}: {}", case.reason, failure.cause))
    }
}

/// A round's figure: p50 in ns (for a probe under load, of the loaded phase); for one-way loads, messages or bytes
/// received per second.
fn figure(kind: CaseKind, measured: &Measured) -> Option<f64> {
    let flow = measured.primary();
    match kind {
        CaseKind::RoundTrips | CaseKind::Exchanges | CaseKind::Periods | CaseKind::UnderLoad => {
            Some(flow.figures.latency_ns.p50)
        }
        CaseKind::Messages | CaseKind::Offered => Some(flow.figures.rate_per_s),
        CaseKind::Streams => flow.received.as_ref()?.goodput_bytes_per_s(),
    }
}

/// `: p50 4.77 us, 4.60-5.12 over 3 rounds`: median and range of the rounds (not a confidence interval).
fn so_far(kind: CaseKind, rounds: &[f64]) -> String {
    let mut sorted = rounds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (median, low, high) = (sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1]);
    let latency = (quantities::duration(median), quantities::bounds(median, low, high));
    let rate = (quantities::rate(median), quantities::rate_bounds(low, high));
    let (what, (median, range)) = match kind {
        CaseKind::RoundTrips | CaseKind::Exchanges | CaseKind::Periods => ("p50", latency),
        CaseKind::UnderLoad => ("loaded p50", latency),
        CaseKind::Messages => ("received", rate),
        CaseKind::Offered => ("delivered", rate),
        CaseKind::Streams => ("goodput", (quantities::byte_rate(median), quantities::byte_rate_bounds(low, high))),
    };
    let range = if sorted.len() == 1 { String::new() } else { format!(", {range}") };
    let rounds = quantities::counted(sorted.len() as u64, "round");
    format!(": {what} {median}{range} over {rounds}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_and_kind_of_failure_is_reported_once() {
        let mut progress = Progress::new(true);
        progress.quiet = false;
        let mut notes = |transport: &str, kind, cause: &str| {
            let case = Skipped { transport: transport.to_owned(), case: None, reason: "given up".to_owned() };
            progress.note_of(&case, &Failure::new(kind, cause, ""))
        };
        assert_eq!(notes("tcp", FailureKind::TimedOut, "9 ms").as_deref(), Some("tcp: given up: 9 ms"));
        assert_eq!(notes("tcp", FailureKind::TimedOut, "8 ms"), None);
        assert_eq!(notes("tcp", FailureKind::Refused, "no").as_deref(), Some("tcp: given up: no"));
        assert_eq!(notes("udp", FailureKind::Refused, "no").as_deref(), Some("udp: given up: no"));
    }

    #[test]
    fn the_figure_so_far_depends_on_the_kind() {
        assert_eq!(so_far(CaseKind::RoundTrips, &[4770.0, 5120.0, 4600.0]), ": p50 4.77 us, 4.60-5.12 over 3 rounds");
        assert_eq!(so_far(CaseKind::UnderLoad, &[184e6, 191e6]), ": loaded p50 191 ms, 184-191 over 2 rounds");
        assert_eq!(so_far(CaseKind::Messages, &[1.2e6]), ": received 1.20 M/s over 1 round");
        assert_eq!(so_far(CaseKind::Offered, &[9.98e3, 1e4]), ": delivered 10.0 k/s, 9.98-10.0 k/s over 2 rounds");
        assert_eq!(so_far(CaseKind::Streams, &[2e9, 1e9]), ": goodput 2.00 GB/s, 1.00-2.00 GB/s over 2 rounds");
    }
}
