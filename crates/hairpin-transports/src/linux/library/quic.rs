//! QUIC with quinn (RFC 9000), on the socket on which the hello took place.
//!
//! Each stream begins with one byte in each direction, so that it exists at both ends before the first message, unless it opens
//! with its first message.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use hairpin_model::flow::Opening;
use hairpin_model::options::OptionName;
use hairpin_model::trace::End;
use hairpin_model::{Fact, fact_names};
use quinn::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::udp::{UdpSockRef, UdpSocketState};
use quinn::{
    ClientConfig, ConnectionError, Endpoint, QlogConfig, QlogStream, ReadError, RecvStream, SendDatagramError,
    SendStream, ServerConfig, TransportConfig, WriteError, ZeroRttAccepted,
};

use super::identity::{Identity, SERVER_NAME};
use super::mailbox::{Mailbox, Mailboxes};
use super::port::{Driven, Form};
use super::quic_io::{Established, Traffic, new_endpoint};
use super::runtime::{Handle, Runtime};
use crate::linux::wires::description::Connected;
use crate::wire::{Connection, Setup, TransportError, Wire};
use crate::wires::{failed, second_wire};

/// Maximum streams of a connection.
const MAX_STREAMS: u32 = 10_000;
/// Minimum streams that the other end may open, as the library's default.
const DEFAULT_STREAMS: u32 = 100;
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
    let identity = Identity::of(&setup, &[PROTOCOL]).map_err(error)?;
    let (endpoint, traffic, client, chosen) =
        endpoint(&handle, &setup, end, &established, &identity).map_err(error)?;
    let timeout = setup.opening_timeout();
    let (is_early, spawner) = (setup.opening == Some(Opening::ZeroRtt), handle.clone());
    let of_client = identity.clone();
    let connecting = async move {
        match client {
            Some(client) => {
                let connecting = endpoint.connect_with(client, peer, SERVER_NAME);
                let connecting = connecting.map_err(io::Error::other)?;
                let (connection, accepted) = established_by(connecting, is_early).await?;
                if is_early {
                    of_client.on_early(accepted.is_some())?;
                }
                if let Some(accepted) = accepted {
                    spawner.spawn(Box::pin(close_unless(accepted, connection.clone())));
                }
                Ok::<_, io::Error>((connection, endpoint))
            }
            None => {
                let incoming = endpoint.accept().await.ok_or(io::ErrorKind::NotConnected)?;
                Ok((established_by(incoming.accept()?, is_early).await?.0, endpoint))
            }
        }
    };
    let opened = runtime.complete(connecting, timeout).map_err(error)?;
    let opened = opened.ok_or_else(|| match end {
        End::Client => traffic.unanswered(connected.transport.card.name, peer, timeout),
        End::Server => TransportError::TimedOut { what: "completed its handshake", after: timeout },
    })?;
    let (connection, endpoint) = opened.map_err(error)?;
    drop(established.set(connection.clone()));
    let driven = driven(runtime, connected, &connection, endpoint, chosen);
    let accepted = Mailboxes::default();
    if end == End::Server {
        identity.on_accepted().map_err(error)?;
        let (streams, spawner) = (accepted.clone(), handle.clone());
        handle.spawn(Box::pin(accept_streams(
            connection.clone(),
            streams,
            spawner,
            carrier,
            setup.opens_with_message,
        )));
    }
    Ok(Box::new(QuicConnection { driven, connection, carrier, accepted, next: 0, setup }))
}

/// Waits until the connection is established, or with 0-RTT until it can send.
async fn established_by(
    connecting: quinn::Connecting,
    is_early: bool,
) -> Result<(quinn::Connection, Option<ZeroRttAccepted>), ConnectionError> {
    if !is_early {
        return Ok((connecting.await?, None));
    }
    match connecting.into_0rtt() {
        Ok((connection, accepted)) => Ok((connection, Some(accepted))),
        // Without a ticket, which the first connections of a round do not have.
        Err(connecting) => Ok((connecting.await?, None)),
    }
}

