//! Runs a command once, watched, and with socket options set from outside if any are given.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use hairpin_engine::links::guest::{Group, Guest, GuestEvent, NotStarted};
use hairpin_engine::links::namespace;
use hairpin_engine::tuning::{Program, Supervised, Supervision};
use hairpin_engine::watching::{Leftovers, Subject, Watch};
use hairpin_model::observed::Observed;
use hairpin_model::{Failure, FailureKind};

use super::exit::{Exit, Stopped};
use super::link::{LinkRunOptions, cannot_run, exit_code, run_over_link};
use super::start::{Ended, How, Output, forward};
use crate::interrupt::Signals;

#[derive(Clone, Copy, Default)]
pub(super) enum Place<'h> {
    #[default]
    Here,
    /// In a new network namespace with only loopback.
    OwnNetwork,
    /// At the near end of a link, and a server at the far end.
    Link(&'h LinkRunOptions),
}

pub(super) struct Ran {
    pub(super) exit: Exit,
    /// Whether a signal was forwarded to the command.
    pub(super) interrupted: bool,
    pub(super) observed: Observed,
    pub(super) took: Duration,
    pub(super) supervised: Option<Supervised>,
    pub(super) output: String,
    /// Number of processes that the command left running, and that were ended.
    pub(super) left: usize,
}

impl<'h> Place<'h> {
    pub(super) fn of(link: Option<&'h LinkRunOptions>, has_own_network: bool) -> Self {
        match link {
            Some(link) => Self::Link(link),
            None if has_own_network => Self::OwnNetwork,
            None => Self::Here,
        }
    }
}

/// Returns where a command runs. Prepares this process to create network namespaces; call it before the first run.
pub(super) fn place(link: Option<&LinkRunOptions>, has_own_network: bool) -> Result<Place<'_>, Stopped> {
    if link.is_some() || has_own_network {
        namespace::prepare().map_err(|why_not| {
            let failure = Failure::new(FailureKind::Unsupported, why_not.reason, why_not.hint);
            if link.is_some() { Stopped::link(&failure) } else { Stopped::failed(&failure) }
        })?;
    }
    Ok(Place::of(link, has_own_network))
}

pub(super) fn catch_signals() -> Result<Signals, Stopped> {
    Signals::catch().map_err(unready).map_err(|failure| Stopped::failed(&failure))
}

/// Runs the command. Its output goes to standard error, signals are forwarded to it, and what it leaves running is ended.
pub(super) fn run(words: &[OsString], place: Place<'_>, how: How<'_>, signals: &Signals) -> Result<Ran, Stopped> {
    let leftovers = Leftovers::adopt();
    let (exit, ended) = match place {
        Place::Link(link) => run_over_link(link, how, signals)?,
        _ => run_here(words, matches!(place, Place::OwnNetwork), how, signals, &leftovers)?,
    };
    let left = leftovers.end();
    let Ended { interrupted, observed, took, supervisions, output } = ended;
    let supervised = supervisions.into_iter().map(Supervision::finish).reduce(Supervised::plus);
    let output = output.map(Output::text).unwrap_or_default();
    Ok(Ran { exit, interrupted, observed, took, supervised, output, left })
}

fn run_here(
    words: &[OsString],
    has_own_network: bool,
    how: How<'_>,
    signals: &Signals,
    leftovers: &Leftovers,
) -> Result<(Exit, Ended), Stopped> {
    let failed = |failure: Failure| Stopped::failed(&failure);
    let network = has_own_network.then(namespace::fresh).transpose().map_err(failed)?;
    let network = network.as_ref().map(namespace::path_of);
    if let Some(network) = &network {
        namespace::set_all(network, how.sysctls).map_err(failed)?;
    }
    let places: Vec<&Path> = network.as_deref().into_iter().collect();
    let watch = Watch::begin(Subject::Children, &places).map_err(failed)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let output = Output::of(&mut command, how.keeps_output).map_err(failed)?;
    let began = Instant::now();
    let place = network.as_deref().map(|network| (network, Group::Shared));
    let mut program = Program::start(&mut command, how.options, how.settings, place).map_err(|why| match why {
        NotStarted::Program(error) => cannot_run(&words[0], &error),
        NotStarted::Link(failure) => Stopped::failed(&failure),
    })?;
    let output = output.reader(command, &mut program.guest);
    let (status, interrupted) = wait(&mut program.guest, signals, leftovers).map_err(failed)?;
    let took = began.elapsed();
    let (packets, programs) = watch.finish();
    let ended = Ended {
        interrupted,
        observed: Observed { packets, programs: Some(programs) },
        took,
        supervisions: program.end().into_iter().collect(),
        output: Some(output),
    };
    Ok((Exit::Of(exit_code(status)), ended))
}

/// Waits until the command ends, and forwards signals to it: those of keys to all its processes, as a terminal does. Returns
/// whether there were any.
fn wait(guest: &mut Guest, signals: &Signals, leftovers: &Leftovers) -> Result<(ExitStatus, bool), Failure> {
    let mut interrupted = false;
    loop {
        match guest.wait(&[signals.file()], None).map_err(unready)? {
            GuestEvent::Ended(status) => return Ok((status, interrupted)),
            GuestEvent::Others(_) => interrupted |= forward(signals, guest, |_, signal| leftovers.forward(signal)),
        }
    }
}

fn unready(error: std::io::Error) -> Failure {
    Failure::new(&error, format!("cannot prepare to watch: {error}"), "is a limit on open files (ulimit -n) reached?")
}
