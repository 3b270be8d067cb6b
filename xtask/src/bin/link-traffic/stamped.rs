//! Receives datagrams with the kernel's time stamp of their arrival at the interface (SO_TIMESTAMPNS, socket(7)).

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

pub(crate) fn realtime_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    in_ns(time)
}

fn in_ns(time: libc::timespec) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

pub(crate) fn stamp(socket: &UdpSocket) -> io::Result<()> {
    for (name, value) in [(libc::SO_TIMESTAMPNS, 1_i32), (libc::SO_RCVBUF, 4 << 20)] {
        let length = libc::socklen_t::try_from(size_of::<i32>()).expect("4");
        // SAFETY: the pointer and the length describe a live integer, which the kernel only reads.
        let result = unsafe {
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, name, (&raw const value).cast(), length)
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Receives a datagram. Returns its length, its sender, and its arrival time (CLOCK_REALTIME, in ns).
pub(crate) fn receive_stamped(socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<(usize, SocketAddrV4, u64)> {
    // SAFETY: plain numbers, for which all zeroes is a valid value.
    let (mut from, mut message): (libc::sockaddr_in, libc::msghdr) = unsafe { zeroed() };
    let mut control = [0_u64; 16];
    let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = libc::socklen_t::try_from(size_of::<libc::sockaddr_in>()).expect("16");
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of::<[u64; 16]>();
    // SAFETY: every pointer in the message is to a live variable of the stated length.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has filled the message and its control buffer, which is aligned for a header; the socket
    // requested only stamps, so a control message contains a timespec.
    let came = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_TIMESTAMPNS {
            return Err(io::Error::other("a datagram has no time stamp"));
        }
        libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned()
    };
    let address = Ipv4Addr::from(u32::from_be(from.sin_addr.s_addr));
    Ok((length, SocketAddrV4::new(address, u16::from_be(from.sin_port)), in_ns(came)))
}
