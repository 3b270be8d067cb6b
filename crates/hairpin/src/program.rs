//! The program that measures, and the parts of it that run in processes of their own.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use hairpin_engine::ends::start as server;
use hairpin_engine::links::{echo_server, process as link};
use hairpin_engine::{round_process as round, serve_round};
use hairpin_experiments::{Experiment, Refused, experiments};
use hairpin_model::{names, printable};
use hairpin_transports::Transport;

use crate::{interrupt, remote};

/// Exit code of a part that cannot do its work.
const EXIT_CODE: i32 = 2;

/// The program that runs the rounds of a [`Session`](crate::Session), with its transports and experiments. Proof that
/// this process is not itself a part of a round: [`round_main`] returns it.
#[derive(Clone, Debug)]
pub struct Program {
    /// `None` if it is this one.
    path: Option<PathBuf>,
    pub(crate) experiments: &'static [Experiment],
    /// In namespaces of its own a process acts as root in any case.
    pub(crate) by_root: bool,
}

/// Call it first in `main`. Each round is a process of its own, which is this program started again, and so are the
/// round's server and its emulated link: in these processes it does their work and does not return. `own` are the
/// transports that this program adds to the built-in ones.
///
/// # Panics
/// Two transports have one name, or one of `own` says that it is the reference.
#[must_use]
#[allow(clippy::exit, clippy::print_stderr, reason = "a part of a round has no other way out, and no caller")]
pub fn round_main(own: &'static [&'static dyn Transport]) -> Program {
    // If this fails, such a write still ends the program.
    drop(interrupt::have_large_files_refused());
    hairpin_transports::register(own);
    let arguments: Vec<OsString> = std::env::args_os().skip(1).take(3).collect();
    match part(&arguments) {
        Some(Ok(())) => std::process::exit(0),
        Some(Err(error)) => {
            eprintln!("error: {}", printable::lines(&error));
            std::process::exit(EXIT_CODE)
        }
        None => Program::new(None),
    }
}

impl Program {
    /// Another program that runs the rounds: it calls [`round_main`] with the same transports.
    ///
    /// # Panics
    /// As [`round_main`], or if this process has another list of transports already.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>, own: &'static [&'static dyn Transport]) -> Self {
        hairpin_transports::register(own);
        Self::new(Some(path.into()))
    }

    fn new(path: Option<PathBuf>) -> Self {
        Self { path, experiments: &[], by_root: hairpin_engine::environment::is_root() }
    }

    /// Adds experiments to the built-in ones.
    #[must_use]
    pub fn with_experiments(self, own: &'static [Experiment]) -> Self {
        Self { experiments: own, ..self }
    }

    /// Its experiments, the built-in ones first.
    pub fn experiments(&self) -> impl Iterator<Item = &'static Experiment> {
        experiments::ALL.iter().chain(self.experiments)
    }

    pub(crate) fn experiment(&self, name: &str) -> Result<&'static Experiment, Refused> {
        let known: Vec<&str> = self.experiments().map(|experiment| experiment.name).collect();
        let place = names::place("experiment", name, &known)?;
        Ok(self.experiments().nth(place).expect("found among their names"))
    }

    /// Its file.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        self.path.clone().map_or_else(std::env::current_exe, Ok)
    }
}

/// Does the work of a part if the arguments name one: its command, the id of the process that started it and, for the
/// server of a round, its host.
fn part(arguments: &[OsString]) -> Option<Result<(), String>> {
    let text = |place: usize| arguments.get(place).and_then(|word| word.to_str());
    let served = |name: &str, serve: &dyn Fn(u32) -> Result<(), String>| match text(1).map(str::parse) {
        Some(Ok(parent)) => serve(parent),
        _ => Err(format!("{name} is started by hairpin itself")),
    };
    Some(match text(0)? {
        round::COMMAND => served("the round", &|parent| serve_round::serve_as_process(parent, remote::dial)),
        server::COMMAND => {
            served("the server", &|parent| server::serve_as_process(parent, text(2).unwrap_or_default()))
        }
        link::COMMAND => served("the link", &link::serve_as_process),
        echo_server::COMMAND => served("the echo server", &echo_server::serve_as_process),
        _ => return None,
    })
}
