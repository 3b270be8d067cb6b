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

/// How long a wait for a word goes on before it is asked whether everything was given up.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// The longest word, in bytes: the trace of a round takes a tenth of it.
const LONGEST_WORD: usize = 64 << 20;

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
            if line.len() > LONGEST_WORD {
                return Err(self.gone(&format!("said a word of more than {LONGEST_WORD} bytes")));
            }
        }
        serde_json::from_slice(&line).map_err(|error| self.gone(&format!("said what cannot be read: {error}")))
    }

    /// Waits until it has said more, or has ended.
    fn wait_within(&self, patience: Duration) -> Result<(), Failure> {
        let look = |at_most: Duration| {
            let at_most_ms = i32::try_from(at_most.as_millis()).expect("at most a second");
            process::readable(self.words.get_ref().as_fd(), at_most_ms)
        };
        match wait(patience, look, has_given_up) {
            Ok(Waited::Ready) => Ok(()),
            Ok(Waited::GivenUp) => Err(self.gone("was not waited for")),
            Ok(Waited::InVain) => Err(self.gone(&format!("said nothing for {} ms", patience.as_millis()))),
            Err(error) => Err(unheard(self.name, &error)),
        }
    }

    /// Sends it a byte, and waits for its answer.
    ///
    /// # Errors
    /// It answered nothing for so long, or is gone.
    pub(crate) fn ping(&mut self, patience: Duration) -> Result<(), Failure> {
        let Some(input) = self.child.stdin.as_mut() else { return Err(self.gone("was released")) };
        let mut byte = [PING];
        input.write_all(&byte).map_err(|error| unheard(self.name, &error))?;
        if self.words.buffer().is_empty() {
            self.wait_within(patience)?;
        }
        self.words.read_exact(&mut byte).map_err(|error| unheard(self.name, &error))
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

fn gone(name: &str, what: &str) -> Failure {
    Failure { cause: format!("{name} {what}"), hint: "was it ended from outside?".to_owned() }
}

fn unheard(name: &str, error: &io::Error) -> Failure {
    gone(name, &format!("cannot be heard: {error}"))
}

/// How a wait for a word ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Ready,
    GivenUp,
    InVain,
}

/// Waits by looks that each last as long as they are told, or until there is something. Once everything was given up, the
/// look under way is the last: an end that answers still has so long.
fn wait(
    patience: Duration,
    mut look: impl FnMut(Duration) -> io::Result<bool>,
    has_given_up: impl Fn() -> bool,
) -> io::Result<Waited> {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if look(left.min(LOOK))? {
            return Ok(Waited::Ready);
        }
        if has_given_up() {
            return Ok(Waited::GivenUp);
        }
        if left.is_zero() {
            return Ok(Waited::InVain);
        }
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

/// The byte of a ping and of its answer.
const PING: u8 = b'.';

/// Waits for a ping and answers it, in the process that is pinged. False where nobody pings any more.
pub(crate) fn pong() -> bool {
    let mut byte = [0];
    let mut output = io::stdout().lock();
    let answered = io::stdin().lock().read_exact(&mut byte).and_then(|()| output.write_all(&byte));
    answered.and_then(|()| output.flush()).is_ok()
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
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Waits for what never comes, which is given up during the look of that number; the looks.
    fn looks(given_up_in: usize) -> (Waited, Vec<Duration>) {
        let (looks, given_up) = (RefCell::new(Vec::new()), Cell::new(false));
        let look = |at_most| {
            looks.borrow_mut().push(at_most);
            given_up.set(looks.borrow().len() >= given_up_in);
            Ok(false)
        };
        let waited = wait(Duration::from_secs(3600), look, || given_up.get()).unwrap();
        (waited, looks.into_inner())
    }

    #[test]
    fn what_does_not_answer_is_waited_for_one_short_look_after_all_was_given_up() {
        for given_up_in in [1, 2, 5] {
            let (waited, looks) = looks(given_up_in);
            assert_eq!((waited, looks), (Waited::GivenUp, vec![LOOK; given_up_in]));
        }
        assert!(LOOK <= Duration::from_millis(250), "what a user may wait beyond the round's own time");
    }

    #[test]
    fn half_a_word_holds_nobody_up() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf '\"half'; exec sleep 20"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let words = BufReader::new(child.stdout.take().unwrap());
        let mut talking = TalkingChild { name: "the shell", child, words, leave: Duration::ZERO };
        assert!(process::readable(talking.words(), 10_000).unwrap(), "it has said something");
        let failure = talking.word_within::<String>(Duration::from_millis(50)).unwrap_err();
        assert_eq!(failure.cause, "the shell said nothing for 50 ms");
    }

    #[test]
    fn what_is_there_is_taken_though_all_was_given_up() {
        assert_eq!(wait(Duration::ZERO, |_| Ok(true), || true).unwrap(), Waited::Ready);
        assert_eq!(wait(Duration::ZERO, |_| Ok(false), || false).unwrap(), Waited::InVain);
    }
}
