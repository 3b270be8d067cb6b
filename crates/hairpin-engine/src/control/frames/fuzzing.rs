//! The fuzz target `control_frames`: a peer's stream gives the same messages however it is split, and encoding and
//! parsing does not change messages.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use super::{Carrier, Frames, LENGTH_BYTES, MAX_READ_BYTES};
use crate::control::{Control, ControlError, MAX_ORDER_BYTES as MAX_BYTES, Message};

/// This time-out never expires, because a [`Scripted`] carrier is always ready.
const WITHIN: Duration = Duration::from_secs(60);
/// Size of the smallest pieces.
const MIN_PIECE_BYTES: usize = 32;

// Faults of the carrier, as flags.
const INTERRUPTED: u8 = 1;
const WOULD_BLOCK: u8 = 2;
const RESET: u8 = 4;
const BREAKS: u8 = 8;
const FAILS: u8 = 16;

/// Input: two bytes (the piece size, the carrier's faults), then a stream of frames. Returns true if the stream
/// consists of whole messages.
pub fn control_frames(input: &[u8]) -> bool {
    let [size, faults, stream @ ..] = input else { return false };
    let (messages, is_whole, error) = received(Scripted::new(stream, stream.len() + 1, 0));
    let in_pieces = received(Scripted::new(stream, MIN_PIECE_BYTES * (usize::from(*size) + 1), *faults));
    assert_eq!((&in_pieces.0, in_pieces.1), (&messages, is_whole));
    let fails_first = faults & FAILS != 0 && matches!(error, ControlError::Closed);
    assert!(fails_first || in_pieces.2.to_string() == error.to_string(), "{} and {error}", in_pieces.2);
    match sent(&messages, *faults) {
        Ok(bytes) => assert_eq!(received(Scripted::new(&bytes, bytes.len() + 1, 0)).0, messages),
        Err(ControlError::Closed) if faults & BREAKS != 0 => {}
        Err(ControlError::System(_)) if faults & FAILS != 0 => {}
        Err(error) => panic!("cannot send: {error}"),
    }
    !messages.is_empty() && is_whole
}

/// Returns all messages, whether the stream ends with the last one, and the error that ended reading.
fn received(carrier: Scripted<'_>) -> (Vec<Message>, bool, ControlError) {
    let mut frames = Frames::over(carrier, MAX_BYTES);
    assert!(frames.is_ready());
    let mut messages = Vec::new();
    loop {
        let received = frames.receive(WITHIN);
        assert!(frames.pending.capacity() <= 2 * (MAX_BYTES + LENGTH_BYTES + MAX_READ_BYTES));
        match received {
            Ok(message) => messages.push(message),
            Err(error) => {
                assert!(!error.failure("the server").cause.is_empty());
                let is_whole = frames.pending.is_empty() && !matches!(error, ControlError::Unreadable(_));
                return (messages, is_whole, error);
            }
        }
    }
}

fn sent(messages: &[Message], faults: u8) -> Result<Vec<u8>, ControlError> {
    let mut frames = Frames::over(Scripted::new(&[], MIN_PIECE_BYTES, faults), MAX_BYTES);
    messages.iter().try_for_each(|message| frames.send(message))?;
    Ok(std::mem::take(&mut frames.carrier_mut().written))
}

/// A carrier that is always ready and returns a stream in pieces.
struct Scripted<'a> {
    stream: &'a [u8],
    piece: usize,
    faults: u8,
    calls: usize,
    written: Vec<u8>,
}

impl<'a> Scripted<'a> {
    fn new(stream: &'a [u8], piece: usize, faults: u8) -> Self {
        Self { stream, piece, faults, calls: 0, written: Vec::new() }
    }

    /// The error that the current call returns, if any.
    fn fault(&mut self) -> io::Result<()> {
        self.calls += 1;
        match self.calls % 4 {
            1 if self.faults & INTERRUPTED != 0 => Err(ErrorKind::Interrupted.into()),
            2 if self.faults & WOULD_BLOCK != 0 => Err(ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }
}

impl Read for Scripted<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.fault()?;
        if self.stream.is_empty() && self.faults & FAILS != 0 {
            return Err(ErrorKind::NetworkDown.into());
        }
        if self.stream.is_empty() && self.faults & RESET != 0 {
            return Err(ErrorKind::ConnectionReset.into());
        }
        let (piece, rest) = self.stream.split_at(self.stream.len().min(self.piece).min(to.len()));
        to[..piece.len()].copy_from_slice(piece);
        self.stream = rest;
        Ok(piece.len())
    }
}

impl Write for Scripted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.fault()?;
        if self.faults & BREAKS != 0 {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if self.faults & FAILS != 0 {
            return Err(ErrorKind::NetworkDown.into());
        }
        let bytes = &bytes[..bytes.len().min(self.piece)];
        self.written.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.fault()
    }
}

impl Carrier for Scripted<'_> {
    fn readable(&mut self, _: Duration) -> io::Result<bool> {
        Ok(true)
    }

    fn writable(&mut self, _: Duration) -> io::Result<bool> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::{Case, EndReport, Extent, Failure, FailureKind, RoundOrder};

    use super::*;
    use crate::control::{Progress, VERSION};
    use crate::ends::EndOrder;

    fn input(size: u8, faults: u8, messages: &[Message]) -> Vec<u8> {
        [vec![size, faults], sent(messages, 0).unwrap()].concat()
    }

    #[test]
    fn the_corpus_of_control_frames_is_replayed() {
        let order = |transport, kept| {
            let round = RoundOrder { warm_up: Extent::Count(1), ..RoundOrder::of(Case::ping_pong(transport), kept) };
            Message::Order(Box::new(EndOrder { round, cookie: [7; 16], reports_progress: true, datagram_key: None }))
        };
        let report = EndReport { seen_cpus: vec![0, 1], system_calls: Some(9), ..EndReport::default() };
        let report = Message::Report(Box::new(report));
        let failed = Message::Failed(Failure::new(FailureKind::Other, "no \"room\"", ""));
        let progress = Progress::from([1, 2, 3, 4, u64::MAX]);
        let marks =
            [Message::Ready, Message::Ping, Message::Begin, Message::Measure, Message::Measuring, Message::Stop];
        let moved = [Message::Progress(progress), Message::Sent(progress), Message::Complete];
        let client = [Message::Version(VERSION), order("tcp", 3)];
        let listening = Message::Listening("127.0.0.1:7420".to_owned());
        let valid = [
            ("client", input(0, 0, &client)),
            ("client-interrupted", input(3, INTERRUPTED | WOULD_BLOCK, &client)),
            ("order-of-datagrams", input(255, RESET, &[order("udp", 1)])),
            ("server", input(0, BREAKS, &[listening, Message::Ready, report])),
            ("marks", input(1, FAILS, &marks)),
            ("moved", input(1, 0, &moved)),
            ("failed", input(1, 0, &[failed])),
        ];
        hairpin_testing::corpus::replay("control_frames", &valid, control_frames);
    }
}
