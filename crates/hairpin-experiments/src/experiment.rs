//! The interface of an experiment.

use hairpin_model::{Case, HostCapabilities, PlannedTraffic, Refused, RoundOrder, RoundRecord, Skipped};

use crate::knob::Knob;
use crate::knobs::Knobs;
use crate::sequence::Planned;

/// A question, and the rounds that answer it.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Command-line name, such as `round-trip`; its file is named after it.
    pub name: &'static str,
    pub question: &'static str,
    /// Flags and their help derive from these.
    pub knobs: &'static [Knob],
    /// The rounds of a block. Deterministic in its arguments.
    pub plan: fn(&Knobs, &HostCapabilities) -> Result<Planning, Refused>,
    /// Whether a command of this experiment repeats the case; one experiment does.
    pub repeats: fn(&Case) -> bool,
    /// Adds cases depending on the results, once those planned before are done.
    pub refine: Option<Refine>,
}

/// From the knobs, the first plan and the rounds done to more cases; an empty list ends the experiment.
pub type Refine = fn(&Knobs, &HostCapabilities, &[Planned], &[RoundRecord]) -> Result<Vec<Planned>, Refused>;

/// The rounds of a block in plan order, and what cannot run.
pub type Planning = (Vec<Planned>, Vec<Skipped>);

/// The results so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done<'a> {
    /// The rounds in order of execution.
    pub rounds: &'a [RoundRecord],
    /// Half the width of the widest p50 interval, as a share of the p50; `None` if a case has no interval.
    pub half_width: Option<f64>,
}

/// Expected size of an experiment, known before it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Without evidence rounds; the maximum if results decide.
    pub rounds: u64,
    /// Expected duration in ns, with evidence rounds.
    pub lasts_ns: u64,
    /// Traffic of the one-way loads.
    pub sends: PlannedTraffic,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run these rounds in this order, then ask again.
    Run {
        /// In plan order, the order of tables.
        cases: Vec<Case>,
        rounds: Vec<RoundOrder>,
        /// Requested but not run, with the reasons.
        skipped: Vec<Skipped>,
        /// For all steps; set only in the first.
        forecast: Forecast,
    },
    /// The question is answered.
    Done,
}
