//! Runs a command once, watched, and with socket options set from outside if any are given.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hairpin_engine::links::guest::{Group, Guest, GuestEvent, NotStarted, is_in_foreground};
use hairpin_engine::links::namespace;
use hairpin_engine::tuning::{Program, Setting, Supervised, Supervision};
use hairpin_engine::watching::{Leftovers, Subject, Watch};
use hairpin_model::observed::Observed;
use hairpin_model::{Failure, FailureKind, Options};

use super::exit::{Exit, Stopped};
use super::link::{LinkRunOptions, cannot_run, exit_code, run_over_link};
use crate::interrupt::Signals;
use crate::linux::streams::to_standard_error;

/// Number of bytes at the end of a command's output that are kept.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// How a command runs.
#[derive(Clone, Copy, Default)]
pub(super) struct How<'h> {
    pub(super) place: Place<'h>,
    /// Settings of the command's own networks that have other values.
    pub(super) sysctls: &'h [(String, String)],
    /// Settings of its processes.
    pub(super) settings: &'h [Setting],
    /// With a supervisor that sets these options; `None` without one.
    pub(super) options: Option<&'h Options>,
    /// Keeps the output.
    pub(super) keeps_output: bool,
}

/// Where a command runs.
#[derive(Clone, Copy, Default)]
pub(super) enum Place<'h> {
    #[default]
    Here,
    /// In a new network namespace with only loopback.
    OwnNetwork,
    /// At the near end of a link, and a server at the far end.
    Link(&'h LinkRunOptions),
}

/// What a run showed.
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

/// A command that has ended.
#[derive(Default)]
pub(super) struct Ended {
    pub(super) interrupted: bool,
    pub(super) observed: Observed,
    pub(super) took: Duration,
    pub(super) supervisions: Vec<Supervision>,
    pub(super) output: Option<Output>,
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

/// Catches the signals that are forwarded to the command.
pub(super) fn catch_signals() -> Result<Signals, Stopped> {
    Signals::catch().map_err(unready).map_err(|failure| Stopped::failed(&failure))
}

/// Runs the command. Its output goes to standard error, signals are forwarded to it, and what it leaves running is ended.
pub(super) fn run(words: &[OsString], how: How<'_>, signals: &Signals) -> Result<Ran, Stopped> {
    let leftovers = Leftovers::adopt();
    let (exit, ended) = match how.place {
        Place::Link(link) => run_over_link(link, how, signals)?,
        _ => run_here(words, how, signals, &leftovers)?,
    };
    let left = leftovers.end();
    let Ended { interrupted, observed, took, supervisions, output } = ended;
    let supervised = supervisions.into_iter().map(Supervision::finish).reduce(Supervised::plus);
    let output = output.map(Output::text).unwrap_or_default();
    Ok(Ran { exit, interrupted, observed, took, supervised, output, left })
}

fn run_here(
    words: &[OsString],
    how: How<'_>,
    signals: &Signals,
    leftovers: &Leftovers,
) -> Result<(Exit, Ended), Stopped> {
    let failed = |failure: Failure| Stopped::failed(&failure);
    let network = matches!(how.place, Place::OwnNetwork).then(namespace::fresh).transpose().map_err(failed)?;
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

/// Where the output of a command goes: to standard error, and its end is kept if asked for.
pub(super) struct Output {
    keeps: bool,
    reader: Option<JoinHandle<String>>,
}

impl Output {
    pub(super) fn of(command: &mut Command, keeps: bool) -> Result<Self, Failure> {
        command.stdout(if keeps { Stdio::piped() } else { to_standard_error()? });
        Ok(Self { keeps, reader: None })
    }

    /// Begins to read. The command holds the write end of its output, so it is dropped.
    pub(super) fn reader(self, command: Command, guest: &mut Guest) -> Self {
        drop(command);
        let output = if self.keeps { guest.pipes().1 } else { None };
        Self { reader: output.map(|output| std::thread::spawn(move || pass_on(output))), ..self }
    }

    /// Returns the end of the output, once all that write it have ended.
    fn text(self) -> String {
        self.reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
    }
}

/// Copies output to standard error, and returns the end of it.
fn pass_on(mut output: ChildStdout) -> String {
    let (mut kept, mut part) = (Vec::new(), [0; 8192]);
    while let Ok(count @ 1..) = output.read(&mut part) {
        // Without a reader, the output is kept all the same.
        drop(std::io::stderr().write_all(&part[..count]));
        kept.extend_from_slice(&part[..count]);
        if kept.len() > 2 * MAX_OUTPUT_BYTES {
            kept.drain(..kept.len() - MAX_OUTPUT_BYTES);
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Waits until the command ends, and forwards signals to it: those of keys to all its processes, as a terminal does. Returns
/// whether there were any.
fn wait(guest: &mut Guest, signals: &Signals, leftovers: &Leftovers) -> Result<(ExitStatus, bool), Failure> {
    let mut interrupted = false;
    loop {
        match guest.wait(&[signals.file()], None).map_err(unready)? {
            GuestEvent::Ended(status) => return Ok((status, interrupted)),
            GuestEvent::Others(_) => {
                let keys_reach_command = is_in_foreground();
                for signal in signals.take() {
                    interrupted = true;
                    match Signals::is_of_a_key(signal) {
                        true if keys_reach_command => {}
                        true => leftovers.forward(signal),
                        false => guest.signal(signal),
                    }
                }
            }
        }
    }
}

fn unready(error: std::io::Error) -> Failure {
    Failure::new(&error, format!("cannot prepare to watch: {error}"), "is a limit on open files (ulimit -n) reached?")
}
