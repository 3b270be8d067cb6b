//! The interface of an experiment.

use hairpin_model::capabilities::HostCapabilities;
use hairpin_model::case::Case;
use hairpin_model::refused::Refused;
use hairpin_model::round::{RoundOrder, RoundRecord};
use hairpin_model::run::{Sends, Skipped};

use crate::knob::Knob;
use crate::knobs::Knobs;
use crate::sequence::Planned;

/// A question, and the rounds that answer it.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its word on the command line, for instance `round-trip`; its file is named after it.
    pub name: &'static str,
    /// What it answers, as a question in one line.
    pub question: &'static str,
    /// What the user can turn. Flags and their help derive from this.
    pub knobs: &'static [Knob],
    /// The rounds of a block. The same arguments always give the same answer.
    pub plan: fn(&Knobs, &HostCapabilities) -> Result<Planning, Refused>,
    /// More cases that the results ask for, once those planned before are done; none in most experiments.
    pub refine: Option<Refine>,
}

/// From the knobs, what was planned first and what is done to the cases that follow; none ends the experiment.
pub type Refine = fn(&Knobs, &HostCapabilities, &[Planned], &[RoundRecord]) -> Result<Vec<Planned>, Refused>;

/// The rounds of a block in the order of the plan, and what cannot run.
pub type Planning = (Vec<Planned>, Vec<Skipped>);

/// What is done so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done<'a> {
    /// The rounds in order of execution.
    pub rounds: &'a [RoundRecord],
    /// Half the width of the widest interval of a p50, as a share of it; null where a case has no interval.
    pub half_width: Option<f64>,
}

/// What an experiment is going to do, as far as it is known before it begins.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forecast {
    /// Rounds, those of evidence not among them; the most where results decide.
    pub rounds: u64,
    /// How long they take, in ns, evidence included.
    pub lasts_ns: u64,
    /// What their one-way loads send.
    pub sends: Sends,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run these rounds in this order, then ask again.
    Run {
        /// The cases in the order of the plan, which is the order of tables.
        cases: Vec<Case>,
        /// The rounds in the order in which they run.
        rounds: Vec<RoundOrder>,
        /// What was asked for and is not run, with the reasons.
        skipped: Vec<Skipped>,
        /// In the first step what all steps are going to do; elsewhere nothing.
        forecast: Forecast,
    },
    /// The question is answered.
    Done,
}
