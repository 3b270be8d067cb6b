//! What a server expects: sessions, and the flows of data that rounds under way announced over control.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_engine::handing::{Sort, hand};
use hairpin_transports::Cookie;
use socket2::Socket;

/// Why a flow of data is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// No round under way announced its cookie.
    Unknown,
    /// The round has all its flows already.
    Refused,
    /// The process of the round takes nothing more.
    Gone,
}

/// A run that a client makes here.
#[derive(Clone, Debug)]
pub(super) struct Session {
    /// The name of its ticket.
    pub(super) ticket: String,
    /// Rounds so far.
    pub(super) rounds: u64,
    /// When it began or had its last round.
    pub(super) last: Instant,
}

/// A round's flows.
struct Expected {
    /// The address of this host that its client knows.
    at: SocketAddr,
    /// Where its sockets are handed to.
    to: UnixStream,
    /// Flows still to come.
    left: u32,
    /// Hellos of datagrams that have come, each of which was answered.
    hellos: u32,
    /// Those of datagrams that have come.
    known: Vec<SocketAddr>,
}

#[derive(Default)]
struct Inner {
    sessions: BTreeMap<u64, Session>,
    flows: HashMap<[u8; 16], Expected>,
    last_session: u64,
}

/// What a server expects, shared by its threads.
#[derive(Default)]
pub(super) struct Registry(Mutex<Inner>);

impl Registry {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // What a thread that panicked left is whole: no step here panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new session; its number.
    pub(super) fn begin(&self, ticket: &str) -> u64 {
        let mut inner = self.inner();
        inner.last_session += 1;
        let number = inner.last_session;
        inner.sessions.insert(number, Session { ticket: ticket.to_owned(), rounds: 0, last: Instant::now() });
        number
    }

    /// The session is over; what it was.
    pub(super) fn end(&self, number: u64) -> Option<Session> {
        self.inner().sessions.remove(&number)
    }

    /// Counts a round of a session of that ticket; whether there is such a session.
    pub(super) fn count_round(&self, number: u64, ticket: &str) -> bool {
        let mut inner = self.inner();
        let session = inner.sessions.get_mut(&number).filter(|session| session.ticket == ticket);
        let counted = session.map(|session| (session.rounds, session.last) = (session.rounds + 1, Instant::now()));
        counted.is_some()
    }

    /// For how long the session has had no round; `None` where it is over.
    pub(super) fn idle(&self, number: u64) -> Option<Duration> {
        self.inner().sessions.get(&number).map(|session| session.last.elapsed())
    }

    /// How many sessions there are, of that ticket or of all.
    pub(super) fn sessions(&self, ticket: Option<&str>) -> usize {
        let of = |session: &&Session| ticket.is_none_or(|ticket| session.ticket == ticket);
        self.inner().sessions.values().filter(of).count()
    }

    /// From now on flows with that cookie, which come to the address `at`, are handed to `to`, so many.
    pub(super) fn expect(&self, cookie: Cookie, at: SocketAddr, to: UnixStream, flows: u32) {
        let expected = Expected { at, to, left: flows, hellos: 0, known: Vec::new() };
        self.inner().flows.insert(cookie.0, expected);
    }

    /// The round of that cookie is over.
    pub(super) fn forget(&self, cookie: Cookie) {
        self.inner().flows.remove(&cookie.0);
    }

    /// Counts a hello of datagrams with that cookie; answers the address that it was sent to, where a round under way announced it.
    pub(super) fn count_hello(&self, cookie: Cookie) -> Option<SocketAddr> {
        let mut inner = self.inner();
        let expected = inner.flows.get_mut(&cookie.0)?;
        expected.hellos = expected.hellos.saturating_add(1);
        Some(expected.at)
    }

    /// How many hellos of datagrams with that cookie have come.
    pub(super) fn hellos(&self, cookie: Cookie) -> u32 {
        self.inner().flows.get(&cookie.0).map_or(0, |expected| expected.hellos)
    }

    /// Hands over an accepted connection that begins with the hello of that cookie.
    ///
    /// # Errors
    /// See [`NotTaken`].
    pub(super) fn connected(&self, cookie: Cookie, socket: BorrowedFd<'_>) -> Result<(), NotTaken> {
        let mut inner = self.inner();
        let expected = inner.flows.get_mut(&cookie.0).ok_or(NotTaken::Unknown)?;
        expected.hand(Sort::Accepted, socket)
    }

    /// Hands over the socket that `connect` makes, at an address of this host, for a client of datagrams that has confirmed its
    /// hello; whether it is new. One that was taken already said so twice.
    ///
    /// # Errors
    /// See [`NotTaken`].
    pub(super) fn confirmed(
        &self,
        cookie: Cookie,
        from: SocketAddr,
        connect: impl FnOnce(SocketAddr) -> io::Result<Socket>,
    ) -> Result<bool, NotTaken> {
        let mut inner = self.inner();
        let expected = inner.flows.get_mut(&cookie.0).ok_or(NotTaken::Unknown)?;
        if expected.known.contains(&from) {
            return Ok(false);
        }
        if expected.left == 0 {
            return Err(NotTaken::Refused);
        }
        let socket = connect(expected.at).map_err(|_| NotTaken::Gone)?;
        expected.hand(Sort::Confirmed, socket.as_fd())?;
        expected.known.push(from);
        Ok(true)
    }
}

impl Expected {
    fn hand(&mut self, sort: Sort, socket: BorrowedFd<'_>) -> Result<(), NotTaken> {
        if self.left == 0 {
            return Err(NotTaken::Refused);
        }
        hand(&self.to, sort, socket).map_err(|_| NotTaken::Gone)?;
        self.left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COOKIE: Cookie = Cookie([3; 16]);

    fn udp(_: SocketAddr) -> io::Result<Socket> {
        Ok(std::net::UdpSocket::bind("127.0.0.1:0")?.into())
    }

    #[test]
    fn a_round_gets_as_many_flows_as_it_announced_and_one_that_says_hello_twice_is_one() {
        let registry = Registry::default();
        let (near, _far) = UnixStream::pair().unwrap();
        let [one, other, third] = ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"].map(|text| text.parse().unwrap());
        assert_eq!(registry.confirmed(COOKIE, one, udp), Err(NotTaken::Unknown));
        let own = "127.0.0.1:7420".parse().unwrap();
        registry.expect(COOKIE, own, near, 2);
        assert_eq!(registry.confirmed(COOKIE, one, udp), Ok(true));
        assert_eq!(registry.confirmed(COOKIE, one, |_| panic!("it has its socket")), Ok(false));
        assert_eq!(registry.confirmed(COOKIE, other, udp), Ok(true));
        assert_eq!(registry.confirmed(COOKIE, third, udp), Err(NotTaken::Refused));
        assert_eq!(registry.connected(COOKIE, udp(own).unwrap().as_fd()), Err(NotTaken::Refused));
        registry.forget(COOKIE);
        assert_eq!(registry.confirmed(COOKIE, one, udp), Err(NotTaken::Unknown));
    }

    #[test]
    fn a_round_belongs_to_a_session_of_its_own_ticket() {
        let registry = Registry::default();
        let session = registry.begin("aa");
        assert!(registry.count_round(session, "aa"));
        assert!(!registry.count_round(session, "bb") && !registry.count_round(session + 1, "aa"));
        assert_eq!((registry.sessions(None), registry.sessions(Some("bb"))), (1, 0));
        assert_eq!(registry.end(session).map(|session| session.rounds), Some(1));
        assert_eq!(registry.sessions(None), 0);
    }
}
