//! The ground a plan stands on: what can run here. Read by the binary, given to the experiments as plain data.

use crate::card::{Card, Receipt, WhyNot};

/// A transport and whether it can run here.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its promises.
    pub card: Card,
    /// Whether it can run.
    pub can_run: Result<Receipt, WhyNot>,
}

/// What can run here.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Every transport, in the order of the ladder (fastest kind first).
    pub candidates: Vec<Candidate>,
    /// CPUs this process may use.
    pub cpus: Vec<usize>,
    /// Whether `/dev/cpu_dma_latency` may be held.
    pub may_keep_cpus_awake: Result<(), WhyNot>,
    /// Congestion controls that an unprivileged or this process may set.
    pub congestion_controls: Vec<String>,
    /// The congestion control in force.
    pub default_congestion_control: String,
}

impl Ground {
    /// The names of all transports.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.candidates.iter().map(|candidate| candidate.card.name).collect()
    }

    /// The candidate of that name.
    #[must_use]
    pub fn candidate(&self, name: &str) -> Option<&Candidate> {
        self.candidates.iter().find(|candidate| candidate.card.name == name)
    }
}
