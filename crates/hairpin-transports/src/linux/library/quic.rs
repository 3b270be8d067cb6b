//! QUIC with quinn (RFC 9000), on the socket on which the hello took place.
//!
//! Each stream begins with one byte in each direction, so that it exists at both ends before the first message.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use hairpin_model::trace::End;
use hairpin_model::{Fact, fact_names};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use quinn::{
    AsyncTimer, AsyncUdpSocket, ClientConfig, ConnectionError, Endpoint, EndpointConfig, ReadError, RecvStream,
    SendDatagramError, SendStream, ServerConfig, TransportConfig, UdpPoller, WriteError,
};

use super::identity::{Identity, SERVER_NAME};
use super::mailbox::Mailbox;
use super::port::{Driven, Form};
use super::runtime::{Handle, Runtime};
use crate::linux::wires::hello::is_icmp_error;
use crate::linux::wires::socket_kind::Connected;
use crate::linux::wires::socket_kind::facts;
use crate::wire::{Connection, Setup, TransportError, Unsupported, Wire};
use crate::wires::failed;

/// Maximum streams of a connection.
const MAX_STREAMS: u32 = 10_000;
/// Maximum bytes of one read.
pub(crate) const MAX_READ_BYTES: usize = 64 << 10;

/// Maximum payload of a datagram before MTU discovery.
pub(crate) const MAX_DATAGRAM_BYTES: usize = 1_150;

pub(crate) const PROTOCOL: &[u8] = b"hairpin-echo";

/// What the wires of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Streams,
    Datagrams,
}

pub(crate) fn open(connected: Connected<'_>, carrier: Carrier) -> Result<Box<dyn Connection>, TransportError> {
    let (end, setup) = (connected.end, connected.setup.clone());
    let error = |source| failed("set up QUIC with", "the other end", source, "");
    let peer = connected.socket.peer_addr().map_err(error)?;
    let peer = peer.as_socket().ok_or_else(|| error(io::ErrorKind::InvalidInput.into()))?;
    let mut runtime = Runtime::new(connected.socket.try_clone().map_err(error)?);
    let handle = runtime.handle();
    let established = Arc::new(OnceLock::new());
    let (endpoint, client) = endpoint(&handle, &setup, end, &established).map_err(error)?;
    let timeout = setup.opening_timeout();
    let connecting = async move {
        match client {
            Some(client) => {
                let connecting = endpoint.connect_with(client, peer, SERVER_NAME);
                let connecting = connecting.map_err(io::Error::other)?;
                Ok::<_, io::Error>((connecting.await?, endpoint))
            }
            None => {
                let incoming = endpoint.accept().await.ok_or(io::ErrorKind::NotConnected)?;
                Ok((incoming.await?, endpoint))
            }
        }
    };
    let opened = runtime.complete(connecting, timeout).map_err(error)?;
    let opened = opened.ok_or(TransportError::TimedOut { what: "completed its handshake", after: timeout })?;
    let (connection, endpoint) = opened.map_err(error)?;
    drop(established.set(connection.clone()));
    let driven = driven(runtime, connected, &connection, endpoint);
    let accepted = Accepted::default();
    if end == End::Server {
        handle.spawn(Box::pin(accept_streams(connection.clone(), accepted.clone(), handle.clone(), carrier)));
    }
    Ok(Box::new(QuicConnection { driven, connection, carrier, accepted, next: 0, setup }))
}

/// The driver of an established connection, which closes the connection at its end.
pub(crate) fn driven(
    runtime: Runtime,
    connected: Connected<'_>,
    connection: &quinn::Connection,
    endpoint: Endpoint,
) -> Arc<Driven> {
    let (of_facts, closing, kind) = (connection.clone(), connection.clone(), connected.kind);
    let socket = connected.socket;
    let facts = move || {
        let mut facts = facts(&socket, kind.family, kind.options);
        facts.extend(statistics(&of_facts));
        facts
    };
    Driven::new(runtime, kind, facts, move || {
        closing.close(0_u32.into(), b"");
        drop(endpoint);
    })
}

