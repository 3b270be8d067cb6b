//! How often a latency is above a bound.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;

/// The probability that a message takes longer than a bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Exceeds {
    /// The bound of the latency, in ns.
    pub bound_ns: u64,
    /// Share of the messages of all rounds that took longer or were not answered, 0 to 1, with an interval by blocks of messages.
    pub probability: Figure,
    /// Number of independent messages that tell as much about the probability.
    pub effective_samples: f64,
}
