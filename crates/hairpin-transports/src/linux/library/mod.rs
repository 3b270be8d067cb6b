//! What transports over other people's libraries share.

#[cfg(feature = "grpc")]
pub(crate) mod grpc;
#[cfg(feature = "http")]
pub(crate) mod http;
pub(crate) mod identity;
#[cfg(any(feature = "http", feature = "quic"))]
pub(crate) mod mailbox;
#[cfg(any(feature = "http", feature = "quic"))]
pub(crate) mod port;
#[cfg(feature = "quic")]
pub(crate) mod quic;
#[cfg(any(feature = "http", feature = "quic"))]
pub(crate) mod runtime;
