//! What one wire and the futures of a library exchange: received and sent messages, or the bytes of a stream.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::{Buf, Bytes};
use hairpin_model::Fact;

use super::coding::CodingTimes;
use crate::foreign::Refusal;
use crate::linux::wires::port::Miss;

/// Maximum bytes that wait in one direction; one message may be longer.
const MAX_BYTES: usize = 256 << 10;
/// Maximum messages that wait in one direction.
const MAX_MESSAGES: usize = 1024;

/// Maximum length of the reason why a connection ended.
const MAX_FAILURE_CHARS: usize = 300;

/// The mailbox of one wire. All clones are the same mailbox.
#[derive(Clone, Default)]
pub(crate) struct Mailbox(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    incoming: Queue,
    outgoing: Queue,
    is_closed: bool,
    /// Whether the other end has opened the wire.
    is_opened: bool,
    has_ended: bool,
    /// Whether the connection has ended, and why, unless the other end just closed it.
    is_gone: bool,
    failure: Option<String>,
    /// Why a foreign server gave no answer.
    refusal: Option<Refusal>,
    /// Whether the library has sent all messages of a closed wire.
    has_sent_all: bool,
    coding: CodingTimes,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Bytes>,
    bytes: usize,
    /// The future that waits for a message or for room.
    waker: Option<Waker>,
}

impl Queue {
    fn has_room(&self) -> bool {
        self.bytes < MAX_BYTES && self.messages.len() < MAX_MESSAGES
    }

    fn push(&mut self, message: Bytes) {
        self.bytes += message.len();
        self.messages.push_back(message);
    }

    fn pop(&mut self) -> Option<Bytes> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len();
        Some(message)
    }
}

/// The mailboxes of a connection, by the number of their wire.
#[derive(Clone, Default)]
pub(crate) struct Mailboxes(Arc<Mutex<Vec<Mailbox>>>);

impl Mailboxes {
    fn lock(&self) -> MutexGuard<'_, Vec<Mailbox>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mailbox with this number, whose wire may not be open yet.
    pub(crate) fn get(&self, index: usize) -> Mailbox {
        let mut mailboxes = self.lock();
        while mailboxes.len() <= index {
            mailboxes.push(Mailbox::default());
        }
        mailboxes[index].clone()
    }

    pub(crate) fn each(&self, call: impl FnMut(&Mailbox)) {
        self.lock().iter().for_each(call);
    }
}

