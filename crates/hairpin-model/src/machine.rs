//! The states of the machine over a run, detected with a probe.

use serde::{Deserialize, Serialize};

/// The states of the machine, independent of what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Machine {
    /// One state, or two with the faster first. Empty if the run has no probe.
    pub states: Vec<MachineState>,
    /// How often the state changed from one round to the next.
    pub switches: u64,
    /// Median over rounds of the round trip of a byte between ends on two CPUs, in ns; null if no round measured it.
    #[serde(default)]
    pub waking_ns: Option<f64>,
}

/// One state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct MachineState {
    /// Median over its rounds of the probe's duration, in ns.
    pub probe_ns: f64,
    /// Its share of the rounds, 0 to 1.
    pub share: f64,
    /// Number of its rounds.
    pub rounds: u64,
}
