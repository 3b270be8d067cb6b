//! The runs that a rule is judged by.

use hairpin_model::run::Run;

/// What a rule is judged by.
#[derive(Clone, Copy)]
pub(super) struct Evidence<'r> {
    /// The run of the test.
    pub(super) run: &'r Run,
    /// The run of the case that a figure is divided by: the same, unless the rule names another.
    pub(super) other: &'r Run,
}
