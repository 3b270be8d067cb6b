//! `hairpin analyse RUN`: computes figures, summaries and findings again from the samples.

use std::path::PathBuf;

use clap::ArgMatches;
use hairpin_model::run::State;
use hairpin_report::{html, time_sequence};
use hairpin_store::RunFolder;

use super::exit::{Exit, Stopped};
use super::output;
use super::report::{show, write_page};
use crate::saved;

/// Recomputes the results of a run, and saves and shows them. Shows them even if saving fails.
pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let path = matches.get_one::<PathBuf>("RUN").expect("it is required");
    let (folder, mut run) = RunFolder::open(path).map_err(Stopped::usage)?;
    saved::analyse(&folder, &mut run).map_err(Stopped::usage)?;
    if let Some(which) = matches.get_one::<String>("ladder") {
        time_sequence::chosen(&run, which).map_err(Stopped::usage)?;
    }
    // A killed run counts as interrupted, because only its saved rounds are known.
    if run.state == State::Running {
        run.state = State::Interrupted;
    }
    let saved = folder.rewrite_rounds(&run.rounds).and_then(|()| folder.write_run(&run));
    let saved =
        saved.map_err(|error| error.to_string()).and_then(|()| write_page(&html::render(&run), folder.files()));
    show(&folder, &run, matches)?;
    if let Err(why) = saved {
        output::error(&why);
        return Ok(Exit::RoundsFailed);
    }
    Ok(Exit::Fine)
}
