//! The server's self-signed certificate. A ticket contains its fingerprint.

use std::sync::Arc;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use ring::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, ring as by_ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ServerConfig};
use rustls::version::TLS13;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use serde::{Deserialize, Serialize};

const SERVER_NAME: &str = "hairpin";
/// ALPN protocol (RFC 7301). It has no version, so that ends of different versions can report a version error.
const ALPN_PROTOCOL: &[u8] = b"hairpin";

/// A certificate and its private key, both in DER.
#[derive(Clone, Serialize, Deserialize)]
pub struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Identity {
    /// Generates a certificate and its key.
    pub fn make() -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new([SERVER_NAME.to_owned()])?;
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, SERVER_NAME);
        let certificate = parameters.self_signed(&key)?;
        Ok(Self { certificate: certificate.der().to_vec(), key: key.serialize_der() })
    }

    /// SHA-256 of the certificate.
    pub fn fingerprint(&self) -> [u8; 32] {
        fingerprint(&self.certificate)
    }

    /// TLS configuration of the server: version 1.3, no resumption, no early data.
    ///
    /// # Errors
    /// The key is invalid, or does not belong to the certificate.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, Error> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()));
        let chain = vec![CertificateDer::from(self.certificate.clone())];
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.alpn_protocols = vec![ALPN_PROTOCOL.to_vec()];
        Ok(Arc::new(config))
    }
}

/// TLS configuration of a client that accepts only the certificate with this fingerprint.
///
/// # Errors
/// The TLS library does not support TLS 1.3.
pub fn client_config(fingerprint: [u8; 32]) -> Result<Arc<ClientConfig>, Error> {
    let provider = provider();
    let pinned = PinnedVerifier { fingerprint, provider: Arc::clone(&provider) };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.alpn_protocols = vec![ALPN_PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

/// Server name that rustls requires for a client connection. It is neither sent nor verified.
pub fn name() -> ServerName<'static> {
    ServerName::try_from(SERVER_NAME).expect("a valid DNS name")
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(by_ring::default_provider())
}

fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    digest(&SHA256, certificate).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Accepts only the certificate whose fingerprint is in the ticket.
#[derive(Debug)]
struct PinnedVerifier {
    fingerprint: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if fingerprint(end_entity) == self.fingerprint {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not supported".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
