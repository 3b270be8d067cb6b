//! Shared parts of transports over descriptors.

pub(crate) mod awaited;
pub(crate) mod description;
pub(crate) mod descriptor;
pub(crate) mod hello;
pub(crate) mod layer;
mod offload;
mod parts;
pub(crate) mod pipe;
pub(crate) mod port;
pub(crate) mod socket;
pub(crate) mod socket_port;
pub(crate) mod socket_transport;
mod stamping;
