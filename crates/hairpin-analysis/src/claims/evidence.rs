//! The runs by which a rule is judged.

use hairpin_model::Run;

#[derive(Clone, Copy)]
pub(super) struct Evidence<'r> {
    pub(super) run: &'r Run,
    /// The run with the case of the denominator: the same run, unless the rule names another run.
    pub(super) other: &'r Run,
}
