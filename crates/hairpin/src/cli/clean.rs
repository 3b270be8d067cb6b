//! `hairpin runs --clean`: removes saved runs by age, size and number, after asking.

use clap::ArgMatches;
use hairpin_model::{parse, printable, quantities};
use hairpin_store::SavedRun;

use super::exit::{Exit, Stopped};
use super::output;
use super::runs::{listing, size, table};
use crate::session::now_unix_s;

/// Flags that select runs; at least one is needed. A run is removed if all given flags select it.
pub(super) const SELECTORS: [&str; 3] = ["older-than", "larger-than", "keep"];

struct Selection {
    begun_before_unix_s: u64,
    larger_than_bytes: Option<u64>,
    keep: usize,
}

impl Selection {
    fn read(matches: &ArgMatches) -> Result<Self, Stopped> {
        let given = |name| matches.get_one::<String>(name);
        let older_than_ns = given("older-than").map(|text| parse::duration_ns(text)).transpose();
        let larger_than = given("larger-than").map(|text| parse::bytes(text)).transpose();
        let older_than_s = older_than_ns.map_err(Stopped::usage)?.map(|ns| ns / 1_000_000_000);
        Ok(Self {
            begun_before_unix_s: older_than_s.map_or(u64::MAX, |age| now_unix_s().saturating_sub(age)),
            larger_than_bytes: larger_than.map_err(Stopped::usage)?,
            keep: matches.get_one::<usize>("keep").copied().unwrap_or(0),
        })
    }

    /// Returns the selected runs of a listing, which must be sorted newest first.
    fn select(&self, runs: Vec<SavedRun>) -> Vec<SavedRun> {
        let is_meant = |run: &SavedRun| {
            !run.is_being_written
                && run.head.started_unix_s < self.begun_before_unix_s
                && self.larger_than_bytes.is_none_or(|most| run.bytes > most)
        };
        runs.into_iter().skip(self.keep).filter(is_meant).collect()
    }
}

pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let selection = Selection::read(matches)?;
    let mut listing = listing(matches)?;
    let runs = selection.select(std::mem::take(&mut listing.runs));
    if runs.is_empty() {
        output::note("no run to remove");
        return Ok(Exit::Fine);
    }
    output::text(&table(&runs));
    let bytes = runs.iter().map(|run| run.bytes).fold(0, u64::saturating_add);
    let all = format!("{}, {}", quantities::counted(runs.len() as u64, "run"), size(bytes));
    if !matches.get_flag("yes") && !confirmed(&all)? {
        output::note("nothing removed");
        return Ok(Exit::Fine);
    }
    let (mut removed, mut freed_bytes) = (0, 0_u64);
    for run in &runs {
        match listing.remove(run) {
            Ok(()) => {
                removed += 1;
                freed_bytes = freed_bytes.saturating_add(run.bytes);
            }
            Err(why) => {
                let path = listing.path().join(&run.name);
                output::error(&format!("cannot remove {}: {why}", printable::line(&path.display().to_string())));
            }
        }
    }
    output::note(&format!("removed {}, {}", quantities::counted(removed, "run"), size(freed_bytes)));
    Ok(if removed == runs.len() as u64 { Exit::Fine } else { Exit::RoundsFailed })
}

fn confirmed(all: &str) -> Result<bool, Stopped> {
    let answer = output::ask(&format!("Remove {all}?"));
    let answer = answer.map_err(|error| Stopped::usage(format!("cannot read the answer: {error}")))?;
    answer.ok_or_else(|| {
        let why = "cannot ask before removing runs: standard input is not a terminal";
        Stopped::usage(format!("{why} (hint: --yes removes them without asking)"))
    })
}
