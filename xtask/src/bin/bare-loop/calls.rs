//! The send and receive calls of one-way traffic. Each makes one system call and returns the number of bytes.

use std::io::{self, Error};

use libc::{c_int, c_void};

use crate::options::RateOptions;

/// One send or receive call. The loops are monomorphised to inline it.
pub(crate) trait Call {
    /// Makes the call. Returns the number of bytes, 0 at the end of a stream.
    fn call(&mut self) -> io::Result<u64>;
}

/// `send` of one buffer, without SIGPIPE.
pub(crate) struct Send {
    socket: c_int,
    buffer: Vec<u8>,
}

/// `recv` into one buffer; with MSG_DONTWAIT if the receiver spins.
pub(crate) struct Receive {
    socket: c_int,
    flags: c_int,
    buffer: Vec<u8>,
}

/// `write` of one buffer into a pipe.
pub(crate) struct Write {
    pipe: c_int,
    buffer: Vec<u8>,
}

/// `read` from a pipe into one buffer.
pub(crate) struct Read {
    pipe: c_int,
    buffer: Vec<u8>,
}

/// `recvmsg` into one buffer, with room for UDP_GRO's control message (the size of the datagrams).
pub(crate) struct ReceiveWithControl {
    socket: c_int,
    flags: c_int,
    buffer: Vec<u8>,
    control: [u64; 8],
}

/// `sendmmsg` or `recvmmsg` of a batch of datagrams, each with its own part of the buffer.
pub(crate) struct Many {
    socket: c_int,
    send: bool,
    flags: c_int,
    /// The headers point into this vector and into `_places`, which are not reallocated.
    _buffer: Vec<u8>,
    _places: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

fn receive_flags(asked: &RateOptions) -> c_int {
    if asked.spin { libc::MSG_DONTWAIT } else { 0 }
}

/// Returns a buffer whose pages are already in memory.
fn populated_buffer(bytes: usize) -> Vec<u8> {
    vec![7; bytes]
}

impl Send {
    pub(crate) fn new(socket: c_int, asked: &RateOptions) -> Self {
        Self { socket, buffer: populated_buffer(asked.size * asked.batch) }
    }
}

impl Receive {
    pub(crate) fn new(socket: c_int, asked: &RateOptions, bytes: usize) -> Self {
        Self { socket, flags: receive_flags(asked), buffer: populated_buffer(bytes) }
    }
}

impl Write {
    pub(crate) fn new(pipe: c_int, asked: &RateOptions) -> Self {
        Self { pipe, buffer: populated_buffer(asked.size * asked.batch) }
    }
}

impl Read {
    pub(crate) fn new(pipe: c_int, bytes: usize) -> Self {
        Self { pipe, buffer: populated_buffer(bytes) }
    }
}

impl ReceiveWithControl {
    /// Allocates a buffer for the largest packet that GRO creates.
    pub(crate) fn new(socket: c_int, asked: &RateOptions) -> Self {
        Self { socket, flags: receive_flags(asked), buffer: populated_buffer(1 << 16), control: [0; 8] }
    }
}

impl Many {
    /// Sends or receives up to `asked.batch` datagrams per call.
    pub(crate) fn new(socket: c_int, asked: &RateOptions, send: bool) -> Self {
        let mut buffer = populated_buffer(asked.size * asked.batch);
        let mut places: Vec<libc::iovec> = buffer
            .chunks_mut(asked.size)
            .map(|chunk| libc::iovec { iov_base: chunk.as_mut_ptr().cast(), iov_len: chunk.len() })
            .collect();
        let headers = places
            .iter_mut()
            .map(|place| {
                // SAFETY: all zeroes is a valid header: no name, no buffers, no control.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = place;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        let flags = if send { libc::MSG_NOSIGNAL } else { libc::MSG_WAITFORONE | receive_flags(asked) };
        Self { socket, send, flags, _buffer: buffer, _places: places, headers }
    }
}

impl Call for Send {
    #[inline(always)]
    fn call(&mut self) -> io::Result<u64> {
        let (start, length): (*const c_void, _) = (self.buffer.as_ptr().cast(), self.buffer.len());
        // SAFETY: pointer and length describe the live buffer.
        moved(unsafe { libc::send(self.socket, start, length, libc::MSG_NOSIGNAL) })
    }
}

impl Call for Receive {
    #[inline(always)]
    fn call(&mut self) -> io::Result<u64> {
        let (start, length): (*mut c_void, _) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
        // SAFETY: pointer and length describe the live buffer.
        moved(unsafe { libc::recv(self.socket, start, length, self.flags) })
    }
}

impl Call for Write {
    #[inline(always)]
    fn call(&mut self) -> io::Result<u64> {
        // SAFETY: pointer and length describe the live buffer.
        moved(unsafe { libc::write(self.pipe, self.buffer.as_ptr().cast(), self.buffer.len()) })
    }
}

impl Call for Read {
    #[inline(always)]
    fn call(&mut self) -> io::Result<u64> {
        // SAFETY: pointer and length describe the live buffer.
        moved(unsafe { libc::read(self.pipe, self.buffer.as_mut_ptr().cast(), self.buffer.len()) })
    }
}

impl Call for ReceiveWithControl {
    #[inline(always)]
    fn call(&mut self) -> io::Result<u64> {
        let mut place = libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
        // SAFETY: all zeroes is a valid header.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut place;
        header.msg_iovlen = 1;
        header.msg_control = self.control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&self.control) as _;
        // SAFETY: the header points to the live buffer and control, with their lengths.
        moved(unsafe { libc::recvmsg(self.socket, &raw mut header, self.flags) })
    }
}

impl Call for Many {
    #[inline(always)]
    fn call(&mut self) -> io::Result<u64> {
        #[expect(clippy::cast_possible_truncation, reason = "at most 1024 datagrams")]
        let count = self.headers.len() as libc::c_uint;
        let headers = self.headers.as_mut_ptr();
        // SAFETY: pointer and count describe the live headers, which point to live buffers; no time-out is given.
        let answer = unsafe {
            if self.send {
                libc::sendmmsg(self.socket, headers, count, self.flags as _)
            } else {
                libc::recvmmsg(self.socket, headers, count, self.flags as _, std::ptr::null_mut())
            }
        };
        let messages = usize::try_from(answer).map_err(|_| Error::last_os_error())?;
        Ok(self.headers[..messages].iter().map(|header| u64::from(header.msg_len)).sum())
    }
}

#[inline(always)]
fn moved(answer: isize) -> io::Result<u64> {
    u64::try_from(answer).map_err(|_| Error::last_os_error())
}
