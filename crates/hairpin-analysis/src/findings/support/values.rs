//! Knobs of a command and their values.

use hairpin_model::case::Case;
use hairpin_model::names;
use hairpin_model::options::Options;

/// The value of `--option` and `--load-option` for no options.
pub(in crate::findings) const NO_OPTIONS: &str = "none";

/// A knob and its values; without values it is omitted, an empty value is a switch.
pub(super) type Values = (&'static str, Vec<String>);

/// The values of the cases, without duplicates.
pub(super) fn distinct(cases: &[&Case], of: &dyn Fn(&Case) -> Option<String>) -> Vec<String> {
    names::distinct(cases.iter().filter_map(|case| of(case)))
}

/// A set of options for the command line; `None` if empty.
pub(super) fn set_in_words(options: &Options) -> Option<String> {
    let all: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (!all.is_empty()).then(|| all.join(","))
}
