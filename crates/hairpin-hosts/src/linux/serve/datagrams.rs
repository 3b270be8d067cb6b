//! Datagram hellos at the server's port. No state is kept for an address before it has proved that it receives: the
//! nonce that it must echo is computed from the address itself.

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};

use hairpin_transports::received::{self, IpHeader};
use hairpin_transports::{Cookie, HELLO_BYTES, HelloMessage, Nonce, challenge, parse_hello};
use ring::hmac;
use ring::rand::SystemRandom;
use socket2::{Domain, Protocol, Socket, Type};

use super::registry::{NotAccepted, Registry};

/// Datagrams handled at once, so that a flood leaves time for other work.
const AT_ONCE: usize = 64;

/// More datagrams than arrive between two calls.
const MAX_DISCARDED: usize = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Flows accepted.
    pub(super) taken: u64,
    pub(super) challenged: u64,
    /// Valid confirmations of flows that the round does not accept.
    pub(super) refused: u64,
    /// Anything else; not answered.
    pub(super) ignored: u64,
}

pub(super) struct Datagrams {
    /// Sockets and their bound addresses. A server on all addresses has an additional one for each address that clients
    /// have used: the wildcard socket would answer from whichever address routing picks.
    sockets: Vec<(SocketAddr, UdpSocket)>,
    /// Random in each process, so a nonce is valid at no other server.
    key: hmac::Key,
    pub(super) counts: Counts,
}

