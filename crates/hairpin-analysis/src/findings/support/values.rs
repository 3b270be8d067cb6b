//! Knobs of a command and their values.

use hairpin_model::case::Case;
use hairpin_model::names;
use hairpin_model::options::Options;

/// How `--option` and `--load-option` say that none is set.
pub(in crate::findings) const NO_OPTIONS: &str = "none";

/// A knob and its values; none leave it out, and an empty one is that of a switch.
pub(super) type Values = (&'static str, Vec<String>);

/// What the cases have of it, each once.
pub(super) fn distinct(cases: &[&Case], of: &dyn Fn(&Case) -> Option<String>) -> Vec<String> {
    names::distinct(cases.iter().filter_map(|case| of(case)))
}

/// A set of options as the command line takes it; `None` of an empty one.
pub(super) fn set_in_words(options: &Options) -> Option<String> {
    let all: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!all.is_empty()).then(|| all.join(","))
}
