//! Control messages over TLS over TCP.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use hairpin_engine::control::frames::Carrier;
use hairpin_engine::wait::{readable, readable_or_writable, writable};
use rustls::{ClientConnection, Connection};
use socket2::{SockRef, TcpKeepalive};

use crate::identity;
use crate::proof::{EXPORTER_BYTES, EXPORTER_LABEL, Exporter};

/// The connection fails if data stay unacknowledged for this long (`TCP_USER_TIMEOUT`, tcp(7)).
const USER_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval between keepalive probes.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// A TLS connection over a non-blocking socket. Each call sends pending TLS data.
pub struct Tls {
    socket: TcpStream,
    connection: Connection,
    /// Bytes that may still be received.
    left_bytes: u64,
}

/// Error kind if more bytes were received than allowed.
pub const TOO_MUCH: io::ErrorKind = io::ErrorKind::FileTooLarge;

impl Tls {
    /// Creates a connection to the server whose certificate has that fingerprint. Does not start the handshake.
    ///
    /// # Errors
    /// TLS cannot be set up, or the socket cannot be made non-blocking.
    pub fn to_server(socket: TcpStream, fingerprint: [u8; 32]) -> io::Result<Self> {
        let config = identity::client_config(fingerprint);
        let connection = config.and_then(|config| ClientConnection::new(config, identity::name()));
        Self::over(socket, connection.map_err(io::Error::other)?)
    }

    /// Creates a connection over a connected socket. Does not start the handshake.
    pub fn over(socket: TcpStream, connection: impl Into<Connection>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let options = SockRef::from(&socket);
        options
            .set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(2))?;
        options.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
        Ok(Self { socket, connection: connection.into(), left_bytes: u64::MAX })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Limits the bytes received from now on, including TLS overhead. Further bytes cause the error [`TOO_MUCH`].
    pub fn limit_received(&mut self, bytes: u64) {
        self.left_bytes = bytes;
    }

    /// Continues the handshake as far as possible without waiting. Returns whether it is complete.
    ///
    /// # Errors
    /// The other end closed the connection, or sent invalid TLS.
    pub fn handshake(&mut self) -> io::Result<bool> {
        self.send_pending()?;
        while self.connection.is_handshaking() {
            match self.receive_tls() {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => self.send_pending()?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(!self.connection.wants_write())
    }

    /// Completes the handshake before `deadline`.
    ///
    /// # Errors
    /// Those of [`Tls::handshake`], and [`io::ErrorKind::TimedOut`].
    pub fn handshake_until(&mut self, deadline: Instant) -> io::Result<()> {
        while !self.handshake()? {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let wants_write = self.connection.wants_write();
            match wants_write {
                true => readable_or_writable(&self.socket, left)?,
                false => readable(&self.socket, left)?,
            };
        }
        Ok(())
    }

    /// Sends a close notification and waits up to `within` for the other end to close. Discards data received until
    /// then: closing a socket with unread bytes resets the connection, and the other end might lose the last data.
    pub fn close(&mut self, within: Duration) {
        self.connection.send_close_notify();
        let sent = self.send_pending().and_then(|()| self.socket.shutdown(Shutdown::Write));
        let deadline = Instant::now() + within;
        let mut discarded = [0; 4096];
        while sent.is_ok() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !readable(&self.socket, left).unwrap_or(false) {
                return;
            }
            match self.socket.read(&mut discarded) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    /// Returns the channel binding of this connection (RFC 9266).
    ///
    /// # Errors
    /// The handshake is not complete.
    pub fn exporter(&self) -> Result<Exporter, rustls::Error> {
        self.connection.export_keying_material([0; EXPORTER_BYTES], EXPORTER_LABEL, Some(&[]))
    }

    /// Receives and decrypts data. Returns the number of bytes received; 0 if the other end has closed.
    fn receive_tls(&mut self) -> io::Result<usize> {
        let count = self.connection.read_tls(&mut self.socket).map_err(explain)?;
        self.left_bytes = self.left_bytes.checked_sub(count as u64).ok_or(TOO_MUCH)?;
        if let Err(error) = self.connection.process_new_packets() {
            // Sends the TLS alert, if the connection still works.
            drop(self.send_pending());
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(count)
    }

    /// Sends encrypted data until none is left or the socket buffer is full.
    fn send_pending(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(explain(error)),
            }
        }
        Ok(())
    }
}

impl Read for Tls {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The other end closed without a close notification.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            self.receive_tls()?;
        }
    }
}