impl Datagrams {
    /// Binds a socket to each address.
    pub(super) fn bind(addresses: &[SocketAddr]) -> io::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("the system gives no random bytes"))?;
        let sockets = addresses.iter().map(|at| {
            let socket = UdpSocket::from(bound(*at)?);
            received::report_headers(&socket);
            Ok((socket.local_addr()?, socket))
        });
        Ok(Self { sockets: sockets.collect::<io::Result<_>>()?, key, counts: Counts::default() })
    }

    pub(super) fn sockets(&self) -> impl ExactSizeIterator<Item = &UdpSocket> {
        self.sockets.iter().map(|(_, socket)| socket)
    }

    /// Answers the datagrams at the sockets that are `ready`.
    pub(super) fn serve(&mut self, ready: &[bool], registry: &Registry) {
        let mut datagram = [0; HELLO_BYTES + 1];
        for place in (0..ready.len()).filter(|place| ready[*place]) {
            for _ in 0..AT_ONCE {
                match received::receive_from(&self.sockets[place].1, &mut datagram) {
                    Ok((bytes, from, header)) => self.on_datagram(&datagram[..bytes], from, header, registry),
                    // ICMP error of an earlier answer that no socket received.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// The socket bound to that address; opened if missing.
    fn at(&mut self, at: SocketAddr) -> io::Result<&UdpSocket> {
        let place = self.sockets.iter().position(|(own, _)| *own == at);
        let place = match place {
            Some(place) => place,
            None => {
                let socket = UdpSocket::from(bound(at)?);
                received::report_headers(&socket);
                self.sockets.push((at, socket));
                self.sockets.len() - 1
            }
        };
        Ok(&self.sockets[place].1)
    }

    fn on_datagram(&mut self, datagram: &[u8], from: SocketAddr, header: Option<IpHeader>, registry: &Registry) {
        match parse_hello(datagram) {
            Some(HelloMessage::Hello(cookie)) => {
                let Some(own) = registry.count_hello(cookie) else {
                    self.counts.ignored += 1;
                    return;
                };
                self.counts.challenged += 1;
                let challenge = challenge(&cookie, &self.nonce(&cookie, from));
                // A challenge that cannot be sent counts as lost: another hello follows.
                drop(self.at(own).and_then(|socket| socket.send_to(&challenge, from)));
            }
            Some(HelloMessage::Confirm(cookie, nonce)) if nonce == self.nonce(&cookie, from) => {
                match registry.confirmed(cookie, from, header, |own| connected(own, from)) {
                    Ok(is_new) => self.counts.taken += u64::from(is_new),
                    Err(NotAccepted::Unknown) => self.counts.ignored += 1,
                    Err(NotAccepted::Refused) => self.counts.refused += 1,
                }
            }
            _ => self.counts.ignored += 1,
        }
    }

    /// Nonce that a client at that address must echo.
    fn nonce(&self, cookie: &Cookie, from: SocketAddr) -> Nonce {
        let tag = hmac::sign(&self.key, &[from.to_string().as_bytes(), &cookie.0].concat());
        tag.as_ref()[..16].try_into().expect("HMAC-SHA256 has 32 bytes")
    }
}

/// A socket at `own` that receives from that client only.
fn connected(own: SocketAddr, from: SocketAddr) -> io::Result<Socket> {
    let socket = bound(own)?;
    socket.connect(&from.into())?;
    // Before the connect it received from anyone. Its client sends nothing before the welcome.
    let mut thrown_away = [MaybeUninit::uninit(); 1];
    for _ in 0..MAX_DISCARDED {
        if socket.recv(&mut thrown_away).is_err() {
            break;
        }
    }
    Ok(socket)
}

/// A socket bound to that address, which it shares with others of this user.
fn bound(at: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), Type::DGRAM, Some(Protocol::UDP))?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&at.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use hairpin_transports::{confirm, hello_of};
    use proptest::prelude::*;

    use super::*;

    const COOKIE: Cookie = Cookie([3; 16]);

    fn server() -> Datagrams {
        Datagrams::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap()
    }

    fn at(server: &Datagrams) -> SocketAddr {
        server.sockets[0].0
    }

    fn client(server: &Datagrams) -> UdpSocket {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(at(server)).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client
    }

    /// The server's next answer to the client.
    fn answer(server: &mut Datagrams, registry: &Registry, client: &UdpSocket) -> Option<Vec<u8>> {
        server.serve(&[true], registry);
        client.set_nonblocking(true).unwrap();
        let mut answer = [0; 100];
        client.recv(&mut answer).ok().map(|bytes| answer[..bytes].to_vec())
    }

    #[test]
    fn a_flow_is_taken_once_its_address_has_echoed_the_nonce() {
        let (mut server, registry) = (server(), Registry::default());
        let (near, _far) = UnixStream::pair().unwrap();
        let client = client(&server);
        client.send(&hello_of(&COOKIE)).unwrap();
        assert_eq!(answer(&mut server, &registry, &client), None, "no round announced it");
        registry.expect(COOKIE, at(&server), near, 1);
        client.send(&confirm(&COOKIE, &[9; 16])).unwrap();
        assert_eq!(answer(&mut server, &registry, &client), None, "a nonce that was never sent");
        client.send(&hello_of(&COOKIE)).unwrap();
        let challenge = answer(&mut server, &registry, &client).expect("it is challenged");
        assert_eq!((challenge.len(), challenge[0]), (HELLO_BYTES, 5));
        let nonce: Nonce = challenge[18..34].try_into().unwrap();
        client.send(&confirm(&COOKIE, &nonce)).unwrap();
        client.send(&confirm(&COOKIE, &nonce)).unwrap();
        assert_eq!(answer(&mut server, &registry, &client), None, "the round's own process welcomes it");
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(&confirm(&COOKIE, &nonce), at(&server)).unwrap();
        server.serve(&[true], &registry);
        assert_eq!(server.counts, Counts { taken: 1, challenged: 1, refused: 0, ignored: 3 });
    }

    proptest! {
        #[test]
        fn no_datagram_panics_or_is_answered(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let registry = Registry::default();
            let mut server = server();
            server.on_datagram(&bytes, "127.0.0.1:9".parse().unwrap(), None, &registry);
            prop_assert_eq!(server.counts, Counts { ignored: 1, ..Counts::default() });
        }
    }
}
