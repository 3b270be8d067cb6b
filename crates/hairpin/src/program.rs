//! The program that measures, and its parts that run in separate processes.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hairpin_engine::capture::reader;
use hairpin_engine::ends::start as server;
use hairpin_engine::links::{echo_server, process as link};
use hairpin_engine::{round_process as round, serve_round};
use hairpin_experiments::{Experiment, Refused, experiments};
use hairpin_model::{Tool, printable};
use hairpin_transports::Transport;

use crate::{interrupt, remote, tool};

const EXIT_CODE: i32 = 2;

/// The program that runs the rounds of a [`Session`](crate::Session), with its transports and experiments.
/// [`round_main`] returns it only in a process that is not itself a part of a round.
#[derive(Clone, Debug)]
pub struct Program {
    path: Option<PathBuf>,
    pub(crate) experiments: &'static [Experiment],
    /// Whether root started this process. Read early, because in its own user namespace a process is always root.
    pub(crate) by_root: bool,
    pub(crate) tool: Tool,
}

/// Must be called first in `main`. Each round, its server and its emulated link are separate processes of this
/// program. In such a process, the function does the work of the process and does not return. `own` are the
/// transports that this program adds to the built-in ones.
///
/// # Panics
/// If two transports have the same name, or one of `own` claims to be the reference.
#[allow(clippy::exit, clippy::print_stderr, reason = "a part of a round has no caller to return to")]
pub fn round_main(own: &'static [&'static dyn Transport]) -> Program {
    // If this fails, a write beyond the limit still ends the program.
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
    /// Uses another program to run the rounds. That program must call [`round_main`] with the same transports.
    ///
    /// # Panics
    /// As [`round_main`], or if this process has already registered other transports.
    pub fn at(path: impl Into<PathBuf>, own: &'static [&'static dyn Transport]) -> Self {
        hairpin_transports::register(own);
        Self::new(Some(path.into()))
    }

    fn new(path: Option<PathBuf>) -> Self {
        Self { path, experiments: &[], by_root: hairpin_engine::environment::is_root(), tool: tool::this() }
    }

    /// Another build of this program, which runs the rounds.
    ///
    /// # Errors
    /// If the file cannot be run, or is another program.
    pub fn other_build(&self, path: &Path) -> Result<Self, Refused> {
        let refused = |why: &dyn fmt::Display| {
            Refused::new(
                format!("cannot measure with {}: {why}", path.display()),
                "give another build of this program",
            )
        };
        let path = path.canonicalize().map_err(|error| refused(&error))?;
        let said =
            Command::new(&path).arg("--version").stdin(Stdio::null()).output().map_err(|error| refused(&error))?;
        let said = String::from_utf8_lossy(&said.stdout);
        let version = said.strip_prefix(self.tool.name.as_str()).map(|version| version.trim().to_owned());
        let version = version.ok_or_else(|| refused(&"--version does not begin with its name"))?;
        let tool = Tool { version, commit: None, build: "unknown".to_owned(), ..self.tool.clone() };
        Ok(Self { path: Some(path), tool, ..self.clone() })
    }

    #[must_use]
    pub fn with_experiments(self, own: &'static [Experiment]) -> Self {
        Self { experiments: own, ..self }
    }

    pub fn experiments(&self) -> impl Iterator<Item = &'static Experiment> {
        experiments::ALL.iter().chain(self.experiments)
    }

    pub(crate) fn experiment(&self, name: &str) -> Result<&'static Experiment, Refused> {
        experiments::find(name, self.experiments)
    }

    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        self.path.clone().map_or_else(std::env::current_exe, Ok)
    }
}

/// Does the work of a part of a round if `arguments` name a part: its command, the id of the process that started it
/// and, for a server, its host. `None` for other arguments.
fn part(arguments: &[OsString]) -> Option<Result<(), String>> {
    let text = |place: usize| arguments.get(place).and_then(|word| word.to_str());
    let served = |name: &str, serve: &dyn Fn(u32) -> Result<(), String>| match text(1).map(str::parse) {
        Some(Ok(parent)) => serve(parent),
        _ => Err(format!("only hairpin itself starts {name}")),
    };
    Some(match text(0)? {
        round::COMMAND => served("the round", &|parent| serve_round::serve_as_process(parent, remote::dial)),
        server::COMMAND => {
            served("the server", &|parent| server::serve_as_process(parent, text(2).unwrap_or_default()))
        }
        link::COMMAND => served("the link", &link::serve_as_process),
        reader::COMMAND => served("the capture", &reader::serve_as_process),
        echo_server::COMMAND => served("the echo server", &echo_server::serve_as_process),
        _ => return None,
    })
}
