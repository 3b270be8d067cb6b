//! The data flows that a server expects: clients announce them over control when they order a round.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hairpin_engine::socket_passing::{Sort, hand};
use hairpin_transports::Cookie;
use hairpin_transports::received::IpHeader;
use socket2::Socket;

use crate::protocol::DatagramsSeen;

/// Maximum number of hellos of a cookie that are answered in this time.
const MAX_HELLOS: usize = 100;
const HELLO_INTERVAL: Duration = Duration::from_secs(1);

/// Why a data flow is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAccepted {
    /// No round in progress has the flow's cookie.
    Unknown,
    /// The round has all its flows, or its process accepts no more.
    Refused,
}

/// Flows of a round, or datagrams of a trial, that have the same cookie.
struct Expected {
    at: SocketAddr,
    client: IpAddr,
    /// When hellos were answered last, in the last [`HELLO_INTERVAL`].
    answered: VecDeque<Instant>,
    /// Datagram hellos received, and confirmations received in a trial.
    seen: DatagramsSeen,
    /// `None` for a trial.
    flows: Option<Flows>,
}

struct Flows {
    /// Channel over which the round's process receives the sockets.
    to: UnixStream,
    /// Flows still expected.
    left: u32,
    /// Addresses of the clients of the datagram flows accepted so far.
    clients: Vec<SocketAddr>,
}

/// The flows that a server expects, shared by its threads.
#[derive(Default)]
pub(super) struct Registry(Mutex<HashMap<[u8; 16], Expected>>);

impl Registry {
    fn inner(&self) -> MutexGuard<'_, HashMap<[u8; 16], Expected>> {
        // The data are valid even if a thread panicked: no update here panics half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a round: the sockets of the next `flows` flows with this cookie go to the channel `to`. `ends` are the
    /// local address that the client uses, and the client's own.
    pub(super) fn expect(&self, cookie: Cookie, ends: (SocketAddr, IpAddr), to: UnixStream, flows: u32) {
        let flows = Some(Flows { to, left: flows, clients: Vec::new() });
        self.inner().insert(cookie.0, Expected::between(ends, flows));
    }

    /// Registers a trial: counts datagrams with this cookie.
    pub(super) fn begin_trial(&self, cookie: Cookie, ends: (SocketAddr, IpAddr)) {
        self.inner().insert(cookie.0, Expected::between(ends, None));
    }

    /// Ends the round or the trial of that cookie.
    pub(super) fn forget(&self, cookie: Cookie) {
        self.inner().remove(&cookie.0);
    }

    /// Counts a datagram hello with that cookie. Returns the local address from which it is answered. `None` if no round or
    /// trial in progress has the cookie, if the hello came from another address than the client's, or too often: the answers
    /// would go to another host.
    pub(super) fn count_hello(&self, cookie: Cookie, from: SocketAddr, now: Instant) -> Option<SocketAddr> {
        let mut inner = self.inner();
        let expected = inner.get_mut(&cookie.0).filter(|expected| expected.client == from.ip().to_canonical())?;
        expected.seen.hellos = expected.seen.hellos.saturating_add(1);
        while expected.answered.pop_front_if(|answered| now.duration_since(*answered) >= HELLO_INTERVAL).is_some() {}
        if expected.answered.len() >= MAX_HELLOS {
            return None;
        }
        expected.answered.push_back(now);
        Some(expected.at)
    }

    pub(super) fn datagrams_seen(&self, cookie: Cookie) -> DatagramsSeen {
        self.inner().get(&cookie.0).map_or_else(DatagramsSeen::default, |expected| expected.seen)
    }

    /// Passes a connection to the round's process. The connection began with the hello of `cookie`.
    pub(super) fn hand_connection(&self, cookie: Cookie, socket: BorrowedFd<'_>) -> Result<(), NotAccepted> {
        let mut inner = self.inner();
        let flows = inner.get_mut(&cookie.0).and_then(|expected| expected.flows.as_mut());
        flows.ok_or(NotAccepted::Unknown)?.hand(Sort::Accepted, socket)
    }

