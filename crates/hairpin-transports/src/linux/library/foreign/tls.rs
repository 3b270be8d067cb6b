//! The words for errors of TLS with a foreign server.

use hairpin_model::{CodeOf, FailureKind};
use rustls::{AlertDescription, CertificateError, Error};

use crate::foreign::Refusal;

/// The refusal that an error carries, or the error of TLS in it.
#[cfg(any(feature = "http", feature = "websocket"))]
pub(crate) fn refusal_in(error: &std::io::Error) -> Option<Refusal> {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref()).map(refusal);
    of_tls.or_else(|| Refusal::of(error).cloned())
}

/// Why TLS failed.
pub(crate) fn refusal(error: &Error) -> Refusal {
    match error {
        Error::AlertReceived(alert) => {
            let hint = match alert {
                AlertDescription::NoApplicationProtocol => {
                    "it lacks this protocol: try another --transport, or with QUIC ?alpn=NAME in the URL"
                }
                AlertDescription::ProtocolVersion => "it has neither TLS 1.2 nor TLS 1.3",
                _ => "see the server's log",
            };
            let (code, cause) = (u8::from(*alert), format!("the server ended TLS with the alert {alert:?}"));
            Refusal::with_code(CodeOf::TlsAlert, code.into(), cause, hint)
        }
        Error::InvalidCertificate(why) => {
            let (why, hint) = match why {
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    ("it has expired".to_owned(), "")
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    ("it is not valid yet".to_owned(), "is the clock of this host right?")
                }
                CertificateError::UnknownIssuer => (
                    "no known authority has signed it".to_owned(),
                    "--ca FILE names the authority, or the certificate itself",
                ),
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    ("it is for another name".to_owned(), "use the name in the certificate")
                }
                other => (other.to_string(), ""),
            };
            Refusal::new(FailureKind::Refused, format!("the server's certificate cannot be trusted: {why}"), hint)
        }
        Error::InvalidMessage(_) => {
            Refusal::unexpected("the server does not answer with TLS", "is it a port without TLS?")
        }
        Error::NoApplicationProtocol => not_chosen(),
        other => Refusal::unexpected(format!("TLS failed: {other}"), ""),
    }
}

/// The server did not choose the protocol.
pub(crate) fn not_chosen() -> Refusal {
    let cause = "the server did not choose this protocol in the handshake of TLS (ALPN)";
    Refusal::new(FailureKind::Unsupported, cause, "try another --transport")
}
