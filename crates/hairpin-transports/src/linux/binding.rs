//! Binds a client's socket to an address, an interface and a range of ports before it connects.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use hairpin_model::binding::Binding;
use socket2::{SockRef, Type};

use crate::system::sockopt::{self, Place};
use crate::wire::TransportError;
use crate::wires::failed;

/// linux/in.h: the lower 16 bits are the first port, the upper ones the last (ip(7)). Sockets of IPv6 have it too.
const LOCAL_PORT_RANGE: Place = Place(libc::IPPROTO_IP, 51);
/// asm-generic/socket.h.
const BIND_TO_INTERFACE: Place = Place(libc::SOL_SOCKET, 62);
/// The port is chosen when the socket connects, so that connections to other addresses may have the same (ip(7)).
const NO_PORT: Place = Place(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);

/// Binds it as far as the binding says anything.
///
/// # Errors
/// The kernel has no such option, or does not allow it; the address is none of this host.
pub fn apply(to: &impl AsFd, binding: &Binding) -> Result<(), TransportError> {
    let fd = to.as_fd();
    if let Some(index) = binding.interface {
        let index = i32::try_from(index.get()).unwrap_or(i32::MAX);
        sockopt::set(fd, BIND_TO_INTERFACE, index).map_err(|source| of("the interface", source, ""))?;
    }
    if let Some([first, last]) = binding.ports {
        let range = (u32::from(last) << 16 | u32::from(first)).cast_signed();
        let hint = "a range of local ports needs Linux 6.3";
        sockopt::set(fd, LOCAL_PORT_RANGE, range).map_err(|source| of("the ports", source, hint))?;
    }
    let Some(address) = binding.address else { return Ok(()) };
    let socket = SockRef::from(to);
    if socket.r#type().is_ok_and(|sort| sort == Type::STREAM) {
        sockopt::set(fd, NO_PORT, 1).map_err(|source| of("the address", source, ""))?;
    }
    let bound = socket.bind(&SocketAddr::new(address, 0).into());
    bound.map_err(|source| of(&address.to_string(), source, hint(address)))
}

fn of(object: &str, source: io::Error, hint: &str) -> TransportError {
    failed("bind the client to", object, source, hint)
}

fn hint(address: IpAddr) -> &'static str {
    if address.is_ipv4() {
        "it has to be an IPv4 address of this host (`ip address`), and that of the server too"
    } else {
        "it has to be an IPv6 address of this host (`ip address`), and that of the server too"
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    use socket2::{Domain, Socket};

    use super::*;

    #[test]
    fn a_socket_comes_from_the_address_and_the_ports() {
        let free = [(); 2].map(|()| UdpSocket::bind("127.0.0.9:0").unwrap().local_addr().unwrap().port());
        let ports = [free[0].min(free[1]), free[0].max(free[1])];
        let address = IpAddr::from([127, 0, 0, 9]);
        let binding = Binding { address: Some(address), ports: Some(ports), interface: None };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for sort in [Type::STREAM, Type::DGRAM] {
            let socket = Socket::new(Domain::IPV4, sort, None).unwrap();
            apply(&socket, &binding).unwrap();
            socket.connect(&listener.local_addr().unwrap().into()).unwrap();
            let own = socket.local_addr().unwrap().as_socket().unwrap();
            assert_eq!(own.ip(), address);
            assert!((ports[0]..=ports[1]).contains(&own.port()), "{own} is not in {ports:?}");
        }
    }

    #[test]
    fn an_address_of_another_host_is_refused() {
        let elsewhere = Binding { address: Some(IpAddr::from([192, 0, 2, 1])), ..Binding::default() };
        let why = apply(&Socket::new(Domain::IPV4, Type::STREAM, None).unwrap(), &elsewhere).unwrap_err().to_string();
        assert!(why.starts_with("cannot bind the client to 192.0.2.1: "), "{why}");
    }
}
