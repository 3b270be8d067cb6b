//! This program, started again with a hidden command: it hears one order on its standard input, and says words on its
//! standard output, each a line of JSON. Its standard input closing is the sign that it is no longer wanted.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hairpin_model::round::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::control::patience::{Waited, wait};
use crate::system::process;

/// The longest word, in bytes: the trace of a round takes a tenth of it.
const MAX_WORD: usize = 64 << 20;

/// The process, and the way its words come.
pub(crate) struct TalkingChild {
    /// What it is to users: `the relay`.
    name: &'static str,
    child: Child,
    words: BufReader<ChildStdout>,
    /// How long it has for its end once it is no longer wanted.
    leave: Duration,
}

impl TalkingChild {
    /// Starts `program` with that hidden command and this process's id, and tells it its order. When it is dropped it
    /// has `leave` for its end, and then is killed.
    ///
    /// # Errors
    /// The program cannot be started or told its order.
    pub(crate) fn start(
        name: &'static str,
        program: &Path,
        command: &str,
        order: &impl Serialize,
        leave: Duration,
    ) -> Result<Self, Failure> {
        let failed = |operation: &str, error: &io::Error| Failure {
            cause: format!("cannot {operation} {name} {}: {error}", program.display()),
            hint: limit(error).to_owned(),
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

    /// The process's id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Can be read when it has said more than was heard, or has ended.
    pub(crate) fn words(&self) -> BorrowedFd<'_> {
        self.words.get_ref().as_fd()
    }

    /// Its next word.
    ///
    /// # Errors
    /// It said nothing for so long, ended, or cannot be understood.
    pub(crate) fn word_within<Word: DeserializeOwned>(&mut self, patience: Duration) -> Result<Word, Failure> {
        let (name, mut line) = (self.name, Vec::new());
        // One that is stopped in the middle of a long word must hold nobody up either.
        while !line.ends_with(b"\n") {
            if self.words.buffer().is_empty() {
                self.wait_within(patience)?;
            }
            let part = self.words.fill_buf().map_err(|error| unheard(name, &error))?;
            if part.is_empty() {
                let how = self.how_it_ended();
                return Err(self.gone(&how));
            }
            let length = part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |end| end + 1);
            line.extend_from_slice(&part[..length]);
            self.words.consume(length);
            if line.len() > MAX_WORD {
                return Err(self.gone(&format!("sent a word of more than {MAX_WORD} bytes")));
            }
        }
        serde_json::from_slice(&line).map_err(|error| self.gone(&format!("sent what cannot be read: {error}")))
    }

    /// Waits until it has said more, or has ended.
    fn wait_within(&self, patience: Duration) -> Result<(), Failure> {
        let look = |at_most_ms| process::readable(self.words.get_ref().as_fd(), at_most_ms);
        match wait(patience, look) {
            Ok(Waited::Ready) => Ok(()),
            Ok(Waited::GivenUp) => Err(self.gone("cannot be waited for")),
            Ok(Waited::InVain) => Err(self.gone(&format!("sent nothing for {} ms", patience.as_millis()))),
            Err(error) => Err(unheard(self.name, &error)),
        }
    }

    /// Closes its standard input.
    pub(crate) fn release(&mut self) {
        drop(self.child.stdin.take());
    }

    fn gone(&self, what: &str) -> Failure {
        gone(self.name, what)
    }

    fn how_it_ended(&mut self) -> String {
        // It has closed its output, so it has ended or is about to.
        for _ in 0..50 {
            match self.child.try_wait() {
                Ok(Some(status)) => return format!("ended early ({status})"),
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Err(error) => return format!("ended early ({error})"),
            }
        }
        "closed its output".to_owned()
    }
}

impl Drop for TalkingChild {
    fn drop(&mut self) {
        self.release();
        leave(&mut self.child, self.leave);
    }
}

/// Waits so long for the end of a process that is no longer wanted, and then kills it.
pub fn leave(child: &mut Child, within: Duration) {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return,
            Ok(None) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
    // It is still in a call that only a time-out would end: nothing that it could say is wanted any more.
    drop(child.kill());
    drop(child.wait());
}

fn gone(name: &str, what: &str) -> Failure {
    Failure { cause: format!("{name} {what}"), hint: "was it ended from outside?".to_owned() }
}

fn unheard(name: &str, error: &io::Error) -> Failure {
    gone(name, &format!("cannot be read: {error}"))
}

/// The limit that was likely reached.
pub(crate) fn limit(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => "is a limit on open files (ulimit -n) reached?",
        Some(libc::ENOENT | libc::EACCES) => "was this program's own file moved or replaced?",
        _ => "is a limit on processes (ulimit -u) or memory (ulimit -v) reached?",
    }
}

/// The order, in the process that hears it.
///
/// # Errors
/// There is none, or it cannot be read.
pub(crate) fn hear_order<Order: DeserializeOwned>() -> Result<Order, String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| format!("cannot read the order: {error}"))?;
    serde_json::from_str(&line).map_err(|error| format!("cannot read the order: {error}"))
}

/// Says a word, in the process that says it.
pub(crate) fn say(word: &impl Serialize) {
    let mut line = serde_json::to_string(word).expect("a word has only string keys");
    line.push('\n');
    let mut output = io::stdout().lock();
    // The process that started this one may have gone: then nobody is left to hear it.
    drop(output.write_all(line.as_bytes()).and_then(|()| output.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_word_holds_nobody_up() {
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
