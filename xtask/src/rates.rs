//! `cargo xtask rates`: compares Hairpin's one-way rates with the rates of a bare loop, sockperf and iperf3.
//!
//! Every round of a case runs each contestant once, in new processes. The order rotates from round to round. Each round
//! gives the ratio of Hairpin's rate to the rate of each other contestant; the verdicts use the medians of these
//! ratios. All contestants run on the same two CPUs in one network namespace, whose counters are read.

mod case;
mod contestant;
mod counters;
mod judge;
mod namespace;
mod peer;
mod place;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process;
use case::Case;
use contestant::{Contestant, Program};
use judge::Round;
use place::Place;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The build profile: release or dist
    #[arg(long, default_value = "release")]
    profile: String,
    /// Interleaved rounds of each case
    #[arg(long, default_value_t = 21)]
    rounds: usize,
    /// Measure only these cases
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    only: Vec<String>,
    /// Folder of the built programs; set when this program runs itself in a network namespace
    #[arg(long, hide = true)]
    inside_namespace: Option<PathBuf>,
}

pub(crate) fn run(root: &Path, asked: &Options) -> Result<bool> {
    let cases = case::all(&asked.only)?;
    let Some(programs) = &asked.inside_namespace else {
        let [hairpin, _] = process::build(root, &asked.profile, [("hairpin", "hairpin"), ("xtask", "bare-loop")])?;
        return namespace::run_this_inside(hairpin.parent().context("the program has no folder")?);
    };
    let scratch = process::scratch("rates")?;
    let mut place = Place::new(programs, &scratch)?;
    let outcome = cases.iter().map(|case| measure(&mut place, case, asked.rounds)).collect::<Result<Vec<bool>>>();
    process::remove(&scratch)?;
    Ok(outcome?.into_iter().all(|holds| holds))
}

fn measure(place: &mut Place, case: &Case, rounds: usize) -> Result<bool> {
    println!("\n{}: {}; {rounds} rounds, {}", case.name, case.question, case.unit.in_words());
    let available = available(place, case);
    let mut measured: Vec<Round> = Vec::new();
    for number in 0..rounds {
        let mut round = Round::new();
        for turn in 0..available.len() {
            let contestant = available[(turn + number) % available.len()];
            let rate =
                place.rate(case, contestant).with_context(|| format!("{} in case {}", contestant.name, case.name))?;
            round.insert(contestant.name, rate);
        }
        measured.push(round);
    }
    Ok(judge::print(case, &measured))
}

/// Returns the contestants that can run here. Runs each contestant once, to load it and to find Hairpin's CPUs.
fn available<'a>(place: &mut Place, case: &'a Case) -> Vec<&'a Contestant> {
    let tried = case.contestants.iter().filter(|contestant| {
        let missing = contestant.program.missing();
        let tried = match missing {
            Some(package) => Err(format!("not installed (hint: apt-get install {package})")),
            None => place.rate(case, contestant).map_err(|why| format!("{why:#}")),
        };
        if let Err(why) = &tried {
            println!("{} is omitted: {}", contestant.name, why.lines().next().unwrap_or_default());
        }
        tried.is_ok()
    });
    let mut tried: Vec<_> = tried.collect();
    // Hairpin is first in each case, since the CPUs are known only after its first run.
    tried.sort_by_key(|contestant| contestant.program != Program::Hairpin);
    tried
}
