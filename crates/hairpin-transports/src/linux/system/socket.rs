//! Sends and receives on sockets.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};

use super::to_count;

/// `recv(2)`. With `true_length` (`MSG_TRUNC`, datagrams only), returns the full length even of a truncated datagram.
#[inline]
pub(crate) fn receive(
    from: BorrowedFd<'_>,
    into: &mut [u8],
    may_block: bool,
    true_length: bool,
) -> io::Result<usize> {
    let flags = if may_block { 0 } else { libc::MSG_DONTWAIT } | if true_length { libc::MSG_TRUNC } else { 0 };
    // SAFETY: the pointer and the length describe a live, exclusively borrowed slice.
    to_count(unsafe { libc::recv(from.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), flags) })
}

/// Flags of every send. A closed peer causes an error instead of SIGPIPE.
#[inline]
pub(super) fn send_flags(may_block: bool) -> i32 {
    libc::MSG_NOSIGNAL | if may_block { 0 } else { libc::MSG_DONTWAIT }
}

#[inline]
pub(crate) fn send(to: BorrowedFd<'_>, bytes: &[u8], may_block: bool) -> io::Result<usize> {
    send_with(to, bytes, send_flags(may_block))
}

/// `send(2)` with `MSG_MORE`: more data follows, so TCP may hold back a partial segment. Unix sockets ignore the flag.
#[inline]
pub(crate) fn send_more(to: BorrowedFd<'_>, bytes: &[u8], may_block: bool) -> io::Result<usize> {
    send_with(to, bytes, send_flags(may_block) | libc::MSG_MORE)
}

/// `send(2)` with `MSG_ZEROCOPY`: the kernel reads the bytes in place until its error queue reports completion.
#[inline]
pub(crate) fn send_without_copy(to: BorrowedFd<'_>, bytes: &[u8], may_block: bool) -> io::Result<usize> {
    send_with(to, bytes, send_flags(may_block) | libc::MSG_ZEROCOPY)
}

#[inline]
fn send_with(to: BorrowedFd<'_>, bytes: &[u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the pointer and the length describe a live slice, which the kernel only reads.
    to_count(unsafe { libc::send(to.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) })
}

/// `recvmsg(2)` into `header` and then `into`: separates a header from the data without a copy.
#[inline]
pub(crate) fn receive_parted(
    from: BorrowedFd<'_>,
    header: &mut [u8],
    into: &mut [u8],
    may_block: bool,
) -> io::Result<usize> {
    let flags = if may_block { 0 } else { libc::MSG_DONTWAIT };
    let mut parts = [
        libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() },
        libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() },
    ];
    // SAFETY: an all-zero `msghdr` is valid (no address, no control data); the two parts are live, exclusively
    // borrowed slices that do not overlap.
    to_count(unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        libc::recvmsg(from.as_raw_fd(), &raw mut message, flags)
    })
}

/// `sendmsg(2)` of two buffers as one packet.
#[inline]
pub(crate) fn send_parted(to: BorrowedFd<'_>, header: &[u8], bytes: &[u8], may_block: bool) -> io::Result<usize> {
    send_vectored(to, &[IoSlice::new(header), IoSlice::new(bytes)], may_block)
}

/// `sendmsg(2)` of up to `UIO_MAXIOV` parts.
#[inline]
pub(crate) fn send_vectored(to: BorrowedFd<'_>, parts: &[IoSlice<'_>], may_block: bool) -> io::Result<usize> {
    // SAFETY: an all-zero `msghdr` is valid (no address, no control data); an `IoSlice` has the layout of `iovec` by
    // its documentation, and each is a live slice, which the kernel only reads.
    to_count(unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        libc::sendmsg(to.as_raw_fd(), &raw const message, send_flags(may_block))
    })
}
