//! The state of TCP and UDP sockets by sock_diag(7), in the network namespace in which the socket was opened.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hairpin_model::SocketSample;
use rustix::net::netlink::SOCK_DIAG;

use crate::netlink::{Netlink, Request, find, word};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Extensions of the answer (include/uapi/linux/inet_diag.h).
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_SKMEMINFO: u16 = 7;
/// `SK_MEMINFO_DROPS` (include/uapi/linux/sock_diag.h).
const DROPS: usize = 8;
const MESSAGE_BYTES: usize = 72;
/// States of a socket (include/net/tcp_states.h).
const LISTEN: u8 = 10;
/// Those with a peer and data: all but SYN_SENT, SYN_RECV, TIME_WAIT, CLOSE, LISTEN and NEW_SYN_RECV.
const WITH_DATA: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
const ANY: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Socket {
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) inode: u32,
    pub(super) is_listening: bool,
    /// Bytes in the receive queue; of a listening socket the connections that wait to be accepted.
    pub(super) receive_queue: u32,
    /// Bytes in the send queue; of a listening socket the length of that queue.
    pub(super) send_queue: u32,
    pub(super) drops: u32,
    /// Without the time.
    pub(super) sample: Option<SocketSample>,
}

pub(super) struct Sockets(Netlink);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tcp,
    Udp,
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

impl Sockets {
    pub(super) fn open() -> io::Result<Self> {
        Netlink::open_of(Some(SOCK_DIAG)).map(Self)
    }

    /// Calls `of` with all sockets of this kind that have a peer or listen.
    pub(super) fn each(&mut self, kind: Kind, mut of: impl FnMut(Socket)) -> io::Result<()> {
        for family in [libc::AF_INET, libc::AF_INET6] {
            let states = if kind == Kind::Tcp { WITH_DATA | 1 << LISTEN } else { ANY };
            let request = request(family, kind, states, None);
            self.0.each(request, SOCK_DIAG_BY_FAMILY, |body| {
                if let Some(socket) = socket(body) {
                    of(socket);
                }
            })?;
        }
        Ok(())
    }

