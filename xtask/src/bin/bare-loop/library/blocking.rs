//! TLS with rustls and WebSocket with tungstenite, over blocking sockets.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use bytes::Bytes;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use tungstenite::{Message, WebSocket};

use super::load::Load;
use super::{End, Outcome, own_loop};

/// The server's name in the certificate. It is never looked up.
pub(super) const SERVER_NAME: &str = "hairpin.invalid";

const READ_BYTES: usize = 64 << 10;

/// An Ed25519 key (RFC 8410, section 7) that both processes know, so that they derive the same certificate.
const KEY: [u8; 48] = {
    const PREFIX: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let mut key = [7; 48];
    let (prefix, _) = key.split_at_mut(PREFIX.len());
    prefix.copy_from_slice(&PREFIX);
    key
};

pub(super) struct Identity {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
}

impl Identity {
    pub(super) fn new(protocols: &[&[u8]]) -> Outcome<Self> {
        let key = PrivatePkcs8KeyDer::from(KEY.to_vec());
        let parameters = CertificateParams::new([SERVER_NAME.to_owned()])?;
        let certificate = parameters.self_signed(&KeyPair::try_from(&key)?)?.der().clone();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = rustls::client::Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key))?;
        server.send_tls13_tickets = 0;
        client.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        server.alpn_protocols.clone_from(&client.alpn_protocols);
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }
}

pub(super) fn run(transport: &str, end: End, socket: TcpStream, load: Load) -> Outcome<Vec<u64>> {
    match (transport, end) {
        ("tls", End::Client) => {
            let tls = ClientConnection::new(Identity::new(&[])?.client, ServerName::try_from(SERVER_NAME)?)?;
            tls_client(StreamOwned::new(tls, socket), load)
        }
        ("tls", End::Server) => {
            tls_server(StreamOwned::new(ServerConnection::new(Identity::new(&[])?.server)?, socket), load)
        }
        (_, End::Client) => websocket_client(tungstenite::client("ws://hairpin.invalid/", socket)?.0, load),
        (_, End::Server) => websocket_server(tungstenite::accept(socket)?, load),
    }
}

fn round_trips(load: Load, mut exchange: impl FnMut([u8; 4]) -> Outcome<[u8; 4]>) -> Outcome<Vec<u64>> {
    own_loop::block_on(-1, load.round_trips(async |message| exchange(message)))
}

fn tls_client(mut tls: impl Read + Write, load: Load) -> Outcome<Vec<u64>> {
    if !load.is_one_way() {
        return round_trips(load, |message| {
            tls.write_all(&message)?;
            let mut answer = [0; 4];
            tls.read_exact(&mut answer)?;
            Ok(answer)
        });
    }
    let mut buffer = Vec::new();
    while let Some(message) = load.next(&mut buffer) {
        tls.write_all(message)?;
    }
    Ok(Vec::new())
}

fn tls_server(mut tls: impl Read + Write, load: Load) -> Outcome<Vec<u64>> {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let bytes = tls.read(&mut buffer)?;
        if load.is_one_way() {
            load.count(bytes);
        } else {
            tls.write_all(&buffer[..bytes])?;
        }
    }
}

fn websocket_client(mut socket: WebSocket<TcpStream>, load: Load) -> Outcome<Vec<u64>> {
    if !load.is_one_way() {
        return round_trips(load, |message| {
            socket.send(Message::Binary(Bytes::copy_from_slice(&message)))?;
            Ok(socket.read()?.into_data()[..].try_into()?)
        });
    }
    let mut buffer = Vec::new();
    while let Some(message) = load.next(&mut buffer) {
        socket.send(Message::Binary(Bytes::copy_from_slice(message)))?;
    }
    Ok(Vec::new())
}

fn websocket_server(mut socket: WebSocket<TcpStream>, load: Load) -> Outcome<Vec<u64>> {
    loop {
        let message = socket.read()?;
        if load.is_one_way() {
            load.count(message.len());
        } else {
            socket.send(message)?;
        }
    }
}
