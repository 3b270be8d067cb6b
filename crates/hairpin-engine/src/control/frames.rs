//! Frames: the boundaries of messages in a byte stream.
//!
//! A frame is its length (4 bytes, little endian), then that many bytes of JSON.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::patience::wait;
use super::{Control, ControlError, Message};

const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the length field before a message.
const LENGTH_BYTES: usize = 4;
const MAX_READ_BYTES: usize = 64 << 10;
/// Maximum bytes per write: a pipe that polls as writable has room for `PIPE_BUF` bytes (pipe(7)), so no write blocks.
const MAX_WRITE_BYTES: usize = 4096;

/// The byte stream under the frames. Reads and writes are made only when the stream is ready; a call that would block
/// nevertheless returns [`io::ErrorKind::WouldBlock`].
pub trait Carrier: Read + Write + Send {
    /// Waits until the stream is readable, at most `at_most` or until a signal. Returns whether it is readable.
    fn readable(&mut self, at_most: Duration) -> io::Result<bool>;

    /// Waits until the stream is writable, like [`Carrier::readable`].
    fn writable(&mut self, at_most: Duration) -> io::Result<bool>;
}

/// Messages over a carrier. Dropping the frames closes the carrier.
#[derive(Debug)]
pub struct Frames<C> {
    carrier: C,
    /// Bytes read but not yet parsed.
    pending: Vec<u8>,
    most_bytes: usize,
}

impl<C: Carrier> Frames<C> {
    /// Creates frames over `carrier`. Refuses messages above `most_bytes`.
    pub fn over(carrier: C, most_bytes: usize) -> Self {
        Self { carrier, pending: Vec::new(), most_bytes }
    }

    pub fn carrier(&self) -> &C {
        &self.carrier
    }

    pub fn carrier_mut(&mut self) -> &mut C {
        &mut self.carrier
    }

    /// Sets the maximum size of a message.
    pub fn take_up_to(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
    }

