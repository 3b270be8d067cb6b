//! Child processes of this program, each started with a hidden command.

use std::io::{self, BufRead};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hairpin_model::{Failure, FailureKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::control::ControlError;
use crate::control::channel::Channel;
use crate::ends::start::TICKET_VARIABLE;

/// Maximum bytes of a message. The trace of a round uses a tenth of this.
pub(crate) const MAX_BYTES: usize = 64 << 20;

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

/// A process that receives one order and sends messages. It ends when it receives another message or its standard
/// input is closed.
pub(crate) struct TalkingChild {
    name: &'static str,
    child: Child,
    channel: Channel,
    /// Time for the process to exit after a request.
    leave: Duration,
}

impl TalkingChild {
    /// Starts `program` as in [`spawn`], and sends the order. When the handle is dropped, the process has `leave` to
    /// exit before it is killed.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        command: &str,
        order: &impl Serialize,
        leave: Duration,
    ) -> Result<Self, Failure> {
        let (child, input, output) = spawn(name, program, command, None)?;
        let mut this = Self { name, child, channel: Channel::new(output.into(), input.into(), MAX_BYTES), leave };
        let sent = this.channel.send_any(order);
        sent.map_err(|error| failure(&error, name, &mut this.child))?;
        Ok(this)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A descriptor that is readable when a message arrives or the process has ended.
    pub(crate) fn output(&self) -> BorrowedFd<'_> {
        self.channel.carrier().input.as_fd()
    }

    /// Receives the next message of the process.
    pub(crate) fn receive_within<M: DeserializeOwned>(&mut self, patience: Duration) -> Result<M, Failure> {
        self.channel.receive_any(patience).map_err(|error| failure(&error, self.name, &mut self.child))
    }

    /// Asks the process to exit. It may have exited already.
    pub(crate) fn release(&mut self) {
        drop(self.channel.send_any(&()));
    }
}

impl Drop for TalkingChild {
    fn drop(&mut self) {
        self.release();
        leave(&mut self.child, self.leave);
    }
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

/// Reads the order, in the child.
pub(crate) fn receive_order<Order: DeserializeOwned>() -> Result<Order, String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| format!("cannot read the order: {error}"))?;
    serde_json::from_str(&line).map_err(|error| format!("cannot read the order: {error}"))
}

#[cfg(test)]
mod tests {
    use rustix::event::PollFlags;

    use super::*;
    use crate::wait::wait_for;

    #[test]
    fn half_a_message_does_not_block() {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "printf '\\020\\0\\0\\0\"half'; exec sleep 20"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let channel = Channel::new(output.into(), input.into(), MAX_BYTES);
        let mut talking = TalkingChild { name: "the shell", child, channel, leave: Duration::ZERO };
        let said = wait_for(talking.output(), PollFlags::IN, Duration::from_secs(10)).unwrap();
        assert!(said, "the shell has written something");
        let failure = talking.receive_within::<String>(Duration::from_millis(50)).unwrap_err();
        assert_eq!(failure.cause, "the shell: no message for 50 ms");
    }
}
