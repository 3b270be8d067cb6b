//! The certificate of a measured connection over TLS or QUIC.
//!
//! Both ends derive the same key from the cookie, which only they know. So the client knows the certificate in advance, and
//! verifies the server as a program with a root certificate does.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hairpin_model::flow::Opening;
use hairpin_model::trace::End;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use ring::digest::{SHA256, digest};
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection};

use crate::wire::{Cookie, Setup};

/// The server's name in the certificate. It is never looked up.
pub(crate) const SERVER_NAME: &str = "hairpin.invalid";

/// The configurations of both ends of a round.
#[derive(Clone)]
pub(crate) struct Identity {
    cookie: Cookie,
    protocols: Vec<Vec<u8>>,
    opening: Opening,
    sessions: Arc<Sessions>,
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
}

impl Identity {
    /// The identity of a round. All connections of a round share it.
    ///
    /// # Errors
    /// The library refuses the certificate.
    pub(crate) fn of(setup: &Setup, protocols: &[&[u8]]) -> std::io::Result<Self> {
        let (cookie, opening) = (&setup.cookie, setup.opening.unwrap_or(Opening::Cold));
        static LAST: Mutex<Option<Identity>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(identity) if identity.is_of(cookie, protocols, opening) => Ok(identity.clone()),
            _ => {
                let protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
                let identity = Self::derive(cookie, protocols, opening).map_err(std::io::Error::other)?;
                *last = Some(identity.clone());
                Ok(identity)
            }
        }
    }

    /// TLS of one end of a connection, before its handshake.
    ///
    /// # Errors
    /// The library refuses the configuration.
    pub(crate) fn begin(&self, end: End) -> io::Result<Connection> {
        let tls = match end {
            End::Client => ClientConnection::new(Arc::clone(&self.client), server_name()).map(Connection::from),
            End::Server => ServerConnection::new(Arc::clone(&self.server)).map(Connection::from),
        };
        tls.map_err(io::Error::other)
    }

    /// Checks a connection after its handshake, and counts that of a server.
    ///
    /// # Errors
    /// The other end knows no ALPN, or the session was to be resumed, and was not.
    pub(crate) fn on_shaken(&self, end: End, tls: &Connection) -> io::Result<()> {
        if tls.alpn_protocol() != self.protocols.first().map(Vec::as_slice) {
            return Err(io::Error::other(rustls::Error::NoApplicationProtocol));
        }
        if end == End::Server { self.on_accepted() } else { Ok(()) }
    }

    /// Counts a connection of the server.
    ///
    /// # Errors
    /// Its session was to be resumed, and was not.
    pub(crate) fn on_accepted(&self) -> io::Result<()> {
        let cold = (self.sessions.opened.fetch_add(1, Ordering::Relaxed) + 1)
            .saturating_sub(self.sessions.resumed.load(Ordering::Relaxed));
        let is_met = self.opening == Opening::Cold || cold <= MAX_COLD;
        is_met.then_some(()).ok_or_else(|| io::Error::other("a session was not resumed"))
    }

    /// Counts a connection of a client that was to send its first message with the first packets.
    ///
    /// # Errors
    /// It could not, although the server had sent tickets.
    pub(crate) fn on_early(&self, could: bool) -> io::Result<()> {
        let cold = self.sessions.opened.fetch_add((!could).into(), Ordering::Relaxed) + u64::from(!could);
        (could || cold <= MAX_COLD).then_some(()).ok_or_else(|| io::Error::other("0-RTT was not possible"))
    }

    fn is_of(&self, cookie: &Cookie, protocols: &[&[u8]], opening: Opening) -> bool {
        self.cookie == *cookie && self.protocols == protocols && self.opening == opening
    }

    fn derive(
        cookie: &Cookie,
        protocols: Vec<Vec<u8>>,
        opening: Opening,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let key = private_key(cookie);
        let mut parameters = CertificateParams::new([SERVER_NAME.to_owned()])?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, "hairpin");
        let certificate = parameters.self_signed(&KeyPair::try_from(&key)?)?.der().clone();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut client = client_config(&provider, certificate.clone(), &protocols)?;
        let chain = vec![certificate];
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::Pkcs8(key))?;
        server.alpn_protocols.clone_from(&protocols);
        // Only for resumption: tickets arrive among the first messages.
        server.send_tls13_tickets = usize::from(opening != Opening::Cold);
        let sessions = Arc::new(Sessions::new());
        server.session_storage = Arc::clone(&sessions) as Arc<dyn StoresServerSessions>;
        if opening == Opening::Cold {
            client.resumption = Resumption::disabled();
        }
        if opening == Opening::ZeroRtt {
            client.enable_early_data = true;
            // The only value that QUIC allows besides 0 (RFC 9001, section 4.6.1).
            server.max_early_data_size = u32::MAX;
        }
        Ok(Self { cookie: *cookie, protocols, opening, sessions, client: Arc::new(client), server: Arc::new(server) })
    }
}

fn client_config(
    provider: &Arc<CryptoProvider>,
    certificate: CertificateDer<'static>,
    protocols: &[Vec<u8>],
) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let mut client = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = protocols.to_vec();
    // If the environment variable SSLKEYLOGFILE names a file, other programs can decrypt a capture.
    client.key_log = Arc::new(rustls::KeyLogFile::new());
    Ok(client)
}

/// An Ed25519 key (RFC 8410, section 7) whose seed is a digest of the cookie.
fn private_key(cookie: &Cookie) -> PrivatePkcs8KeyDer<'static> {
    const PREFIX: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let seed = digest(&SHA256, &[b"hairpin certificate".as_slice(), &cookie.0].concat());
    PrivatePkcs8KeyDer::from([&PREFIX[..], seed.as_ref()].concat())
}

/// The sessions that clients of a server can resume.
#[derive(Debug)]
struct Sessions {
    stored: Arc<ServerSessionMemoryCache>,
    opened: AtomicU64,
    resumed: AtomicU64,
}

/// Maximum number of sessions that a server stores.
const MAX_SESSIONS: usize = 256;
/// Connections of a round that open before the client has read a ticket.
const MAX_COLD: u64 = 2;

impl Sessions {
    fn new() -> Self {
        let stored = ServerSessionMemoryCache::new(MAX_SESSIONS);
        Self { stored, opened: AtomicU64::new(0), resumed: AtomicU64::new(0) }
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.stored.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.stored.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let session = self.stored.take(key);
        self.resumed.fetch_add(session.is_some().into(), Ordering::Relaxed);
        session
    }

    fn can_cache(&self) -> bool {
        self.stored.can_cache()
    }
}

fn server_name() -> ServerName<'static> {
    ServerName::try_from(SERVER_NAME).expect("a valid DNS name")
}
