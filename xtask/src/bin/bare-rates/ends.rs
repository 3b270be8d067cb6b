//! Both ends of each transport, opened in one process before it forks.

use std::io::{self, Error};
use std::ptr::null_mut;

use libc::{c_int, c_void};

use crate::options::Options;

/// Descriptors of sender and receiver, with the requested options.
pub(crate) fn open(asked: &Options) -> io::Result<(c_int, c_int)> {
    match asked.transport.as_str() {
        "tcp" => tcp(asked),
        "udp" => udp(asked),
        "unix-stream" => unix_stream(),
        _ => pipe(),
    }
}

fn tcp(asked: &Options) -> io::Result<(c_int, c_int)> {
    let (listener, address) = bound(libc::SOCK_STREAM)?;
    // SAFETY: plain integers.
    let sender = checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) })?;
    if !asked.congestion.is_empty() {
        // The accepted socket inherits it from the listener.
        for socket in [listener, sender] {
            set_bytes(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, asked.congestion.as_bytes())?;
        }
    }
    if asked.nodelay {
        set(sender, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
    }
    // SAFETY: plain integers.
    checked(unsafe { libc::listen(listener, 1) })?;
    connect(sender, &address)?;
    // SAFETY: null pointers say that the peer's address is not wanted.
    let receiver = checked(unsafe { libc::accept(listener, null_mut(), null_mut()) })?;
    close(listener);
    Ok((sender, receiver))
}

fn udp(asked: &Options) -> io::Result<(c_int, c_int)> {
    let (sender, sender_address) = bound(libc::SOCK_DGRAM)?;
    let (receiver, receiver_address) = bound(libc::SOCK_DGRAM)?;
    connect(sender, &receiver_address)?;
    connect(receiver, &sender_address)?;
    if asked.gso {
        let size = c_int::try_from(asked.size).unwrap_or(c_int::MAX);
        set(sender, libc::SOL_UDP, libc::UDP_SEGMENT, size)?;
        set(receiver, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    }
    Ok((sender, receiver))
}

fn unix_stream() -> io::Result<(c_int, c_int)> {
    let mut pair = [0; 2];
    // SAFETY: the pointer is to two live integers, as the call asks.
    checked(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, pair.as_mut_ptr()) })?;
    Ok((pair[0], pair[1]))
}

fn pipe() -> io::Result<(c_int, c_int)> {
    let mut pair = [0; 2];
    // SAFETY: the pointer is to two live integers, as the call asks.
    checked(unsafe { libc::pipe(pair.as_mut_ptr()) })?;
    Ok((pair[1], pair[0]))
}

/// Closes a descriptor of this program that is not used again.
pub(crate) fn close(descriptor: c_int) {
    // SAFETY: a plain integer; the descriptor is not used afterwards.
    unsafe { libc::close(descriptor) };
}

/// A socket on a free port of 127.0.0.1, and its address.
fn bound(kind: c_int) -> io::Result<(c_int, libc::sockaddr_in)> {
    // SAFETY: plain integers.
    let socket = checked(unsafe { libc::socket(libc::AF_INET, kind, 0) })?;
    let mut address = libc::sockaddr_in {
        sin_family: libc::AF_INET.try_into().expect("AF_INET is 2"),
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    let mut length = ADDRESS_LENGTH;
    // SAFETY: the pointer and the length are those of a live sockaddr_in.
    checked(unsafe { libc::bind(socket, (&raw const address).cast(), length) })?;
    // SAFETY: the same, and the length is a live variable.
    checked(unsafe { libc::getsockname(socket, (&raw mut address).cast(), &raw mut length) })?;
    Ok((socket, address))
}

#[expect(clippy::cast_possible_truncation, reason = "16 bytes")]
const ADDRESS_LENGTH: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

fn connect(socket: c_int, address: &libc::sockaddr_in) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of a live sockaddr_in.
    checked(unsafe { libc::connect(socket, std::ptr::from_ref(address).cast(), ADDRESS_LENGTH) })?;
    Ok(())
}

fn set(socket: c_int, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    set_bytes(socket, level, name, &value.to_ne_bytes())
}

fn set_bytes(socket: c_int, level: c_int, name: c_int, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(|_| Error::from_raw_os_error(libc::EINVAL))?;
    let value: *const c_void = value.as_ptr().cast();
    // SAFETY: the pointer and the length are those of a live slice.
    checked(unsafe { libc::setsockopt(socket, level, name, value, length) })?;
    Ok(())
}

fn checked(answer: c_int) -> io::Result<c_int> {
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(answer) }
}
