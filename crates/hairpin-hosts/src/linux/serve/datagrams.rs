//! Datagram hellos at the server's port. The server keeps no state for a client until the client has proved that it
//! receives at its address, by echoing a nonce. The server computes this nonce from the address.

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

use hairpin_transports::received::{self, IpHeader};
use hairpin_transports::{Cookie, HELLO_BYTES, HelloKind, Nonce, encode_hello, parse_hello};
use ring::hmac;
use ring::rand::SystemRandom;
use socket2::{Socket, Type};

use super::bind::bind_socket;
use super::registry::{NotAccepted, Registry};

/// Maximum datagrams to handle in one call, so that a flood leaves time for other work.
const MAX_BATCH: usize = 64;

/// More datagrams than can arrive between `bind` and `connect`.
const MAX_DISCARDED: usize = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) accepted: u64,
    pub(super) challenged: u64,
    /// Valid confirmations of flows that the round does not accept.
    pub(super) refused: u64,
    /// All other datagrams; not answered.
    pub(super) ignored: u64,
}

pub(super) struct Datagrams {
    /// Sockets and their bound addresses. A server on all addresses has an additional socket for each address that
    /// clients have used: the wildcard socket would answer from whichever address routing picks.
    sockets: Vec<(SocketAddr, UdpSocket)>,
    /// Random in each process, so that a nonce is valid at this server only.
    key: hmac::Key,
    pub(super) counts: Counts,
}

impl Datagrams {
    pub(super) fn bind(addresses: &[SocketAddr]) -> io::Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| io::Error::other("the system gives no random bytes"))?;
        let sockets = addresses.iter().map(|at| {
            let socket = UdpSocket::from(bind_socket(*at, Type::DGRAM, true)?);
            received::report_headers(&socket);
            Ok((socket.local_addr()?, socket))
        });
        Ok(Self { sockets: sockets.collect::<io::Result<_>>()?, key, counts: Counts::default() })
    }

    pub(super) fn sockets(&self) -> impl ExactSizeIterator<Item = &UdpSocket> {
        self.sockets.iter().map(|(_, socket)| socket)
    }

    /// Answers the datagrams at the sockets whose flag in `ready` is set.
    pub(super) fn serve(&mut self, ready: &[bool], registry: &Registry) {
        let mut datagram = [0; HELLO_BYTES + 1];
        for index in (0..ready.len()).filter(|index| ready[*index]) {
            for _ in 0..MAX_BATCH {
                match received::receive_from(&self.sockets[index].1, &mut datagram) {
                    Ok((bytes, from, header)) => self.on_datagram(&datagram[..bytes], from, header, registry),
                    // ICMP error caused by an earlier answer: the client's port is closed.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(_) => break,
                }
            }
        }
    }

    /// Returns the socket bound to that address. Opens it if missing.
    fn socket_at(&mut self, at: SocketAddr) -> io::Result<&UdpSocket> {
        let index = self.sockets.iter().position(|(bound, _)| *bound == at);
        let index = match index {
            Some(index) => index,
            None => {
                let socket = UdpSocket::from(bind_socket(at, Type::DGRAM, true)?);
                received::report_headers(&socket);
                self.sockets.push((at, socket));
                self.sockets.len() - 1
            }
        };
        Ok(&self.sockets[index].1)
    }

    fn on_datagram(&mut self, datagram: &[u8], from: SocketAddr, header: Option<IpHeader>, registry: &Registry) {
        match parse_hello(datagram) {
            Some((HelloKind::Hello, cookie, _)) => {
                let Some(local) = registry.count_hello(cookie, from, Instant::now()) else {
                    self.counts.ignored += 1;
                    return;
                };
                self.counts.challenged += 1;
                let challenge = encode_hello(HelloKind::Challenge, &cookie, &self.nonce(&cookie, from));
                // If the challenge cannot be sent, the client sends another hello.
                drop(self.socket_at(local).and_then(|socket| socket.send_to(&challenge, from)));
            }
            Some((HelloKind::Confirm, cookie, nonce)) if nonce == self.nonce(&cookie, from) => {
                match registry.on_confirmation(cookie, from, header, |local| connect(local, from)) {
                    Ok(is_new) => self.counts.accepted += u64::from(is_new),
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

/// Opens a socket at `local` that receives only from the client at `from`.
fn connect(local: SocketAddr, from: SocketAddr) -> io::Result<Socket> {
    let socket = bind_socket(local, Type::DGRAM, true)?;
    socket.connect(&from.into())?;
    // Discards datagrams received from others before the connect. The client sends nothing before the welcome.
    let mut discarded = [MaybeUninit::uninit(); 1];
    for _ in 0..MAX_DISCARDED {
        if socket.recv(&mut discarded).is_err() {
            break;
        }
    }
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    const COOKIE: Cookie = Cookie([3; 16]);

    fn hello() -> [u8; HELLO_BYTES] {
        encode_hello(HelloKind::Hello, &COOKIE, &[0; 16])
    }

    fn confirm(nonce: &Nonce) -> [u8; HELLO_BYTES] {
        encode_hello(HelloKind::Confirm, &COOKIE, nonce)
    }

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

    fn answer(server: &mut Datagrams, registry: &Registry, client: &UdpSocket) -> Option<Vec<u8>> {
        server.serve(&[true], registry);
        client.set_nonblocking(true).unwrap();
        let mut answer = [0; 100];
        client.recv(&mut answer).ok().map(|bytes| answer[..bytes].to_vec())
    }

    #[test]
    fn a_flow_is_accepted_once_its_address_has_echoed_the_nonce() {
        let (mut server, registry) = (server(), Registry::default());
        let (near, _far) = UnixStream::pair().unwrap();
        let client = client(&server);
        client.send(&hello()).unwrap();
        assert_eq!(answer(&mut server, &registry, &client), None, "no round announced the cookie");
        registry.expect(COOKIE, (at(&server), at(&server).ip()), near, 1);
        client.send(&confirm(&[9; 16])).unwrap();
        assert_eq!(answer(&mut server, &registry, &client), None, "a nonce that was never sent");
        client.send(&hello()).unwrap();
        let challenge = answer(&mut server, &registry, &client).expect("a challenge");
        assert_eq!((challenge.len(), challenge[0]), (HELLO_BYTES, 5));
        let nonce: Nonce = challenge[18..34].try_into().unwrap();
        client.send(&confirm(&nonce)).unwrap();
        client.send(&confirm(&nonce)).unwrap();
        assert_eq!(answer(&mut server, &registry, &client), None, "the round's own process welcomes it");
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        stranger.send_to(&confirm(&nonce), at(&server)).unwrap();
        server.serve(&[true], &registry);
        assert_eq!(server.counts, Counts { accepted: 1, challenged: 1, refused: 0, ignored: 3 });
    }

    proptest! {
        #[test]
        fn random_datagrams_neither_panic_nor_get_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let registry = Registry::default();
            let mut server = server();
            server.on_datagram(&bytes, "127.0.0.1:9".parse().unwrap(), None, &registry);
            prop_assert_eq!(server.counts, Counts { ignored: 1, ..Counts::default() });
        }
    }
}
