//! Connections to servers that are not Hairpin's.

#[cfg(feature = "grpc")]
pub(crate) mod grpc;
#[cfg(feature = "http")]
pub(crate) mod http;
#[cfg(feature = "quic")]
pub(crate) mod quic;
pub(crate) mod tls;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;
