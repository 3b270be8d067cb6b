//! Several clients of a listener, several wires of a connection, and sockets opened elsewhere.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;

use hairpin_model::Protocol;
use hairpin_transports::{Listener, PassedSocket, Setup, TransportError, Unsupported, Wire};
use socket2::{Domain, Socket, Type};

use super::ends::{Checked, LONG, Subject, text};
use crate::ensure;

/// Whether the answer is that this transport does not support the operation.
fn lacks<T>(subject: &Subject, answer: &Result<T, TransportError>, wanted: Unsupported) -> bool {
    matches!(answer, Err(TransportError::Unsupported { transport, what })
        if *transport == subject.card.name && *what == wanted)
}

/// Exchanges one message on each pair, while all pairs are open.
fn all_exchange(subject: &Subject, clients: &mut [Box<dyn Wire>], servers: &mut [Box<dyn Wire>]) -> Checked {
    for (number, client) in (0_u8..).zip(clients.iter_mut()) {
        client.send(&[number; 5]).map_err(text)?;
    }
    // Servers may be accepted in a different order than their clients connected.
    for server in servers.iter_mut() {
        let message = subject.receive_whole(&mut **server, 5)?;
        server.send(&message).map_err(text)?;
    }
    for (number, client) in (0_u8..).zip(clients.iter_mut()) {
        let answer = subject.receive_whole(&mut **client, 5)?;
        ensure!(answer == [number; 5], "client {number} received {answer:?}");
    }
    Ok(())
}

pub(crate) fn second_client(subject: &Subject) -> Checked {
    let setup = subject.setup(100, LONG);
    let mut listener = subject.transport.listen(&setup).map_err(text)?;
    let address = listener.address();
    let (client, server) = pair_at(subject, &mut *listener, &setup)?;
    let (mut clients, mut servers) = (vec![client], vec![server]);
    let mut second = None;
    if subject.card.protocol == Protocol::Udp {
        return several_datagram_flows(subject);
    }
    if subject.has_several_connections() {
        // Both clients send their hello before the listener accepts one of them.
        std::thread::scope(|scope| {
            let connecting = [(); 2].map(|()| scope.spawn(|| subject.connect(&address, &setup)));
            for _ in 0..2 {
                servers.push(accepted(&mut *listener).map_err(text)?);
            }
            for client in connecting {
                clients.push(client.join().map_err(|_| "connect panicked")?.map_err(text)?);
            }
            Ok::<_, String>(())
        })?;
    } else {
        second = Some(listener.accept(&mut || false));
    }
    let is_refused = second.is_none_or(|answer| lacks(subject, &answer, Unsupported::SecondConnection));
    ensure!(is_refused, "a second accept is not refused as such");
    all_exchange(subject, &mut clients, &mut servers)
}

/// Datagram flows to one address, each with its own socket. After the last flow the listener has no socket.
fn several_datagram_flows(subject: &Subject) -> Checked {
    let setup = subject.setup(100, LONG);
    let mut listener = subject.transport.listen(&setup).map_err(text)?;
    listener.expect(3);
    let pairs = (0..3).map(|_| pair_at(subject, &mut *listener, &setup));
    let (mut clients, mut servers): (Vec<_>, Vec<_>) = pairs.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    let fourth = listener.accept(&mut || false);
    ensure!(lacks(subject, &fourth, Unsupported::SecondConnection), "a fourth accept is not refused as such");
    all_exchange(subject, &mut clients, &mut servers)
}

fn accepted(listener: &mut dyn Listener) -> Result<Box<dyn Wire>, TransportError> {
    listener.accept(&mut || false)?.accept_wire()
}

pub(crate) fn second_wire(subject: &Subject) -> Checked {
    let setup = subject.setup(100, LONG);
    if !subject.has_server() {
        let mut connection = subject.transport.connect("127.0.0.1", &setup).map_err(text)?;
        let _first = connection.open().map_err(text)?;
        ensure!(lacks(subject, &connection.open(), Unsupported::SecondWire), "a second wire is not refused as such");
        return Ok(());
    }
    let mut listener = subject.transport.listen(&setup).map_err(text)?;
    let address = listener.address();
    let (mut client, mut server) = std::thread::scope(|scope| {
        let connected = scope.spawn(|| subject.transport.connect(&address, &setup));
        let server = listener.accept(&mut || false).map_err(text)?;
        Ok::<_, String>((connected.join().map_err(|_| "connect panicked")?.map_err(text)?, server))
    })?;
    let count = if subject.has_several_wires() { 4 } else { 1 };
    let (mut clients, mut servers) = std::thread::scope(|scope| {
        let opening = scope.spawn(|| (0..count).map(|_| client.open().map_err(text)).collect::<Result<Vec<_>, _>>());
        let servers = (0..count).map(|_| server.accept_wire().map_err(text)).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, String>((opening.join().map_err(|_| "open panicked")??, servers))
    })?;
    if subject.has_several_wires() && subject.card.library.is_none() {
        // Both ends can open wires.
        servers.push(server.open().map_err(text)?);
        clients.push(client.accept_wire().map_err(text)?);
    }
    if !subject.has_several_wires() {
        ensure!(lacks(subject, &client.open(), Unsupported::SecondWire), "a second open is not refused as such");
        ensure!(lacks(subject, &server.accept_wire(), Unsupported::SecondWire), "a second accept_wire succeeds");
    }
    // Wires outlive their connection.
    drop((client, server, listener));
    all_exchange(subject, &mut clients, &mut servers)
}

