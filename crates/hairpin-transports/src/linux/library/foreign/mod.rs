//! Connections to servers that are not Hairpin's.

#[cfg(feature = "http")]
pub(crate) mod http;
pub(crate) mod tls;
