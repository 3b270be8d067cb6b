//! Answers that arrive after the loop: late answers and duplicates.

use std::collections::BTreeMap;

use super::message::Message;

/// A message without an answer so far. The answer may still arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unanswered {
    pub(super) sequence: u64,
    pub(super) due_ns: u64,
    pub(super) sent_ns: u64,
    pub(super) measured: bool,
}

/// The state needed to match answers that arrive after the loop.
#[derive(Debug)]
pub struct LateReplies {
    pub(super) message: Message,
    pub(super) reply: Vec<u8>,
    pub(super) unanswered: BTreeMap<u64, Unanswered>,
    /// The number of the last message plus one.
    pub(super) next: u64,
    pub(super) in_time_ns: u64,
    pub(super) is_undamaged: bool,
}

impl LateReplies {
    /// Creates the state at the end of a loop. `next` is the number of the last message plus one.
    pub(super) fn new(
        message: Message,
        reply: Vec<u8>,
        unanswered: impl IntoIterator<Item = Unanswered>,
        next: u64,
        in_time_ns: u64,
        is_undamaged: bool,
    ) -> Self {
        let unanswered = unanswered.into_iter().map(|message| (message.sequence, message)).collect();
        Self { message, reply, unanswered, next, in_time_ns, is_undamaged }
    }

    /// Whether every message has been answered.
    pub fn is_empty(&self) -> bool {
        self.unanswered.is_empty()
    }

    /// When the last unanswered message was sent, in ns of the engine's clock.
    pub fn last_sent_ns(&self) -> Option<u64> {
        self.unanswered.values().next_back().map(|message| message.sent_ns)
    }
}
