//! Binds a client's socket to an address, an interface and a range of ports before it connects.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use hairpin_model::Binding;
use socket2::{SockRef, Type};

use crate::system::sockopt::{self, Place};
use crate::wire::TransportError;
use crate::wires::failed;

/// linux/in.h: the lower 16 bits are the first port, the upper ones the last (ip(7)). IPv6 sockets have it too.
const LOCAL_PORT_RANGE: Place = Place(libc::IPPROTO_IP, 51);
/// asm-generic/socket.h.
const BIND_TO_INTERFACE: Place = Place(libc::SOL_SOCKET, 62);
/// The port is chosen at connect, so that connections to other addresses can use the same port (ip(7)).
const NO_PORT: Place = Place(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);

/// The ports that the kernel may choose; it ignores bounds outside them (net/ipv4/inet_connection_sock.c,
/// `inet_sk_get_local_port_range`).
const SYSTEM_PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Binds the socket to whatever the binding specifies.
///
/// # Errors
/// The kernel lacks or forbids the option, or the address is not one of this host.
pub fn apply(to: &impl AsFd, binding: &Binding) -> Result<(), TransportError> {
    let fd = to.as_fd();
    if let Some(index) = binding.interface {
        let index = i32::try_from(index.get()).unwrap_or(i32::MAX);
        sockopt::set(fd, BIND_TO_INTERFACE, index).map_err(|source| of("the interface", source, ""))?;
    }
    if let Some([first, last]) = binding.ports {
        refuse_outside(first, last)?;
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

fn refuse_outside(first: u16, last: u16) -> Result<(), TransportError> {
    let text = std::fs::read_to_string(SYSTEM_PORTS).unwrap_or_default();
    let mut bounds = text.split_whitespace().filter_map(|bound| bound.parse::<u16>().ok());
    let (Some(lowest), Some(highest)) = (bounds.next(), bounds.next()) else { return Ok(()) };
    if lowest <= first && last <= highest {
        return Ok(());
    }
    let cause = format!("the kernel chooses from {lowest} to {highest} only");
    let hint = "give ports within net.ipv4.ip_local_port_range, or change that with sysctl(8)";
    Err(of(&format!("the ports {first}-{last}"), io::Error::new(io::ErrorKind::InvalidInput, cause), hint))
}

fn of(object: &str, source: io::Error, hint: &str) -> TransportError {
    failed("bind the client to", object, source, hint)
}

fn hint(address: IpAddr) -> &'static str {
    if address.is_ipv4() {
        "is it an address of this host (`ip address`)? then the server has to have an IPv4 address too"
    } else {
        "is it an address of this host (`ip address`)? then the server has to have an IPv6 address too"
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
        let (_, why) = (refuse_outside(free[0], free[0]).unwrap(), refuse_outside(1, 9).unwrap_err().to_string());
        assert!(why.starts_with("cannot bind the client to the ports 1-9: the kernel chooses from "), "{why}");
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