pub(crate) fn transport_config() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport.max_concurrent_bidi_streams(MAX_STREAMS.into()).max_idle_timeout(None);
    Arc::new(transport)
}

/// An endpoint on a socket. `established` is the connection to close if the kernel reports that the other end's socket is closed.
pub(crate) fn new_endpoint(
    handle: &Handle,
    server: Option<ServerConfig>,
    established: Option<Established>,
) -> io::Result<Endpoint> {
    let state = UdpSocketState::new(UdpSockRef::from(handle.socket()))?;
    let socket = Arc::new(QuicSocket { handle: handle.clone(), state, established });
    let runtime = Arc::new(QuicRuntime(handle.clone()));
    Endpoint::new_with_abstract_socket(EndpointConfig::default(), server, socket, runtime)
}

/// Returns an endpoint on the connected socket, and the configuration of a client.
fn endpoint(
    handle: &Handle,
    setup: &Setup,
    end: End,
    established: &Established,
) -> io::Result<(Endpoint, Option<ClientConfig>)> {
    let identity = Identity::of(&setup.cookie, &[PROTOCOL])?;
    let transport = transport_config();
    let (mut server, mut client) = (None, None);
    match end {
        End::Client => {
            let crypto = QuicClientConfig::try_from(identity.client).map_err(io::Error::other)?;
            let mut config = ClientConfig::new(Arc::new(crypto));
            config.transport_config(transport);
            client = Some(config);
        }
        End::Server => {
            let crypto = QuicServerConfig::try_from(identity.server).map_err(io::Error::other)?;
            let mut config = ServerConfig::with_crypto(Arc::new(crypto));
            config.transport_config(transport);
            server = Some(config);
        }
    }
    // Anyone can send ICMP errors over a network.
    let established = setup.server.is_none().then(|| Arc::clone(established));
    Ok((new_endpoint(handle, server, established)?, client))
}

/// The library's counters of the connection.
fn statistics(connection: &quinn::Connection) -> [Fact; 6] {
    let stats = connection.stats();
    [
        (fact_names::QUIC_SENT_PACKETS, stats.path.sent_packets),
        (fact_names::QUIC_LOST_PACKETS, stats.path.lost_packets),
        (fact_names::QUIC_CONGESTION_EVENTS, stats.path.congestion_events),
        (fact_names::QUIC_WINDOW_BYTES, stats.path.cwnd),
        (fact_names::QUIC_MTU_BYTES, stats.path.current_mtu.into()),
        (fact_names::QUIC_SENT_DATAGRAMS, stats.udp_tx.datagrams),
    ]
    .map(|(name, count)| Fact::number(name, count as f64))
}

/// The mailboxes of accepted streams that have no wire yet.
#[derive(Clone, Default)]
struct Accepted(Arc<Mutex<AcceptedState>>);

#[derive(Default)]
struct AcceptedState {
    mailboxes: Vec<Mailbox>,
    /// Streams opened by the other end.
    opened: usize,
}

impl Accepted {
    /// The mailbox of the stream with this index, which may not be open yet.
    fn get(&self, index: usize) -> Mailbox {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while state.mailboxes.len() <= index {
            state.mailboxes.push(Mailbox::default());
        }
        state.mailboxes[index].clone()
    }

    fn is_full(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).opened >= MAX_STREAMS as usize
    }

    /// The mailbox of the next stream that the other end opens.
    fn next(&self) -> Mailbox {
        let index = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.opened += 1;
            state.opened - 1
        };
        self.get(index)
    }

    fn on_gone(&self, error: &ConnectionError) {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.mailboxes.iter().for_each(|mailbox| mailbox.on_gone(failure(error)));
    }
}

/// Why a connection ended, unless the other end just closed it.
fn failure(error: &ConnectionError) -> Option<String> {
    let is_closed = matches!(error, ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed);
    (!is_closed).then(|| error.to_string())
}

