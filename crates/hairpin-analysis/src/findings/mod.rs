//! Findings.
use hairpin_model::finding::{Finding, FindingCard};
use hairpin_model::run::Run;
/// A detector.
pub trait Detector: Sync {
    /// card
    fn card(&self) -> FindingCard;
    /// detect
    fn detect(&self, run: &Run) -> Vec<Finding>;
}
/// stub
#[must_use]
pub fn findings(_run: &Run) -> Vec<Finding> {
    Vec::new()
}