    /// Handles a confirmation that arrived with that IP header. For a round, `connect` opens a socket for the client,
    /// which is passed to the round's process. Returns whether the flow is new: a repeated confirmation adds none.
    pub(super) fn on_confirmation(
        &self,
        cookie: Cookie,
        from: SocketAddr,
        header: Option<IpHeader>,
        connect: impl FnOnce(SocketAddr) -> io::Result<Socket>,
    ) -> Result<bool, NotAccepted> {
        let mut inner = self.inner();
        let Expected { at, seen, flows, .. } = inner.get_mut(&cookie.0).ok_or(NotAccepted::Unknown)?;
        let Some(flows) = flows else {
            seen.confirmed = seen.confirmed.saturating_add(1);
            return Ok(false);
        };
        if flows.clients.contains(&from) {
            return Ok(false);
        }
        if flows.left == 0 {
            return Err(NotAccepted::Refused);
        }
        let socket = connect(*at).map_err(|_| NotAccepted::Refused)?;
        flows.hand(Sort::Confirmed(header), socket.as_fd())?;
        flows.clients.push(from);
        Ok(true)
    }
}

impl Expected {
    fn between((at, client): (SocketAddr, IpAddr), flows: Option<Flows>) -> Self {
        let client = client.to_canonical();
        Self { at, client, answered: VecDeque::new(), seen: DatagramsSeen::default(), flows }
    }
}

impl Flows {
    fn hand(&mut self, sort: Sort, socket: BorrowedFd<'_>) -> Result<(), NotAccepted> {
        if self.left == 0 {
            return Err(NotAccepted::Refused);
        }
        hand(&self.to, sort, socket).map_err(|_| NotAccepted::Refused)?;
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
    fn a_round_gets_as_many_flows_as_it_announced_and_a_repeated_hello_adds_none() {
        let registry = Registry::default();
        let (near, _far) = UnixStream::pair().unwrap();
        let [one, other, third]: [SocketAddr; 3] =
            ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"].map(|text| text.parse().unwrap());
        assert_eq!(registry.on_confirmation(COOKIE, one, None, udp), Err(NotAccepted::Unknown));
        let own = "127.0.0.1:7420".parse().unwrap();
        registry.expect(COOKIE, (own, one.ip()), near, 2);
        assert_eq!(registry.on_confirmation(COOKIE, one, None, udp), Ok(true));
        assert_eq!(registry.on_confirmation(COOKIE, one, None, |_| panic!("a second socket")), Ok(false));
        assert_eq!(registry.on_confirmation(COOKIE, other, None, udp), Ok(true));
        assert_eq!(registry.on_confirmation(COOKIE, third, None, udp), Err(NotAccepted::Refused));
        assert_eq!(registry.hand_connection(COOKIE, udp(own).unwrap().as_fd()), Err(NotAccepted::Refused));
        registry.forget(COOKIE);
        assert_eq!(registry.on_confirmation(COOKIE, one, None, udp), Err(NotAccepted::Unknown));
    }

    #[test]
    fn hellos_of_others_and_more_than_a_hundred_a_second_get_no_answer() {
        let registry = Registry::default();
        let [own, client, other]: [SocketAddr; 3] =
            ["127.0.0.1:7420", "192.0.2.1:9", "192.0.2.2:9"].map(|text| text.parse().unwrap());
        registry.begin_trial(COOKIE, (own, client.ip()));
        let began = Instant::now();
        let answered = |from: SocketAddr, at_ms: u64| {
            registry.count_hello(COOKIE, from, began + Duration::from_millis(at_ms)).is_some()
        };
        assert!(!answered(other, 0));
        assert_eq!((0..1_000).filter(|_| answered(client, 1)).count(), MAX_HELLOS);
        assert_eq!((0..5_000).filter(|at_ms| answered(client, 1_001 + at_ms)).count(), 5 * MAX_HELLOS);
        let seen = registry.datagrams_seen(COOKIE);
        assert_eq!((seen.hellos, registry.count_hello(Cookie([4; 16]), client, began)), (6_000, None));
    }
}
