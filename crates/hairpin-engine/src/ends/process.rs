//! The echo half as a process of its own: this program, started again with a hidden command.
//!
//! It reads its order as one line of JSON from its standard input and writes its words as lines of JSON to its
//! standard output. It can never be left behind: the kernel kills it when the thread that started it ends, and it
//! leaves when its standard input closes.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use hairpin_model::round::Failure;

use super::far::{EchoOrder, serve};
use super::thread::patience;
use super::{EchoEnd, Word};
use crate::system::process;

/// The hidden command that makes the program an echo half.
pub const COMMAND: &str = "__echo-half";

/// The process, and the way its words come.
pub struct EchoProcess {
    child: Child,
    words: BufReader<ChildStdout>,
    patience: Duration,
    /// It has said why it failed; after that only its end can follow, which explains nothing.
    has_failed: bool,
}

impl EchoProcess {
    /// Starts `program` as the echo half.
    ///
    /// # Errors
    /// The program cannot be started or told its order.
    pub fn start(program: &Path, order: &EchoOrder) -> Result<Self, Failure> {
        let failed = |operation: &str, error: &dyn std::fmt::Display| Failure {
            cause: format!("cannot {operation} the echo half {}: {error}", program.display()),
            hint: "is a limit on processes (ulimit -u) or memory reached?".to_owned(),
        };
        let arguments: [OsString; 2] = [COMMAND.into(), std::process::id().to_string().into()];
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("start", &error))?;
        let words = BufReader::new(child.stdout.take().expect("its standard output is piped"));
        let mut this = Self { child, words, patience: patience(order), has_failed: false };
        let mut line = serde_json::to_string(order).expect("an order has only string keys");
        line.push('\n');
        let input = this.child.stdin.as_mut().expect("its standard input is piped");
        input.write_all(line.as_bytes()).map_err(|error| failed("tell its order to", &error))?;
        Ok(this)
    }

    /// The process's id, for tests that end it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn word_within(&mut self, patience: Duration) -> Result<Word, Failure> {
        let gone = |what: String| Failure {
            cause: format!("the echo half {what}"),
            hint: "was it ended from outside?".to_owned(),
        };
        let deadline = Instant::now() + patience;
        while self.words.buffer().is_empty() {
            let left_ms = deadline.saturating_duration_since(Instant::now()).as_millis().min(1000);
            let left_ms = i32::try_from(left_ms).expect("at most 1000");
            match process::readable(self.words.get_ref().as_fd(), left_ms) {
                Ok(true) => break,
                Ok(false) if Instant::now() < deadline => {}
                Ok(false) => return Err(gone(format!("said nothing for {} ms", patience.as_millis()))),
                Err(error) => return Err(gone(format!("cannot be heard: {error}"))),
            }
        }
        let mut line = String::new();
        match self.words.read_line(&mut line) {
            Ok(0) => Err(gone(self.how_it_ended())),
            Ok(_) => match serde_json::from_str(&line) {
                Ok(Word::Failed(failure)) => {
                    self.has_failed = true;
                    Err(failure)
                }
                Ok(word) => Ok(word),
                Err(error) => Err(gone(format!("said what cannot be read: {error}"))),
            },
            Err(error) => Err(gone(format!("cannot be heard: {error}"))),
        }
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

impl EchoEnd for EchoProcess {
    fn next_word(&mut self) -> Result<Word, Failure> {
        self.word_within(self.patience)
    }

    fn has_word(&mut self) -> bool {
        !self.words.buffer().is_empty() || process::readable(self.words.get_ref().as_fd(), 0).unwrap_or(true)
    }

    fn release(&mut self) {
        // Closing its input is the sign.
        drop(self.child.stdin.take());
    }

    fn own_cause(&mut self) -> Option<Failure> {
        if self.has_failed {
            return None;
        }
        self.word_within(Duration::from_millis(100)).err().filter(|failure| !failure.cause.contains("said nothing"))
    }
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        self.release();
        for _ in 0..20 {
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

/// The program as an echo half: reads its order, serves, says its words. `parent` is the id of the process that
/// started it.
///
/// # Errors
/// There is no readable order.
pub fn serve_as_process(parent: u32) -> Result<(), String> {
    if !process::die_with_parent(parent) {
        return Err("the client half that started this echo half is gone".to_owned());
    }
    process::ignore_interrupts();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| format!("cannot read the order: {error}"))?;
    let order: EchoOrder = serde_json::from_str(&line).map_err(|error| format!("cannot read the order: {error}"))?;
    let mut output = std::io::stdout().lock();
    let say = |word: Word| {
        let mut line = serde_json::to_string(&word).expect("a word has only string keys");
        line.push('\n');
        // The client half may have gone: then nobody is left to hear it.
        drop(output.write_all(line.as_bytes()).and_then(|()| output.flush()));
    };
    // Nothing follows the order, so what can be read after it is its end.
    let is_released = || process::readable(std::io::stdin().as_fd(), 0).unwrap_or(true);
    serve(&order, &is_released, say);
    Ok(())
}
