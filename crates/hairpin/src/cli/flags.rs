//! Builders for common flags.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, value_parser};

pub(super) fn switch(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
}

pub(super) fn valued(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value_name).help(help)
}

pub(super) fn path(name: &'static str, value_name: &'static str, help: &'static str) -> Arg {
    valued(name, value_name, help).value_parser(value_parser!(PathBuf))
}

/// A program and its arguments, after `--`.
pub(super) fn program(help: &'static str) -> Arg {
    Arg::new("COMMAND").last(true).num_args(1..).value_parser(value_parser!(OsString)).help(help)
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
