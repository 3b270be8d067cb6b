//! The choice of a transport for given needs: the answer of `hairpin which`.

use serde::{Deserialize, Serialize};

use crate::case::{Placement, Waiting};
use crate::compared_by::ComparedBy;
use crate::options::Options;
use crate::words;

/// What a program needs from a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Needs {
    pub size_bytes: u64,
    /// Messages per second.
    pub rate_per_s: f64,
    /// Each message has an answer.
    pub reply: bool,
    /// Messages may be lost.
    pub may_lose: bool,
    /// Maximum p99 of the latency from the due time, in ns; null without a bound.
    pub p99_ns: Option<u64>,
    /// MTU of the emulated link; null without one.
    pub mtu_bytes: Option<u32>,
}

words! {
    /// A need that a case does not meet.
    pub enum UnmetNeed: "need" {
        /// Its figures must not be used, so no need is shown to be met.
        Usable = "usable",
        /// The sender or the receiver did not keep up with the rate.
        Rate = "rate",
        NoLoss = "no-loss",
        Latency = "latency",
    }
}

/// The options of the chosen case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ChosenOptions {
    pub waiting: Waiting,
    pub placement: Placement,
    /// Socket options to set; empty for the defaults.
    pub socket: Options,
}

/// CPU time per message, in ns. A sender of one-way messages also spends CPU time on keeping to the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct MessageCost {
    pub client_ns: Option<f64>,
    pub server_ns: Option<f64>,
}

impl MessageCost {
    /// CPU time of both ends, in ns; `None` if it was not measured at all.
    pub fn total_ns(self) -> Option<f64> {
        [self.client_ns, self.server_ns].into_iter().flatten().reduce(|one, other| one + other)
    }
}

/// A case as the choice judged it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct JudgedCase {
    /// The identity of the case.
    pub case: String,
    pub transport: String,
    /// The latency by which the cases are ranked, from the due time, in ns; null if unknown.
    pub latency_ns: Option<f64>,
    /// Share of the messages that arrived, 0 to 1; null if nothing was sent.
    pub delivered_share: Option<f64>,
    pub cost: MessageCost,
    /// Empty if the case meets all needs.
    pub unmet: Vec<UnmetNeed>,
}

/// What would change the choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum WouldChange {
    /// If CPU time mattered more than latency: the case that meets all needs at the least CPU time.
    CpuTime { case: String },
    /// If loss were tolerated, these transports would join; they were not measured.
    LossTolerated { transports: Vec<String> },
    /// Above this rate, an end of the chosen case has no CPU time left.
    HigherRate { per_s: f64 },
    /// With a larger MTU a message would need one packet.
    LargerMtu { mtu_bytes: u32 },
    /// Other placements, which were not measured.
    OtherPlacement { placements: Vec<Placement> },
}

/// The chosen transport with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Choice {
    /// The choice in one sentence.
    pub answer: String,
    /// The chosen transport; null if no case meets the needs.
    pub transport: Option<String>,
    /// The options of the chosen case.
    pub options: Option<ChosenOptions>,
    /// The cost of the chosen case.
    pub cost: Option<MessageCost>,
    /// The percentile by which the cases are ranked: p99 if all usable cases have it.
    pub ranked_by: ComparedBy,
    /// The identities of other cases that meet all needs and whose latency is within 5 % of the lowest, or not
    /// separated from it. Among these and the chosen case, the chosen case takes the least CPU time.
    pub alike: Vec<String>,
    /// The identities of other cases that meet all needs and are not separated from the lowest latency in this run. Of
    /// these, the lowest p50 is chosen.
    #[serde(default)]
    pub not_separated: Vec<String>,
    pub would_change: Vec<WouldChange>,
    /// The chosen case, the cases like it, other cases that meet all needs, and the rest.
    pub cases: Vec<JudgedCase>,
}

impl Choice {
    pub fn chosen(&self) -> Option<&JudgedCase> {
        self.cases.first().filter(|_| self.transport.is_some())
    }

    pub fn best(&self) -> &[JudgedCase] {
        self.cases.get(..self.alike.len() + 1).filter(|_| self.transport.is_some()).unwrap_or_default()
    }
}