/// Ends the connection of a client whose first message was rejected.
async fn close_unless(accepted: ZeroRttAccepted, connection: quinn::Connection) {
    if !accepted.await {
        connection.close(1_u32.into(), b"0-RTT data rejected");
    }
}

/// The transport parameters with the options of the library, and the facts of these options.
pub(crate) fn transport_config(
    setup: &Setup,
    end: End,
    handle: &Handle,
) -> io::Result<(Arc<TransportConfig>, [Fact; 2])> {
    let mut transport = TransportConfig::default();
    // The library allocates memory for each stream when a connection opens.
    let streams = setup.streams.clamp(DEFAULT_STREAMS, MAX_STREAMS);
    transport.max_concurrent_bidi_streams(streams.into()).max_idle_timeout(None);
    let control = setup.options.get(OptionName::Congestion).unwrap_or("cubic");
    match control {
        "cubic" => transport.congestion_controller_factory(Arc::new(CubicConfig::default())),
        "newreno" => transport.congestion_controller_factory(Arc::new(NewRenoConfig::default())),
        "bbr" => transport.congestion_controller_factory(Arc::new(BbrConfig::default())),
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "the library has no such congestion control")),
    };
    static HAS_GSO: OnceLock<bool> = OnceLock::new();
    let has_gso = match HAS_GSO.get() {
        Some(has_gso) => *has_gso,
        None => {
            let state = UdpSocketState::new(UdpSockRef::from(handle.socket()))?;
            *HAS_GSO.get_or_init(|| state.max_gso_segments() > 1)
        }
    };
    let gso = has_gso && setup.options.get(OptionName::Gso) != Some("off");
    transport.enable_segmentation_offload(gso);
    transport.qlog_stream(qlog(end)?);
    let facts = [
        Fact::word(&format!("option.{}", OptionName::Congestion), control.to_owned()),
        Fact::word(&format!("option.{}", OptionName::Gso), if gso { "on" } else { "off" }.to_owned()),
    ];
    Ok((Arc::new(transport), facts))
}

/// The log of a connection (IETF draft-ietf-quic-qlog-main-schema), in the folder that the environment variable `QLOGDIR` names.
fn qlog(end: End) -> io::Result<Option<QlogStream>> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let Some(folder) = std::env::var_os("QLOGDIR") else { return Ok(None) };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("hairpin-{}-{number}-{}.sqlog", std::process::id(), end.word());
    let path = Path::new(&folder).join(name);
    let file = File::options().write(true).create_new(true).open(&path);
    let file = file.map_err(|error| io::Error::new(error.kind(), format!("QLOGDIR: {}: {error}", path.display())))?;
    let mut config = QlogConfig::default();
    config.writer(Box::new(BufWriter::new(file)));
    Ok(config.into_stream())
}

/// The driver of an established connection, which closes the connection at its end.
pub(crate) fn driven(
    runtime: Runtime,
    connected: Connected<'_>,
    connection: &quinn::Connection,
    endpoint: Endpoint,
    chosen: [Fact; 2],
) -> Arc<Driven> {
    let (of_facts, closing) = (connection.clone(), connection.clone());
    let Connected { socket, transport, .. } = connected;
    let of_socket = transport.clone();
    let facts = move || {
        let mut facts = of_socket.facts(&socket);
        facts.extend(chosen.clone());
        facts.extend(statistics(&of_facts));
        facts
    };
    Driven::new(runtime, transport, facts, move || {
        closing.close(0_u32.into(), b"");
        drop(endpoint);
    })
}

/// Returns an endpoint on the connected socket, the configuration of a client, and the facts of the library's options.
fn endpoint(
    handle: &Handle,
    setup: &Setup,
    end: End,
    established: &Established,
    identity: &Identity,
) -> io::Result<(Endpoint, Traffic, Option<ClientConfig>, [Fact; 2])> {
    let (transport, chosen) = transport_config(setup, end, handle)?;
    let (mut server, mut client) = (None, None);
    match end {
        End::Client => {
            let crypto = QuicClientConfig::try_from(Arc::clone(&identity.client)).map_err(io::Error::other)?;
            let mut config = ClientConfig::new(Arc::new(crypto));
            config.transport_config(transport);
            client = Some(config);
        }
        End::Server => {
            let crypto = QuicServerConfig::try_from(Arc::clone(&identity.server)).map_err(io::Error::other)?;
            let mut config = ServerConfig::with_crypto(Arc::new(crypto));
            config.transport_config(transport);
            server = Some(config);
        }
    }
    // Anyone can send ICMP errors over a network.
    let established = setup.server.is_none().then(|| Arc::clone(established));
    let (endpoint, traffic) = new_endpoint(handle, server, established)?;
    Ok((endpoint, traffic, client, chosen))
}

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

