//! What transports over other people's libraries share.

pub(crate) mod coding;
pub mod echo;
pub(crate) mod foreign;
pub(crate) mod frames;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
#[cfg(feature = "http")]
pub(crate) mod http;
pub(crate) mod identity;
pub(crate) mod mailbox;
pub(crate) mod port;
#[cfg(feature = "quic")]
pub(crate) mod quic;
#[cfg(feature = "quic")]
pub(crate) mod quic_io;
pub(crate) mod runtime;
#[cfg(feature = "http")]
pub(crate) mod socket_io;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;
