//! The certificate of a measured connection over TLS or QUIC.
//!
//! Both ends derive the same key from the cookie, which only they know. So the client knows the certificate in advance, and
//! verifies the server as a program with a root certificate does.

use std::sync::{Arc, Mutex, PoisonError};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use ring::digest::{SHA256, digest};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::wire::Cookie;

/// The server's name in the certificate. It is never looked up.
pub(crate) const SERVER_NAME: &str = "hairpin.invalid";

/// The configurations of both ends of a round.
#[derive(Clone)]
pub(crate) struct Identity {
    cookie: Cookie,
    protocols: Vec<Vec<u8>>,
    pub(crate) client: Arc<ClientConfig>,
    pub(crate) server: Arc<ServerConfig>,
}

impl Identity {
    /// The identity of a round. All connections of a round share it.
    ///
    /// # Errors
    /// The library refuses the certificate.
    pub(crate) fn of(cookie: &Cookie, protocols: &[&[u8]]) -> std::io::Result<Self> {
        static LAST: Mutex<Option<Identity>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(identity) if identity.cookie == *cookie && identity.protocols == protocols => Ok(identity.clone()),
            _ => {
                let protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
                let identity = Self::derive(cookie, protocols).map_err(std::io::Error::other)?;
                *last = Some(identity.clone());
                Ok(identity)
            }
        }
    }

    fn derive(cookie: &Cookie, protocols: Vec<Vec<u8>>) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let key = private_key(cookie);
        let mut parameters = CertificateParams::new([SERVER_NAME.to_owned()])?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, "hairpin");
        let certificate = parameters.self_signed(&KeyPair::try_from(&key)?)?.der().clone();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = client_config(&provider, certificate.clone(), &protocols)?;
        let chain = vec![certificate];
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::Pkcs8(key))?;
        server.alpn_protocols.clone_from(&protocols);
        // No session is resumed, and tickets would arrive among the first messages.
        server.send_tls13_tickets = 0;
        Ok(Self { cookie: *cookie, protocols, client: Arc::new(client), server: Arc::new(server) })
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
    client.resumption = rustls::client::Resumption::disabled();
    Ok(client)
}

/// An Ed25519 key (RFC 8410, section 7) whose seed is a digest of the cookie.
fn private_key(cookie: &Cookie) -> PrivatePkcs8KeyDer<'static> {
    const PREFIX: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
    let seed = digest(&SHA256, &[b"hairpin certificate".as_slice(), &cookie.0].concat());
    PrivatePkcs8KeyDer::from([&PREFIX[..], seed.as_ref()].concat())
}

pub(crate) fn server_name() -> ServerName<'static> {
    ServerName::try_from(SERVER_NAME).expect("a valid DNS name")
}
