//! IP headers of packets received by a server that serves many rounds at one port.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

use crate::system::received;
pub use crate::wires::ip_header::IpHeader;

/// Makes the kernel save the SYN of new connections.
///
/// # Errors
/// The kernel does not support `TCP_SAVE_SYN`.
pub fn keep(listener: &TcpListener) -> io::Result<()> {
    received::save_syn(listener.as_fd())
}

/// Makes [`receive_from`] return the header of each datagram, if the kernel reports it.
pub fn report_headers(socket: &UdpSocket) {
    received::report_headers(socket.as_fd(), true);
}

/// Receives a datagram without waiting. Returns its length, sender and header.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if there is no datagram; an ICMP error caused by an earlier answer.
pub fn receive_from(socket: &UdpSocket, into: &mut [u8]) -> io::Result<(usize, SocketAddr, Option<IpHeader>)> {
    let (bytes, from, header) = received::receive_from(socket.as_fd(), into)?;
    let from = from.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((bytes.min(into.len()), from, header))
}
