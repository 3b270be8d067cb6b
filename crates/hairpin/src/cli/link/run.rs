//! `hairpin link run`: any program across a link, from its start to the last of what it leaves.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use clap::ArgMatches;
use hairpin_engine::clock::RealClock;
use hairpin_engine::links::guest::{Group, Guest, NotStarted, Woken, is_in_foreground};
use hairpin_engine::links::{LinkEnd, LinkOrder, RunningLink, namespace};
use hairpin_engine::placement::Cpus;
use hairpin_model::link::Backend;
use hairpin_model::round::Failure;
use serde_json::json;

use super::super::exit::{Exit, LINK_FAILED, Stopped};
use super::super::measure::drawn_seed;
use super::super::output;
use super::far::{Far, Readiness, to_standard_error};
use super::{Asked, account};
use crate::interrupt::Signals;

/// How long the command may take to end when the link has failed.
const TO_END: Duration = Duration::from_secs(1);

/// What is wanted.
struct Wish {
    link: Asked,
    line: String,
    far: Option<String>,
    seed: u64,
    log: Option<PathBuf>,
    backend: Backend,
    json: bool,
    quiet: bool,
    command: Vec<OsString>,
}

/// How it came out.
enum Outcome {
    /// The command ended.
    Ended(ExitStatus),
    /// It could not be run.
    NotRun(io::Error),
    /// The user ended it before the command was started.
    Interrupted,
    /// The link failed while the command ran.
    LinkFailed,
}

/// Runs the command across the link.
///
/// # Errors
/// Bad input, with nothing started; or the link failed, with everything undone.
pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let wish = Wish::read(matches)?;
    namespace::prepare().map_err(|why_not| Stopped::link(&Failure { cause: why_not.reason, hint: why_not.hint }))?;
    let unready = |error: io::Error| Failure {
        cause: format!("cannot prepare the link: {error}"),
        hint: "/proc is needed".to_owned(),
    };
    let signals = Signals::catch().map_err(unready).map_err(|failure| Stopped::link(&failure))?;
    let (outcome, end) = across(&wish, &signals, &unready).map_err(|failure| Stopped::link(&failure))?;
    let exit = match &outcome {
        Outcome::Ended(status) => Exit::Of(code(*status)),
        Outcome::NotRun(error) => return Err(not_run(&wish.command[0], error)),
        Outcome::Interrupted => Exit::Interrupted,
        Outcome::LinkFailed => Exit::Of(LINK_FAILED),
    };
    tell(&wish, exit, &end);
    Ok(exit)
}

/// Makes the link, runs the command, and undoes the link.
fn across(
    wish: &Wish,
    signals: &Signals,
    unready: &dyn Fn(io::Error) -> Failure,
) -> Result<(Outcome, LinkEnd), Failure> {
    let program = std::env::current_exe().map_err(unready)?;
    let order = LinkOrder {
        profile: wish.line.clone(),
        traces: wish.link.traces.clone(),
        seed: wish.seed,
        backend: wish.backend,
        clock: RealClock::calibrated(),
        cpu: None,
        allowed_cpus: Cpus::choose().map_err(unready)?.allowed,
        messages: None,
        log: wish.log.clone(),
    };
    let link = RunningLink::start(&program, &order)?;
    let outcome = between(wish, &link, &program, signals);
    // A failure of the link explains whatever else went wrong.
    let end = link.finish()?;
    Ok((outcome?, end))
}

/// Runs both commands, the far one first.
fn between(wish: &Wish, link: &RunningLink, program: &Path, signals: &Signals) -> Result<Outcome, Failure> {
    let environment = account::environment(&wish.line);
    let (far, remark) = match &wish.far {
        None => (Far::echo(program, &link.namespaces().far)?, "echo on TCP and UDP port 7".to_owned()),
        Some(text) => {
            let (far, readiness) = Far::shell(text, &environment, &link.namespaces().far, signals)?;
            let remark = match readiness {
                Readiness::Listens => text.clone(),
                Readiness::Ended => format!("{text} (it has ended)"),
                Readiness::Silent => format!("{text} (nothing listens yet)"),
            };
            (far, remark)
        }
    };
    if !signals.take().is_empty() {
        return Ok(Outcome::Interrupted);
    }
    if !wish.quiet {
        output::note(&account::before(&wish.described(), &remark));
    }
    let mut command = Command::new(&wish.command[0]);
    command.args(&wish.command[1..]).envs(environment.iter().map(|(name, value)| (name, value)));
    if wish.json {
        command.stdout(to_standard_error()?);
    }
    let outcome = match Guest::start(&mut command, &link.namespaces().near, Group::Shared) {
        Ok(guest) => watched(guest, link, signals)?,
        Err(NotStarted::Program(error)) => Outcome::NotRun(error),
        Err(NotStarted::Link(failure)) => return Err(failure),
    };
    if let Some(status) = far.end().filter(|status| !status.success()) {
        output::note(&format!("warning: the far command had ended before ({status})"));
    }
    Ok(outcome)
}

