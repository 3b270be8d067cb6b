//! Passes sockets from the owner of a port to the process that serves a round on this port (SCM_RIGHTS, unix(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use hairpin_transports::received::IpHeader;
use hairpin_transports::{Connection, Listener, PassedSocket, Setup, Transport, TransportError};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use crate::wait::readable;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The descriptor over which a process receives sockets.
pub type Sockets = OwnedFd;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Accepted,
    Confirmed(Option<IpHeader>),
}

/// Size of the message that carries a socket: the socket's kind, and the known fields of the IP header.
const MESSAGE_BYTES: usize = 4;

impl Sort {
    fn message(self) -> [u8; MESSAGE_BYTES] {
        match self {
            Self::Accepted => [1, 0, 0, 0],
            Self::Confirmed(None) => [2, 0, 0, 0],
            Self::Confirmed(Some(IpHeader { ttl, traffic_class })) => [2, 1, ttl, traffic_class],
        }
    }

    fn of(message: [u8; MESSAGE_BYTES]) -> Option<Self> {
        match message {
            [1, 0, 0, 0] => Some(Self::Accepted),
            [2, 0, 0, 0] => Some(Self::Confirmed(None)),
            [2, 1, ttl, traffic_class] => Some(Self::Confirmed(Some(IpHeader { ttl, traffic_class }))),
            _ => None,
        }
    }
}

pub fn hand(to: &UnixStream, sort: Sort, socket: BorrowedFd<'_>) -> io::Result<()> {
    let sockets = [socket];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !beside.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(io::Error::other("there is no room for a descriptor"));
    }
    sendmsg(to, &[IoSlice::new(&sort.message())], &mut beside, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}

/// Receives the next socket, which must be available; `None` if the other process has closed its end.
fn receive(from: &UnixStream) -> io::Result<Option<PassedSocket>> {
    let (mut message, mut socket) = ([0; MESSAGE_BYTES], None::<OwnedFd>);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(from, &mut [IoSliceMut::new(&mut message)], &mut beside, RecvFlags::CMSG_CLOEXEC)?;
    for one in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = one {
            socket = rights.last();
        }
    }
    match (received.bytes, Sort::of(message), socket) {
        (0, ..) => Ok(None),
        (MESSAGE_BYTES, Some(Sort::Accepted), Some(socket)) => Ok(Some(PassedSocket::Accepted(socket))),
        (MESSAGE_BYTES, Some(Sort::Confirmed(header)), Some(socket)) => {
            Ok(Some(PassedSocket::Confirmed(socket, header)))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "no socket came with the message")),
    }
}

/// The listener of a round whose connections another process accepts.
pub(crate) struct PassedListener {
    transport: &'static dyn Transport,
    setup: Setup,
    from: UnixStream,
}

impl PassedListener {
    /// Creates a listener for `transport` that receives its sockets over `from`.
    pub(crate) fn new(transport: &'static dyn Transport, setup: Setup, from: Sockets) -> Self {
        Self { transport, setup, from: UnixStream::from(from) }
    }

    fn failed(&self, source: io::Error) -> TransportError {
        let object = format!("a socket for {}", self.transport.card().name);
        TransportError::System { operation: "take over", object, source, hint: String::new() }
    }
}

impl Listener for PassedListener {
    fn address(&self) -> String {
        "handed-over".to_owned()
    }

    fn accept(&mut self, is_abandoned: &mut dyn FnMut() -> bool) -> Result<Box<dyn Connection>, TransportError> {
        let timeout = self.setup.opening_timeout();
        let deadline = Instant::now() + timeout;
        loop {
            if is_abandoned() {
                return Err(TransportError::Abandoned);
            }
            if readable(&self.from, POLL_INTERVAL).map_err(|error| self.failed(error))? {
                let handed = receive(&self.from).map_err(|error| self.failed(error))?;
                let handed = handed.ok_or(TransportError::Abandoned)?;
                // The hello has already been received, so this call does not wait.
                return self.transport.listen_on(handed, &self.setup)?.accept(&mut || false);
            }
            if deadline.saturating_duration_since(Instant::now()) == Duration::ZERO {
                return Err(TransportError::TimedOut { what: "connected", after: timeout });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn sockets_keep_their_kind_and_the_end_is_reported() {
        let [(near, far), (mut one, other)] = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
        hand(&near, Sort::Accepted, other.as_fd()).unwrap();
        drop(other);
        let Some(PassedSocket::Accepted(socket)) = receive(&far).unwrap() else { panic!("not an accepted socket") };
        one.write_all(b"x").unwrap();
        let mut byte = [0];
        UnixStream::from(socket).read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"x");
        for header in [None, Some(IpHeader { ttl: 57, traffic_class: 0xb9 })] {
            hand(&near, Sort::Confirmed(header), one.as_fd()).unwrap();
            let Some(PassedSocket::Confirmed(_, came)) = receive(&far).unwrap() else {
                panic!("not a confirmed socket")
            };
            assert_eq!(came, header);
        }
        (&near).write_all(&[1, 0, 0, 0]).unwrap();
        assert_eq!(receive(&far).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(near);
        assert!(receive(&far).unwrap().is_none());
    }
}
