//! Binds a client's socket to an address, an interface and a range of ports before it connects.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use hairpin_model::Binding;
use socket2::{SockRef, Type};

use crate::system::sockopt::{self, SockOpt};
use crate::wire::TransportError;
use crate::wires::failed;

/// `IP_LOCAL_PORT_RANGE` (linux/in.h): first port in the lower 16 bits, last in the upper 16 (ip(7)). IPv6 sockets too.
const LOCAL_PORT_RANGE: SockOpt = SockOpt(libc::IPPROTO_IP, 51);
/// `SO_BINDTOIFINDEX` (asm-generic/socket.h).
const BIND_TO_INTERFACE: SockOpt = SockOpt(libc::SOL_SOCKET, 62);
/// Defers the choice of the port to connect, so that connections to other addresses can use the same port (ip(7)).
const NO_PORT: SockOpt = SockOpt(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);

/// The ports that the kernel may choose. The kernel ignores an `IP_LOCAL_PORT_RANGE` outside of these
/// (`inet_sk_get_local_port_range` in net/ipv4/inet_connection_sock.c).
const SYSTEM_PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Binds the socket to the interface, the ports and the address that the binding specifies.
///
/// # Errors
/// The kernel does not support or allow the option, or the address is not an address of this host.
pub fn apply(to: &impl AsFd, binding: &Binding) -> Result<(), TransportError> {
    let fd = to.as_fd();
    if let Some(index) = binding.interface {
        let index = i32::try_from(index.get()).unwrap_or(i32::MAX);
        sockopt::set(fd, BIND_TO_INTERFACE, index).map_err(|source| bind_error("the interface", source, ""))?;
    }
    if let Some([first, last]) = binding.ports {
        check_ports(first, last)?;
        let range = (u32::from(last) << 16 | u32::from(first)).cast_signed();
        let hint = "a range of local ports needs Linux 6.3";
        sockopt::set(fd, LOCAL_PORT_RANGE, range).map_err(|source| bind_error("the ports", source, hint))?;
    }
    let Some(address) = binding.address else { return Ok(()) };
    let socket = SockRef::from(to);
    if socket.r#type().is_ok_and(|kind| kind == Type::STREAM) {
        sockopt::set(fd, NO_PORT, 1).map_err(|source| bind_error("the address", source, ""))?;
    }
    let bound = socket.bind(&SocketAddr::new(address, 0).into());
    bound.map_err(|source| bind_error(&address.to_string(), source, hint(address)))
}

fn check_ports(first: u16, last: u16) -> Result<(), TransportError> {
    let text = std::fs::read_to_string(SYSTEM_PORTS).unwrap_or_default();
    let mut bounds = text.split_whitespace().filter_map(|bound| bound.parse::<u16>().ok());
    let (Some(lowest), Some(highest)) = (bounds.next(), bounds.next()) else { return Ok(()) };
    if lowest <= first && last <= highest {
        return Ok(());
    }
    let cause = format!("the kernel chooses only ports from {lowest} to {highest}");
    let hint = "give ports within net.ipv4.ip_local_port_range, or change that range with sysctl(8)";
    Err(bind_error(&format!("the ports {first}-{last}"), io::Error::new(io::ErrorKind::InvalidInput, cause), hint))
}

fn bind_error(object: &str, source: io::Error, hint: &str) -> TransportError {
    failed("bind the client to", object, source, hint)
}

fn hint(address: IpAddr) -> &'static str {
    if address.is_ipv4() {
        "is it an address of this host (`ip address`), and does the server have an IPv4 address?"
    } else {
        "is it an address of this host (`ip address`), and does the server have an IPv6 address?"
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    use socket2::{Domain, Socket};

    use super::*;

    #[test]
    fn a_socket_gets_the_address_and_a_port_of_the_range() {
        let free = [(); 2].map(|()| UdpSocket::bind("127.0.0.9:0").unwrap().local_addr().unwrap().port());
        let (_, why) = (check_ports(free[0], free[0]).unwrap(), check_ports(1, 9).unwrap_err().to_string());
        assert!(why.starts_with("cannot bind the client to the ports 1-9: the kernel chooses only ports "), "{why}");
        let ports = [free[0].min(free[1]), free[0].max(free[1])];
        let address = IpAddr::from([127, 0, 0, 9]);
        let binding = Binding { address: Some(address), ports: Some(ports), interface: None };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        for kind in [Type::STREAM, Type::DGRAM] {
            let socket = Socket::new(Domain::IPV4, kind, None).unwrap();
            apply(&socket, &binding).unwrap();
            socket.connect(&listener.local_addr().unwrap().into()).unwrap();
            let local = socket.local_addr().unwrap().as_socket().unwrap();
            assert_eq!(local.ip(), address);
            assert!((ports[0]..=ports[1]).contains(&local.port()), "{local} is not in {ports:?}");
        }
    }

    #[test]
    fn an_address_of_another_host_is_refused() {
        let elsewhere = Binding { address: Some(IpAddr::from([192, 0, 2, 1])), ..Binding::default() };
        let why = apply(&Socket::new(Domain::IPV4, Type::STREAM, None).unwrap(), &elsewhere).unwrap_err().to_string();
        assert!(why.starts_with("cannot bind the client to 192.0.2.1: "), "{why}");
    }
}
