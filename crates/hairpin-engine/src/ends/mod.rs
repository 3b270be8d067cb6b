//! The echo half as a process or a thread of its own, and how the client half talks to it outside the wire.

pub mod far;
pub mod process;
pub mod thread;

use hairpin_model::case::{Case, Placement, Waiting};
use hairpin_model::round::{EndReport, Failure};
use serde::{Deserialize, Serialize};

use crate::clock::Clock;

/// What the echo half says, in this order: `Listening`, `Ready`, `Done`; or `Failed` at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It can be connected to at this address.
    Listening(String),
    /// It is connected, its options are read back, and it waits for the first message.
    Ready,
    /// The client half closed; this is what the echo half used and saw.
    Done(Box<EndReport>),
    /// It could not go on.
    Failed(Failure),
}

/// The echo half as the client half sees it.
pub trait EchoEnd {
    /// Its next word, or why there will be none.
    ///
    /// # Errors
    /// It failed, is gone, or said nothing in time.
    fn next_word(&mut self) -> Result<Word, Failure>;

    /// Has it answer a byte beside the wire.
    ///
    /// # Errors
    /// It is gone, or does not answer in time.
    fn ping(&mut self) -> Result<(), Failure>;

    /// Whether it has said its next word, or has ended.
    fn has_word(&mut self) -> bool;

    /// Tells it that the wire is closed and that it is no longer wanted.
    fn release(&mut self);

    /// Why it ended, if it has ended with a cause of its own: that explains the client half's broken wire.
    fn own_cause(&mut self) -> Option<Failure>;
}

/// A word that came out of turn.
fn out_of_turn(word: &Word) -> Failure {
    Failure {
        cause: format!("the echo half said {word:?} out of turn"),
        hint: "this is a defect of Hairpin; please report it with the command line".to_owned(),
    }
}

/// So many bytes are answered before the first message where [`is_woken`].
pub(crate) const PINGS: usize = 24;
/// Of which the first bring both ends back into their caches.
const UNCOUNTED_PINGS: usize = 4;

/// Whether a message has to wake another CPU, so that how long that takes now is a state of the machine.
pub(crate) fn is_woken(case: &Case) -> bool {
    case.placement != Placement::Together && case.waiting != Waiting::Spin
}

impl dyn EchoEnd + '_ {
    /// The median round trip of a byte beside the wire, in ns.
    ///
    /// # Errors
    /// It does not answer.
    pub fn waking_ns(&mut self, clock: &impl Clock) -> Result<u64, Failure> {
        let mut took_ns = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let began_ns = clock.now_ns();
            self.ping()?;
            took_ns.push(clock.now_ns().saturating_sub(began_ns));
        }
        let counted = &mut took_ns[UNCOUNTED_PINGS..];
        counted.sort_unstable();
        Ok(counted[counted.len() / 2])
    }

    /// Where to connect to.
    ///
    /// # Errors
    /// The echo half cannot listen.
    pub fn address(&mut self) -> Result<String, Failure> {
        match self.next_word()? {
            Word::Listening(address) => Ok(address),
            word => Err(out_of_turn(&word)),
        }
    }

    /// Waits until it is connected and ready.
    ///
    /// # Errors
    /// It cannot accept, or an option was not granted.
    pub fn ready(&mut self) -> Result<(), Failure> {
        match self.next_word()? {
            Word::Ready => Ok(()),
            word => Err(out_of_turn(&word)),
        }
    }

    /// Its report, after the wire was closed.
    ///
    /// # Errors
    /// It failed meanwhile, or is gone.
    pub fn report(&mut self) -> Result<EndReport, Failure> {
        match self.next_word()? {
            Word::Done(report) => Ok(*report),
            word => Err(out_of_turn(&word)),
        }
    }
}
