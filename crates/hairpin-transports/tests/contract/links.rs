//! Transports with a server across a link. Another address of this host replaces the other host.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};

use hairpin_model::{AnsweredBy, Reach, fact, fact_names};
use hairpin_transports::{ServerAddresses, Setup, TransportError, is_hello};

use super::ends::{Checked, LONG, SHORT, Subject, accept, is_closed, shown, text};
use crate::ensure;

const SERVER: ServerAddresses = ServerAddresses { v4: Ipv4Addr::new(127, 0, 0, 2), v6: Ipv6Addr::LOCALHOST };

fn across(subject: &Subject) -> Setup {
    Setup { server: Some(SERVER), ..subject.setup(100, LONG) }
}

pub(crate) fn server_end(subject: &Subject) -> Checked {
    let setup = across(subject);
    if subject.card.reach != Reach::Network {
        let listened = subject.transport.listen(&setup).map(drop);
        let connected = subject.connect("anywhere", &setup).map(drop);
        for answer in [listened, connected] {
            let told = matches!(&answer, Err(TransportError::Impossible(why)) if why.reason.contains("cannot cross a link") && !why.hint.is_empty());
            ensure!(told, "{answer:?}");
        }
        return Ok(());
    }
    // The loopback device has one IPv6 address, so only the IPv4 addresses of the ends differ.
    let elsewhere = ["127.0.0.1", "127.0.0.1:7777", "[fd00::1]:7777"];
    for address in elsewhere {
        let error = subject.connect(address, &Setup { timeout: SHORT, ..setup.clone() }).err();
        let told = error.map(text).unwrap_or_default();
        ensure!(told.contains("not an address of the form"), "{address} is accepted as the server: `{told}`");
    }
    if subject.card.answered_by == AnsweredBy::Kernel {
        let mut client = subject.connect("127.0.0.2", &setup).map_err(text)?;
        return subject.exchange(&mut *client, None, b"across");
    }
    let address = subject.transport.listen(&setup).map_err(text)?.address();
    ensure!(address.starts_with("127.0.0.2:") || address.starts_with("[::1]:"), "the server listens at {address}");
    let (mut client, mut server) = subject.pair(&setup)?;
    subject.exchange(&mut *client, Some(&mut *server), b"across")
}

/// A datagram farewell reports the end to the server; other farewells have no effect.
pub(crate) fn farewell(subject: &Subject) -> Checked {
    let (mut client, mut server) = subject.pair(&subject.setup(100, LONG))?;
    server.send(b"on its way").map_err(text)?;
    client.farewell();
    if subject.has_datagram_flows() {
        let heard = server.receive(&mut [0; 100]);
        ensure!(is_closed(&heard), "the server receives {}", shown(&heard));
    }
    let answer = subject.receive_whole(&mut *client, 10)?;
    ensure!(answer == b"on its way", "{answer:?} came back");
    Ok(())
}

/// First bytes of the datagrams of the handshake.
const HELLO: u8 = 4;
const CHALLENGE: u8 = 5;
const CONFIRM: u8 = 6;
const WELCOME: u8 = 7;

/// A repeated confirmation after the first message is not a message, and is answered with another welcome.
pub(crate) fn overtaken_hello(subject: &Subject) -> Checked {
    let (hello, setup) = (hello_of(subject)?, across(subject));
    let listener = subject.transport.listen(&setup).map_err(text)?;
    let address = listener.address();
    let any = if address.starts_with('[') { "[::1]:0" } else { "127.0.0.1:0" };
    let client = UdpSocket::bind(any).and_then(|client| client.connect(&address).map(|()| client)).map_err(text)?;
    client.set_read_timeout(Some(LONG)).map_err(text)?;
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| accept(listener));
        let mut answer = [0; 100];
        let mut expect = |kind: u8| -> Result<Vec<u8>, String> {
            let length = client.recv(&mut answer).map_err(text)?;
            ensure!((answer[0], length) == (kind, hello.len()), "{} with {length} bytes, not {kind}", answer[0]);
            Ok(answer[..length].to_vec())
        };
        client.send(b"neither a hello nor a message").map_err(text)?;
        client.send(&hello).map_err(text)?;
        let mut confirm = expect(CHALLENGE)?;
        confirm[0] = CONFIRM;
        let mut forged = confirm.clone();
        forged[20] ^= 1;
        client.send(&forged).map_err(text)?;
        client.send(&confirm).map_err(text)?;
        let mut server = accepting.join().map_err(|_| "accept panicked")?.map_err(text)?;
        expect(WELCOME)?;
        let ignored = fact::number(&server.effective(), fact_names::IGNORED);
        ensure!(ignored == Some(2.0), "{ignored:?} ignored");
        for datagram in [&b"one"[..], &confirm, b"two"] {
            client.send(datagram).map_err(text)?;
        }
        for message in [b"one", b"two"] {
            let came = subject.receive_whole(&mut *server, 3)?;
            ensure!(came == message, "{came:?} arrived as a message");
        }
        expect(WELCOME).map(drop)
    })
}

/// Clients without the right hello (no bytes, other bytes, a truncated hello, closed) are ignored and counted.
pub(crate) fn strangers(subject: &Subject) -> Checked {
    let setup = subject.setup(100, LONG);
    let listener = subject.transport.listen(&setup).map_err(text)?;
    let to: SocketAddr = listener.address().parse().map_err(text)?;
    let mut strangers = Vec::new();
    for said in [&b""[..], b"GET / HTTP/1.1\r\nHost: here\r\n\r\nand so on and on", b"\x04\x01cut short"] {
        let mut stranger = TcpStream::connect(to).map_err(text)?;
        stranger.write_all(said).map_err(text)?;
        strangers.push(stranger);
    }
    drop(TcpStream::connect(to).map_err(text)?);
    let address = listener.address();
    let (mut client, mut server) = std::thread::scope(|scope| {
        let accepting = scope.spawn(|| accept(listener).map_err(text));
        let client = subject.connect(&address, &setup).map_err(text)?;
        Ok::<_, String>((client, accepting.join().map_err(|_| "accept panicked")??))
    })?;
    client.send(b"one").map_err(text)?;
    let came = subject.receive_whole(&mut *server, 3)?;
    ensure!(came == b"one", "{came:?} arrived as a message");
    let ignored = fact::number(&server.effective(), fact_names::IGNORED);
    ensure!(ignored == Some(4.0), "{ignored:?} ignored");
    Ok(())
}

/// The first datagram of a client.
fn hello_of(subject: &Subject) -> Result<Vec<u8>, String> {
    let any = if subject.card.name.ends_with('6') { "[::1]:0" } else { "127.0.0.1:0" };
    let server = UdpSocket::bind(any).map_err(text)?;
    server.set_read_timeout(Some(LONG)).map_err(text)?;
    let address = server.local_addr().map_err(text)?.to_string();
    // This server sends no welcome.
    let opened = subject.connect(&address, &subject.setup(100, SHORT)).err();
    ensure!(matches!(opened, Some(TransportError::Unwelcome { sent: 1, answers: 0, .. })), "{opened:?}");
    let mut hello = [0; 100];
    let length = server.recv(&mut hello).map_err(text)?;
    ensure!(is_hello(&hello[..length]) && hello[0] == HELLO, "{:?} arrived first", &hello[..length]);
    Ok(hello[..length].to_vec())
}
