//! Servers that are not Hairpin's: their URLs, their certificates, and why they refuse.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hairpin_model::{Card, CodeOf, Fact, Failure, FailureKind, Hinted, Refused, RefusedCode, fact_names, names};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// Maximum length of a URL.
const MAX_URL_BYTES: usize = 2048;
/// Longest part of a text from a server that is shown.
const MAX_TEXT_CHARS: usize = 200;
/// Maximum size of a file of certificates.
const MAX_ROOTS_BYTES: u64 = 4 << 20;
/// Longest answer that is read.
pub(crate) const MAX_ANSWER_BYTES: u64 = 16 << 20;

/// How a transport measures a server that is not Hairpin's.
#[derive(Clone, Debug)]
pub struct ForeignUse {
    /// URLs that the transport can open.
    pub schemes: &'static [Scheme],
    /// The transport's card for such a server.
    pub card: Card,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    pub name: &'static str,
    /// Default port; `None` if the URL must name one.
    pub port: Option<u16>,
    /// Whether the connection uses TLS. QUIC always has it.
    pub is_encrypted: bool,
    /// The protocol of packets to the server, for a first look.
    pub is_tcp: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub scheme: Scheme,
    /// Name or address, without brackets.
    pub host: String,
    pub port: u16,
    /// Path and query, with the first slash.
    pub path: String,
}

/// Whether the text is a URL, other than that of a host over ssh.
pub fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, _)| scheme != "ssh")
}

impl Url {
    /// Parses a URL of one of the schemes.
    ///
    /// # Errors
    /// [`Refused`] for an unknown scheme, a missing host or port, and for what no request can carry.
    pub fn parse(text: &str, schemes: &[Scheme]) -> Result<Self, Refused> {
        let refused = |why: &str, hint: &str| {
            let shown: String = text.chars().take(MAX_TEXT_CHARS).collect();
            Err(Refused::new(format!("`{shown}` is not a URL of a server: {why}"), hint))
        };
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !br#""<>\^`{|}#"#.contains(&byte);
        if text.len() > MAX_URL_BYTES || !text.bytes().all(is_plain) {
            return refused("it is too long, or has characters that a URL cannot have", "encode them as %XX");
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let Some(scheme) = schemes.iter().find(|known| known.name.eq_ignore_ascii_case(scheme)) else {
            let known = names::distinct(schemes.iter().map(|scheme| scheme.name));
            return refused("its scheme is not known", &format!("this build has {}", known.join(", ")));
        };
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) if rest[at..].starts_with('?') => (&rest[..at], format!("/{}", &rest[at..])),
            Some(at) => (&rest[..at], rest[at..].to_owned()),
            None => (rest, "/".to_owned()),
        };
        if authority.contains('@') {
            return refused("it has a user name or a password", "omit them");
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map_or(scheme.port, |port| port.parse().ok().filter(|port| *port > 0));
        match port {
            Some(port) if !host.is_empty() => Ok(Self { scheme: *scheme, host: host.to_owned(), port, path }),
            _ => {
                refused("it needs a host and a valid port", &format!("for instance {}://localhost:8080", scheme.name))
            }
        }
    }

    /// Looks the host's name up, and returns its addresses.
    ///
    /// # Errors
    /// [`Refused`] if the name has no address.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Refused> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found: io::Result<Vec<SocketAddr>> = found.map(Iterator::collect);
        match found {
            Ok(addresses) if !addresses.is_empty() => Ok(addresses),
            Ok(_) => Err(Refused::new(format!("{} has no address", self.host), "check the name")),
            Err(error) => Err(Refused::new(format!("cannot look up {}: {error}", self.host), "check the name")),
        }
    }

    /// Host and port as a request names them: without the default port.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.scheme.port == Some(self.port) { host } else { format!("{host}:{}", self.port) }
    }

    /// The value of a parameter of the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let query = self.path.split_once('?')?.1;
        query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name).map(|(_, value)| value))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}{}", self.scheme.name, self.authority(), self.path)
    }
}

