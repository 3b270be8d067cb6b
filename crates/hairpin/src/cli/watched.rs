//! Runs a command once, watched, and with socket options set from outside if any are given.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hairpin_engine::links::guest::{Group, Guest, GuestEvent, NotStarted, is_in_foreground};
use hairpin_engine::links::namespace;
use hairpin_engine::tuning::{Supervised, Tuned};
use hairpin_engine::watching::{Leftovers, Subject, Watch};
use hairpin_model::observed::Observed;
use hairpin_model::{Failure, FailureKind, Options};

use super::exit::Stopped;
use super::link::cannot_run;
use crate::interrupt::Signals;
use crate::linux::streams::to_standard_error;

/// Number of bytes at the end of a command's output that are kept.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// How a command runs.
#[derive(Clone, Copy, Default)]
pub(super) struct How<'h> {
    /// In a new network namespace with only loopback, in which these settings have other values.
    pub(super) own_network: Option<&'h [(String, String)]>,
    /// With a supervisor that sets these options; `None` without one.
    pub(super) options: Option<&'h Options>,
    /// Keeps the output.
    pub(super) keeps_output: bool,
}

/// What a run showed.
pub(super) struct Ran {
    pub(super) status: ExitStatus,
    pub(super) took: Duration,
    pub(super) observed: Observed,
    pub(super) supervised: Option<Supervised>,
    pub(super) output: String,
    /// Number of processes that the command left running, and that were ended.
    pub(super) left: usize,
}

/// Makes networks of their own possible; call it before the first run.
pub(super) fn prepare_own_network() -> Result<(), Stopped> {
    let prepared = namespace::prepare();
    prepared
        .map(drop)
        .map_err(|why_not| Stopped::failed(&Failure::new(FailureKind::Unsupported, why_not.reason, why_not.hint)))
}

/// Runs the command. Its output goes to standard error, signals are forwarded to it, and what it leaves running is ended.
pub(super) fn run(words: &[OsString], how: How<'_>, signals: &Signals) -> Result<Ran, Stopped> {
    let failed = |failure: Failure| Stopped::failed(&failure);
    let network = how.own_network.map(|_| namespace::fresh()).transpose().map_err(failed)?;
    let network = network.as_ref().map(namespace::path_of);
    if let (Some(network), Some(settings)) = (&network, how.own_network) {
        namespace::set_all(network, settings).map_err(failed)?;
    }
    let leftovers = Leftovers::adopt();
    let places: Vec<&Path> = network.as_deref().into_iter().collect();
    let watch = Watch::begin(Subject::Children, &places).map_err(failed)?;
    let mut command = Command::new(&words[0]);
    let output = if how.keeps_output { Stdio::piped() } else { to_standard_error().map_err(failed)? };
    command.args(&words[1..]).stdout(output);
    let began = Instant::now();
    let started = match (how.options, &network) {
        (Some(options), network) => Tuned::start(&mut command, options, network.as_deref()).map(Program::Tuned),
        (None, Some(network)) => Guest::start(&mut command, network, Group::Shared).map(Program::Plain),
        (None, None) => Guest::start_here(&mut command).map(Program::Plain).map_err(NotStarted::Program),
    };
    let mut program = started.map_err(|why| match why {
        NotStarted::Program(error) => cannot_run(&words[0], &error),
        NotStarted::Link(failure) => Stopped::failed(&failure),
    })?;
    // The command holds the write end of its output, if it is kept.
    drop(command);
    let reader = program.guest().pipes().1.map(|output| std::thread::spawn(move || pass_on(output)));
    let status = wait(program.guest(), signals).map_err(failed)?;
    let took = began.elapsed();
    let (packets, programs) = watch.finish();
    let left = leftovers.end();
    let supervised = match program {
        Program::Tuned(tuned) => Some(tuned.finish()),
        Program::Plain(_) => None,
    };
    let output = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    Ok(Ran { status, took, observed: Observed { packets, programs: Some(programs) }, supervised, output, left })
}

enum Program {
    Plain(Guest),
    Tuned(Tuned),
}

impl Program {
    fn guest(&mut self) -> &mut Guest {
        match self {
            Self::Plain(guest) => guest,
            Self::Tuned(tuned) => &mut tuned.guest,
        }
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

/// Waits until the command ends, and forwards signals to it.
fn wait(guest: &mut Guest, signals: &Signals) -> Result<ExitStatus, Failure> {
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

pub(super) fn unready(error: std::io::Error) -> Failure {
    Failure::new(&error, format!("cannot prepare to watch: {error}"), "is a limit on open files (ulimit -n) reached?")
}
