//! Headers of packets at a port where a server serves many rounds.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

use crate::system::received;
pub use crate::wires::ip_header::IpHeader;

/// Lets new connections keep the header of their SYN, for the round that they are handed to.
///
/// # Errors
/// The kernel does not support it.
pub fn keep(listener: &TcpListener) -> io::Result<()> {
    received::keep_syn(listener.as_fd())
}

/// Lets [`receive_from`] return the header of each datagram, as far as the kernel knows it.
pub fn report_headers(socket: &UdpSocket) {
    received::report_headers(socket.as_fd(), true);
}

/// Receives a datagram: its length, its sender, and its header. Never waits.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if there is none, or the error of an earlier answer.
pub fn receive_from(socket: &UdpSocket, into: &mut [u8]) -> io::Result<(usize, SocketAddr, Option<IpHeader>)> {
    let (bytes, from, header) = received::receive_from(socket.as_fd(), into)?;
    let from = from.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((bytes.min(into.len()), from, header))
}