/// Why a connection ended, unless the other end just closed it.
fn failure(error: &ConnectionError) -> Option<String> {
    let is_closed = matches!(error, ConnectionError::ApplicationClosed(_) | ConnectionError::LocallyClosed);
    (!is_closed).then(|| error.to_string())
}

async fn accept_streams(
    connection: quinn::Connection,
    accepted: Mailboxes,
    handle: Handle,
    carrier: Carrier,
    opens_with_message: bool,
) {
    let mut count = 0;
    let error = loop {
        match connection.accept_bi().await {
            // Mailboxes stay, also those of streams that have ended.
            Ok(_) if count == MAX_STREAMS as usize => {
                connection.close(0_u32.into(), b"too many streams");
            }
            Ok((send, receive)) => {
                let mailbox = accepted.get(count);
                count += 1;
                let stream = Stream { connection: connection.clone(), mailbox, carrier, handle: handle.clone() };
                handle.spawn(Box::pin(stream.serve(send, receive, opens_with_message)));
            }
            Err(error) => break error,
        }
    };
    accepted.each(|mailbox| mailbox.on_gone(failure(&error)));
}

/// One stream, or the datagrams of a connection, whose stream then only says how long they last.
struct Stream {
    connection: quinn::Connection,
    mailbox: Mailbox,
    carrier: Carrier,
    handle: Handle,
}

impl Stream {
    async fn serve(self, mut send: SendStream, mut receive: RecvStream, opens_with_message: bool) {
        let opened =
            opens_with_message || receive.read_exact(&mut [0]).await.is_ok() && send.write_all(&[0]).await.is_ok();
        self.run(opened, send, receive).await;
    }

    async fn open(self, opens_with_message: bool) {
        match self.connection.open_bi().await {
            Ok((mut send, mut receive)) => {
                let opened = opens_with_message
                    || send.write_all(&[0]).await.is_ok() && receive.read_exact(&mut [0]).await.is_ok();
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
    finish(send, &mailbox).await;
}

async fn finish(mut send: SendStream, mailbox: &Mailbox) {
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

async fn write_datagrams(connection: quinn::Connection, send: SendStream, mailbox: Mailbox) {
    while let Some(message) = mailbox.outgoing().await {
        match connection.send_datagram_wait(message).await {
            Ok(()) => {}
            Err(SendDatagramError::ConnectionLost(error)) => return mailbox.on_gone(failure(&error)),
            Err(error) => return mailbox.on_gone(Some(error.to_string())),
        }
    }
    finish(send, &mailbox).await;
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
    accepted: Mailboxes,
    next: usize,
    setup: Setup,
}

impl QuicConnection {
    fn wire(&mut self, mailbox: Mailbox) -> Result<Box<dyn Wire>, TransportError> {
        self.driven.wait_until_opened(&mailbox, &self.setup)?;
        self.next += 1;
        let (form, limit) = match self.carrier {
            Carrier::Streams => (Form::Bytes, usize::MAX),
            Carrier::Datagrams => (Form::Messages, MAX_DATAGRAM_BYTES),
        };
        self.driven.wire(mailbox, form, limit, &self.setup)
    }

    fn check_next(&self) -> Result<(), TransportError> {
        let is_allowed = self.next == 0 || self.carrier == Carrier::Streams;
        if is_allowed { Ok(()) } else { Err(second_wire(self.driven.transport.card.name)) }
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
        let mailbox = self.accepted.get(self.next);
        if self.setup.opens_with_message {
            mailbox.on_opened();
        }
        self.wire(mailbox)
    }
}
