//! Receives into the memory of hyper, which is not initialised.

use std::io;
use std::os::fd::AsRawFd;
use std::task::{Context, Poll};

use hyper::rt::ReadBufCursor;

use super::to_count;
use crate::library::runtime::Handle;

pub(crate) fn poll_read(handle: &Handle, context: &Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
    // SAFETY: the kernel only writes to this memory.
    let room = unsafe { into.as_mut() };
    let length = room.len();
    let received = handle.poll_receive(context, |socket| {
        // SAFETY: the pointer and the length describe live memory that is borrowed exclusively.
        to_count(unsafe { libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), length, libc::MSG_DONTWAIT) })
    });
    received.map_ok(|bytes| {
        if bytes < length && bytes > 0 {
            handle.on_all_received();
        }
        // SAFETY: the kernel has written this many bytes.
        unsafe { into.advance(bytes) }
    })
}
