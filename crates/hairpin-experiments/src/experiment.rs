//! The interface of an experiment.

use hairpin_model::{
    Case, FoundPeriod, HostCapabilities, PeriodSearchPlan, PlannedTraffic, Refused, RoundOrder, RoundRecord, Skipped,
};

use crate::knob::Knob;
use crate::knobs::Knobs;

/// A question, and functions that plan the rounds to answer it.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Command-line name, such as `round-trip`; the source file has the same name.
    pub name: &'static str,
    pub question: &'static str,
    /// Source of the flags and their help.
    pub knobs: &'static [Knob],
    /// Returns the rounds of a block. Deterministic in its arguments.
    pub plan: fn(&Knobs, &HostCapabilities) -> Result<Planning, Refused>,
    /// Whether this experiment can repeat the case. For each case exactly one experiment can.
    pub repeats: fn(&Case) -> bool,
    /// Adds cases that depend on the results of the cases planned so far.
    pub refine: Option<Refine>,
    /// Plans each round from the results of all earlier ones, in place of blocks of all cases, if the knobs ask for it.
    pub search: Option<Search>,
}

/// A search for one value, one case after another.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Returns the next rounds; `None` if the knobs ask for no search.
    pub next: SearchNext,
    /// Returns what is searched, to announce it.
    pub plan: fn(&Knobs) -> Option<PeriodSearchPlan>,
    pub found: fn(&Knobs, &[RoundRecord]) -> Option<FoundPeriod>,
}

/// Returns more cases, given the knobs, the first plan and the rounds done; an empty list ends the experiment.
pub type Refine = fn(&Knobs, &HostCapabilities, &[RoundOrder], &[RoundRecord]) -> Result<Vec<RoundOrder>, Refused>;

pub type SearchNext = fn(&Knobs, &HostCapabilities, &[RoundRecord]) -> Result<Option<Step>, Refused>;

/// The rounds of a block in plan order, and the cases that cannot run.
pub type Planning = (Vec<RoundOrder>, Vec<Skipped>);

/// The results so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done<'a> {
    /// The rounds in order of execution.
    pub rounds: &'a [RoundRecord],
    /// Half the width of the widest p50 interval, as a share of that p50; `None` if a case has no interval yet.
    pub half_width: Option<f64>,
}

/// Expected size of an experiment, known before it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Number of rounds, excluding evidence rounds; the maximum if the number depends on the results.
    pub rounds: u64,
    /// Expected duration in ns, including evidence rounds.
    pub lasts_ns: u64,
    /// Expected duration of the evidence rounds in ns.
    pub evidence_ns: u64,
    /// Whether the experiment has a time limit instead of a number of rounds: rounds beyond the limit are omitted.
    pub has_time_limit: bool,
    /// Traffic of the one-way loads.
    pub sends: PlannedTraffic,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run these rounds in this order, then call [`Experiment::next`] again.
    Run {
        /// In plan order, which is also the row order of tables.
        cases: Vec<Case>,
        rounds: Vec<RoundOrder>,
        /// Requested cases that cannot run, with reasons.
        skipped: Vec<Skipped>,
        /// Forecast for all steps; set only in the first.
        forecast: Forecast,
    },
    /// The question is answered.
    Done,
}
