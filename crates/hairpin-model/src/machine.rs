//! The states of the machine over a run, detected with a probe.

use serde::{Deserialize, Serialize};

/// The states of the machine, independent of what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Machine {
    /// One state, or two with the faster first. Empty if the run has no probe.
    pub states: Vec<MachineState>,
    /// How often the state changed from one round to the next.
    pub switches: u64,
    /// Median over rounds of a one-byte round trip between two CPUs, in ns; null if no round measured it.
    pub waking_ns: Option<f64>,
}

/// One state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct MachineState {
    /// Median of the probe's duration over the rounds in this state, in ns.
    pub probe_ns: f64,
    /// Share of all rounds that were in this state, 0 to 1.
    pub share: f64,
    /// Number of rounds in this state.
    pub rounds: u64,
}
