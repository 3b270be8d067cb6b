//! Why a claim has its verdict. `hairpin-report` writes the texts.

use serde::{Deserialize, Serialize};

use crate::case::Fallback;
use crate::claim::{FigureName, Kept};
use crate::exchange::Writes;
use crate::figure::Figure;
use crate::options::Effective;
use crate::time_sequence::EventKind;
use crate::words;

/// Why a claim or a row has its verdict. Cases are given by their labels, figures in the measured unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// The measured figure of a case, or its ratio to another case's figure, compared with the bound.
    Compared { figure: FigureName, case: String, against: Option<String>, place: Place, bound: Bound },
    /// The pairs of adjacent names in the published order.
    Order { figure: FigureName, steps: Vec<OrderStep>, margin: f64 },
    /// Ratios at full and at low load; the measured figure is the ratio at full load / the ratio at low load.
    Widens { figure: FigureName, full: CaseRatio, low: CaseRatio },
    /// Outputs of the run. `options`: the options requested at the client, if options are among the outputs. `timer_slack_ns`:
    /// requested and granted, if among the outputs.
    Kept {
        case: String,
        reported: Vec<Kept>,
        absent: Vec<Kept>,
        options: Vec<Effective>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timer_slack_ns: Option<[u64; 2]>,
    },
    /// The captured packets with their times at the client in ns, and the first absent packet.
    Packets { case: String, seen: Vec<(EventKind, i64)>, absent: Option<EventKind> },
    /// Traced writes, when the last write and the answer ended, and the published writes if they differ.
    Pattern { case: String, written: Option<Writes>, ended_ns: [Option<i64>; 2], published: Option<Writes> },
    /// The transport that replaced the requested one.
    FellBack { case: String, fallback: Fallback },
    /// Datagrams got through.
    NoFallback { case: String, from: String, to: String },
    /// The share of rounds in which the figure reaches the bound.
    Often { figure: FigureName, case: String, place: Place, rounds: u64, reached: u64, bound: f64, share: f64 },
    /// Refuted alone, but not with the correction for several comparisons that could refute the claim.
    OneOfSeveral {
        measured: Box<Reason>,
        #[serde(rename = "rows")]
        comparisons: u64,
    },
    /// A part that the test needs is missing.
    Missing { part: String },
    /// Not tested between two hosts.
    Skipped { because: String },
    /// The run failed.
    NoRun { run: String, cause: Option<String> },
    /// No case of the run matches.
    NoCase,
    /// Several cases of the run match.
    SeveralCases { cases: Vec<String> },
    /// The run ended before the case, or before any matching case.
    Ended { case: Option<String> },
    /// No round was measured. `cause`: the first failure, or why the case was skipped.
    NotMeasured { case: String, cause: Option<String> },
    /// The case has no usable figures.
    Invalid { case: String, reasons: Vec<String> },
    /// The published value is not what the rule needs.
    NotPublished { needed: String },
    /// The figure cannot have the published unit.
    WrongUnit { figure: FigureName, unit: String },
    /// A ratio of figures that are 0.
    Zero { figure: FigureName, cases: Vec<String> },
    /// One-way latency between two hosts needs synchronized clocks.
    NeedsClocks { case: String, figure: FigureName },
    /// The figure needs more samples.
    TooFewSamples { case: String, figure: FigureName, samples: u64 },
    /// The rule needs a trace.
    NotTraced { case: String },
    /// The rule needs a capture.
    NotCaptured { case: String, reason: String },
    /// No exchange was traced, or captured, completely.
    NoExchange { case: String, captured: bool },
}

impl Reason {
    pub fn case(&self) -> Option<String> {
        match self {
            Self::Compared { case, against: Some(against), .. } => Some(format!("{case} against {against}")),
            Self::Compared { case, .. }
            | Self::Often { case, .. }
            | Self::Kept { case, .. }
            | Self::Packets { case, .. }
            | Self::Pattern { case, .. }
            | Self::FellBack { case, .. } => Some(case.clone()),
            Self::Widens { full, .. } => Some(full.cases.join(" against ")),
            Self::OneOfSeveral { measured, .. } => measured.case(),
            _ => None,
        }
    }
}

words! {
    /// Verdict on a row or an axis.
    pub enum Verdict: "verdict" {
        /// The whole interval satisfies the rule.
        Confirmed = "confirmed",
        /// The whole interval violates the rule, also with the correction for several rows (Holm).
        Refuted = "refuted",
        /// The whole interval of the ratio is within the margin; only of a direction.
        Equal = "equal",
        /// The interval is missing or on both sides of the bound.
        Undecided = "undecided",
        NotTested = "not-tested",
        Shown = "shown",
        NotClaimed = "not-claimed",
    }

    /// The position of an interval relative to the bounds of a rule.
    pub enum Place: "place" {
        Inside = "inside",
        Below = "below",
        Above = "above",
        Across = "across",
        Unknown = "unknown",
    }
}

/// The bound of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Bound {
    Within {
        number: f64,
        factor: f64,
    },
    Range {
        from: f64,
        to: f64,
        factor: f64,
    },
    AtLeast {
        number: f64,
    },
    AtMost {
        number: f64,
    },
    /// Minimum share of one case's figure that the other case saves.
    SavesAtLeast {
        share: f64,
    },
}

/// The range of a figure's rounds, or of batches of them, extended by its width on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct OuterBounds {
    pub low: f64,
    pub high: f64,
    pub rounds: u64,
}

/// Two adjacent names of a published order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct OrderStep {
    /// The published names.
    pub names: [String; 2],
    pub verdict: Verdict,
    /// Figure of the second case / figure of the first.
    pub ratio: Option<Figure>,
    /// By these bounds a ratio without an interval is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer_bounds: Option<OuterBounds>,
    /// Why the ratio is missing.
    pub absent: Option<Box<Reason>>,
}

/// Figure of the second case / figure of the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct CaseRatio {
    pub cases: [String; 2],
    pub ratio: Figure,
}
