//! Echoes QUIC streams and datagrams. One thread drives all connections.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use base64::Engine as _;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, Incoming, RecvStream, SendStream, ServerConfig, TransportConfig};
use socket2::Socket;

use super::limits::{Connection, EchoServer, IDLE_TIMEOUT, MAX_CONNECTIONS, MAX_MESSAGE_BYTES, Rules};
use crate::library::quic::PROTOCOL;
use crate::library::quic_io::new_endpoint;
use crate::library::runtime::{Handle, Runtime};

/// Concurrent streams of a connection.
const MAX_STREAMS: u32 = 4;
/// Unread bytes of a connection.
const WINDOW_BYTES: u32 = 1 << 20;
/// The errors with which a stream or connection is ended.
const TOO_LONG: u32 = 1;
const REFUSED: u32 = 2;

pub(super) fn start(at: SocketAddr, rules: Rules) -> io::Result<EchoServer> {
    let socket = UdpSocket::bind(at)?;
    let address = socket.local_addr()?;
    let runtime = Runtime::new(Socket::from(socket));
    let (config, certificate) = config()?;
    let (endpoint, _) = new_endpoint(&runtime.handle(), Some(config), None)?;
    let handle = runtime.handle();
    std::thread::Builder::new().name("echo quic".to_owned()).spawn(move || {
        let of_spawned = handle.clone();
        handle.spawn(Box::pin(accept(endpoint, rules.clone(), of_spawned)));
        super::limits::drive(runtime, || rules.is_over());
    })?;
    Ok(EchoServer { at: address, certificate: Some(certificate) })
}

/// The configuration, and a new certificate in PEM.
fn config() -> io::Result<(ServerConfig, String)> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()]);
    let made = made.map_err(io::Error::other)?;
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).map_err(io::Error::other)?;
    let crypto = builder.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key.into());
    let mut crypto = crypto.map_err(io::Error::other)?;
    crypto.alpn_protocols = vec![PROTOCOL.to_vec(), b"hq-interop".to_vec()];
    let crypto = QuicServerConfig::try_from(crypto).map_err(io::Error::other)?;
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(MAX_STREAMS.into())
        .max_concurrent_uni_streams(0_u32.into())
        .stream_receive_window(WINDOW_BYTES.into())
        .receive_window(WINDOW_BYTES.into())
        .send_window(WINDOW_BYTES.into())
        .datagram_receive_buffer_size(Some(64 << 10))
        .datagram_send_buffer_size(64 << 10)
        .max_idle_timeout(Some(IDLE_TIMEOUT.try_into().map_err(io::Error::other)?));
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport)).max_incoming(MAX_CONNECTIONS).migration(false);
    Ok((config, pem(made.cert.der())))
}

/// RFC 7468.
fn pem(certificate: &[u8]) -> String {
    const LINE: usize = 64;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    let lines: Vec<&str> = (0..text.len()).step_by(LINE).map(|at| &text[at..text.len().min(at + LINE)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}

async fn accept(endpoint: Endpoint, rules: Rules, handle: Handle) {
    let open = Arc::new(AtomicUsize::new(0));
    while let Some(incoming) = endpoint.accept().await {
        let is_allowed = (rules.is_allowed)(incoming.remote_address().ip().to_canonical());
        if !is_allowed || open.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            incoming.ignore();
        } else if !incoming.remote_address_validated() {
            // A sender with a forged address gets a small packet only.
            drop(incoming.retry());
        } else {
            open.fetch_add(1, Ordering::AcqRel);
            let connection = Connection::new(rules.clone(), Some(Arc::clone(&open)));
            handle.spawn(Box::pin(serve(incoming, connection, handle.clone())));
        }
    }
}

async fn serve(incoming: Incoming, limits: Connection, handle: Handle) {
    let Ok(connection) = incoming.await else { return };
    let (datagrams, counted, timers) = (connection.clone(), limits.clone(), handle.clone());
    handle.spawn(Box::pin(async move {
        while let Ok(message) = datagrams.read_datagram().await {
            pause(&timers, counted.count(message.len())).await;
            // Without room, it is lost.
            drop(datagrams.send_datagram(message));
        }
    }));
    let (idle, watched, timers) = (connection.clone(), limits.clone(), handle.clone());
    handle.spawn(Box::pin(async move {
        while idle.close_reason().is_none() && !watched.is_over() {
            pause(&timers, Duration::from_secs(1)).await;
        }
        idle.close(REFUSED.into(), b"no message for too long");
    }));
    while let Ok((send, receive)) = connection.accept_bi().await {
        handle.spawn(Box::pin(echo(send, receive, limits.clone(), handle.clone())));
    }
}

async fn pause(timers: &Handle, time: Duration) {
    let until = Instant::now() + time;
    poll_fn(|context| {
        if Instant::now() >= until {
            return Poll::Ready(());
        }
        timers.set_timer(until, context.waker().clone());
        Poll::Pending
    })
    .await;
}

/// Sends back the bytes of a stream after its end.
async fn echo(mut send: SendStream, mut receive: RecvStream, limits: Connection, timers: Handle) {
    match receive.read_to_end(MAX_MESSAGE_BYTES).await {
        Ok(message) => {
            pause(&timers, limits.count(message.len())).await;
            if send.write_all(&message).await.is_ok() {
                drop(send.finish());
                drop(send.stopped().await);
            }
        }
        Err(_) => {
            drop(receive.stop(TOO_LONG.into()));
            drop(send.reset(TOO_LONG.into()));
        }
    }
}
