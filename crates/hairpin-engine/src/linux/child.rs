//! Child processes of this program, each started with a hidden command.

use std::io::{self, BufRead};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hairpin_model::{Failure, FailureKind};
use serde::de::DeserializeOwned;

use crate::control::ControlError;

/// The environment variable that may hold the ticket of a server on another host. The ticket is secret, so children do
/// not inherit the variable.
pub const TICKET_VARIABLE: &str = "HAIRPIN_TO";

/// Starts `program` with a hidden command, the id of this process and one more argument. `name` is the name of the
/// process in error messages: `the link`.
pub(crate) fn spawn(
    name: &str,
    program: &Path,
    command: &str,
    more: Option<&str>,
) -> Result<(Child, ChildStdin, ChildStdout), Failure> {
    let mut command_line = Command::new(program);
    command_line.env_remove(TICKET_VARIABLE).args([command, &std::process::id().to_string()]).args(more);
    let mut child = command_line
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| cannot("start", name, program, &error))?;
    let input = child.stdin.take().expect("its standard input is piped");
    let output = child.stdout.take().expect("its standard output is piped");
    Ok((child, input, output))
}

pub(crate) fn cannot(operation: &str, name: &str, program: &Path, error: &io::Error) -> Failure {
    let cause = format!("cannot {operation} {name} {}: {error}", program.display());
    Failure::new(error, cause, limit(error).to_owned())
}

/// Waits up to `within` for a process to exit, then kills it.
pub fn leave(child: &mut Child, within: Duration) {
    if matches!(exit_within(child, within), Ok(None)) {
        // Only a time-out would end the current call of the process, and its output is no longer needed.
        drop(child.kill());
        drop(child.wait());
    }
}

/// The exit status of a process that has closed its output and may exit slowly on a busy machine; `None` if it is still
/// running.
pub(crate) fn exit_status(child: &mut Child) -> Option<String> {
    let status = exit_within(child, Duration::from_secs(1)).ok()??;
    Some(status.to_string())
}

fn exit_within(child: &mut Child, within: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + within;
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Converts a control error to a failure. Adds the exit status of the other end's process if it has exited.
pub(crate) fn failure(error: &ControlError, name: &str, child: &mut Child) -> Failure {
    let failure = error.failure(name);
    let status = if matches!(error, ControlError::Closed) { exit_status(child) } else { None };
    match status {
        Some(how) => Failure::new(FailureKind::Killed, format!("{name} ended early ({how})"), failure.hint),
        None => failure,
    }
}

/// A hint that names the limit that was probably reached.
pub(crate) fn limit(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "is a limit on open files (ulimit -n) reached?",
        Some(libc::ENOENT | libc::EACCES) => "was this executable moved or replaced?",
        _ => "is a limit on processes (ulimit -u) or memory (ulimit -v) reached?",
    }
}

pub(crate) fn receive_order<Order: DeserializeOwned>() -> Result<Order, String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| format!("cannot read the order: {error}"))?;
    serde_json::from_str(&line).map_err(|error| format!("cannot read the order: {error}"))
}
