//! A socket for hyper, encrypted or not.

use std::future::poll_fn;
use std::io::{self, BufRead as _, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use rustls::Connection;

use super::runtime::{Handle, Runtime};
use crate::system::hyper_io;

/// A connected stream socket.
pub(crate) enum SocketIo {
    Plain(Handle),
    Encrypted(Handle, Box<Connection>),
}

impl SocketIo {
    /// Completes the handshake of TLS.
    ///
    /// # Errors
    /// The other end closed the connection, the time-out passed, or an error of TLS.
    pub(crate) fn encrypted(runtime: &mut Runtime, mut tls: Connection, timeout: Duration) -> io::Result<Self> {
        let handle = runtime.handle();
        let handshake = async move {
            poll_fn(|context| {
                loop {
                    if poll_send(&handle, &mut tls, context)?.is_pending() {
                        return Poll::Pending;
                    }
                    if !tls.is_handshaking() {
                        return Poll::Ready(Ok(()));
                    }
                    match poll_receive(&handle, &mut tls, context) {
                        Poll::Ready(Ok(true)) => {}
                        Poll::Ready(Ok(false)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                        Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                        Poll::Pending => return Poll::Pending,
                    }
                }
            })
            .await?;
            Ok(Self::Encrypted(handle, Box::new(tls)))
        };
        runtime.complete(handshake, timeout)?.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    pub(crate) fn tls(&self) -> Option<&Connection> {
        match self {
            Self::Plain(_) => None,
            Self::Encrypted(_, tls) => Some(tls),
        }
    }
}

fn poll_send(handle: &Handle, tls: &mut Connection, context: &Context<'_>) -> Poll<io::Result<()>> {
    while tls.wants_write() {
        match tls.write_tls(&mut Polled { handle, context }) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            written => drop(written?),
        }
    }
    Poll::Ready(Ok(()))
}

/// Receives once; false at the end of the data.
fn poll_receive(handle: &Handle, tls: &mut Connection, context: &Context<'_>) -> Poll<io::Result<bool>> {
    match tls.read_tls(&mut Polled { handle, context }) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
        Ok(0) => return Poll::Ready(Ok(false)),
        received => drop(received?),
    }
    if let Err(error) = tls.process_new_packets() {
        // Sends the alert, as far as there is room.
        drop(poll_send(handle, tls, context));
        return Poll::Ready(Err(io::Error::other(error)));
    }
    Poll::Ready(Ok(true))
}

/// The socket for one call of TLS, which fails with `WouldBlock` where the future has to wait.
struct Polled<'a, 'c> {
    handle: &'a Handle,
    context: &'a Context<'c>,
}

fn or_would_block<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl io::Read for Polled<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        or_would_block(self.handle.poll_receive_into(self.context, into))
    }
}

impl io::Write for Polled<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[io::IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        or_would_block(self.handle.poll_send_vectored(self.context, parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for SocketIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let (handle, tls) = match self.get_mut() {
            Self::Plain(handle) => return hyper_io::poll_read(handle, context, into),
            Self::Encrypted(handle, tls) => (handle, tls),
        };
        loop {
            match tls.reader().fill_buf() {
                Ok(bytes) => {
                    let count = bytes.len().min(into.remaining());
                    into.put_slice(&bytes[..count]);
                    tls.reader().consume(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The connection was closed without a notice of TLS: the length of the body shows what is missing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
            match poll_receive(handle, tls, context) {
                Poll::Ready(received) => drop(received?),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Write for SocketIo {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let (handle, tls) = match self.get_mut() {
            Self::Plain(handle) => return handle.poll_send_vectored(context, parts),
            Self::Encrypted(handle, tls) => (handle, tls),
        };
        if poll_send(handle, tls, context)?.is_pending() {
            return Poll::Pending;
        }
        let count = tls.writer().write_vectored(parts)?;
        // What is left is sent before the next bytes.
        let _is_sent = poll_send(handle, tls, context)?;
        Poll::Ready(Ok(count))
    }

    /// TLS makes records of the parts of one call together.
    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Encrypted(handle, tls) => poll_send(handle, tls, context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let handle = match self.get_mut() {
            Self::Plain(handle) => handle,
            Self::Encrypted(handle, tls) => {
                tls.send_close_notify();
                if poll_send(handle, tls, context)?.is_pending() {
                    return Poll::Pending;
                }
                handle
            }
        };
        Poll::Ready(handle.socket().shutdown(std::net::Shutdown::Write))
    }
}
