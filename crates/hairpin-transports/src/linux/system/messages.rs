//! Several messages in one system call: sendmmsg(2), recvmmsg(2), and UDP segmentation and receive offload (udp(7),
//! `UDP_SEGMENT` and `UDP_GRO`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::control::{Control, receive_with};
use super::socket::send_flags;
use super::to_count;

/// Maximum messages that the kernel processes per call (`UIO_MAXIOV`, linux/uio.h).
pub(crate) const MAX_MESSAGES: usize = libc::UIO_MAXIOV as usize;

/// Headers that describe messages to the kernel. If a call uses the same memory as the last call, it uses the same
/// headers again.
#[derive(Default)]
pub(crate) struct Messages {
    /// One header per part, each with a pointer to the part.
    headers: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    /// Address and length of the described memory, and the size of a part.
    described: (usize, usize, usize),
}

// SAFETY: the addresses are only used within a call that borrows the memory.
unsafe impl Send for Messages {}

impl Messages {
    /// `sendmmsg(2)` of contiguous messages of `size` bytes (the last may be shorter). Sends only whole messages.
    /// Returns the number of bytes sent.
    pub(crate) fn send(
        &mut self,
        to: BorrowedFd<'_>,
        messages: &[u8],
        size: usize,
        may_block: bool,
    ) -> io::Result<usize> {
        let count = self.describe(messages.as_ptr().cast_mut(), messages.len(), size);
        // SAFETY: `count` headers describe one part each, within the live slice `messages`, which the kernel only
        // reads; there is no address and no control data. The kernel writes the sent lengths into the headers.
        let sent = to_count(unsafe {
            libc::sendmmsg(to.as_raw_fd(), self.headers.as_mut_ptr(), count, send_flags(may_block) as _)
        } as isize)?;
        Ok(sent.saturating_mul(size).min(messages.len()))
    }

    /// `recvmmsg(2)` of the available messages, one per slot of `size` bytes. Returns their number; for their lengths
    /// see [`Messages::length`]. With `may_block`, waits for the first message (`MSG_WAITFORONE`). With `true_length`,
    /// the length of a truncated datagram is its full length.
    pub(crate) fn receive(
        &mut self,
        from: BorrowedFd<'_>,
        slots: &mut [u8],
        size: usize,
        may_block: bool,
        true_length: bool,
    ) -> io::Result<usize> {
        let count = self.describe(slots.as_mut_ptr(), slots.len(), size);
        let flags = if may_block { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT }
            | if true_length { libc::MSG_TRUNC } else { 0 };
        // SAFETY: `count` headers describe one part each, within the live, exclusively borrowed slice `slots`, and the
        // parts do not overlap; there is no address, no control data and no time-out.
        to_count(unsafe {
            libc::recvmmsg(from.as_raw_fd(), self.headers.as_mut_ptr(), count, flags as _, std::ptr::null_mut())
        } as isize)
    }

    /// Returns the length of message number `index` of the last call.
    pub(crate) fn length(&self, index: usize) -> usize {
        self.headers[index].msg_len as usize
    }

    /// Divides the memory into parts of `size` bytes each. Returns their number.
    fn describe(&mut self, start: *mut u8, bytes: usize, size: usize) -> u32 {
        let count = bytes.div_ceil(size.max(1)).min(MAX_MESSAGES);
        let memory = (start.addr(), bytes, size);
        if self.described != memory {
            self.make_room(count);
            for (index, part) in self.parts[..count].iter_mut().enumerate() {
                let before = index * size;
                *part =
                    libc::iovec { iov_base: start.wrapping_add(before).cast(), iov_len: size.min(bytes - before) };
            }
            self.described = memory;
        }
        // At most 1024.
        count as u32
    }

    fn make_room(&mut self, count: usize) {
        if count <= self.parts.len() {
            return;
        }
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        self.parts.resize(count, none);
        // SAFETY: an all-zero `mmsghdr` is valid: no address, no parts, no control data.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        self.headers.resize(count, header);
        for (header, part) in self.headers.iter_mut().zip(&mut self.parts) {
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
        }
    }
}

/// `sendmsg(2)` of contiguous datagrams of `size` bytes (the last may be shorter) as one packet, which the kernel or
/// the device splits into datagrams (`UDP_SEGMENT`). Returns the total number of bytes.
pub(crate) fn send_segmented(to: BorrowedFd<'_>, bytes: &[u8], size: u16, may_block: bool) -> io::Result<usize> {
    // Aligned for `cmsghdr`, and larger than `CMSG_SPACE(2)`.
    let mut control = [0_u64; 4];
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: an all-zero `msghdr` is valid; the part is a live slice, which the kernel only reads; the control data
    // has room for a header and two bytes, so the first header exists and its data is inside.
    to_count(unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(2) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(2) as _;
        libc::CMSG_DATA(header).cast::<u16>().write_unaligned(size);
        libc::sendmsg(to.as_raw_fd(), &raw const message, send_flags(may_block))
    })
}

/// `recvmsg(2)` of one datagram, or of several that the kernel joined (`UDP_GRO`). Returns the number of bytes and the
/// size of each datagram, at least 1; the last datagram may be shorter.
pub(crate) fn receive_joined(from: BorrowedFd<'_>, into: &mut [u8], may_block: bool) -> io::Result<(usize, usize)> {
    let mut control = Control::default();
    let bytes = receive_with(from, into, &mut control, if may_block { 0 } else { libc::MSG_DONTWAIT }, None)?;
    let size: Option<libc::c_int> = control.find(libc::SOL_UDP, libc::UDP_GRO);
    let size = size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0);
    Ok((bytes, size.unwrap_or(bytes.max(1))))
}