/// A server that is not Hairpin's, for the connections of a round.
#[derive(Debug)]
pub struct ForeignServer {
    pub url: Url,
    /// The configuration of TLS with the roots; `None` if the connection is not encrypted.
    pub(crate) tls: Option<ClientConfig>,
    answers: AtomicU64,
    answer_bytes: AtomicU64,
}

impl ForeignServer {
    /// Reads the roots that the server's certificate is verified with: those of the file, else the system's.
    ///
    /// # Errors
    /// [`Refused`] if there are no roots.
    pub fn new(url: Url, roots: Option<&Path>) -> Result<Self, Refused> {
        let tls = url.scheme.is_encrypted.then(|| client_config(roots)).transpose()?;
        Ok(Self { url, tls, answers: AtomicU64::new(0), answer_bytes: AtomicU64::new(0) })
    }

    /// TLS of a connection, with the protocols that the client offers (ALPN).
    pub(crate) fn tls(&self, protocols: &[&[u8]]) -> Option<Arc<ClientConfig>> {
        let mut config = self.tls.clone()?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Some(Arc::new(config))
    }

    pub(crate) fn name(&self) -> Result<ServerName<'static>, Refusal> {
        ServerName::try_from(self.url.host.clone()).map_err(|_| {
            let cause = format!("`{}` cannot be the name in a certificate", self.url.host);
            Refusal::new(FailureKind::Unsupported, cause, "use the name of the host")
        })
    }

    pub(crate) fn count_answer(&self, bytes: u64) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.answer_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Number and bytes of the answers so far.
    pub fn facts(&self) -> [Fact; 2] {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed) as f64;
        [
            Fact::number(fact_names::FOREIGN_ANSWERS, count(&self.answers)),
            Fact::number(fact_names::FOREIGN_ANSWER_BYTES, count(&self.answer_bytes)),
        ]
    }
}

pub fn check_roots(file: &Path) -> Result<(), Refused> {
    roots_of(file).map(drop)
}

fn client_config(file: Option<&Path>) -> Result<ClientConfig, Refused> {
    let roots = match file {
        Some(file) => roots_of(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut store = RootCertStore::empty();
    if store.add_parsable_certificates(roots).0 == 0 {
        let hint = "install the package ca-certificates, set SSL_CERT_FILE, or use --ca FILE";
        return Err(Refused::new("no certificate of an authority that signs certificates was found", hint));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Refused::new(format!("cannot set up TLS: {error}"), ""))?;
    let mut config = builder.with_root_certificates(store).with_no_client_auth();
    // Each connection of a round is a new one.
    config.resumption = rustls::client::Resumption::disabled();
    config.key_log = Arc::new(rustls::KeyLogFile::new());
    Ok(config)
}

fn roots_of(file: &Path) -> Result<Vec<CertificateDer<'static>>, Refused> {
    let refused =
        |why: String| Refused::new(format!("--ca: cannot use {}: {why}", file.display()), "give a PEM file");
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).and_then(|file| {
        use std::io::Read as _;
        file.take(MAX_ROOTS_BYTES).read_to_end(&mut text)
    });
    opened.map_err(|error| refused(error.to_string()))?;
    let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match roots {
        Ok(roots) if !roots.is_empty() => Ok(roots),
        Ok(_) => Err(refused("it has no certificate".to_owned())),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Why a foreign server gave no answer. An [`io::Error`] carries it through the layers of a wire.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct Refusal {
    kind: FailureKind,
    code: Option<RefusedCode>,
    cause: String,
    hint: String,
}

impl Refusal {
    pub(crate) fn new(kind: FailureKind, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, code: None, cause: cause.into(), hint: hint.into() }
    }

    /// The server refused with the protocol's code.
    pub(crate) fn with_code(of: CodeOf, code: u64, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { code: Some(RefusedCode { of, code }), ..Self::new(FailureKind::Refused, cause, hint) }
    }

    /// The server broke the protocol.
    pub(crate) fn unexpected(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(FailureKind::Unexpected, cause, hint)
    }

    /// The server closed the connection.
    pub(crate) fn closed() -> Self {
        let hint = "is it a port for this protocol? if it limits the requests of a connection, use a smaller --count";
        Self::new(FailureKind::Closed, "the server closed the connection", hint)
    }

    pub(crate) fn too_long() -> Self {
        let cause = format!("the answer has more than {} MiB", MAX_ANSWER_BYTES >> 20);
        Self::unexpected(cause, "choose a shorter answer")
    }

    /// The failure of a round; `what` was attempted.
    #[must_use]
    pub fn failure(&self, what: &str) -> Failure {
        let failure = Failure::new(self.kind, format!("{what}: {}", self.cause), self.hint.clone());
        Failure { refused: self.code, ..failure }
    }

    /// Whether the server just closed the connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.kind == FailureKind::Closed
    }

    /// The refusal that an error carries.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl Hinted for Refusal {
    fn cause(&self) -> String {
        self.cause.clone()
    }

    fn hint(&self) -> String {
        self.hint.clone()
    }
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::other(refusal)
    }
}

