//! Control over a pair of descriptors: pipes of a child process, a socket pair between threads, or a TCP connection.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::control::frames::{Carrier, Frames};
use crate::wait::{readable, writable};

pub type Channel = Frames<Descriptors>;

/// Descriptors for reading and for writing, which may be the same.
#[derive(Debug)]
pub struct Descriptors {
    pub input: File,
    output: File,
}

impl Read for Descriptors {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.input.read(into)
    }
}

impl Write for Descriptors {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Carrier for Descriptors {
    fn readable(&mut self, at_most: Duration) -> io::Result<bool> {
        readable(&self.input, at_most)
    }

    fn writable(&mut self, at_most: Duration) -> io::Result<bool> {
        writable(&self.output, at_most)
    }
}

impl Channel {
    /// A channel over two descriptors, which may be the same. Refuses messages above `most_bytes`.
    pub fn new(input: OwnedFd, output: OwnedFd, most_bytes: usize) -> Self {
        Self::over(Descriptors { input: File::from(input), output: File::from(output) }, most_bytes)
    }

    /// A channel over the standard streams of this process.
    pub fn of_this_process(most_bytes: usize) -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self::new(input, output, most_bytes))
    }

    /// A channel over the standard input of this process, which is a socket. Also returns the standard output, over
    /// which the process receives sockets.
    pub fn of_a_server_on_two_hosts(most_bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = input.try_clone()?;
        Ok((Self::new(input, output, most_bytes), io::stdout().as_fd().try_clone_to_owned()?))
    }

    /// Both ends of a channel within this process, for the client and the server.
    pub fn pair(most_bytes: [usize; 2]) -> io::Result<[Self; 2]> {
        let (one, other) = UnixStream::pair()?;
        let channel = |stream: UnixStream, most_bytes| -> io::Result<Self> {
            Ok(Self::new(stream.try_clone()?.into(), stream.into(), most_bytes))
        };
        Ok([channel(one, most_bytes[0])?, channel(other, most_bytes[1])?])
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use hairpin_model::{Failure, FailureKind};

    use super::*;
    use crate::control::{Control, ControlError, Message, VERSION, agree};

    const PATIENT: Duration = Duration::from_secs(20);

    fn failed(bytes: usize) -> Message {
        Message::Failed(Failure::new(FailureKind::Other, "x".repeat(bytes), ""))
    }

    /// A channel over TCP, and the peer's socket, to which tests can write any bytes.
    fn over_tcp(most_bytes: usize) -> (Channel, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        (Channel::new(stream.try_clone().unwrap().into(), stream.into(), most_bytes), peer)
    }

    #[test]
    fn messages_of_any_size_arrive_whole_and_in_order_over_sockets() {
        let [mut one, mut other] = Channel::pair([1 << 22; 2]).unwrap();
        let sent = [Message::Ready, failed(3 << 20), Message::Progress(crate::control::Progress::default())];
        let expected = sent.clone();
        let sender = std::thread::spawn(move || sent.iter().try_for_each(|message| one.send(message)));
        for message in expected {
            assert_eq!(other.receive(PATIENT).unwrap(), message);
        }
        sender.join().unwrap().unwrap();
        assert!(other.is_ready(), "the end of the stream is readable");
        assert!(matches!(other.receive(PATIENT), Err(ControlError::Closed)));
    }

    #[test]
    fn a_slow_peer_is_received_and_a_stopped_peer_does_not_block() {
        let (mut channel, mut peer) = over_tcp(1000);
        let frame = [&9_u32.to_le_bytes()[..], b"\"measure\"", &200_u32.to_le_bytes(), b"{\"half"].concat();
        for byte in frame {
            peer.write_all(&[byte]).unwrap();
        }
        assert_eq!(channel.receive(PATIENT).unwrap(), Message::Measure);
        assert!(channel.is_ready(), "half a message was received");
        assert!(matches!(channel.receive(Duration::from_millis(50)), Err(ControlError::TimedOut(_))));
        drop(peer);
        assert!(matches!(channel.receive(PATIENT), Err(ControlError::Closed)), "truncated");
    }

    #[test]
    fn garbage_and_frames_that_are_too_large_are_refused() {
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
    fn a_newer_peer_is_reported_and_a_silent_peer_times_out() {
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
        assert!(matches!(agree(&mut own, PATIENT), Err(ControlError::Unexpected(name)) if name == "ready"));
    }
}
