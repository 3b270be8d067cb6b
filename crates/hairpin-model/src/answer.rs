//! The answer to the question that a run asked, as the analysis found it. The report shows it in these words.

use serde::{Deserialize, Serialize};

use crate::compared_by::ComparedBy;
use crate::figure::Figure;
use crate::knee::Knee;
use crate::summary::Verdict;

/// Two cases that are neighbours by the figure that they are ranked by, compared by one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pair {
    /// Which figure.
    pub figure: ComparedBy,
    /// The identity of the better case: with the lower p50, or the higher rate or goodput.
    pub a: String,
    /// The identity of the other.
    pub b: String,
    /// How `b` compares with `a`, corrected for the number of pairs.
    pub verdict: Verdict,
    /// b / a, with its interval over paired rounds.
    pub ratio: Figure,
}

/// What helps most against stalls of small writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BestRemedy {
    /// The identity of the case that moves most bytes a millisecond with a remedy.
    pub case: String,
    /// The identities of the cases with another remedy from which no difference was found.
    pub no_difference: Vec<String>,
    /// Its bytes a millisecond over those with default options; null where these were not measured.
    pub speed_up: Option<Figure>,
}

/// The answer. All its texts are ASCII but for the names that its user gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// One sentence. It names a winner only where a difference was found from every other case.
    pub headline: String,
    /// The sentences after it, which put it in proportion.
    #[serde(default)]
    pub sentences: Vec<String>,
    /// Which of two cases is better, and where no difference was found. Pairs that share a case follow one another, from
    /// the best to the worst.
    #[serde(default)]
    pub pairs: Vec<Pair>,
    /// The best remedy, where the run has exchanges and one of them is proved to be faster than default options.
    #[serde(default)]
    pub best_remedy: Option<BestRemedy>,
    /// The knee of each sweep, where loads were offered at several rates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knees: Vec<Knee>,
}