    pub fn send_any(&mut self, message: &impl Serialize) -> Result<(), ControlError> {
        let text = serde_json::to_vec(message).expect("a message has only string keys");
        let length = u32::try_from(text.len()).expect("no end writes 4 GiB");
        let frame = [&length.to_le_bytes()[..], &text].concat();
        let mut rest = frame.as_slice();
        let deadline = Instant::now() + SEND_TIMEOUT;
        loop {
            // A write may block, so wait for room first.
            if !rest.is_empty() {
                self.wait_for_room(deadline)?;
            }
            let done = match rest {
                [] => self.carrier.flush().map(|()| true),
                _ => self.carrier.write(&rest[..rest.len().min(MAX_WRITE_BYTES)]).map(|written| {
                    rest = &rest[written..];
                    false
                }),
            };
            match done {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if rest.is_empty() {
                        self.wait_for_room(deadline)?;
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                    return Err(ControlError::Closed);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives the next message.
    pub fn receive_any<M: DeserializeOwned>(&mut self, within: Duration) -> Result<M, ControlError> {
        // A peer that stops in the middle of a long message must not block this end.
        let deadline = Instant::now() + within;
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !wait(left, |at_most| self.carrier.readable(at_most))? {
                return Err(ControlError::TimedOut(within));
            }
            self.read_some()?;
        }
    }

    fn wait_for_room(&mut self, deadline: Instant) -> Result<(), ControlError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let has_room = wait(left, |at_most| self.carrier.writable(at_most))?;
        if has_room { Ok(()) } else { Err(ControlError::TimedOut(SEND_TIMEOUT)) }
    }

    /// The length of the current frame; `None` until its length field has been received.
    fn length(&self) -> Result<Option<usize>, ControlError> {
        let Some(bytes) = self.pending.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let bytes = usize::try_from(u32::from_le_bytes(*bytes)).unwrap_or(usize::MAX);
        if bytes > self.most_bytes {
            return Err(ControlError::TooLarge { bytes, most: self.most_bytes });
        }
        Ok(Some(bytes))
    }

    /// Removes and parses the current message; `None` if it is incomplete.
    fn take<M: DeserializeOwned>(&mut self) -> Result<Option<M>, ControlError> {
        let Some(length) = self.length()? else { return Ok(None) };
        let Some(bytes) = self.pending.get(LENGTH_BYTES..LENGTH_BYTES + length) else { return Ok(None) };
        let message = serde_json::from_slice(bytes).map_err(|error| ControlError::Unreadable(error.to_string()));
        self.pending.drain(..LENGTH_BYTES + length);
        message.map(Some)
    }

    /// Reads the available bytes, or the end of the stream. Buffers at most the largest message plus one chunk.
    fn read_some(&mut self) -> Result<(), ControlError> {
        let before = self.pending.len();
        self.pending.resize(before + MAX_READ_BYTES, 0);
        let read = self.carrier.read(&mut self.pending[before..]);
        self.pending.truncate(before + read.as_ref().map_or(0, |read| *read));
        match read {
            Ok(0) => Err(ControlError::Closed),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Err(ControlError::Closed),
            Err(error) => Err(error.into()),
        }
    }
}

impl<C: Carrier> Control for Frames<C> {
    fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        self.send_any(message)
    }

    fn receive(&mut self, within: Duration) -> Result<Message, ControlError> {
        self.receive_any(within)
    }

    fn is_ready(&mut self) -> bool {
        !self.pending.is_empty() || self.carrier.readable(Duration::ZERO).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::control::Progress;

    /// A carrier that returns its pieces one by one and then closes. Bytes written can be read back.
    #[derive(Default)]
    struct Pieces(VecDeque<Vec<u8>>);

    impl Read for Pieces {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let Some(piece) = self.0.pop_front() else { return Ok(0) };
            let bytes = piece.len().min(to.len());
            to[..bytes].copy_from_slice(&piece[..bytes]);
            if bytes < piece.len() {
                self.0.push_front(piece[bytes..].to_vec());
            }
            Ok(bytes)
        }
    }

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.push_back(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Carrier for Pieces {
        fn readable(&mut self, _: Duration) -> io::Result<bool> {
            Ok(true)
        }

        fn writable(&mut self, _: Duration) -> io::Result<bool> {
            Ok(true)
        }
    }

    const WITHIN: Duration = Duration::from_secs(60);
    const MAX_BYTES_READ: usize = 4096;

    /// All messages received before an error. Skips empty pieces, since an empty read means the end of the stream.
    fn received(pieces: Vec<Vec<u8>>) -> (Vec<Message>, ControlError, usize) {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let mut frames = Frames::over(Pieces(pieces), MAX_BYTES_READ);
        let (mut messages, mut most_held) = (Vec::new(), 0);
        loop {
            let received = frames.receive(WITHIN);
            most_held = most_held.max(frames.pending.capacity());
            match received {
                Ok(message) => messages.push(message),
                // An unreadable message ends the session but not the stream, so continue with the rest.
                Err(ControlError::Unreadable(_)) => {}
                Err(error) => return (messages, error, most_held),
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic_or_unbounded_memory(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..40),
            length in prop_oneof![0..300_u32, any::<u32>()],
        ) {
            let all = [vec![length.to_le_bytes().to_vec()], pieces].concat();
            let (_, error, held) = received(all);
            let is_too_large = matches!(error, ControlError::TooLarge { .. });
            prop_assert!(is_too_large || length as usize <= MAX_BYTES_READ && matches!(error, ControlError::Closed), "{error}");
            // Growing at most doubles a vector's capacity.
            prop_assert!(held <= 2 * (MAX_BYTES_READ + LENGTH_BYTES + MAX_READ_BYTES), "{held}");
        }

        #[test]
        fn messages_are_reassembled_from_any_pieces(
            counts in proptest::collection::vec(any::<[u64; 5]>(), 1..20),
            text in ".{0,300}",
            cuts in proptest::collection::vec(1..200_usize, 1..50),
        ) {
            let sent: Vec<Message> = counts.into_iter().map(|counts| Message::Progress(Progress::from(counts)))
                .chain([Message::Listening(text)]).collect();
            let mut frames = Frames::over(Pieces::default(), MAX_BYTES_READ);
            for message in &sent {
                frames.send(message).unwrap();
            }
            let mut bytes: Vec<u8> = frames.carrier.0.into_iter().flatten().collect();
            let mut pieces = Vec::new();
            for cut in cuts.iter().cycle() {
                if bytes.is_empty() {
                    break;
                }
                let rest = bytes.split_off(bytes.len().min(*cut));
                pieces.push(std::mem::replace(&mut bytes, rest));
            }
            let (came, error, _) = received(pieces);
            prop_assert_eq!(came, sent);
            prop_assert!(matches!(error, ControlError::Closed));
        }
    }
}