pub(crate) fn shown(text: &str) -> String {
    let start: String = text.chars().take(MAX_TEXT_CHARS).collect();
    hairpin_model::printable::line(&start).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SCHEMES: &[Scheme] = &[
        Scheme { name: "http", port: Some(80), is_encrypted: false, is_tcp: true },
        Scheme { name: "sure", port: None, is_encrypted: true, is_tcp: true },
    ];

    fn parsed(text: &str) -> Result<(String, u16, String), String> {
        let url = Url::parse(text, SCHEMES).map_err(|refused| refused.what)?;
        Ok((url.host, url.port, url.path))
    }

    #[test]
    fn a_url_has_a_host_a_port_and_a_path() {
        let of = |host: &str, port, path: &str| Ok((host.to_owned(), port, path.to_owned()));
        assert_eq!(parsed("http://a.example"), of("a.example", 80, "/"));
        assert_eq!(parsed("HTTP://127.0.0.1:8080/x?y=z"), of("127.0.0.1", 8080, "/x?y=z"));
        assert_eq!(parsed("http://[::1]:8080/x"), of("::1", 8080, "/x"));
        assert_eq!(parsed("http://a?alpn=b"), of("a", 80, "/?alpn=b"));
        for (text, why) in [
            ("gopher://a", "scheme is not known"),
            ("a.example", "scheme is not known"),
            ("http://", "needs a host"),
            ("http://a:0/", "needs a host and a valid port"),
            ("http://a:65536/", "needs a host and a valid port"),
            ("sure://a/", "needs a host and a valid port"),
            ("http://me:secret@a/", "a user name or a password"),
            ("http://a/ b", "characters that a URL cannot have"),
            ("http://a/\r\nX: y", "characters that a URL cannot have"),
        ] {
            assert!(parsed(text).unwrap_err().contains(why), "{text}: {:?}", parsed(text));
        }
        assert!(parsed(&format!("http://a/{}", "x".repeat(3000))).is_err());
    }

    #[test]
    fn a_request_names_host_and_port_and_the_query_has_parameters() {
        let url = |text| Url::parse(text, SCHEMES).unwrap();
        assert_eq!(url("http://[::1]/").authority(), "[::1]");
        assert_eq!(url("sure://a:7/?x=1&alpn=hq").authority(), "a:7");
        assert_eq!(url("sure://a:7/?x=1&alpn=hq").parameter("alpn"), Some("hq"));
        assert_eq!(url("sure://a:7/").parameter("alpn"), None);
    }

    proptest! {
        #[test]
        fn a_printed_url_is_parsed_as_the_same(text in "(http|sure)://[a-z.]{1,9}:[1-9][0-9]{0,3}(/[a-z/?=&]{0,9})?") {
            let url = Url::parse(&text, SCHEMES).unwrap();
            prop_assert_eq!(Url::parse(&url.to_string(), SCHEMES).unwrap(), url);
        }

        #[test]
        fn no_text_panics(text in ".*") {
            drop(Url::parse(&text, SCHEMES));
            drop(Url::parse(&format!("http://{text}"), SCHEMES));
        }
    }
}
