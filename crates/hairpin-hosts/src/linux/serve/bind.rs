//! Sockets of the server at their addresses.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};

/// Opens a socket bound to that address. Other sockets of this user can bind the same port only if `shares`.
pub(super) fn bind_socket(at: SocketAddr, kind: Type, shares: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), kind, None)?;
    if at.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // For datagrams, this would let other users share the port.
    socket.set_reuse_address(kind == Type::STREAM)?;
    socket.set_reuse_port(shares)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    Ok(socket)
}
