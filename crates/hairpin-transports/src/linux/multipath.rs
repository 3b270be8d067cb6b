//! A listener for Multipath TCP (RFC 8684) that shares the port of a TCP listener.
//!
//! A Multipath TCP socket also accepts TCP connections, but does not save the SYN (net/mptcp/sockopt.c). So a TCP and
//! an MPTCP socket share the port with `SO_REUSEPORT`, and a BPF program selects the socket by the options in the SYN.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd;

use libc::{BPF_ABS, BPF_RET, BPF_RSH, BPF_TAX, BPF_X, sock_filter};
use libc::{BPF_ADD, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_K, BPF_LD, BPF_LSH, BPF_MISC};
use socket2::{Domain, Protocol, Socket, Type};

use super::bpf::{jump, statement};
use crate::system::sockopt;

/// Offset of the IP header for a BPF program (`SKF_NET_OFF`, linux/filter.h).
const IP_HEADER: u32 = -0x10_0000_i32 as u32;
/// Offset in the TCP header of the byte whose upper half is the header length in 32-bit words.
const TCP_LENGTH_OFFSET: u32 = 12;
/// Kind and length of the options MP_CAPABLE (version 1) and MP_JOIN in a SYN. Linux writes these options last
/// (`tcp_options_write` in net/ipv4/tcp_output.c).
const MP_CAPABLE: u32 = 0x1e04;
const MP_JOIN: u32 = 0x1e0c;

/// Opens a listener at the address of `tcp` for the connections that request Multipath TCP; `tcp` accepts the other
/// connections. `tcp` must already listen, and must have been bound with `SO_REUSEPORT`.
///
/// # Errors
/// The kernel does not support Multipath TCP, or does not allow the BPF program.
pub fn beside(tcp: &TcpListener, backlog: i32) -> io::Result<TcpListener> {
    let at = tcp.local_addr()?;
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::MPTCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    // Until the MPTCP socket listens, `tcp` gets all connections.
    sockopt::set_port_selector(tcp.as_fd(), &choose_by_syn())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// Returns a BPF program: its result is 1 (the MPTCP socket) if the SYN requests Multipath TCP over IPv4, else 0.
fn choose_by_syn() -> [sock_filter; 15] {
    [
        // Length of the IP header.
        statement(BPF_LD | BPF_B | BPF_ABS, IP_HEADER),
        statement(BPF_ALU | BPF_AND | BPF_K, 0x0f),
        statement(BPF_ALU | BPF_LSH | BPF_K, 2),
        statement(BPF_MISC | BPF_TAX, 0),
        // Add the length of the TCP header: X is the end of both headers.
        statement(BPF_LD | BPF_B | BPF_IND, IP_HEADER + TCP_LENGTH_OFFSET),
        statement(BPF_ALU | BPF_AND | BPF_K, 0xf0),
        statement(BPF_ALU | BPF_RSH | BPF_K, 2),
        statement(BPF_ALU | BPF_ADD | BPF_X, 0),
        statement(BPF_MISC | BPF_TAX, 0),
        statement(BPF_LD | BPF_H | BPF_IND, IP_HEADER - (MP_CAPABLE & 0xff)),
        jump(BPF_JEQ, MP_CAPABLE, 2, 0),
        statement(BPF_LD | BPF_H | BPF_IND, IP_HEADER - (MP_JOIN & 0xff)),
        jump(BPF_JEQ, MP_JOIN, 0, 1),
        statement(BPF_RET | BPF_K, 1),
        statement(BPF_RET | BPF_K, 0),
    ]
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    const MAX_SUBFLOWS: i32 = 16;

    fn protocol(socket: &impl AsFd) -> Protocol {
        socket2::SockRef::from(socket).protocol().unwrap().unwrap()
    }

    fn open(protocol: Protocol) -> io::Result<Socket> {
        Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))
    }

    #[test]
    fn each_connection_is_accepted_by_the_listener_of_its_protocol() {
        let tcp = open(Protocol::TCP).unwrap();
        tcp.set_reuse_address(true).unwrap();
        tcp.set_reuse_port(true).unwrap();
        tcp.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        tcp.listen(MAX_SUBFLOWS).unwrap();
        let tcp = TcpListener::from(tcp);
        match (open(Protocol::MPTCP), beside(&tcp, MAX_SUBFLOWS)) {
            (Ok(_), multipath) => assert_chosen_by_protocol(&tcp, &multipath.unwrap()),
            (Err(none), refused) => assert_eq!(refused.unwrap_err().kind(), none.kind(), "a kernel without MPTCP"),
        }
    }

    fn assert_chosen_by_protocol(tcp: &TcpListener, multipath: &TcpListener) {
        for (wanted, at) in [(Protocol::MPTCP, multipath), (Protocol::TCP, tcp)].repeat(4) {
            let client = open(wanted).unwrap();
            client.connect(&tcp.local_addr().unwrap().into()).unwrap();
            let accepted = at.accept().unwrap().0;
            assert_eq!(protocol(&accepted), wanted);
        }
    }
}
