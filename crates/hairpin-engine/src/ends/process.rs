//! The echo half as a process of its own: this program, started again with a hidden command.
//!
//! It reads its order as one line of JSON from its standard input and writes its words as lines of JSON to its
//! standard output. It can never be left behind: the kernel kills it when the thread that started it ends, and it
//! leaves when its standard input closes.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use hairpin_model::round::Failure;

use super::far::{EchoOrder, serve};
use super::thread::patience;
use super::{EchoEnd, Word};
use crate::child::{self, TalkingChild};
use crate::system::process;

/// The hidden command that makes the program an echo half.
pub const COMMAND: &str = "__echo-half";

/// The process, and the way its words come.
pub struct EchoProcess {
    child: TalkingChild,
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
        let child = TalkingChild::start("the echo half", program, COMMAND, order, Duration::from_millis(20))?;
        Ok(Self { child, patience: patience(order), has_failed: false })
    }

    /// The process's id, for tests that end it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn word_within(&mut self, patience: Duration) -> Result<Word, Failure> {
        match self.child.word_within(patience)? {
            Word::Failed(failure) => {
                self.has_failed = true;
                Err(failure)
            }
            word => Ok(word),
        }
    }
}

impl EchoEnd for EchoProcess {
    fn next_word(&mut self) -> Result<Word, Failure> {
        self.word_within(self.patience)
    }

    fn ping(&mut self) -> Result<(), Failure> {
        self.child.ping(self.patience)
    }

    fn has_word(&mut self) -> bool {
        self.child.has_word()
    }

    fn release(&mut self) {
        self.child.release();
    }

    fn own_cause(&mut self) -> Option<Failure> {
        if self.has_failed {
            return None;
        }
        self.word_within(Duration::from_millis(100)).err().filter(|failure| !failure.cause.contains("said nothing"))
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
    let order: EchoOrder = child::hear_order()?;
    // Nothing follows the order, so what can be read after it is its end.
    let is_released = || process::readable(std::io::stdin().as_fd(), 0).unwrap_or(true);
    serve(&order, &is_released, &mut child::pong, |word| child::say(&word));
    Ok(())
}
