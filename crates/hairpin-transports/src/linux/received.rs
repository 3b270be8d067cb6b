//! Headers of packets that come to a port where a server serves many rounds.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::AsFd;

use crate::system::received;
pub use crate::wires::ip_header::IpHeader;

/// From now on the connections that come keep what their headers say, for the round to which they are handed.
///
/// # Errors
/// The kernel does not keep it.
pub fn keep(listener: &TcpListener) -> io::Result<()> {
    received::keep_syn(listener.as_fd())
}

/// From now on [`receive_from`] tells the header of each datagram, as far as the kernel knows it.
pub fn tell(socket: &UdpSocket) {
    received::tell(socket.as_fd(), true);
}

/// A datagram that has come: how many bytes it has, who sent it, and its header. Never waits.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] where none has come, or an error of an earlier answer.
pub fn receive_from(socket: &UdpSocket, into: &mut [u8]) -> io::Result<(usize, SocketAddr, Option<IpHeader>)> {
    let (bytes, from, header) = received::receive_from(socket.as_fd(), into)?;
    let from = from.as_socket().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((bytes.min(into.len()), from, header))
}
