//! This program, started again with a hidden command: it hears one order on its standard input, and says words on its
//! standard output, each a line of JSON. Its standard input closing is the sign that it is no longer wanted.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hairpin_model::round::Failure;
use hairpin_transports::giving_up::has_given_up;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::system::process;

/// The longest word, in bytes: the trace of a round takes a tenth of it.
const LONGEST_WORD: u64 = 64 << 20;

/// The process, and the way its words come.
pub(crate) struct TalkingChild {
    /// What it is to users: `the echo half`.
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
        input.write_all(line.as_bytes()).map_err(|error| failed("tell its order to", &error))?;
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
        let deadline = Instant::now() + patience;
        while self.words.buffer().is_empty() {
            let left_ms = deadline.saturating_duration_since(Instant::now()).as_millis().min(1000);
            let left_ms = i32::try_from(left_ms).expect("at most 1000");
            match process::readable(self.words.get_ref().as_fd(), left_ms) {
                Ok(true) => break,
                Ok(false) if has_given_up() => return Err(self.gone("was not waited for")),
                Ok(false) if Instant::now() < deadline => {}
                Ok(false) => return Err(self.gone(&format!("said nothing for {} ms", patience.as_millis()))),
                Err(error) => return Err(self.gone(&format!("cannot be heard: {error}"))),
            }
        }
        let mut line = String::new();
        match self.words.by_ref().take(LONGEST_WORD).read_line(&mut line) {
            Ok(0) => {
                let how = self.how_it_ended();
                Err(self.gone(&how))
            }
            Ok(_) => {
                serde_json::from_str(&line).map_err(|error| self.gone(&format!("said what cannot be read: {error}")))
            }
            Err(error) => Err(self.gone(&format!("cannot be heard: {error}"))),
        }
    }

    /// Whether it has said its next word, or has ended.
    pub(crate) fn has_word(&self) -> bool {
        !self.words.buffer().is_empty() || process::readable(self.words.get_ref().as_fd(), 0).unwrap_or(true)
    }

    /// Closes its standard input.
    pub(crate) fn release(&mut self) {
        drop(self.child.stdin.take());
    }

    fn gone(&self, what: &str) -> Failure {
        Failure { cause: format!("{} {what}", self.name), hint: "was it ended from outside?".to_owned() }
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
        let deadline = Instant::now() + self.leave;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(Some(_)) | Err(_) => return,
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        // It is still in a call that only a time-out would end: nothing that it could say is wanted any more.
        drop(self.child.kill());
        drop(self.child.wait());
    }
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
