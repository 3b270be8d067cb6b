//! The program at the far end of a link while another runs at the near end.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hairpin_engine::links::echo_server;
use hairpin_engine::links::guest::{Group, Guest, GuestEvent, NotStarted};
use hairpin_model::{Failure, FailureKind};

use super::account::Addresses;
use crate::interrupt::Signals;
use crate::linux::streams::to_standard_error;

/// Time for the user's command to listen.
const UNTIL_IT_LISTENS: Duration = Duration::from_secs(2);

/// Interval between checks of that.
const LOOK: Duration = Duration::from_millis(5);

/// Time for it to end after a request.
const TO_END: Duration = Duration::from_millis(500);

pub(super) struct Far {
    guest: Guest,
    /// Closing it ends the echo.
    input: Option<ChildStdin>,
    /// Exit status of the user's command, if it ended by itself.
    ended: Option<ExitStatus>,
}

/// State of the user's command after the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    Listens,
    Ended,
    /// It does not listen in time.
    Silent,
}

impl Far {
    /// Starts Hairpin's echo and waits until it listens.
    pub(super) fn echo(program: &Path, namespace: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args([echo_server::COMMAND, &std::process::id().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guest = start(&mut command, namespace, "Hairpin's echo")?;
        let (input, output) = guest.pipes();
        let mut said = String::new();
        // A failed echo prints its error and closes its output.
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
        Ok(Self { guest, input, ended: None })
    }

    /// Starts a command in a shell, and waits until it listens.
    pub(super) fn shell(
        text: &str,
        addresses: &Addresses<'_>,
        namespace: &Path,
        signals: &Signals,
    ) -> Result<(Self, Readiness), Failure> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]);
        addresses.set_environment(&mut command);
        command.stdin(Stdio::null()).stdout(to_standard_error()?);
        let guest = start(&mut command, namespace, "/bin/sh")?;
        let mut far = Self { guest, input: None, ended: None };
        let readiness = far.readiness(text, signals)?;
        Ok((far, readiness))
    }

    /// Waits until it listens; a signal ends the wait.
    fn readiness(&mut self, text: &str, signals: &Signals) -> Result<Readiness, Failure> {
        let deadline = Instant::now() + UNTIL_IT_LISTENS;
        while !self.guest.listens() {
            let waited = self.guest.wait(&[signals.file()], Some(LOOK)).map_err(|error| {
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

    /// Why `/sys` at an end is the host's, if it is.
    pub(super) fn foreign_sys(&self) -> Option<&Failure> {
        self.guest.foreign_sys()
    }

    /// Asks it to end, then kills it. Returns the exit status if it had ended before.
    pub(super) fn end(mut self) -> Option<ExitStatus> {
        if self.ended.is_none()
            && let Ok(GuestEvent::Ended(status)) = self.guest.wait(&[], Some(Duration::ZERO))
        {
            self.ended = Some(status);
        }
        let ended = self.ended;
        drop(self.input.take());
        self.guest.end(TO_END);
        ended
    }
}

fn start(command: &mut Command, namespace: &Path, name: &str) -> Result<Guest, Failure> {
    Guest::start(command, namespace, Group::Own).map_err(|why| match why {
        NotStarted::Link(failure) => failure,
        NotStarted::Program(error) => Failure::new(
            &error,
            format!("cannot start {name} at the far end: {error}"),
            "is a limit on processes (ulimit -u) reached?",
        ),
    })
}
