//! The program at the far end of a link while the user's command runs at the near end.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hairpin_engine::links::echo_server;
use hairpin_engine::links::guest::{Group, GuestEvent, NotStarted};
use hairpin_engine::tuning::{Program, Supervision};
use hairpin_model::{Failure, FailureKind};

use super::super::start::How;
use super::account::Addresses;
use crate::interrupt::Signals;
use crate::linux::streams::to_standard_error;

const LISTEN_TIMEOUT: Duration = Duration::from_secs(2);

const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Time between the request to end and the kill.
const END_TIMEOUT: Duration = Duration::from_millis(500);

pub(super) struct Far {
    program: Program,
    /// Standard input of the echo server. Closing it ends the server.
    input: Option<ChildStdin>,
    /// Exit status of the far command, if it ended by itself.
    ended: Option<ExitStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Listens,
    Ended,
    /// The command did not listen in time.
    Silent,
}

impl Far {
    pub(super) fn echo(program: &Path, namespace: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args([echo_server::COMMAND, &std::process::id().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = start(&mut command, How::default(), namespace, "Hairpin's echo")?;
        let (input, output) = program.guest.pipes();
        let mut said = String::new();
        // A failed echo server prints its error and closes its output.
        let heard = output.map_or(Ok(0), |output| {
            BufReader::new(output.take(echo_server::READY.len() as u64 + 1)).read_line(&mut said)
        });
        if heard.is_err() || said != echo_server::READY {
            return Err(Failure::new(
                FailureKind::Other,
                "Hairpin's echo did not start at the far end",
                "use another far command with --far COMMAND",
            ));
        }
        Ok(Self { program, input, ended: None })
    }

    pub(super) fn shell(
        text: &str,
        addresses: &Addresses<'_>,
        namespace: &Path,
        signals: &Signals,
        how: How<'_>,
    ) -> Result<(Self, Readiness), Failure> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        addresses.set_environment(&mut command);
        command.stdin(Stdio::null()).stdout(to_standard_error()?);
        let program = start(&mut command, how, namespace, "/bin/sh")?;
        let mut far = Self { program, input: None, ended: None };
        let readiness = far.readiness(text, signals)?;
        Ok((far, readiness))
    }

    /// Waits until the command listens; a signal ends the wait.
    fn readiness(&mut self, text: &str, signals: &Signals) -> Result<Readiness, Failure> {
        let deadline = Instant::now() + LISTEN_TIMEOUT;
        while !self.program.guest.listens() {
            let waited = self.program.guest.wait(&[signals.file()], Some(POLL_INTERVAL)).map_err(|error| {
                Failure::new(
                    &error,
                    format!("cannot wait for the far command: {error}"),
                    "is memory short, or a limit on it (ulimit -v) reached?",
                )
            })?;
            match waited {
                GuestEvent::Ended(status) if status.success() => {
                    self.ended = Some(status);
                    return Ok(Readiness::Ended);
                }
                GuestEvent::Ended(status) => {
                    return Err(Failure::new(
                        FailureKind::Killed,
                        format!("the far command `{text}` ended at once ({status})"),
                        "try the command alone: /bin/sh runs it",
                    ));
                }
                GuestEvent::Others(ready) if ready.contains(&true) => return Ok(Readiness::Silent),
                GuestEvent::Others(_) if Instant::now() >= deadline => return Ok(Readiness::Silent),
                GuestEvent::Others(_) => {}
            }
        }
        Ok(Readiness::Listens)
    }

    /// Why `/sys` in the link's namespaces shows the host's devices; `None` if it does not.
    pub(super) fn foreign_sys(&self) -> Option<&Failure> {
        self.program.guest.foreign_sys()
    }

    /// Asks the program to end, then kills it. Returns the exit status if the program had already ended, and its supervision.
    pub(super) fn end(mut self) -> (Option<ExitStatus>, Option<Supervision>) {
        if self.ended.is_none()
            && let Ok(GuestEvent::Ended(status)) = self.program.guest.wait(&[], Some(Duration::ZERO))
        {
            self.ended = Some(status);
        }
        let ended = self.ended;
        drop(self.input.take());
        self.program.guest.end(END_TIMEOUT);
        (ended, self.program.end())
    }
}

fn start(command: &mut Command, how: How<'_>, namespace: &Path, name: &str) -> Result<Program, Failure> {
    Program::start(command, how.options, how.settings, Some((namespace, Group::Own))).map_err(|why| match why {
        NotStarted::Link(failure) => failure,
        NotStarted::Program(error) => Failure::new(
            &error,
            format!("cannot start {name} at the far end: {error}"),
            "is a limit on processes (ulimit -u) reached?",
        ),
    })
}