    pub(super) fn find(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<Socket> {
        let family = if local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let request = request(family, Kind::Tcp, ANY, Some((local, remote)));
        self.0.one(request, SOCK_DIAG_BY_FAMILY, socket)
    }
}

/// Builds a `struct inet_diag_req_v2`.
fn request(family: i32, kind: Kind, states: u32, ends: Option<(SocketAddr, SocketAddr)>) -> Request {
    let mut request = Request::new(SOCK_DIAG_BY_FAMILY);
    let extensions = (1 << (INET_DIAG_INFO - 1)) | (1 << (INET_DIAG_SKMEMINFO - 1));
    request.bytes.extend([u8::try_from(family).expect("IP's families are 2 and 10"), kind.number(), extensions, 0]);
    request.bytes.extend(states.to_ne_bytes());
    let port = |of: fn((SocketAddr, SocketAddr)) -> SocketAddr| ends.map_or(0, |ends| of(ends).port()).to_be_bytes();
    request.bytes.extend(port(|ends| ends.0));
    request.bytes.extend(port(|ends| ends.1));
    for address in [ends.map(|ends| ends.0.ip()), ends.map(|ends| ends.1.ip())] {
        let octets = match address {
            Some(IpAddr::V4(v4)) => [&v4.octets()[..], &[0; 12]].concat(),
            Some(IpAddr::V6(v6)) => v6.octets().to_vec(),
            None => vec![0; 16],
        };
        request.bytes.extend(octets);
    }
    request.bytes.extend([0; 4]);
    // `INET_DIAG_NOCOOKIE`.
    request.bytes.extend([0xff; 8]);
    request
}

/// Parses a `struct inet_diag_msg` with its attributes.
fn socket(body: &[u8]) -> Option<Socket> {
    let (family, state) = (i32::from(*body.first()?), *body.get(1)?);
    let port = |at: usize| Some(u16::from_be_bytes(body.get(at..at + 2)?.try_into().ok()?));
    let address = |at: usize| {
        let octets: [u8; 16] = body.get(at..at + 16)?.try_into().ok()?;
        Some(match family {
            libc::AF_INET => IpAddr::from(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
            _ => IpAddr::from(Ipv6Addr::from(octets)).to_canonical(),
        })
    };
    let attributes = body.get(MESSAGE_BYTES..).unwrap_or_default();
    let memory = find(attributes, INET_DIAG_SKMEMINFO);
    let (receive_queue, send_queue) = (word(body, 56)?, word(body, 60)?);
    let info = find(attributes, INET_DIAG_INFO).filter(|_| state != LISTEN);
    Some(Socket {
        local: (address(8)?, port(4)?).into(),
        remote: (address(24)?, port(6)?).into(),
        inode: word(body, 68)?,
        is_listening: state == LISTEN,
        receive_queue,
        send_queue,
        drops: memory.and_then(|memory| word(memory, DROPS * 4)).unwrap_or(0),
        sample: info.and_then(|info| sample(info, receive_queue, send_queue)),
    })
}

/// Reads a `struct tcp_info` (include/uapi/linux/tcp.h), which later kernels extend at its end.
fn sample(info: &[u8], receive_queue: u32, send_queue: u32) -> Option<SocketSample> {
    let word = |at: usize| Some(u64::from(word(info, at)?));
    let long = |at: usize| Some(u64::from_ne_bytes(info.get(at..at + 8)?.try_into().ok()?));
    let not_sent_bytes = word(std::mem::offset_of!(libc::tcp_info, tcpi_notsent_bytes))?;
    Some(SocketSample {
        at_ns: 0,
        acked_bytes: long(std::mem::offset_of!(libc::tcp_info, tcpi_bytes_acked))?,
        unacked_bytes: u64::from(send_queue).saturating_sub(not_sent_bytes),
        not_sent_bytes,
        unacked_segments: word(std::mem::offset_of!(libc::tcp_info, tcpi_unacked))?,
        cwnd_segments: word(std::mem::offset_of!(libc::tcp_info, tcpi_snd_cwnd))?,
        send_window_bytes: word(std::mem::offset_of!(libc::tcp_info, tcpi_snd_wnd)).unwrap_or(u64::MAX),
        received_bytes: long(std::mem::offset_of!(libc::tcp_info, tcpi_bytes_received))?,
        unread_bytes: receive_queue.into(),
        min_rtt_ns: word(std::mem::offset_of!(libc::tcp_info, tcpi_min_rtt))?.saturating_mul(1_000),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};

    use super::*;

    #[test]
    fn both_sockets_of_a_connection_are_found_with_their_queues() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        let mut sockets = Sockets::open().unwrap();
        client.write_all(&[7; 100]).unwrap();
        server.peek(&mut [0; 100]).unwrap();
        let of_server = sockets.find(ends.1, ends.0).unwrap();
        assert_eq!((of_server.local, of_server.remote), (ends.1, ends.0));
        let sample = of_server.sample.unwrap();
        assert_eq!((sample.received_bytes, sample.unread_bytes), (100, 100));
        server.read_exact(&mut [0; 100]).unwrap();
        assert_eq!(sockets.find(ends.1, ends.0).unwrap().receive_queue, 0);
        let of_client = sockets.find(ends.0, ends.1).unwrap();
        let sent = of_client.sample.unwrap();
        // The client's SYN counts as an acknowledged byte.
        assert_eq!(sent.acked_bytes + sent.unacked_bytes + sent.not_sent_bytes, 101);
        let mut listed = Vec::new();
        sockets.each(Kind::Tcp, |socket| listed.push(socket)).unwrap();
        assert!(listed.iter().any(|socket| socket.inode == of_client.inode && !socket.is_listening));
        assert!(listed.iter().any(|socket| socket.is_listening && socket.local == ends.1));
        let elsewhere = "127.0.0.1:1".parse().unwrap();
        // Without a connection, the kernel finds the listening socket, which has no sample.
        assert_eq!(sockets.find(ends.1, elsewhere).unwrap().sample, None);
        drop((client, server, listener));
        assert_eq!(sockets.find(ends.1, elsewhere).unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_udp_socket_has_its_drops() {
        let [from, to] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        rustix::net::sockopt::set_socket_recv_buffer_size(&to, 2304).unwrap();
        let address = to.local_addr().unwrap();
        for _ in 0..100 {
            from.send_to(&[0; 1000], address).unwrap();
        }
        let mut drops = None;
        let of = |socket: Socket| {
            if socket.local == address {
                drops = Some(socket.drops);
            }
        };
        Sockets::open().unwrap().each(Kind::Udp, of).unwrap();
        assert!(drops.is_some_and(|drops| drops > 0), "{drops:?}");
    }

    #[test]
    fn a_truncated_answer_is_no_socket() {
        assert_eq!(socket(&[2, 1]), None);
        assert_eq!(socket(&[0; 71]), None);
        assert_eq!(socket(&[0; 72]).map(|socket| socket.sample), Some(None));
    }
}
