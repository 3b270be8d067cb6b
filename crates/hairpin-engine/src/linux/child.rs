//! This program, started with a hidden command: it reads one order from its standard input, and writes messages to its
//! standard output, each a line of JSON. It ends when its standard input is closed.

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

/// Maximum bytes of a message: the trace of a round uses a tenth of it.
const MAX_WORD: usize = 64 << 20;

pub(crate) struct TalkingChild {
    /// Its name in error messages: `the relay`.
    name: &'static str,
    child: Child,
    words: BufReader<ChildStdout>,
    /// Time for it to exit when asked to.
    leave: Duration,
}

impl TalkingChild {
    /// Starts `program` with that hidden command and this process's id, and sends its order. When this is dropped the
    /// process has `leave` to exit before it is killed.
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
        let words = BufReader::new(child.stdout.take().expect("its standard output is piped"));
        let mut this = Self { name, child, words, leave };
        let mut line = serde_json::to_string(order).expect("an order has only string keys");
        line.push('\n');
        let input = this.child.stdin.as_mut().expect("its standard input is piped");
        input.write_all(line.as_bytes()).map_err(|error| failed("send its order to", &error))?;
        Ok(this)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A descriptor that is readable when there are more messages or the process has ended.
    pub(crate) fn words(&self) -> BorrowedFd<'_> {
        self.words.get_ref().as_fd()
    }

    /// Receives its next message.
    pub(crate) fn word_within<Word: DeserializeOwned>(&mut self, patience: Duration) -> Result<Word, Failure> {
        let (name, mut line) = (self.name, Vec::new());
        // A process that stops in the middle of a long message must not block either.
        while !line.ends_with(b"\n") {
            if self.words.buffer().is_empty() {
                self.wait_within(patience)?;
            }
            let part = self.words.fill_buf().map_err(|error| unheard(name, &error))?;
            if part.is_empty() {
                let status = exit_status(&mut self.child);
                let how =
                    status.map_or_else(|| "closed its output".to_owned(), |status| format!("ended early ({status})"));
                return Err(self.gone(FailureKind::Killed, &how));
            }
            let length = part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |end| end + 1);
            line.extend_from_slice(&part[..length]);
            self.words.consume(length);
            if line.len() > MAX_WORD {
                return Err(self.gone(FailureKind::Unexpected, &format!("sent a word of more than {MAX_WORD} bytes")));
            }
        }
        serde_json::from_slice(&line)
            .map_err(|error| self.gone(FailureKind::Unexpected, &format!("sent what cannot be read: {error}")))
    }

    /// Waits until it has written more, or has ended.
    fn wait_within(&self, patience: Duration) -> Result<(), Failure> {
        let look = |at_most_ms| process::readable(self.words.get_ref().as_fd(), at_most_ms);
        match wait(patience, look) {
            Ok(WaitOutcome::Ready) => Ok(()),
            Ok(WaitOutcome::GivenUp) => Err(self.gone(FailureKind::Interrupted, "cannot be waited for")),
            Ok(WaitOutcome::TimedOut) => {
                Err(self.gone(FailureKind::TimedOut, &format!("sent nothing for {} ms", patience.as_millis())))
            }
            Err(error) => Err(unheard(self.name, &error)),
        }
    }

    /// Closes its standard input.
    pub(crate) fn release(&mut self) {
        drop(self.child.stdin.take());
    }

    fn gone(&self, kind: FailureKind, what: &str) -> Failure {
        gone(self.name, kind, what)
    }
}

impl Drop for TalkingChild {
    fn drop(&mut self) {
        self.release();
        leave(&mut self.child, self.leave);
    }
}

/// Waits up to `within` for a process to exit, and then kills it.
pub fn leave(child: &mut Child, within: Duration) {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return,
            Ok(None) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
    // It is in a call that only a time-out would end, and its output is no longer needed.
    drop(child.kill());
    drop(child.wait());
}

fn gone(name: &str, kind: FailureKind, what: &str) -> Failure {
    Failure::new(kind, format!("{name} {what}"), "was it ended from outside?")
}

fn unheard(name: &str, error: &io::Error) -> Failure {
    gone(name, error.into(), &format!("cannot be read: {error}"))
}

/// The limit that was probably reached.
pub(crate) fn limit(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "is a limit on open files (ulimit -n) reached?",
        Some(libc::ENOENT | libc::EACCES) => "was this program's own file moved or replaced?",
        _ => "is a limit on processes (ulimit -u) or memory (ulimit -v) reached?",
    }
}

/// Receives the order, in the child.
pub(crate) fn receive_order<Order: DeserializeOwned>() -> Result<Order, String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| format!("cannot read the order: {error}"))?;
    serde_json::from_str(&line).map_err(|error| format!("cannot read the order: {error}"))
}

/// Sends a message, in the child.
pub(crate) fn send(word: &impl Serialize) {
    let mut line = serde_json::to_string(word).expect("a word has only string keys");
    line.push('\n');
    let mut output = io::stdout().lock();
    // The process that started this one may be gone.
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
        let words = BufReader::new(child.stdout.take().unwrap());
        let mut talking = TalkingChild { name: "the shell", child, words, leave: Duration::ZERO };
        assert!(process::readable(talking.words(), 10_000).unwrap(), "it has said something");
        let failure = talking.word_within::<String>(Duration::from_millis(50)).unwrap_err();
        assert_eq!(failure.cause, "the shell sent nothing for 50 ms");
    }
}