/// Waits until the command ends, passes signals on to it, and ends it when the link fails.
fn watched(mut guest: Guest, link: &RunningLink, signals: &Signals) -> Result<Outcome, Failure> {
    loop {
        let woken = guest.wait(&[link.words(), signals.file()], None).map_err(|error| Failure {
            cause: format!("cannot wait for the command: {error}"),
            hint: String::new(),
        })?;
        match woken {
            Woken::Ended(status) => return Ok(Outcome::Ended(status)),
            Woken::Others(ready) if ready[0] => {
                guest.end(TO_END);
                return Ok(Outcome::LinkFailed);
            }
            Woken::Others(_) => {
                let has_come_by_key = is_in_foreground();
                for signal in signals.take() {
                    // What a key sends has reached the command already; twice would mean more to some programs.
                    if !(has_come_by_key && Signals::is_of_a_key(signal)) {
                        guest.signal(signal);
                    }
                }
            }
        }
    }
}

impl Wish {
    fn read(matches: &ArgMatches) -> Result<Self, Stopped> {
        let link = Asked::read(matches.get_one::<String>("link").expect("it is required"))?;
        if link.profile.is_loopback() {
            return Err(Stopped::usage(
                "`loopback` is the kernel's own path, with no link (hint: run the command itself)",
            ));
        }
        let log: Option<PathBuf> = matches.get_one("log").cloned();
        if let Some(path) = &log {
            File::create(path).map_err(|error| {
                Stopped::usage(format!(
                    "cannot write the log {}: {error} (hint: --log FILE names another)",
                    path.display()
                ))
            })?;
        }
        let backend: &String = matches.get_one("backend").expect("it has a default");
        Ok(Self {
            line: link.profile.to_string(),
            link,
            far: matches.get_one("far").cloned(),
            seed: matches.get_one("seed").copied().unwrap_or_else(drawn_seed),
            log,
            backend: backend.parse().map_err(Stopped::usage)?,
            json: matches.get_flag("json"),
            quiet: matches.get_flag("quiet"),
            command: matches.get_many("COMMAND").unwrap_or_default().cloned().collect(),
        })
    }

    /// The link in words: all that it takes to have it again.
    fn described(&self) -> String {
        let name = self.link.builtin.map(|builtin| format!("{}: ", builtin.name)).unwrap_or_default();
        format!("{name}{}\n      seed {}, {}", self.line, self.seed, self.backend)
    }
}

/// Tells what became of the link, and warns of what makes it worthless.
fn tell(wish: &Wish, exit: Exit, end: &LinkEnd) {
    let record = &end.record;
    if !wish.quiet {
        output::note(&account::after(record));
    }
    if let Some(warning) = account::warning(record) {
        output::note(&warning);
    }
    if let Some(problem) = &end.log_problem {
        output::note(&format!("warning: the log is not whole: {problem}"));
    }
    let Exit::Of(code) = exit else { return };
    if wish.json {
        let words: Vec<String> = wish.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let told = json!({
            "command": words,
            "far": wish.far,
            "exit_code": code,
            "profile": wish.line,
            "name": wish.link.builtin.map(|builtin| builtin.name),
            "seed": wish.seed,
            "backend": wish.backend,
            "addresses": account::addresses(),
            "link": record,
        });
        output::text(&format!("{told:#}\n"));
    }
}

/// The exit code that stands for how the command ended.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The words and the code of env(1) for a program that cannot be run.
fn not_run(program: &OsString, error: &io::Error) -> Stopped {
    const NOT_FOUND: u8 = 127;
    const NOT_EXECUTABLE: u8 = 126;
    let (code, hint) = match error.kind() {
        io::ErrorKind::NotFound => (NOT_FOUND, "is it installed, and in $PATH?"),
        _ => (NOT_EXECUTABLE, "may it be executed?"),
    };
    let message = format!("cannot run `{}`: {error} (hint: {hint})", program.to_string_lossy());
    Stopped::with(Exit::Of(code), message)
}
