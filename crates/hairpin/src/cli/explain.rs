//! `hairpin explain`: why a program is slow, by its packets and samples of its sockets.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use hairpin_analysis::explain;
use hairpin_engine::links::guest::{Group, Guest, GuestEvent, NotStarted, is_in_foreground};
use hairpin_engine::links::namespace;
use hairpin_engine::packets::file;
use hairpin_engine::wait::readable;
use hairpin_engine::watching::{Leftovers, Subject, Watch};
use hairpin_model::observed::Observed;
use hairpin_model::{Explanation, Failure, FailureKind, Tier};
use hairpin_report::explanation::write_explanation;
use hairpin_report::terminal::render_explanation;

use super::exit::{Exit, Stopped};
use super::link::{cannot_run, exit_code, run_watched};
use super::output;
use crate::interrupt::Signals;
use crate::linux::streams::to_standard_error;

/// Explains what the arguments name.
///
/// # Errors
/// If there is nothing to watch, or it cannot be watched or read.
pub fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let (mut explanation, exit) = if let Some(path) = matches.get_one::<PathBuf>("FILE") {
        (of_file(path)?, Exit::Fine)
    } else if matches.contains_id("link") {
        of_link(matches)?
    } else if let Some(command) = matches.get_many::<OsString>("COMMAND") {
        of_command(&command.cloned().collect::<Vec<_>>(), matches.get_flag("own-network"))?
    } else {
        (of_running(matches)?, Exit::Fine)
    };
    write_explanation(&mut explanation);
    if matches.get_flag("json") {
        output::json(&explanation);
    } else {
        output::text(&render_explanation(&explanation, matches.get_flag("all"), &output::look()));
    }
    Ok(exit)
}

fn of_file(path: &Path) -> Result<Explanation, Stopped> {
    let opened = File::open(path).and_then(|file| match file.metadata()?.is_dir() {
        true => Err(std::io::ErrorKind::IsADirectory.into()),
        false => Ok(file),
    });
    let opened = opened.map_err(|error| {
        Stopped::usage(format!("cannot read {}: {error} (hint: give a pcap or pcapng file)", path.display()))
    })?;
    let packets = file::read(opened)
        .map_err(|failure| Stopped::usage(format!("cannot read {}: {failure}", path.display())))?;
    Ok(explain(Observed { packets, programs: None }, Tier::File, path.display().to_string()))
}

/// Runs a command over an emulated link and watches both ends.
fn of_link(matches: &ArgMatches) -> Result<(Explanation, Exit), Stopped> {
    let leftovers = Leftovers::adopt();
    let (exit, observed) = run_watched(matches)?;
    leftovers.end();
    let words = matches.get_many::<OsString>("COMMAND").unwrap_or_default().map(|word| word.to_string_lossy());
    let mut explanation = explain(observed, Tier::OwnNamespace, words.collect::<Vec<_>>().join(" "));
    explanation.exit_code = Some(exit.code());
    Ok((explanation, exit))
}

/// Runs a command and watches it.
fn of_command(words: &[OsString], has_own_network: bool) -> Result<(Explanation, Exit), Stopped> {
    if has_own_network {
        namespace::prepare()
            .map_err(|why_not| Stopped::failed(&Failure::new(FailureKind::Unsupported, why_not.reason, why_not.hint)))?;
    }
    let network = has_own_network.then(namespace::fresh).transpose().map_err(|failure| Stopped::failed(&failure))?;
    let network = network.as_ref().map(namespace::path_of);
    let signals = Signals::catch().map_err(unready).map_err(|failure| Stopped::failed(&failure))?;
    let leftovers = Leftovers::adopt();
    let places: Vec<&Path> = network.as_deref().into_iter().collect();
    let watch = Watch::begin(Subject::Children, &places).map_err(|failure| Stopped::failed(&failure))?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdout(to_standard_error().map_err(|failure| Stopped::failed(&failure))?);
    let started = match &network {
        Some(network) => Guest::start(&mut command, network, Group::Shared),
        None => Guest::start_here(&mut command).map_err(NotStarted::Program),
    };
    let guest = started.map_err(|why| match why {
        NotStarted::Program(error) => cannot_run(&words[0], &error),
        NotStarted::Link(failure) => Stopped::failed(&failure),
    })?;
    let status = wait(guest, &signals).map_err(|failure| Stopped::failed(&failure))?;
    let (packets, programs) = watch.finish();
    let ended = leftovers.end();
    if ended > 0 {
        output::note(&format!("note  ended what the command left running: {ended} processes"));
    }
    let tier = match (&programs.no_packets, has_own_network) {
        (Some(_), _) => Tier::Samples,
        (None, true) => Tier::OwnNamespace,
        (None, false) => Tier::Packets,
    };
    let subject: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let mut explanation = explain(Observed { packets, programs: Some(programs) }, tier, subject.join(" "));
    let code = exit_code(status);
    explanation.exit_code = Some(code);
    Ok((explanation, Exit::Of(code)))
}

fn unready(error: std::io::Error) -> Failure {
    Failure::new(&error, format!("cannot prepare to watch: {error}"), "is a limit on open files (ulimit -n) reached?")
}

/// Waits until the command ends, and forwards signals to it.
fn wait(mut guest: Guest, signals: &Signals) -> Result<ExitStatus, Failure> {
    loop {
        match guest.wait(&[signals.file()], None).map_err(unready)? {
            GuestEvent::Ended(status) => return Ok(status),
            GuestEvent::Others(_) => {
                let keys_reach_command = is_in_foreground();
                for signal in signals.take() {
                    if !(keys_reach_command && Signals::is_of_a_key(signal)) {
                        guest.signal(signal);
                    }
                }
            }
        }
    }
}

/// Watches what runs already.
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
    let signals = Signals::catch().map_err(unready).map_err(|failure| Stopped::failed(&failure))?;
    let watch = Watch::begin(subject, &[]).map_err(|failure| Stopped::failed(&failure))?;
    let deadline = Instant::now() + Duration::from_nanos(*matches.get_one::<u64>("for").expect("it has a default"));
    // A signal ends the observation, and what was seen is explained.
    while signals.take().is_empty() && Instant::now() < deadline {
        drop(readable(signals.file(), deadline.saturating_duration_since(Instant::now())));
    }
    let (packets, programs) = watch.finish();
    let tier = if programs.no_packets.is_some() { Tier::Samples } else { Tier::Packets };
    Ok(explain(Observed { packets, programs: Some(programs) }, tier, name))
}
