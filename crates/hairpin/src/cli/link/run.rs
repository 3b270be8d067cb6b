//! `hairpin link run`: runs any program over a link, and cleans up.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use hairpin_engine::clock::RealClock;
use hairpin_engine::links::guest::{Group, Guest, GuestEvent, NotStarted};
use hairpin_engine::links::{LinkEnd, LinkOrder, LogTo, RunningLink, addresses, namespace, tcp};
use hairpin_engine::placement::Cpus;
use hairpin_engine::tuning::Program;
use hairpin_engine::watching::{Subject, Watch};
use hairpin_experiments::knob::EVERY;
use hairpin_model::observed::Observed;
use hairpin_model::{Failure, FailureKind, LinkRun};
use hairpin_report::words::left_out;

use super::super::exit::{Exit, LINK_FAILED, Stopped};
use super::super::output;
use super::super::start::{Ended, How, Output, forward};
use super::account::{self, Addresses};
use super::far::{Far, Readiness};
use super::request::LinkRequest;
use crate::interrupt::Signals;
use crate::linux::streams::{own_stream, signal_of, to_standard_error};
use crate::session::drawn_seed;

/// Time for the command to end after the link has failed.
const END_TIMEOUT: Duration = Duration::from_secs(1);

pub(in crate::cli) struct LinkRunOptions {
    link: LinkRequest,
    line: String,
    far: Option<String>,
    seed: u64,
    congestion_control: String,
    log: Option<LogTo>,
    json: bool,
    /// Whether no address and no seed is printed.
    pub(in crate::cli) quiet: bool,
    command: Vec<OsString>,
}

pub(super) fn run(matches: &ArgMatches) -> Result<Exit, Stopped> {
    let options = LinkRunOptions::read(matches)?;
    namespace::prepare()
        .map_err(|why_not| Stopped::link(&Failure::new(FailureKind::Unsupported, why_not.reason, why_not.hint)))?;
    let signals = Signals::catch().map_err(unready).map_err(|failure| Stopped::link(&failure))?;
    let (exit, end) = run_link(&options, &signals, None).map_err(|failure| Stopped::link(&failure))?;
    let exit = exit?;
    print_result(&options, exit, &end);
    Ok(exit)
}

pub(in crate::cli) fn run_over_link(
    options: &LinkRunOptions,
    how: How<'_>,
    signals: &Signals,
) -> Result<(Exit, Ended), Stopped> {
    let mut ended = Ended::default();
    let (exit, end) =
        run_link(options, signals, Some((how, &mut ended))).map_err(|failure| Stopped::link(&failure))?;
    let exit = exit?;
    account::warning(&end.record).iter().for_each(|warning| output::note(warning));
    Ok((exit, ended))
}

fn unready(error: io::Error) -> Failure {
    let hint = "is /proc there, and is a limit on open files (ulimit -n) reached?";
    Failure::new(&error, format!("cannot prepare the link: {error}"), hint)
}

/// How the commands are watched, and what that shows.
type Watched<'w> = Option<(How<'w>, &'w mut Ended)>;

fn run_link(
    options: &LinkRunOptions,
    signals: &Signals,
    mut watched: Watched<'_>,
) -> Result<(Result<Exit, Stopped>, LinkEnd), Failure> {
    let program = std::env::current_exe().map_err(unready)?;
    let order = LinkOrder {
        profile: options.line.clone(),
        traces: options.link.traces.clone(),
        seed: options.seed,
        congestion_control: options.congestion_control.clone(),
        clock: RealClock::calibrated(),
        cpu: None,
        allowed_cpus: Cpus::choose().map_err(unready)?.allowed,
        messages: BTreeMap::new(),
        log: options.log.clone(),
    };
    let link = RunningLink::start(&program, &order)?;
    let ends = [link.namespaces().near.as_path(), link.namespaces().far.as_path()];
    for end in ends {
        namespace::set_all(end, watched.as_ref().map_or(&[], |(how, _)| how.sysctls))?;
    }
    let watch = watched.is_some().then(|| Watch::begin(Subject::Children, &ends)).transpose()?;
    let exit = run_commands(options, &link, &program, signals, &mut watched);
    if let Some((watch, (_, ended))) = watch.zip(watched) {
        let (packets, programs) = watch.finish();
        ended.observed = Observed { packets, programs: Some(programs) };
    }
    // An error of the link is reported first, because it explains other errors.
    let end = link.finish()?;
    Ok((exit?, end))
}

