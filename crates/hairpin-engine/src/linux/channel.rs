//! Control over a pair of descriptors: the pipes of a child process, a socket pair between threads, a TCP connection.
//!
//! A frame is its length, 4 bytes little endian, then so many bytes of JSON.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::control::patience::{Waited, wait};
use crate::control::{Control, ControlError, Message};
use crate::system::process;

/// How long a message may take to be sent.
const SENDING: Duration = Duration::from_secs(10);
/// Bytes before the message.
const LENGTH_BYTES: usize = 4;
/// So much is read at once.
const CHUNK: usize = 64 << 10;
/// So much is written at once: a pipe that can be written to has room for it (`PIPE_BUF`, pipe(7)), so no write blocks.
const PIECE: usize = 4096;

/// The channel. Dropping it closes it.
#[derive(Debug)]
pub struct Channel {
    input: File,
    output: File,
    /// What has been read and not yet taken.
    pending: Vec<u8>,
    most_bytes: usize,
}

impl Channel {
    /// Over descriptors to read from and to write to, which may be one and the same. Larger messages are refused.
    #[must_use]
    pub fn new(input: OwnedFd, output: OwnedFd, most_bytes: usize) -> Self {
        Self { input: File::from(input), output: File::from(output), pending: Vec::new(), most_bytes }
    }

