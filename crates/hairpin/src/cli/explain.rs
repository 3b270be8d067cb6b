//! `hairpin explain`: why a program is slow, by its packets and samples of its sockets.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use hairpin_analysis::explain;
use hairpin_engine::packets::file;
use hairpin_engine::wait::readable;
use hairpin_engine::watching::{Subject, Watch};
use hairpin_model::observed::Observed;
use hairpin_model::{Explanation, Tier};
use hairpin_report::explanation::write_explanation;
use hairpin_report::html;
use hairpin_report::terminal::render_explanation;
use hairpin_store::write_named;

use super::exit::{Exit, Stopped};
use super::link::LinkRunOptions;
use super::output;
use super::start::How;
use super::watched::{self, Place};
use crate::linux::programs::other_network;

pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let (mut explanation, exit) = if let Some(path) = matches.get_one::<PathBuf>("FILE") {
        (of_file(path)?, Exit::Fine)
    } else if let Some(command) = matches.get_many::<OsString>("COMMAND") {
        of_command(&command.cloned().collect::<Vec<_>>(), matches)?
    } else {
        (of_running(matches)?, Exit::Fine)
    };
    write_explanation(&mut explanation);
    let as_text = |look| render_explanation(&explanation, matches.get_flag("all"), &look);
    output::result(matches.get_flag("json"), &explanation, as_text);
    if let Some(path) = matches.get_one::<PathBuf>("html") {
        write_page(path, &html::render_explanation(&explanation))?;
    }
    Ok(exit)
}

fn write_page(path: &Path, page: &str) -> Result<(), Stopped> {
    write_named(path, page.as_bytes()).map_err(|error| {
        let why = format!("cannot write {}: {error} (hint: does its folder exist?)", path.display());
        Stopped::with(Exit::RoundsFailed, why)
    })
}

fn of_file(path: &Path) -> Result<Explanation, Stopped> {
    let opened = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
        true => Err(std::io::ErrorKind::IsADirectory.into()),
        false => Ok(file),
    });
    let opened = opened.map_err(|error| {
        Stopped::usage(format!("cannot read {}: {error} (hint: give a pcap or pcapng file)", path.display()))
    })?;
    let packets =
        file::read(opened).map_err(|failure| Stopped::usage(format!("cannot read {}: {failure}", path.display())))?;
    Ok(explain(Observed { packets, programs: None }, Tier::File, path.display().to_string()))
}

fn of_command(words: &[OsString], matches: &ArgMatches) -> Result<(Explanation, Exit), Stopped> {
    let link = matches.contains_id("link").then(|| LinkRunOptions::read(matches)).transpose()?;
    let place = watched::place(link.as_ref(), matches.get_flag("own-network"))?;
    let signals = watched::catch_signals()?;
    let ran = watched::run(words, place, How::default(), &signals)?;
    if ran.left > 0 && link.is_none() {
        let noun = if ran.left == 1 { "process" } else { "processes" };
        output::note(&format!("note  ended what the command left running: {} {noun}", ran.left));
    }
    let tier = (!matches!(place, Place::Here)).then_some(Tier::OwnNamespace);
    Ok((of_observed(ran.observed, tier, words, ran.exit), ran.exit))
}

pub(super) fn of_observed(observed: Observed, tier: Option<Tier>, words: &[OsString], exit: Exit) -> Explanation {
    let has_packets = observed.programs.as_ref().is_some_and(|programs| programs.figures.no_packets.is_none());
    let tier = match tier {
        _ if !has_packets => Tier::Samples,
        Some(tier) => tier,
        None => Tier::Packets,
    };
    Explanation { exit_code: Some(exit.code()), ..explain(observed, tier, subject(words)) }
}

pub(super) fn subject(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn of_running(matches: &ArgMatches) -> Result<Explanation, Stopped> {
    let (subject, name) = match (matches.get_one::<u16>("port"), matches.get_one::<u32>("pid")) {
        (Some(port), _) => (Subject::Port(*port), format!("port {port}")),
        (None, Some(process)) if Path::new("/proc").join(process.to_string()).is_dir() => {
            (Subject::Process(*process), format!("process {process}"))
        }
        (None, process) => {
            let process = process.copied().unwrap_or_default();
            return Err(Stopped::usage(format!("no process has the id {process} (hint: `pgrep NAME` prints ids)")));
        }
    };
    let signals = watched::catch_signals()?;
    let network = matches.get_one::<u32>("pid").and_then(|process| other_network(*process));
    let networks: Vec<&Path> = network.as_deref().into_iter().collect();
    let watch = Watch::begin(subject, &networks).map_err(|failure| Stopped::failed(&failure))?;
    let deadline = Instant::now() + Duration::from_nanos(*matches.get_one::<u64>("for").expect("it has a default"));
    // A signal ends the observation, and what was seen is explained.
    while signals.take().is_empty() && Instant::now() < deadline {
        drop(readable(signals.file(), deadline.saturating_duration_since(Instant::now())));
    }
    let (packets, programs) = watch.finish();
    let tier = if programs.figures.no_packets.is_some() { Tier::Samples } else { Tier::Packets };
    Ok(explain(Observed { packets, programs: Some(programs) }, tier, name))
}
