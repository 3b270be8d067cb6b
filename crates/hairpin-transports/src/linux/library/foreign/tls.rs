//! TLS for the library that drives a connection, and the words for its errors.

use std::future::poll_fn;
use std::io;
#[cfg(feature = "http")]
use std::io::{Read as _, Write as _};
use std::task::{Context, Poll};

use hairpin_model::{CodeOf, FailureKind};
use rustls::{AlertDescription, CertificateError, Connection, Error};

use crate::foreign::Refusal;
use crate::library::runtime::Handle;

/// Bytes of one read.
#[cfg(feature = "http")]
const READ_BYTES: usize = 16 << 10;

/// A socket for a library that reads and writes, encrypted or not.
pub(crate) struct SocketIo {
    handle: Handle,
    tls: Option<Box<Connection>>,
}

impl SocketIo {
    pub(crate) fn plain(handle: Handle) -> Self {
        Self { handle, tls: None }
    }

    /// Completes the handshake of TLS. The other end must choose the protocol, unless it is `None` or ALPN is optional for it.
    pub(crate) async fn encrypted(handle: Handle, mut tls: Connection) -> io::Result<Self> {
        poll_fn(|context| {
            loop {
                if poll_send(&handle, &mut tls, context)?.is_pending() {
                    return Poll::Pending;
                }
                if !tls.is_handshaking() {
                    return Poll::Ready(Ok::<_, io::Error>(()));
                }
                match poll_receive(&handle, &mut tls, context) {
                    Poll::Ready(Ok(true)) => {}
                    Poll::Ready(Ok(false)) => {
                        let hint = "does it expect TLS on this port? see its log";
                        let cause = "the server closed the connection during the handshake of TLS";
                        return Poll::Ready(Err(Refusal::new(FailureKind::Closed, cause, hint).into()));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await?;
        Ok(Self { handle, tls: Some(Box::new(tls)) })
    }

    /// The protocol that the server chose (ALPN).
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.alpn_protocol()
    }
}

/// Sends what TLS has to send.
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
        return Poll::Ready(Err(refusal(&error).into()));
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
        or_would_block(self.handle.poll_send_vectored(self.context, &[io::IoSlice::new(bytes)]))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(feature = "http")]
impl hyper::rt::Read for SocketIo {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
        mut into: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        use std::pin::Pin;
        let Self { handle, tls } = self.get_mut();
        let Some(tls) = tls else {
            return Pin::new(&mut crate::system::hyper_io::HyperIo(handle.clone())).poll_read(context, into);
        };
        let mut bytes = [0; READ_BYTES];
        let room = into.remaining().min(READ_BYTES);
        loop {
            match tls.reader().read(&mut bytes[..room]) {
                Ok(count) => {
                    into.put_slice(&bytes[..count]);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The connection was closed without a notice of TLS: the length of the answer shows what is missing.
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

#[cfg(feature = "http")]
impl hyper::rt::Write for SocketIo {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { handle, tls } = self.get_mut();
        let Some(tls) = tls else { return handle.poll_send_vectored(context, &[io::IoSlice::new(bytes)]) };
        if poll_send(handle, tls, context)?.is_pending() {
            return Poll::Pending;
        }
        let count = tls.writer().write(bytes)?;
        // What is left is sent before the next bytes.
        let _is_sent = poll_send(handle, tls, context)?;
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { handle, tls } = self.get_mut();
        tls.as_mut().map_or(Poll::Ready(Ok(())), |tls| poll_send(handle, tls, context))
    }

    fn poll_shutdown(self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { handle, tls } = self.get_mut();
        if let Some(tls) = tls {
            tls.send_close_notify();
            if poll_send(handle, tls, context)?.is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(handle.socket().shutdown(std::net::Shutdown::Write))
    }
}

/// Why TLS failed.
pub(crate) fn refusal(error: &Error) -> Refusal {
    match error {
        Error::AlertReceived(alert) => {
            let hint = match alert {
                AlertDescription::NoApplicationProtocol => {
                    "it lacks this protocol: try another --transport, or with QUIC ?alpn=NAME in the URL"
                }
                AlertDescription::ProtocolVersion => "it has neither TLS 1.2 nor TLS 1.3",
                _ => "see the server's log",
            };
            let (code, cause) = (u8::from(*alert), format!("the server ended TLS with the alert {alert:?}"));
            Refusal::with_code(CodeOf::TlsAlert, code.into(), cause, hint)
        }
        Error::InvalidCertificate(why) => {
            let (why, hint) = match why {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    ("it has expired".to_owned(), "")
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    ("it is not valid yet".to_owned(), "is the clock of this host right?")
                }
                CertificateError::UnknownIssuer => (
                    "no known authority has signed it".to_owned(),
                    "--ca FILE names the authority, or the certificate itself",
                ),
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    ("it is for another name".to_owned(), "use the name in the certificate")
                }
                other => (other.to_string(), ""),
            };
            Refusal::new(FailureKind::Refused, format!("the server's certificate cannot be trusted: {why}"), hint)
        }
        Error::InvalidMessage(_) => {
            Refusal::unexpected("the server does not answer with TLS", "is it a port without TLS?")
        }
        Error::NoApplicationProtocol => not_chosen(),
        other => Refusal::unexpected(format!("TLS failed: {other}"), ""),
    }
}

/// The server did not choose the protocol.
pub(crate) fn not_chosen() -> Refusal {
    let cause = "the server did not choose this protocol in the handshake of TLS (ALPN)";
    Refusal::new(FailureKind::Unsupported, cause, "try another --transport")
}