/// A wait for a client can be abandoned and repeated.
pub(crate) fn abandoned(subject: &Subject) -> Checked {
    let setup = subject.setup(100, LONG);
    let mut listener = subject.transport.listen(&setup).map_err(text)?;
    for asked_most in [1, 3] {
        let mut asked = 0;
        let answer = listener.accept(&mut || {
            asked += 1;
            asked == asked_most
        });
        ensure!(matches!(answer, Err(TransportError::Abandoned)), "an abandoned accept answers {:?}", answer.err());
        ensure!(asked == asked_most, "is_abandoned was called {asked} times, not {asked_most}");
    }
    let (mut client, mut server) = pair_at(subject, &mut *listener, &setup)?;
    subject.exchange(&mut *client, Some(&mut *server), b"after all")
}

/// Returns a bound socket of this transport's kind, and a socket of another kind.
fn bound(subject: &Subject) -> Option<(OwnedFd, OwnedFd)> {
    let at = if subject.card.name.ends_with('6') { "[::1]:0" } else { "127.0.0.1:0" };
    let (stream, datagram) = (TcpListener::bind(at).ok()?.into(), UdpSocket::bind(at).ok()?.into());
    match subject.card.protocol {
        Protocol::Udp => Some((datagram, stream)),
        Protocol::Tcp if subject.card.name != "mptcp" => Some((stream, datagram)),
        Protocol::Tcp => {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(socket2::Protocol::MPTCP)).ok()?;
            let any: std::net::SocketAddr = at.parse().ok()?;
            socket.bind(&any.into()).and_then(|()| socket.listen(4)).ok()?;
            Some((socket.into(), datagram))
        }
        _ => None,
    }
}

/// A server on a port that was bound elsewhere.
pub(crate) fn handed_port(subject: &Subject) -> Checked {
    let setup = subject.setup(100, LONG);
    let Some((socket, other)) = bound(subject) else {
        let any: OwnedFd = UdpSocket::bind("127.0.0.1:0").map_err(text)?.into();
        let answer = subject.transport.listen_on(PassedSocket::Bound(any), &setup);
        ensure!(lacks(subject, &answer, Unsupported::BoundSocket), "a bound socket is not refused as such");
        return Ok(());
    };
    let answer = subject.transport.listen_on(PassedSocket::Bound(other), &setup).map(drop);
    ensure!(matches!(answer, Err(TransportError::System { .. })), "a socket of another kind answers {answer:?}");
    let port = Socket::from(socket.try_clone().map_err(text)?).local_addr().map_err(text)?;
    let port = port.as_socket().ok_or("the socket has no port")?.to_string();
    let mut listener = subject.transport.listen_on(PassedSocket::Bound(socket), &setup).map_err(text)?;
    ensure!(listener.address() == port, "the server listens at {}, not {port}", listener.address());
    let (mut client, mut server) = pair_at(subject, &mut *listener, &setup)?;
    subject.exchange(&mut *client, Some(&mut *server), b"at a port of another")
}

/// Connects a new client to the listener. A datagram client waits for the welcome.
fn pair_at(subject: &Subject, listener: &mut dyn Listener, setup: &Setup) -> Result<super::ends::Pair, String> {
    let address = listener.address();
    std::thread::scope(|scope| {
        let connected = scope.spawn(|| subject.connect(&address, setup).map_err(text));
        let server = accepted(listener).map_err(text)?;
        Ok((connected.join().map_err(|_| "connect panicked")??, server))
    })
}

/// A port stays open, and each of its connections is passed to a separate server.
pub(crate) fn handed_connection(subject: &Subject) -> Checked {
    let setup = subject.setup(100, LONG);
    let streams = bound(subject).filter(|_| subject.card.protocol == Protocol::Tcp);
    let Some((socket, _)) = streams else {
        let any: OwnedFd = UdpSocket::bind("127.0.0.1:0").map_err(text)?.into();
        let answer = subject.transport.listen_on(PassedSocket::Accepted(any), &setup);
        ensure!(lacks(subject, &answer, Unsupported::AcceptedSocket), "an accepted socket is not refused as such");
        return Ok(());
    };
    let port = Socket::from(socket);
    let address = port.local_addr().map_err(text)?.as_socket().ok_or("the socket has no port")?;
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut listener = std::thread::scope(|scope| {
            let connecting = scope.spawn(|| subject.connect(&address.to_string(), &setup).map_err(text));
            let (accepted, _) = port.accept().map_err(text)?;
            let passed = PassedSocket::Accepted(accepted.into());
            let mut listener = subject.transport.listen_on(passed, &setup).map_err(text)?;
            servers.push(self::accepted(&mut *listener).map_err(text)?);
            clients.push(connecting.join().map_err(|_| "connect panicked")??);
            Ok::<_, String>(listener)
        })?;
        let answer = listener.accept(&mut || false);
        ensure!(lacks(subject, &answer, Unsupported::SecondConnection), "a second accept is not refused as such");
    }
    all_exchange(subject, &mut clients, &mut servers)?;
    let stranger = TcpStream::connect(address).map_err(text)?;
    let (accepted, _) = port.accept().map_err(text)?;
    drop(stranger);
    let mut listener = subject.transport.listen_on(PassedSocket::Accepted(accepted.into()), &setup).map_err(text)?;
    let answer = listener.accept(&mut || false).map(drop);
    ensure!(matches!(answer, Err(TransportError::System { .. })), "without a hello, accept answers {answer:?}");
    Ok(())
}
