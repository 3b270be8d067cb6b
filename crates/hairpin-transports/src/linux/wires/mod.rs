//! Shared parts of transports over descriptors.

pub(crate) mod descriptor;
pub(crate) mod hello;
mod offload;
mod parts;
pub(crate) mod pipe;
pub(crate) mod port;
pub(crate) mod socket;
mod socket_kind;
mod socket_port;
pub(crate) mod socket_transport;
mod stamping;