    /// Over the standard streams of this process.
    ///
    /// # Errors
    /// The system refuses copies of their descriptors.
    pub fn of_this_process(most_bytes: usize) -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self::new(input, output, most_bytes))
    }

    /// Two ends of one channel within this process, for the client and the server.
    ///
    /// # Errors
    /// The system refuses the sockets.
    pub fn pair(most_bytes: [usize; 2]) -> io::Result<[Self; 2]> {
        let (one, other) = UnixStream::pair()?;
        let channel = |stream: UnixStream, most_bytes| -> io::Result<Self> {
            Ok(Self::new(stream.try_clone()?.into(), stream.into(), most_bytes))
        };
        Ok([channel(one, most_bytes[0])?, channel(other, most_bytes[1])?])
    }

    /// The length that the frame in hand says, once that has come.
    fn length(&self) -> Result<Option<usize>, ControlError> {
        let Some(bytes) = self.pending.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let bytes = usize::try_from(u32::from_le_bytes(*bytes)).unwrap_or(usize::MAX);
        if bytes > self.most_bytes {
            return Err(ControlError::TooLarge { bytes, most: self.most_bytes });
        }
        Ok(Some(bytes))
    }

    /// Takes the message in hand, if it is whole.
    fn take(&mut self) -> Result<Option<Message>, ControlError> {
        let Some(length) = self.length()? else { return Ok(None) };
        let Some(bytes) = self.pending.get(LENGTH_BYTES..LENGTH_BYTES + length) else { return Ok(None) };
        let message = serde_json::from_slice(bytes).map_err(|error| ControlError::Unreadable(error.to_string()));
        self.pending.drain(..LENGTH_BYTES + length);
        message.map(Some)
    }

    /// Reads what has come, which must be something or the end. It never holds more than the largest message and a chunk.
    fn read_some(&mut self) -> Result<(), ControlError> {
        let before = self.pending.len();
        self.pending.resize(before + CHUNK, 0);
        let read = self.input.read(&mut self.pending[before..]);
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

impl Control for Channel {
    fn send(&mut self, message: &Message) -> Result<(), ControlError> {
        let text = serde_json::to_vec(message).expect("a message has only string keys");
        let length = u32::try_from(text.len()).expect("no end writes 4 GiB");
        let frame = [&length.to_le_bytes()[..], &text].concat();
        let mut rest = frame.as_slice();
        let deadline = Instant::now() + SENDING;
        while !rest.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = wait(left, |at_most| process::writable(self.output.as_fd(), at_most))?;
            match waited {
                Waited::Ready => {}
                Waited::GivenUp => return Err(ControlError::GivenUp),
                Waited::InVain => return Err(ControlError::TimedOut(SENDING)),
            }
            match self.output.write(&rest[..rest.len().min(PIECE)]) {
                Ok(written) => rest = &rest[written..],
                Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                    return Err(ControlError::Closed);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn receive(&mut self, within: Duration) -> Result<Message, ControlError> {
        // A peer that stops in the middle of a long message must hold nobody up either.
        let deadline = Instant::now() + within;
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match wait(left, |at_most| process::readable(self.input.as_fd(), at_most))? {
                Waited::Ready => self.read_some()?,
                Waited::GivenUp => return Err(ControlError::GivenUp),
                Waited::InVain => return Err(ControlError::TimedOut(within)),
            }
        }
    }

    fn is_ready(&mut self) -> bool {
        !self.pending.is_empty() || process::readable(self.input.as_fd(), 0).unwrap_or(true)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use hairpin_model::round::Failure;

    use super::*;
    use crate::control::{VERSION, agree};

    const PATIENT: Duration = Duration::from_secs(20);

    fn failed(bytes: usize) -> Message {
        Message::Failed(Failure { cause: "x".repeat(bytes), hint: String::new() })
    }

    /// A channel over TCP, and the socket of a peer that writes what it likes.
    fn over_tcp(most_bytes: usize) -> (Channel, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        (Channel::new(stream.try_clone().unwrap().into(), stream.into(), most_bytes), peer)
    }

    #[test]
    fn messages_of_any_size_come_whole_and_in_order_over_sockets() {
        let [mut one, mut other] = Channel::pair([1 << 22; 2]).unwrap();
        let sent = [Message::Ready, failed(3 << 20), Message::Progress(crate::control::Progress::default())];
        let expected = sent.clone();
        let sender = std::thread::spawn(move || sent.iter().try_for_each(|message| one.send(message)));
        for message in expected {
            assert_eq!(other.receive(PATIENT).unwrap(), message);
        }
        sender.join().unwrap().unwrap();
        assert!(other.is_ready(), "its end can be read");
        assert!(matches!(other.receive(PATIENT), Err(ControlError::Closed)));
    }

    #[test]
    fn a_peer_that_is_slow_is_heard_and_one_that_stops_holds_nobody_up() {
        let (mut channel, mut peer) = over_tcp(1000);
        let frame = [&9_u32.to_le_bytes()[..], b"\"measure\"", &200_u32.to_le_bytes(), b"{\"half"].concat();
        for byte in frame {
            peer.write_all(&[byte]).unwrap();
        }
        assert_eq!(channel.receive(PATIENT).unwrap(), Message::Measure);
        assert!(channel.is_ready(), "half a message has come");
        assert!(matches!(channel.receive(Duration::from_millis(50)), Err(ControlError::TimedOut(_))));
        drop(peer);
        assert!(matches!(channel.receive(PATIENT), Err(ControlError::Closed)), "truncated");
    }

    #[test]
    fn garbage_and_frames_too_large_are_refused_by_kind() {
        let refused = |bytes: &[u8]| {
            let (mut channel, mut peer) = over_tcp(1000);
            peer.write_all(bytes).unwrap();
            channel.receive(PATIENT).unwrap_err()
        };
        let most = refused(b"GET / HTTP/1.1\r\n\r\n");
        assert!(matches!(most, ControlError::TooLarge { bytes: 0x2054_4547, most: 1000 }), "{most:?}");
        assert!(matches!(refused(&[0xff; 64]), ControlError::TooLarge { .. }));
        assert!(matches!(refused(&[3, 0, 0, 0, b'x', b'y', b'z']), ControlError::Unreadable(_)));
        assert!(matches!(
            refused(&[7, 0, 0, 0, b'"', b's', b't', b'o', b'p', b's', b'"']),
            ControlError::Unreadable(_)
        ));
    }

    #[test]
    fn a_newer_peer_is_told_and_a_silent_one_not_waited_for() {
        let [mut own, mut peer] = Channel::pair([1000; 2]).unwrap();
        peer.send(&Message::Version(VERSION + 1)).unwrap();
        let error = agree(&mut own, PATIENT).unwrap_err();
        let failure = error.failure("the server");
        let [theirs, own_version] = [VERSION + 1, VERSION];
        let expected =
            format!("the server: version {theirs} of the control messages; this Hairpin has version {own_version}");
        assert_eq!(failure.cause, expected);
        assert_eq!(failure.hint, "use the same version of Hairpin at both ends");
        let [mut own, _peer] = Channel::pair([1000; 2]).unwrap();
        assert!(matches!(agree(&mut own, Duration::from_millis(30)), Err(ControlError::TimedOut(_))));
        let [mut own, mut peer] = Channel::pair([1000; 2]).unwrap();
        peer.send(&Message::Ready).unwrap();
        assert!(matches!(agree(&mut own, PATIENT), Err(ControlError::Unexpected("ready"))));
    }
}
