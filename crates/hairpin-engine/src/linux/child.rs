//! A child process of this program, started with a hidden command. It reads one order from its standard input and
//! writes messages, each a line of JSON, to its standard output. It ends when its standard input is closed.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hairpin_model::{Failure, FailureKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::control::patience::{WaitOutcome, wait};
use crate::exit_status::exit_status;
use crate::system::process;

/// Maximum bytes of a message. The trace of a round uses a tenth of this.
const MAX_BYTES: usize = 64 << 20;

pub(crate) struct TalkingChild {
    /// The name of the process in error messages: `the relay`.
    name: &'static str,
    child: Child,
    output: BufReader<ChildStdout>,
    /// Time for the process to exit after a request.
    leave: Duration,
}

impl TalkingChild {
    /// Starts `program` with a hidden command and this process's id, and sends the order. When the handle is dropped,
    /// the process has `leave` to exit before it is killed.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        command: &str,
        order: &impl Serialize,
        leave: Duration,
    ) -> Result<Self, Failure> {
        let failed = |operation: &str, error: &io::Error| {
            Failure::new(
                error,
                format!("cannot {operation} {name} {}: {error}", program.display()),
                limit(error).to_owned(),
            )
        };
        let mut child = Command::new(program)
            .args([command, &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("start", &error))?;
        let output = BufReader::new(child.stdout.take().expect("its standard output is piped"));
        let mut this = Self { name, child, output, leave };
        let mut line = serde_json::to_string(order).expect("an order has only string keys");
        line.push('\n');
        let input = this.child.stdin.as_mut().expect("its standard input is piped");
        input.write_all(line.as_bytes()).map_err(|error| failed("send its order to", &error))?;
        Ok(this)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A descriptor that is readable when a message arrives or the process has ended.
    pub(crate) fn output(&self) -> BorrowedFd<'_> {
        self.output.get_ref().as_fd()
    }

    /// Receives the next message of the process.
    pub(crate) fn receive_within<M: DeserializeOwned>(&mut self, patience: Duration) -> Result<M, Failure> {
        let (name, mut line) = (self.name, Vec::new());
        // A process that stops in the middle of a long message must not block this one.
        while !line.ends_with(b"\n") {
            if self.output.buffer().is_empty() {
                self.wait_within(patience)?;
            }
            let part = self.output.fill_buf().map_err(|error| read_failure(name, &error))?;
            if part.is_empty() {
                let status = exit_status(&mut self.child);
                let how =
                    status.map_or_else(|| "closed its output".to_owned(), |status| format!("ended early ({status})"));
                return Err(self.failure(FailureKind::Killed, &how));
            }
            let length = part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |end| end + 1);
            line.extend_from_slice(&part[..length]);
            self.output.consume(length);
            if line.len() > MAX_BYTES {
                return Err(self.failure(FailureKind::Unexpected, &format!("sent a message over {MAX_BYTES} bytes")));
            }
        }
        serde_json::from_slice(&line)
            .map_err(|error| self.failure(FailureKind::Unexpected, &format!("sent an unreadable message: {error}")))
    }

    /// Waits until the process has written more or has ended.
    fn wait_within(&self, patience: Duration) -> Result<(), Failure> {
        let look = |at_most_ms| process::readable(self.output.get_ref().as_fd(), at_most_ms);
        match wait(patience, look) {
            Ok(WaitOutcome::Ready) => Ok(()),
            Ok(WaitOutcome::GivenUp) => Err(self.failure(FailureKind::Interrupted, "did not answer in time")),
            Ok(WaitOutcome::TimedOut) => {
                Err(self.failure(FailureKind::TimedOut, &format!("sent nothing for {} ms", patience.as_millis())))
            }
            Err(error) => Err(read_failure(self.name, &error)),
        }
    }

    /// Closes the standard input of the process, which asks it to exit.
    pub(crate) fn release(&mut self) {
        drop(self.child.stdin.take());
    }

    fn failure(&self, kind: FailureKind, what: &str) -> Failure {
        failure(self.name, kind, what)
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
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return,
            Ok(None) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
    // Only a time-out would end the current call of the process, and its output is no longer needed.
    drop(child.kill());
    drop(child.wait());
}

fn failure(name: &str, kind: FailureKind, what: &str) -> Failure {
    Failure::new(kind, format!("{name} {what}"), "was it ended from outside?")
}

fn read_failure(name: &str, error: &io::Error) -> Failure {
    failure(name, error.into(), &format!("cannot be read: {error}"))
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

/// Writes a message, in the child.
pub(crate) fn send(message: &impl Serialize) {
    let mut line = serde_json::to_string(message).expect("a message has only string keys");
    line.push('\n');
    let mut output = io::stdout().lock();
    // The parent process may have exited.
    drop(output.write_all(line.as_bytes()).and_then(|()| output.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_message_does_not_block() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf '\"half'; exec sleep 20"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut talking = TalkingChild { name: "the shell", child, output, leave: Duration::ZERO };
        assert!(process::readable(talking.output(), 10_000).unwrap(), "the shell has written something");
        let failure = talking.receive_within::<String>(Duration::from_millis(50)).unwrap_err();
        assert_eq!(failure.cause, "the shell sent nothing for 50 ms");
    }
}