async fn accept_streams(connection: quinn::Connection, accepted: Accepted, handle: Handle, carrier: Carrier) {
    let error = loop {
        match connection.accept_bi().await {
            // Mailboxes stay, also those of streams that have ended.
            Ok(_) if accepted.is_full() => {
                connection.close(0_u32.into(), b"too many streams");
            }
            Ok((send, receive)) => {
                let mailbox = accepted.next();
                let stream = Stream { connection: connection.clone(), mailbox, carrier, handle: handle.clone() };
                handle.spawn(Box::pin(stream.serve(send, receive)));
            }
            Err(error) => break error,
        }
    };
    accepted.on_gone(&error);
}

/// One stream, or the datagrams of a connection, whose stream then only says how long they last.
struct Stream {
    connection: quinn::Connection,
    mailbox: Mailbox,
    carrier: Carrier,
    handle: Handle,
}

impl Stream {
    async fn serve(self, mut send: SendStream, mut receive: RecvStream) {
        let opened = receive.read_exact(&mut [0]).await.is_ok() && send.write_all(&[0]).await.is_ok();
        self.run(opened, send, receive).await;
    }

    async fn open(self, opens_with_message: bool) {
        match self.connection.open_bi().await {
            Ok((mut send, mut receive)) => {
                if opens_with_message {
                    self.mailbox.on_opened();
                }
                let opened = send.write_all(&[0]).await.is_ok() && receive.read_exact(&mut [0]).await.is_ok();
                self.run(opened, send, receive).await;
            }
            Err(error) => self.mailbox.on_gone(failure(&error)),
        }
    }

    async fn run(self, opened: bool, send: SendStream, receive: RecvStream) {
        if !opened {
            let failure = self.connection.close_reason().and_then(|error| failure(&error));
            return self.mailbox.on_gone(failure);
        }
        self.mailbox.on_opened();
        let (connection, mailbox) = (self.connection, self.mailbox);
        match self.carrier {
            Carrier::Streams => {
                self.handle.spawn(Box::pin(write_stream(send, mailbox.clone())));
                read_stream(receive, mailbox).await;
            }
            Carrier::Datagrams => {
                self.handle.spawn(Box::pin(write_datagrams(connection.clone(), send, mailbox.clone())));
                self.handle.spawn(Box::pin(read_stream(receive, mailbox.clone())));
                read_datagrams(connection, mailbox).await;
            }
        }
    }
}

async fn write_stream(mut send: SendStream, mailbox: Mailbox) {
    while let Some(message) = mailbox.outgoing().await {
        match send.write_chunk(message).await {
            Ok(()) => {}
            Err(WriteError::ConnectionLost(error)) => return mailbox.on_gone(failure(&error)),
            Err(WriteError::Stopped(_)) => return mailbox.on_gone(None),
            Err(error) => return mailbox.on_gone(Some(error.to_string())),
        }
    }
    // The other end has all data once it has acknowledged the end of the stream.
    if send.finish().is_ok() {
        drop(send.stopped().await);
    }
    mailbox.on_all_sent();
}

async fn read_stream(mut receive: RecvStream, mailbox: Mailbox) {
    while mailbox.room().await {
        match receive.read_chunk(MAX_READ_BYTES, true).await {
            Ok(Some(chunk)) => drop(mailbox.deliver(chunk.bytes).await),
            Ok(None) => return mailbox.on_end(),
            Err(ReadError::ConnectionLost(error)) => return mailbox.on_gone(failure(&error)),
            Err(error) => return mailbox.on_gone(Some(error.to_string())),
        }
    }
}

async fn write_datagrams(connection: quinn::Connection, mut send: SendStream, mailbox: Mailbox) {
    while let Some(message) = mailbox.outgoing().await {
        match connection.send_datagram_wait(message).await {
            Ok(()) => {}
            Err(SendDatagramError::ConnectionLost(error)) => return mailbox.on_gone(failure(&error)),
            Err(error) => return mailbox.on_gone(Some(error.to_string())),
        }
    }
    if send.finish().is_ok() {
        drop(send.stopped().await);
    }
    mailbox.on_all_sent();
}

