//! Builders for common flags.

use std::path::PathBuf;

use clap::{Arg, ArgAction, value_parser};

/// A flag without a value.
pub(super) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub(super) fn valued(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value_name).help(help)
}

/// A flag whose value is a file or a folder.
pub(super) fn path(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    valued(name, value_name, help).value_parser(value_parser!(PathBuf))
}

/// A flag that may have a value, after `=`; without one it means `missing`.
pub(super) fn optional(
    name: &'static str,
    value_name: &'static str,
    missing: &'static str,
    help: &'static str,
) -> Arg {
    valued(name, value_name, help).num_args(0..=1).require_equals(true).default_missing_value(missing)
}
