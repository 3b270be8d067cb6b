//! `hairpin link`: lists link profiles, shows a profile, and runs any program over a link.

mod account;
mod far;
pub mod list;
mod request;
mod run;
mod show;
pub mod words;

use clap::ArgMatches;

pub(super) use run::{LinkRunOptions, cannot_run, exit_code, run_over_link};

use super::exit::{Exit, Stopped};

/// Runs `hairpin link list`, `show` or `run`.
pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    match matches.subcommand() {
        Some(("show", matches)) => show::run(matches),
        Some(("run", matches)) => run::run(matches),
        Some((_, matches)) => Ok(list::run(matches)),
        None => Err(Stopped::usage("`hairpin link` needs a command (hint: list, show or run)")),
    }
}
