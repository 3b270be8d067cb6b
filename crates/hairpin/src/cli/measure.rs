//! The measurement commands: one for each experiment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ArgMatches;
use clap::parser::ValueSource;
use hairpin_experiments::{Experiment, KnobKind, Refused, evidence};
use hairpin_model::quantities::bytes;
use hairpin_model::run::State;
use hairpin_model::{Case, Run, Statement};
use hairpin_report::{html, time_sequence};
use hairpin_store::RunFolder;

use super::exit::{Exit, Stopped};
use super::progress::Progress;
use super::report::{PAGE, show, write_page};
use super::{output, two_hosts};
use crate::foreign::ForeignHost;
use crate::interrupt;
use crate::program::Program;
use crate::remote::Remote;
use crate::session::{Planned, Session};

/// Maximum number of save errors to print: on a full disk, saving every later round fails.
const MAX_UNSAVED: usize = 3;

pub(super) const ALL_ROUNDS: &str = "all-rounds";

/// Name of the flag that names a program of a published text.
pub(super) const AS: &str = "as";

/// Name of the flag that means `--keep-samples 0`.
pub(super) const NO_SAMPLES: &str = "no-samples";

/// Runs an experiment, saves it and reports it.
///
/// # Errors
/// If a setting is invalid, or a run folder cannot be created. Nothing was measured then.
pub fn run(program: &Program, name: &str, matches: &ArgMatches, arguments: &[OsString]) -> Result<Exit, Stopped> {
    measured(program, name, matches, arguments).map(|(_, exit)| exit)
}

pub(super) fn measured(
    program: &Program,
    name: &str,
    matches: &ArgMatches,
    arguments: &[OsString],
) -> Result<(Run, Exit), Stopped> {
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut session = session_of(program, name, matches)?.command_line(hairpin_hosts::ticket::redacted(&words));
    if let Some(folder) = matches.get_one::<PathBuf>("out") {
        session = session.save_in(folder);
    }
    let ends = Ends::prepare(matches)?;
    let session = ends.joined(session);
    if let Some(which) = matches.get_one::<String>("ladder") {
        let planned = session.planned().map_err(Stopped::usage)?;
        check_ladder(which, session.experiment, &planned).map_err(Stopped::usage)?;
    }
    let (folder, run) = ends.run(session).map_err(Stopped::usage)?;
    let printed = show(&folder, &run, matches);
    let is_complete = was_saved(&folder, &run);
    printed?;
    let exit = match run.state {
        State::Interrupted => Exit::Interrupted,
        _ if !is_complete => Exit::RoundsFailed,
        _ if is_unusable(&run) => Exit::Unusable,
        _ => Exit::Fine,
    };
    Ok((run, exit))
}

/// Writes the page of a run, and names it and the folder, or the errors. Returns whether all rounds were measured and
/// everything was saved.
pub(super) fn was_saved(folder: &RunFolder, run: &Run) -> bool {
    let page = write_page(&html::render(run), folder.files());
    match &page {
        Ok(()) => output::note(&format!(
            "\nRun folder  {} ({})\nReport      {}",
            shown(folder.path()),
            bytes(size_bytes(folder.path()) as f64),
            shown(&folder.path().join(PAGE))
        )),
        Err(error) => output::error(error),
    }
    for failure in run.unsaved.iter().take(MAX_UNSAVED) {
        output::error(&failure.cause);
    }
    if run.unsaved.len() > MAX_UNSAVED {
        output::error(&format!("not everything was saved: {} more errors", run.unsaved.len() - MAX_UNSAVED));
    }
    run.failed_rounds() == 0 && run.unsaved.is_empty() && page.is_ok()
}

fn size_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

/// Whether no figure can be used, or the machine was too noisy for an answer.
fn is_unusable(run: &Run) -> bool {
    let is_too_noisy = |statement: &Statement| matches!(statement, Statement::TooNoisy { .. });
    run.cases.iter().all(|case| !case.valid) || run.answer.statements.iter().any(is_too_noisy)
}