/// Runs both commands, the far one first. The inner error is that COMMAND cannot be executed.
fn run_commands(
    options: &LinkRunOptions,
    link: &RunningLink,
    program: &Path,
    signals: &Signals,
    watched: &mut Watched<'_>,
) -> Result<Result<Exit, Stopped>, Failure> {
    let how = watched.as_ref().map(|(how, _)| *how).unwrap_or_default();
    let addresses = options.addresses();
    let (far, remark) = match &options.far {
        None => (Far::echo(program, &link.namespaces().far)?, "echo on TCP and UDP port 7".to_owned()),
        Some(text) => {
            let (far, readiness) = Far::shell(text, &addresses, &link.namespaces().far, signals, how)?;
            let remark = match readiness {
                Readiness::Listens => text.clone(),
                Readiness::Ended => format!("{text} (it has ended)"),
                Readiness::Silent => format!("{text} (nothing listens yet)"),
            };
            (far, remark)
        }
    };
    if let [signal, ..] = signals.take()[..] {
        watched.iter_mut().for_each(|(_, ended)| ended.interrupted = true);
        return Ok(Ok(Exit::Of(signal_exit_code(signal))));
    }
    if !options.quiet {
        output::note(&addresses.before(&options.described(), link.ends_use(), &remark));
        // The near end has the same `/sys`.
        if let Some(why) = far.foreign_sys() {
            output::note(&format!("note  /sys shows the devices of the host: {why}"));
        }
        if let Some(word) = options.unexpanded_variable() {
            output::note(&format!("note  COMMAND gets `{word}` literally: sh -c '...' lets a shell expand it"));
        }
    }
    let mut command = Command::new(&options.command[0]);
    command.args(&options.command[1..]);
    addresses.set_environment(&mut command);
    if options.json {
        command.stdout(to_standard_error()?);
    }
    let kept = watched.as_ref().map(|(how, _)| Output::of(&mut command, how.keeps_output)).transpose()?;
    let began = Instant::now();
    let (mut supervisions, mut interrupted) = (Vec::new(), false);
    let place = (link.namespaces().near.as_path(), Group::Shared);
    let (exit, kept) = match Program::start(&mut command, how.options, how.settings, Some(place)) {
        Ok(mut program) => {
            let kept = kept.map(|kept| kept.reader(command, &mut program.guest));
            let (exit, was_signalled) = wait_for_command(&mut program.guest, link, signals)?;
            interrupted = was_signalled;
            supervisions.extend(program.end());
            (Ok(exit), kept)
        }
        Err(NotStarted::Program(error)) => (Err(cannot_run(&options.command[0], &error)), None),
        Err(NotStarted::Link(failure)) => return Err(failure),
    };
    let took = began.elapsed();
    let (status, supervision) = far.end();
    supervisions.extend(supervision);
    if let Some((_, ended)) = watched {
        (ended.took, ended.supervisions, ended.output) = (took, supervisions, kept);
        ended.interrupted = interrupted;
    }
    if let Some(status) = status.filter(|status| !status.success()) {
        output::note(&format!("warning: the far command ended early ({status})"));
    }
    Ok(exit)
}

/// Waits until the command ends, and forwards signals to it; also returns whether there were any. If the link fails, ends the command.
fn wait_for_command(guest: &mut Guest, link: &RunningLink, signals: &Signals) -> Result<(Exit, bool), Failure> {
    let mut interrupted = false;
    loop {
        let woken = guest.wait(&[link.words(), signals.file()], None).map_err(|error| {
            Failure::new(
                &error,
                format!("cannot wait for the command: {error}"),
                "is memory short, or a limit on it (ulimit -v) reached?",
            )
        })?;
        match woken {
            GuestEvent::Ended(status) => return Ok((Exit::Of(exit_code(status)), interrupted)),
            GuestEvent::Others(ready) if ready[0] => {
                guest.end(END_TIMEOUT);
                return Ok((Exit::Of(LINK_FAILED), interrupted));
            }
            GuestEvent::Others(_) => interrupted |= forward(signals, guest, Guest::signal),
        }
    }
}

impl LinkRunOptions {
    /// Reads the arguments of `link`.
    pub(in crate::cli) fn read(matches: &ArgMatches) -> Result<Self, Stopped> {
        let text: &String = matches.get_one("link").expect("it is required");
        if text.trim() == EVERY {
            return Err(Stopped::usage(
                "`--link all` is for experiments; a program needs one link (hint: `hairpin link list` shows the \
                names)",
            ));
        }
        let far: Option<String> = matches.get_one("far").cloned();
        if far.as_ref().is_some_and(|far| far.trim().is_empty()) {
            return Err(Stopped::usage(
                "--far has no command (hint: omit it for the echo server, or use `--far true` for no server)",
            ));
        }
        let link = LinkRequest::read(text)?;
        if link.profile.is_loopback() {
            return Err(Stopped::usage(
                "`loopback` is not an emulated link (hint: run the command without `hairpin link run`)",
            ));
        }
        let asked: Option<String> = matches.get_one("congestion").cloned();
        asked.iter().try_for_each(|name| tcp::may_use(name)).map_err(Stopped::usage)?;
        let congestion_control = asked.unwrap_or_else(tcp::default_congestion_control);
        let log = matches.get_one("log").map(|path: &PathBuf| log_target(path)).transpose()?;
        Ok(Self {
            line: link.profile.to_string(),
            link,
            far,
            seed: matches.get_one("seed").copied().unwrap_or_else(drawn_seed),
            congestion_control,
            log,
            json: matches.get_flag("json"),
            quiet: matches.get_flag("quiet"),
            command: matches.get_many("COMMAND").unwrap_or_default().cloned().collect(),
        })
    }