/// The side of the futures.
impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next message to send; `None` once the wire is closed and all its messages are taken.
    pub(crate) async fn outgoing(&self) -> Option<Bytes> {
        poll_fn(|context| self.poll_outgoing(context.waker())).await
    }

    pub(crate) fn poll_outgoing(&self, waker: &Waker) -> Poll<Option<Bytes>> {
        let mut state = self.lock();
        match state.outgoing.pop() {
            Some(message) => Poll::Ready(Some(message)),
            None if state.is_closed => Poll::Ready(None),
            None => {
                state.outgoing.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    /// Waits for room, and delivers a received message. Returns whether the wire is still open.
    pub(crate) async fn deliver(&self, message: Bytes) -> bool {
        let mut message = Some(message).filter(|message| !message.is_empty());
        poll_fn(|context| {
            self.poll_room(context.waker(), |incoming| {
                if let Some(message) = message.take() {
                    incoming.push(message);
                }
            })
        })
        .await
    }

    /// Delivers a received message, also an empty one, if there is room.
    pub(crate) fn deliver_or_drop(&self, message: Bytes) {
        let mut state = self.lock();
        if state.incoming.has_room() {
            state.incoming.push(message);
        }
    }

    /// Waits for room for a received message. Returns whether the wire is still open.
    pub(crate) async fn room(&self) -> bool {
        poll_fn(|context| self.poll_room(context.waker(), |_| ())).await
    }

    /// Waits for room, and then uses it. Returns whether the wire is still open.
    fn poll_room(&self, waker: &Waker, uses: impl FnOnce(&mut Queue)) -> Poll<bool> {
        let mut state = self.lock();
        if state.is_closed {
            return Poll::Ready(false);
        }
        if state.incoming.has_room() {
            uses(&mut state.incoming);
            return Poll::Ready(true);
        }
        state.incoming.waker = Some(waker.clone());
        Poll::Pending
    }

    /// Notes that the other end has opened the wire.
    pub(crate) fn on_opened(&self) {
        self.lock().is_opened = true;
    }

    pub(crate) fn on_end(&self) {
        self.lock().has_ended = true;
    }

    /// Notes that the connection has ended, and why, unless the other end just closed it.
    pub(crate) fn on_gone(&self, failure: Option<String>) {
        let mut state = self.lock();
        state.is_gone = true;
        if state.failure.is_none() {
            // Some texts come from the other end.
            state.failure = failure.map(|text| text.chars().take(MAX_FAILURE_CHARS).collect());
        }
    }

    /// Notes that a foreign server gives no more answers.
    pub(crate) fn on_refused(&self, refusal: Refusal) {
        let mut state = self.lock();
        state.is_gone = true;
        // The connection may report its end before a request reports the cause.
        if state.refusal.as_ref().is_none_or(Refusal::is_closed) {
            state.refusal = Some(refusal);
        }
    }

    pub(crate) fn encode<T>(&self, call: impl FnOnce() -> T) -> T {
        self.lock().coding.encode.time(call)
    }

    pub(crate) fn decode<T>(&self, call: impl FnOnce() -> T) -> T {
        self.lock().coding.decode.time(call)
    }

    /// Notes that the library has sent all messages of the closed wire.
    pub(crate) fn on_all_sent(&self) {
        self.lock().has_sent_all = true;
    }
}

/// The side of the wire.
impl Mailbox {
    /// Takes received bytes: a whole message if `whole`, truncated to the buffer, else up to the buffer's length.
    pub(crate) fn take(&self, into: &mut [u8], whole: bool) -> Result<usize, Miss> {
        let mut state = self.lock();
        let Some(mut message) = state.incoming.messages.pop_front() else {
            return Err(match (&state.refusal, &state.failure) {
                (Some(refusal), _) => Miss::Failed(refusal.clone().into()),
                (None, Some(why)) => Miss::Failed(std::io::Error::other(why.clone())),
                (None, None) if state.has_ended || state.is_gone => Miss::Ended,
                (None, None) => Miss::Nothing,
            });
        };
        let bytes = message.len().min(into.len());
        message.copy_to_slice(&mut into[..bytes]);
        if message.is_empty() || whole {
            state.incoming.bytes -= bytes + message.len();
        } else {
            state.incoming.bytes -= bytes;
            state.incoming.messages.push_front(message);
        }
        let waker = if state.incoming.has_room() { state.incoming.waker.take() } else { None };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(bytes)
    }

    /// Whether [`Mailbox::take`] returns something else than [`Miss::Nothing`].
    pub(crate) fn is_readable(&self) -> bool {
        let state = self.lock();
        !state.incoming.messages.is_empty() || state.has_ended || state.is_gone
    }

    pub(crate) fn has_messages(&self) -> bool {
        !self.lock().incoming.messages.is_empty()
    }

    pub(crate) fn is_writable(&self) -> bool {
        let state = self.lock();
        state.outgoing.has_room() || state.is_gone
    }

    /// Whether the other end has opened the wire; an error once the connection has ended.
    pub(crate) fn is_opened(&self) -> Result<bool, String> {
        let state = self.lock();
        if state.is_gone && !state.is_opened {
            return Err(state.failure.clone().unwrap_or_else(|| "the other end closed the connection".to_owned()));
        }
        Ok(state.is_opened)
    }

    /// Whether a closed wire needs the library no more.
    pub(crate) fn is_finished(&self) -> bool {
        let state = self.lock();
        state.has_sent_all || state.is_gone
    }

    /// Puts a message to be sent. Returns whether there was room.
    pub(crate) fn put(&self, bytes: &[u8]) -> Result<usize, Miss> {
        let mut state = self.lock();
        if let Some(refusal) = &state.refusal {
            return Err(Miss::Failed(refusal.clone().into()));
        }
        if state.is_gone {
            return Err(Miss::Gone);
        }
        if !state.outgoing.has_room() {
            return Err(Miss::Nothing);
        }
        state.outgoing.push(Bytes::copy_from_slice(bytes));
        let waker = state.outgoing.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        Ok(bytes.len())
    }

    /// How long the messages of this wire took to encode and to decode.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        self.lock().coding.facts()
    }

    /// Closes the wire. Messages that were put are still sent.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let wakers = [state.outgoing.waker.take(), state.incoming.waker.take()];
        drop(state);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}
