//! QUIC with quinn: one bidirectional stream, or datagrams.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig, TokioRuntime};

use super::blocking::{Identity, SERVER_NAME};
use super::load::Load;
use super::own_quic::OwnRuntime;
use super::runtime::Runtime;
use super::{End, Outcome};

const PROTOCOL: &[u8] = b"hairpin-echo";
const READ_BYTES: usize = 64 << 10;

pub(super) async fn run(
    end: End,
    socket: UdpSocket,
    server: SocketAddr,
    runtime: Runtime,
    as_datagrams: bool,
    load: Load,
) -> Outcome<Vec<u64>> {
    let runtime: Arc<dyn quinn::Runtime> =
        if runtime == Runtime::Tokio { Arc::new(TokioRuntime) } else { Arc::new(OwnRuntime) };
    let identity = Identity::new(&[PROTOCOL])?;
    let config = EndpointConfig::default();
    match end {
        End::Client => {
            let endpoint = Endpoint::new(config, None, socket, runtime)?;
            let crypto = QuicClientConfig::try_from(identity.client)?;
            let config = ClientConfig::new(Arc::new(crypto));
            let connection = endpoint.connect_with(config, server, SERVER_NAME)?.await?;
            if as_datagrams { datagram_client(&connection, load).await } else { client(&connection, load).await }
        }
        End::Server => {
            let crypto = QuicServerConfig::try_from(identity.server)?;
            let endpoint = Endpoint::new(config, Some(ServerConfig::with_crypto(Arc::new(crypto))), socket, runtime)?;
            let connection = endpoint.accept().await.ok_or("no client")?.await?;
            if as_datagrams { datagram_server(&connection, load).await } else { serve(&connection, load).await }
        }
    }
}

async fn client(connection: &Connection, load: Load) -> Outcome<Vec<u64>> {
    let (mut send, mut receive) = connection.open_bi().await?;
    if !load.is_one_way() {
        let round_trips = load.round_trips(async |message| {
            send.write_all(&message).await?;
            let mut answer = [0; 4];
            receive.read_exact(&mut answer).await?;
            Ok(answer)
        });
        return round_trips.await;
    }
    load.one_way(async |message| Ok(send.write_all(message).await?)).await
}

async fn serve(connection: &Connection, load: Load) -> Outcome<Vec<u64>> {
    let (mut send, mut receive) = connection.accept_bi().await?;
    let mut buffer = vec![0; READ_BYTES];
    while let Some(bytes) = receive.read(&mut buffer).await? {
        if load.is_one_way() {
            load.count(bytes);
        } else {
            send.write_all(&buffer[..bytes]).await?;
        }
    }
    Ok(Vec::new())
}

async fn datagram_client(connection: &Connection, load: Load) -> Outcome<Vec<u64>> {
    if !load.is_one_way() {
        let round_trips = load.round_trips(async |message| {
            connection.send_datagram(Bytes::copy_from_slice(&message))?;
            Ok(connection.read_datagram().await?[..].try_into()?)
        });
        return round_trips.await;
    }
    let send = async |message: &[u8]| Ok(connection.send_datagram_wait(Bytes::copy_from_slice(message)).await?);
    load.one_way(send).await
}

async fn datagram_server(connection: &Connection, load: Load) -> Outcome<Vec<u64>> {
    loop {
        let message = connection.read_datagram().await?;
        if load.is_one_way() {
            load.count(message.len());
        } else {
            connection.send_datagram(message)?;
        }
    }
}
