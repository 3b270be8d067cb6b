//! The runs that a rule is judged by.

use hairpin_model::Run;

#[derive(Clone, Copy)]
pub(super) struct Evidence<'r> {
    pub(super) run: &'r Run,
    /// The run of the denominator's case: the same run, unless the rule names another.
    pub(super) other: &'r Run,
}
