//! The command line: converts arguments to calls of the library, and prints the results. Programs with their own
//! transports call [`run`] to have the same command line.

pub mod analyse;
pub mod check;
pub mod claims;
pub mod clean;
pub mod command;
pub mod compare;
mod drop_in;
pub mod exit;
pub mod explain;
mod flags;
mod gate;
mod lines;
pub mod link;
pub mod list;
pub mod manual;
pub mod measure;
pub mod output;
mod over_ssh;
mod progress;
pub mod report;
pub mod runs;
pub mod serve;
mod serve_echo;
mod serve_list;
mod start;
mod tune;
mod two_hosts;
mod watched;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue};
use exit::{Exit, Stopped};

use crate::program::Program;

/// Command that prints the cost of one recorded sample, for `cargo xtask overhead`.
const RECORDER_COST: &str = "__recorder-cost";

/// Runs the program with these arguments, of which the first is its name.
pub fn run(program: &Program, arguments: &[OsString]) -> ExitCode {
    if arguments.get(1).is_some_and(|word| word == RECORDER_COST) {
        return recorder_cost().into();
    }
    let matches = match command::command(program).try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version are not errors; clap prints each to the right stream.
            output::usage(&error);
            if let Some(meant) = unknown(&error).and_then(|word| command::meant_ladder(arguments, word)) {
                output::note(&format!("(hint: use `{meant}`, with an equals sign)"));
            }
            if let Some(experiment) = unknown(&error).and_then(experiment_for) {
                output::note(&format!("(hint: `hairpin {experiment}` measures that)"));
            }
            if unknown(&error) == Some("--to") && arguments.get(1).is_some_and(|command| command == "check") {
                output::note("(hint: `hairpin check @FILE`: the ticket is an argument)");
            }
            return match error.use_stderr() {
                true => Exit::Usage,
                false if output::is_incomplete() => Exit::RoundsFailed,
                false => Exit::Fine,
            }
            .into();
        }
    };
    match dispatch(program, &matches, arguments) {
        Ok(Exit::Fine | Exit::Undecided | Exit::Unusable) if output::is_incomplete() => Exit::RoundsFailed.into(),
        Ok(Exit::Of(0)) if output::is_incomplete() => Exit::Of(exit::LINK_FAILED).into(),
        Ok(exit) => exit.into(),
        Err(stopped) => {
            output::error(&stopped.to_string());
            stopped.exit.into()
        }
    }
}

/// The word that no flag or command accepts.
fn unknown(error: &clap::Error) -> Option<&str> {
    let word = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => Some(word.as_str()),
        _ => None,
    };
    word(ContextKind::InvalidArg).or_else(|| word(ContextKind::InvalidSubcommand))
}

/// Returns the experiment for a word of other tools, such as `ping`.
fn experiment_for(word: &str) -> Option<&'static str> {
    match word {
        "latency" | "ping" | "rtt" => Some("round-trip"),
        "throughput" | "bandwidth" | "goodput" => Some("bulk"),
        _ => None,
    }
}

fn dispatch(program: &Program, matches: &ArgMatches, arguments: &[OsString]) -> Result<Exit, Stopped> {
    match matches.subcommand() {
        Some(("list", matches)) => list::run(program, matches),
        Some(("report", matches)) => report::run(matches),
        Some(("analyse", matches)) => analyse::run(matches),
        Some(("explain", matches)) => explain::run(matches),
        Some(("tune", matches)) => tune::run(matches),
        Some(("compare", matches)) if matches.contains_id("run") => gate::run(program, matches),
        Some(("compare", matches)) => compare::run(matches),
        Some(("runs", matches)) if matches.get_flag("clean") => clean::run(matches),
        Some(("runs", matches)) => runs::run(matches),
        Some(("claims", matches)) => claims::run(program, matches, arguments),
        Some(("link", matches)) => link::run(matches),
        Some(("serve", matches)) => serve::run(matches),
        Some(("check", matches)) => check::run(matches),
        Some(("completions", matches)) => manual::completions(program, matches),
        Some(("man", matches)) => manual::man(program, matches),
        Some((experiment, matches)) => match matches.try_get_one::<String>(measure::AS) {
            Ok(Some(like)) => drop_in::run(program, experiment, like, arguments),
            _ => measure::run(program, experiment, matches, arguments),
        },
        None => measure::run(program, command::DEFAULT_EXPERIMENT, matches, arguments),
    }
}

fn recorder_cost() -> Exit {
    let clock = hairpin_engine::clock::RealClock::calibrated();
    let (read_ns, sample_ns) = (clock.facts().read_cost_ns, hairpin_engine::recorder::cost_ns(&clock));
    output::text(&format!("{{\"clock_read_ns\": {read_ns:.2}, \"sample_ns\": {sample_ns:.2}}}\n"));
    Exit::Fine
}
