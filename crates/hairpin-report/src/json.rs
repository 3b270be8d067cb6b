//! The run as one JSON object: the contract for scripts.
//!
//! The names are those of `hairpin_model::run::Run`; docs/run-format.md lists them with their units. Numbers that are
//! not finite become null, since JSON cannot express them.

use hairpin_model::comparison::ComparisonReport;
use hairpin_model::judged_claim::ClaimsReport;
use hairpin_model::run::Run;

/// The run as indented JSON with a trailing newline. Rounds are in `rounds.jsonl` instead.
///
/// # Panics
/// Never for a run: its maps have string keys.
#[must_use]
pub fn render(run: &Run) -> String {
    let mut text = serde_json::to_string_pretty(run).expect("a run has only string keys");
    text.push('\n');
    text
}

/// Two runs compared, as one JSON object.
///
/// # Panics
/// Never: a comparison holds only finite numbers and string keys.
#[must_use]
pub fn render_comparison(report: &ComparisonReport) -> String {
    serde_json::to_string_pretty(report).expect("a comparison has only string keys")
}

/// Claims, listed or tested, as indented JSON with a trailing newline.
///
/// # Panics
/// Never: the rules give only finite numbers, and all keys are strings.
#[must_use]
pub fn render_claims(report: &ClaimsReport) -> String {
    let mut text = serde_json::to_string_pretty(report).expect("claims have only string keys");
    text.push('\n');
    text
}
