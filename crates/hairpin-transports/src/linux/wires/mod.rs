//! What several transports over descriptors share.

pub(crate) mod descriptor;
pub(crate) mod hello;
mod parts;
pub(crate) mod pipe;
pub(crate) mod socket;
mod stamping;
pub(crate) mod unix;
