//! Control data of received messages (cmsg(3)).

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use socket2::SockAddrStorage;

use super::{check, to_count};

/// `recvmsg(2)` with control data. Writes the source address of a datagram and its length to `sender`.
#[inline]
pub(super) fn receive_with(
    from: BorrowedFd<'_>,
    into: &mut [u8],
    control: &mut Control,
    flags: i32,
    mut sender: Option<&mut (SockAddrStorage, libc::socklen_t)>,
) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: an all-zero `msghdr` is valid; the part and the buffers for control data and the address are live and
    // exclusively borrowed. The kernel respects their lengths and reports how much it filled.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        if let Some((storage, _)) = sender.as_deref_mut() {
            message.msg_name = ptr::from_mut(storage).cast();
            message.msg_namelen = storage.size_of();
        }
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.room.as_mut_ptr().cast();
        message.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
        let bytes = to_count(libc::recvmsg(from.as_raw_fd(), &raw mut message, flags))?;
        control.filled = message.msg_controllen as usize;
        if let Some((_, length)) = sender {
            *length = message.msg_namelen;
        }
        Ok(bytes)
    }
}

/// `sendmsg(2)` with a number as control data.
pub(super) fn send_with(
    to: BorrowedFd<'_>,
    bytes: &[u8],
    (level, kind, value): (i32, i32, u32),
    flags: i32,
) -> io::Result<usize> {
    const VALUE_BYTES: u32 = size_of::<u32>() as u32;
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut room = [0_u64; 4];
    // SAFETY: an all-zero `msghdr` is valid; the part is a live slice, which the kernel only reads. `room` is aligned for
    // `cmsghdr` and holds one message of four bytes (24 bytes at most), so the first header and its data are in it.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(VALUE_BYTES) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(VALUE_BYTES) as _;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast::<u32>(), value);
        to_count(libc::sendmsg(to.as_raw_fd(), &raw const message, flags))
    }
}

/// `getsockopt(2)` for an option whose value is control data.
pub(super) fn socket_option(of: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<Control> {
    let mut control = Control::default();
    let mut length = size_of::<[u64; CONTROL_WORDS]>() as libc::socklen_t;
    let room = control.room.as_mut_ptr().cast();
    // SAFETY: the kernel writes at most `length` bytes, the size of the live buffer, and reports how many it wrote.
    check(unsafe { libc::getsockopt(of.as_raw_fd(), level, name, room, &raw mut length) })?;
    control.filled = length as usize;
    Ok(control)
}

/// Room for more than the largest control data: three time stamps of 16 bytes each (`scm_timestamping`), and an
/// extended error of 16 bytes with an address of 28 bytes, each message with a header.
const CONTROL_WORDS: usize = 32;

/// Control data from recvmsg(2), aligned for the headers.
#[derive(Default)]
pub(super) struct Control {
    room: [u64; CONTROL_WORDS],
    filled: usize,
}

impl Control {
    pub(super) fn find<T: Plain>(&self, level: i32, kind: i32) -> Option<T> {
        // SAFETY: the header describes `room`, which is aligned for `cmsghdr` and which the kernel filled up to
        // `filled`; the macros stay within it. The control message is long enough for a `T` (checked); any bytes are a
        // valid `T`, and the read may be unaligned.
        unsafe {
            let mut message: libc::msghdr = zeroed();
            message.msg_control = self.room.as_ptr().cast_mut().cast();
            message.msg_controllen = self.filled.min(size_of::<[u64; CONTROL_WORDS]>()) as _;
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while !header.is_null() {
                let room = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                if (*header).cmsg_level == level && (*header).cmsg_type == kind && room >= size_of::<T>() {
                    return Some(ptr::read_unaligned(libc::CMSG_DATA(header).cast()));
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        None
    }
}

/// A type that consists of plain numbers.
///
/// # Safety
/// Every bit pattern must be a valid value.
pub(super) unsafe trait Plain {}

// SAFETY: whole numbers.
unsafe impl Plain for libc::sock_extended_err {}
// SAFETY: whole numbers.
unsafe impl Plain for [libc::timespec; 3] {}
// SAFETY: a whole number.
unsafe impl Plain for libc::c_int {}
// SAFETY: a whole number.
unsafe impl Plain for u8 {}