impl Write for Tls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send_pending()?;
        match self.connection.writer().write(bytes)? {
            0 if !bytes.is_empty() => Err(io::ErrorKind::WouldBlock.into()),
            written => self.send_pending().map(|()| written),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send_pending()?;
        if self.connection.wants_write() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

impl Carrier for Tls {
    fn readable(&mut self, at_most: Duration) -> io::Result<bool> {
        // Data that is already decrypted.
        if self.connection.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0) {
            return Ok(true);
        }
        self.send_pending()?;
        readable(&self.socket, at_most)
    }

    fn writable(&mut self, at_most: Duration) -> io::Result<bool> {
        writable(&self.socket, at_most)
    }
}

/// Explains errors caused by a host that does not respond.
fn explain(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            let timeout_s = USER_TIMEOUT.as_secs();
            io::Error::new(error.kind(), format!("its host acknowledged nothing for {timeout_s} s ({error})"))
        }
        _ => error,
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        self.connection.send_close_notify();
        drop(self.send_pending());
    }
}

#[cfg(test)]
mod tests {
    use hairpin_engine::control::frames::Frames;
    use hairpin_engine::control::{Control, ControlError, Message};
    use rustls::ServerConnection;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::identity::Identity;

    const PATIENT: Duration = Duration::from_secs(20);

    fn sockets() -> [TcpStream; 2] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        [client, listener.accept().unwrap().0]
    }

    fn server(socket: TcpStream, identity: &Identity) -> Tls {
        Tls::over(socket, ServerConnection::new(identity.server_config().unwrap()).unwrap()).unwrap()
    }

    /// Both ends after their handshakes.
    fn connected() -> [Tls; 2] {
        let identity = Identity::make().unwrap();
        let [one, other] = sockets();
        let (mut client, mut server) =
            (Tls::to_server(one, identity.fingerprint()).unwrap(), server(other, &identity));
        std::thread::scope(|scope| {
            let deadline = Instant::now() + PATIENT;
            let server = scope.spawn(|| server.handshake_until(Instant::now() + PATIENT));
            client.handshake_until(deadline).unwrap();
            server.join().unwrap().unwrap();
        });
        [client, server]
    }

    #[test]
    fn messages_of_any_size_arrive_and_the_end_is_reported() {
        let [client, server] = connected();
        assert_eq!(client.exporter().unwrap(), server.exporter().unwrap());
        let [mut client, mut server] = [client, server].map(|tls| Frames::over(tls, 8 << 20));
        let large = Message::Listening("x".repeat(3 << 20));
        let expected = large.clone();
        let sender = std::thread::spawn(move || {
            client.send(&Message::Ready).unwrap();
            client.send(&large).unwrap();
        });
        assert_eq!(server.receive(PATIENT).unwrap(), Message::Ready);
        assert_eq!(server.receive(PATIENT).unwrap(), expected);
        sender.join().unwrap();
        assert!(matches!(server.receive(PATIENT), Err(ControlError::Closed)));
    }

    #[test]
    fn no_two_connections_have_the_same_exporter() {
        let [one, _server] = connected();
        let [other, _other_server] = connected();
        assert_ne!(one.exporter().unwrap(), other.exporter().unwrap());
    }

    #[test]
    fn a_server_of_another_fingerprint_is_refused_by_the_client() {
        let identity = Identity::make().unwrap();
        let [one, other] = sockets();
        let (mut client, mut server) = (Tls::to_server(one, [0; 32]).unwrap(), server(other, &identity));
        std::thread::scope(|scope| {
            let deadline = Instant::now() + PATIENT;
            let server = scope.spawn(|| server.handshake_until(Instant::now() + PATIENT));
            let error = client.handshake_until(deadline).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
            assert!(server.join().unwrap().is_err(), "the server fails too");
        });
    }

    #[test]
    fn bytes_that_are_not_tls_end_the_handshake() {
        let [mut stranger, other] = sockets();
        let mut server = server(other, &Identity::make().unwrap());
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let error = server.handshake_until(Instant::now() + PATIENT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
}
