//! IP headers of received packets. The kernel reports the headers of datagrams (ip(7), ipv6(7)), of the SYN of a TCP
//! connection (tcp(7), `TCP_SAVE_SYN`), and over IPv6 of the last packet of a TCP connection.

use std::io;
use std::os::fd::BorrowedFd;

use socket2::{SockAddr, SockAddrStorage};

use super::control::{Control, receive_with, socket_option};
use super::sockopt::{self, SockOpt};
use crate::wires::ip_header::IpHeader;

const SAVE_SYN: SockOpt = SockOpt(libc::IPPROTO_TCP, libc::TCP_SAVE_SYN);
const SAVED_SYN: SockOpt = SockOpt(libc::IPPROTO_TCP, libc::TCP_SAVED_SYN);
/// Options for both IP versions: an IPv6 socket may also receive IPv4 packets.
const HEADER_OPTIONS: [SockOpt; 4] = [
    SockOpt(libc::IPPROTO_IP, libc::IP_RECVTTL),
    SockOpt(libc::IPPROTO_IP, libc::IP_RECVTOS),
    SockOpt(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT),
    SockOpt(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS),
];
/// Room for the headers of a SYN: TCP and IPv4 headers have at most 60 bytes each, IPv6 headers 40 plus extensions.
const MAX_SYN_BYTES: usize = 256;

/// Makes the kernel save the SYN of new connections of a listening socket until [`syn_header`] reads it.
pub(crate) fn save_syn(listener: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set(listener, SAVE_SYN, 1)
}

/// Returns the IP header of an accepted connection's SYN; `None` if it was not saved or has already been read.
pub(crate) fn syn_header(accepted: BorrowedFd<'_>) -> Option<IpHeader> {
    let mut syn = [0; MAX_SYN_BYTES];
    let bytes = sockopt::get_bytes(accepted, SAVED_SYN, &mut syn).ok()?;
    IpHeader::of_packet(syn.get(..bytes)?)
}

/// Sets whether the socket reports the headers of received packets. Ignores options that the kernel does not support.
pub(crate) fn report_headers(on: BorrowedFd<'_>, reports: bool) {
    for option in HEADER_OPTIONS {
        drop(sockopt::set(on, option, reports.into()));
    }
}

/// Receives a datagram without waiting. Returns its length, its sender, and its header if [`report_headers`] is on.
pub(crate) fn receive_from(from: BorrowedFd<'_>, into: &mut [u8]) -> io::Result<(usize, SockAddr, Option<IpHeader>)> {
    let mut control = Control::default();
    let mut sender = (SockAddrStorage::zeroed(), 0);
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    let bytes = receive_with(from, into, &mut control, flags, Some(&mut sender))?;
    // SAFETY: the kernel wrote an address of this length and of the socket's family.
    let sender = unsafe { SockAddr::new(sender.0, sender.1) };
    Ok((bytes, sender, header(&control)))
}

/// Returns the header of the last packet of a TCP connection over IPv6 with [`report_headers`] on
/// (`IPV6_2292PKTOPTIONS`, net/ipv6/ipv6_sockglue.c); `None` over IPv4, where the kernel does not keep the header.
pub(crate) fn last_packet_header(of: BorrowedFd<'_>) -> Option<IpHeader> {
    header(&socket_option(of, libc::IPPROTO_IPV6, libc::IPV6_2292PKTOPTIONS).ok()?)
}

fn header(control: &Control) -> Option<IpHeader> {
    let v4 = || -> Option<(libc::c_int, u8)> {
        Some((control.find(libc::SOL_IP, libc::IP_TTL)?, control.find(libc::SOL_IP, libc::IP_TOS)?))
    };
    let v6 = || -> Option<(libc::c_int, u8)> {
        let class: libc::c_int = control.find(libc::SOL_IPV6, libc::IPV6_TCLASS)?;
        Some((control.find(libc::SOL_IPV6, libc::IPV6_HOPLIMIT)?, u8::try_from(class).ok()?))
    };
    let (ttl, traffic_class) = v4().or_else(v6)?;
    Some(IpHeader { ttl: u8::try_from(ttl).ok()?, traffic_class })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::time::Duration;

    use socket2::{Domain, Socket, Type};

    use super::*;
    use crate::system::descriptor::{READABLE, poll};

    const LONG: Duration = Duration::from_secs(20);

    /// A socket whose packets have TTL 77, DSCP 46 and ECN 1.
    fn marked(address: &str, socket_type: Type) -> Socket {
        let is_v6 = address.starts_with('[');
        let socket = Socket::new(if is_v6 { Domain::IPV6 } else { Domain::IPV4 }, socket_type, None).unwrap();
        if is_v6 {
            socket.set_unicast_hops_v6(77).unwrap();
            sockopt::set(socket.as_fd(), sockopt::TRAFFIC_CLASS, 0xb9).unwrap();
        } else {
            socket.set_ttl_v4(77).unwrap();
            sockopt::set(socket.as_fd(), sockopt::TOS, 0xb9).unwrap();
        }
        socket
    }

    #[test]
    fn a_datagram_has_its_header_if_the_socket_reports_it() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let server = UdpSocket::bind(address).unwrap();
            let client = marked(address, Type::DGRAM);
            let mut bytes = [0; 4];
            for (reports, expected) in [(true, Some(IpHeader { ttl: 77, traffic_class: 0xb9 })), (false, None)] {
                report_headers(server.as_fd(), reports);
                client.send_to(b"hello", &server.local_addr().unwrap().into()).unwrap();
                assert!(poll(server.as_fd(), READABLE, LONG).unwrap());
                let (length, from, header) = receive_from(server.as_fd(), &mut bytes).unwrap();
                assert_eq!((length, &bytes, header), (5, b"hell", expected), "{address}");
                assert_eq!(
                    from.as_socket().unwrap().port(),
                    client.local_addr().unwrap().as_socket().unwrap().port()
                );
            }
            assert_eq!(receive_from(server.as_fd(), &mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn the_syn_of_an_accepted_connection_is_read_once() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(address).unwrap();
            let accepted = |client: &Socket| {
                client.connect(&listener.local_addr().unwrap().into()).unwrap();
                listener.accept().unwrap().0
            };
            let one = marked(address, Type::STREAM);
            assert_eq!(syn_header(accepted(&one).as_fd()), None, "the SYN is not saved yet");
            save_syn(listener.as_fd()).unwrap();
            let other = marked(address, Type::STREAM);
            let accepted = accepted(&other);
            // TCP itself sets the two ECN bits.
            assert_eq!(syn_header(accepted.as_fd()), Some(IpHeader { ttl: 77, traffic_class: 0xb8 }), "{address}");
            assert_eq!(syn_header(accepted.as_fd()), None);
        }
    }

    #[test]
    fn an_ipv6_client_gets_the_header_of_the_syn_ack() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let client = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
        report_headers(client.as_fd(), true);
        client.connect(&listener.local_addr().unwrap().into()).unwrap();
        assert_eq!(last_packet_header(client.as_fd()), Some(IpHeader { ttl: 64, traffic_class: 0 }));
        report_headers(client.as_fd(), false);
        assert_eq!(last_packet_header(client.as_fd()), None);
        let over_v4 = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(over_v4.local_addr().unwrap()).unwrap();
        assert_eq!(last_packet_header(client.as_fd()), None);
    }
}