    fn addresses(&self) -> Addresses<'_> {
        Addresses { link: &self.line, has_ipv6: addresses::have_ipv6(self.link.profile.mtu_bytes) }
    }

    /// Returns a word of COMMAND with a variable of Hairpin that no shell expands, because COMMAND uses no shell.
    fn unexpanded_variable(&self) -> Option<String> {
        let mut words = self.command.iter().map(|word| word.to_string_lossy());
        let has_shell = words.clone().any(|word| word.ends_with("sh"));
        let is_ours = |word: &Cow<'_, str>| word.contains("$HAIRPIN_") || word.contains("${HAIRPIN_");
        words.find(is_ours).filter(|_| !has_shell).map(Cow::into_owned)
    }

    /// Describes the link and its seed, so that the user can repeat the run.
    fn described(&self) -> String {
        let name = self.link.builtin.map(|builtin| format!("{}: ", builtin.name)).unwrap_or_default();
        format!("{name}{}\n      seed {}", self.line, self.seed)
    }
}

/// Returns the destination of the log; refuses a file that cannot be written. The link creates the file when it has
/// something to write, so an existing file stays unchanged until then.
fn log_target(path: &Path) -> Result<LogTo, Stopped> {
    let refused = |why: &dyn std::fmt::Display| {
        Stopped::usage(format!(
            "cannot write the log {}: {why} (hint: use another file with --log FILE)",
            path.display()
        ))
    };
    if path.to_str().is_none() {
        return Err(refused(&"its name is not UTF-8"));
    }
    if let Some(number) = own_stream(path) {
        return match LogTo::may_be_stream(number) {
            Ok(true) => Ok(LogTo::Stream(number)),
            Ok(false) => Err(refused(&"it is open for reading only")),
            Err(error) => Err(refused(&error)),
        };
    }
    let may_write = match fs::metadata(path) {
        // Does not open a pipe, because its reader would notice that.
        Ok(found) if found.is_file() || found.is_dir() => OpenOptions::new().append(true).open(path).map(drop),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            fs::metadata(folder.unwrap_or(Path::new("."))).map(drop)
        }
        Err(error) => Err(error),
    };
    may_write.map(|()| LogTo::File(path.to_owned())).map_err(|error| refused(&error))
}

/// Prints the link's counts, and a warning if its times must not be trusted.
fn print_result(options: &LinkRunOptions, exit: Exit, end: &LinkEnd) {
    let record = &end.record;
    if !options.quiet {
        output::note(&account::after(record));
    }
    if let Some(warning) = account::warning(record) {
        output::note(&warning);
    }
    if let Some(problem) = &record.log_problem {
        output::note(&format!("warning: the log is incomplete: {problem}"));
    }
    let Exit::Of(code) = exit else { return };
    if options.json {
        let why_invalid = record.why_invalid().map(|why| left_out(&why));
        let words: Vec<String> = options.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        output::json(&LinkRun {
            command: words,
            far: &options.far,
            exit_code: code,
            valid: why_invalid.is_none(),
            invalid_because: why_invalid.into_iter().collect(),
            profile: &options.line,
            name: options.link.builtin.map(|builtin| builtin.name),
            seed: options.seed,
            addresses: options.addresses().named(),
            link: record,
        });
    }
}

pub(in crate::cli) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.or_else(|| signal_of(status).map(signal_exit_code)).unwrap_or(u8::MAX)
}

/// Exit code for a command that `signal` ended, as in a shell.
fn signal_exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// Error and exit code of env(1) for a program that cannot be run.
pub(in crate::cli) fn cannot_run(program: &OsString, error: &io::Error) -> Stopped {
    const NOT_FOUND: u8 = 127;
    const NOT_EXECUTABLE: u8 = 126;
    let (code, hint) = match error.kind() {
        io::ErrorKind::NotFound => (NOT_FOUND, "is it installed, and in $PATH?"),
        io::ErrorKind::WouldBlock => (NOT_EXECUTABLE, "is a limit on processes (ulimit -u) reached?"),
        _ => (NOT_EXECUTABLE, "is it executable?"),
    };
    let message = format!("cannot run `{}`: {error} (hint: {hint})", program.to_string_lossy());
    Stopped::with(Exit::Of(code), message)
}
