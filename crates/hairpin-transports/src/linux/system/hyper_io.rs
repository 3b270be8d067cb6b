//! A socket for hyper, which passes memory that is not initialised.

use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

use super::to_count;
use crate::library::runtime::Handle;
use crate::system::socket;
use std::os::fd::AsFd;

/// A connected stream socket.
pub(crate) struct HyperIo(pub(crate) Handle);

impl Read for HyperIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // SAFETY: the kernel only writes to this memory.
        let room = unsafe { into.as_mut() };
        let length = room.len();
        let received = self.0.poll_receive(context, |socket| {
            // SAFETY: the pointer and the length describe live memory that is borrowed exclusively.
            to_count(unsafe { libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), length, libc::MSG_DONTWAIT) })
        });
        received.map_ok(|bytes| {
            if bytes < length && bytes > 0 {
                self.0.on_all_received();
            }
            // SAFETY: the kernel has written this many bytes.
            unsafe { into.advance(bytes) }
        })
    }
}

impl Write for HyperIo {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_send(context, |socket| socket::send(socket.as_fd(), bytes, false))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.socket().shutdown(std::net::Shutdown::Write))
    }
}
