//! Why a round failed.

use std::io;

use serde::{Deserialize, Serialize};

use crate::hint::Hint;
use crate::words;

/// The cause of a failed round, with a hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, crate::JsonSchema)]
#[error("{cause}{}", Hint(.hint))]
pub struct Failure {
    // The enum `Outcome` already uses `kind` as its tag.
    #[serde(rename = "failure_kind", default)]
    pub kind: FailureKind,
    /// The operation, its object and the cause, in one sentence.
    pub cause: String,
    /// What would help; empty if that is not known.
    pub hint: String,
    /// The code with which a foreign server refused; null without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedCode>,
}

impl Failure {
    pub fn new(kind: impl Into<FailureKind>, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: kind.into(), cause: cause.into(), hint: hint.into(), refused: None }
    }
}

/// The code with which a foreign server refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct RefusedCode {
    /// What the code is.
    pub of: CodeOf,
    /// The protocol's number.
    pub code: u64,
}

words! {
    /// What the code of a refusal is.
    pub enum CodeOf: "code" {
        /// Status of an HTTP response (RFC 9110, section 15).
        HttpStatus = "http status",
        /// Error of an HTTP/2 stream or connection (RFC 9113, section 7).
        Http2Error = "http/2 error",
        /// Status of a gRPC call.
        GrpcStatus = "grpc status",
        /// Code of a WebSocket close frame (RFC 6455, section 7.4).
        WebSocketClose = "websocket close",
        /// Alert of TLS (RFC 8446, section 6).
        TlsAlert = "tls alert",
        /// Error of a QUIC transport, or of the application on it (RFC 9000, section 20).
        QuicError = "quic error",
    }
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// Any other cause, or saved by a version without kinds.
    #[default]
    Other,
    /// No answer, no progress or no end before a time-out.
    TimedOut,
    /// The other end, or another flow of the round, ended first.
    Closed,
    /// The connection was reset or aborted.
    Reset,
    /// Nothing listens at the address, or the server refuses.
    Refused,
    /// No address, no route, or a link that lets nothing through.
    Unreachable,
    /// A process of the round was killed or ended early.
    Killed,
    /// Memory, storage, or a limit on files or processes is used up.
    Resource,
    /// A missing privilege.
    Permission,
    /// Not supported by this build, system or transport, or for this size.
    Unsupported,
    /// Bytes or messages that violate the protocol.
    Unexpected,
    /// The user ended the round.
    Interrupted,
}

impl From<&io::Error> for FailureKind {
    fn from(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::TimedOut,
            io::ErrorKind::UnexpectedEof => Self::Closed,
            io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
                Self::Reset
            }
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
                Self::Unreachable
            }
            io::ErrorKind::OutOfMemory | io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Resource,
            io::ErrorKind::PermissionDenied => Self::Permission,
            io::ErrorKind::Unsupported => Self::Unsupported,
            io::ErrorKind::InvalidData => Self::Unexpected,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::Outcome;

    #[test]
    fn a_failed_round_saves_its_kind_and_one_without_a_kind_is_read_as_other() {
        let error = io::Error::from(io::ErrorKind::ConnectionRefused);
        let failed = Outcome::Failed(Failure::new(&error, "no", ""));
        let json = r#"{"kind":"failed","failure_kind":"refused","cause":"no","hint":""}"#;
        assert_eq!(serde_json::to_string(&failed).unwrap(), json);
        assert_eq!(serde_json::from_str::<Outcome>(json).unwrap(), failed);
        let old = serde_json::from_str(r#"{"kind":"failed","cause":"no","hint":""}"#).unwrap();
        assert_eq!(Outcome::Failed(old), Outcome::Failed(Failure::new(FailureKind::Other, "no", "")));
    }
}