async fn read_datagrams(connection: quinn::Connection, mailbox: Mailbox) {
    loop {
        match connection.read_datagram().await {
            // Without room, a datagram is lost, as in the receive buffer of a socket.
            Ok(message) => mailbox.deliver_or_drop(message),
            Err(error) => return mailbox.on_gone(failure(&error)),
        }
    }
}

struct QuicConnection {
    driven: Arc<Driven>,
    connection: quinn::Connection,
    carrier: Carrier,
    accepted: Accepted,
    next: usize,
    setup: Setup,
}

impl QuicConnection {
    fn wire(&mut self, mailbox: Mailbox) -> Result<Box<dyn Wire>, TransportError> {
        self.driven.wait_until_opened(&mailbox, &self.setup)?;
        self.next += 1;
        let form = if self.carrier == Carrier::Streams { Form::Bytes } else { Form::Messages };
        let limit = if self.carrier == Carrier::Streams { usize::MAX } else { MAX_DATAGRAM_BYTES };
        self.driven.wire(mailbox, form, limit, &self.setup)
    }

    fn check_next(&self) -> Result<(), TransportError> {
        if self.next == 0 || self.carrier == Carrier::Streams {
            return Ok(());
        }
        let transport = self.driven.kind.transport;
        Err(TransportError::Unsupported { transport, what: Unsupported::SecondWire })
    }
}

impl Connection for QuicConnection {
    fn open(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        self.check_next()?;
        let (mailbox, handle) = (Mailbox::default(), self.driven.handle());
        let (connection, carrier) = (self.connection.clone(), self.carrier);
        let stream = Stream { connection, mailbox: mailbox.clone(), carrier, handle: handle.clone() };
        handle.spawn(Box::pin(stream.open(self.setup.opens_with_message)));
        self.wire(mailbox)
    }

    fn accept_wire(&mut self) -> Result<Box<dyn Wire>, TransportError> {
        self.check_next()?;
        self.wire(self.accepted.get(self.next))
    }
}

/// The runtime that quinn asks for.
struct QuicRuntime(Handle);

impl fmt::Debug for QuicRuntime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("QuicRuntime")
    }
}

impl quinn::Runtime for QuicRuntime {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer { handle: self.0.clone(), at, key: None })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(future);
    }

    fn wrap_udp_socket(&self, _socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

struct Timer {
    handle: Handle,
    at: Instant,
    key: Option<(Instant, u64)>,
}

impl fmt::Debug for Timer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Timer at {:?}", self.at)
    }
}

impl Timer {
    fn cancel(&mut self) {
        if let Some(key) = self.key.take() {
            self.handle.cancel_timer(key);
        }
    }
}

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.cancel();
        self.at = at;
    }

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.cancel();
        if self.at <= Instant::now() {
            return Poll::Ready(());
        }
        self.key = Some(self.handle.set_timer(self.at, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// The connection, once it exists.
pub(crate) type Established = Arc<OnceLock<quinn::Connection>>;

struct QuicSocket {
    handle: Handle,
    state: UdpSocketState,
    /// Closed if the kernel reports that the other end's socket is closed; `None` if such reports are not believed.
    established: Option<Established>,
}

impl fmt::Debug for QuicSocket {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("QuicSocket")
    }
}

impl AsyncUdpSocket for QuicSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Poller(self.handle.clone()))
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.handle.try_send(|socket| self.state.send(UdpSockRef::from(socket), transmit))
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.handle.poll_receive(context, |socket| match self.state.recv(UdpSockRef::from(socket), buffers, meta) {
            Err(error) if is_icmp_error(&error) => {
                if let Some(connection) = self.established.as_ref().and_then(|established| established.get()) {
                    connection.close(0_u32.into(), b"");
                }
                // The kernel reports it once.
                Err(io::ErrorKind::Interrupted.into())
            }
            received => received,
        })
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = self.handle.socket().local_addr()?;
        address.as_socket().ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }
}

struct Poller(Handle);

impl fmt::Debug for Poller {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Poller")
    }
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_may_send(context)
    }
}