/// A session with the settings from the flags. Checks the settings, before a server is contacted.
pub(super) fn session_of<'a>(program: &'a Program, name: &str, matches: &ArgMatches) -> Result<Session<'a>, Stopped> {
    let all_rounds =
        matches.get_flag(ALL_ROUNDS) || std::env::var_os("HAIRPIN_ALL_ROUNDS").is_some_and(|set| !set.is_empty());
    let session = Session::new(program, name).map_err(Stopped::usage)?;
    let mut session = session.prove(matches.get_flag("prove")).all_rounds(all_rounds);
    let is_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
    for knob in session.experiment.knobs.iter().filter(|knob| is_given(knob.name)) {
        session = match knob.kind {
            KnobKind::Switch => session.set(knob.name, "on"),
            _ => {
                let values = matches.get_many::<String>(knob.name).unwrap_or_default();
                values.fold(session, |session, value| session.set(knob.name, value))
            }
        };
    }
    if matches.try_get_one(NO_SAMPLES).is_ok_and(|is_given| is_given == Some(&true)) {
        session = session.set("keep-samples", "0");
    }
    session.knobs().map_err(Stopped::usage)?;
    Ok(session)
}

/// Refuses a ladder that matches none of the cases, before anything is measured.
fn check_ladder(which: &str, experiment: &Experiment, planned: &Planned) -> Result<(), Refused> {
    let Planned { knobs, capabilities, cases, .. } = planned;
    let traces = knobs.is_on("trace");
    if !traces && experiment.knobs.iter().any(|knob| knob.name == "trace") {
        let why = "--ladder draws a traced exchange, but --trace off disables tracing";
        return Err(Refused::new(why, "omit one of them"));
    }
    let is_traced = |case: &Case| traces && evidence::is_traced(case, capabilities);
    time_sequence::check(which, cases.iter().map(|case| (case, is_traced(case)))).map_err(Refused::from)
}

/// The ends of all runs of a command.
pub(super) struct Ends {
    /// Set by Ctrl-C.
    stop: Arc<AtomicBool>,
    pub(super) server: Option<Remote>,
    foreign: Option<ForeignHost>,
    /// CPUs of client and server, if the user chose them; with a server on another host, twice the client's CPU.
    pub(super) cpus: Option<[usize; 2]>,
    quiet: bool,
}

impl Ends {
    pub(super) fn stop() -> Result<Arc<AtomicBool>, Stopped> {
        interrupt::raised_by_user().map_err(|error| Stopped::usage(format!("cannot prepare for signals: {error}")))
    }

    /// Catches Ctrl-C, and connects to a server on another host, if requested.
    pub(super) fn prepare(matches: &ArgMatches) -> Result<Self, Stopped> {
        let stop = Self::stop()?;
        let foreign = two_hosts::foreign(matches)?;
        let server = if foreign.is_some() { None } else { two_hosts::connect(matches, &stop)? };
        let is_elsewhere = server.is_some() || foreign.is_some();
        let cpus = match (matches.get_one::<Vec<usize>>("cpu").map(Vec::as_slice), is_elsewhere) {
            (None, _) => None,
            (Some(&[client]), true) => Some([client; 2]),
            (Some(&[client, server]), false) => Some([client, server]),
            (Some(_), true) => {
                return Err(Stopped::usage(
                    "--cpu sets one CPU if the server is on another host (hint: use `hairpin serve --cpu` there)",
                ));
            }
            (Some(_), false) => {
                return Err(Stopped::usage(
                    "--cpu sets two CPUs on one host (hint: use --cpu CLIENT,SERVER, or --to or HAIRPIN_TO)",
                ));
            }
        };
        Ok(Self { stop, server, foreign, cpus, quiet: matches.get_flag("quiet") })
    }

    pub(super) fn joined<'a>(&'a self, session: Session<'a>) -> Session<'a> {
        let session = session.stop_on(&self.stop);
        let session = if let Some(server) = &self.server { session.server(server) } else { session };
        let session = if let Some(foreign) = &self.foreign { session.foreign_server(foreign) } else { session };
        if let Some([client, server]) = self.cpus { session.cpus(client, server) } else { session }
    }

    pub(super) fn run(&self, session: Session<'_>) -> Result<(RunFolder, Run), Refused> {
        let mut progress = Progress::new(self.quiet);
        let ran = session.run(|event| progress.on(event));
        progress.finish();
        ran
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}
