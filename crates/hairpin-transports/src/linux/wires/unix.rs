//! Unix domain sockets with names in Linux's abstract space: no file stands for them, and they end with their
//! process however it ends (unix(7)).

use hairpin_model::card::{Receipt, WhyNot};
use socket2::{SockAddr, Socket};

use super::socket::Kind;
use crate::wire::{Setup, TransportError};
use crate::wires::{bad_address, failed, trial};

/// A new socket with a name that the kernel chose ("autobind"), so that it cannot be in use.
pub(crate) fn named(kind: &Kind, setup: &Setup) -> Result<Socket, TransportError> {
    let socket = kind.open(setup)?;
    SockAddr::unix("")
        .and_then(|any| socket.bind(&any))
        .map_err(|source| failed("name", &format!("a {kind} socket"), source, ""))?;
    Ok(socket)
}

/// The socket address in a text such as `@0002f`.
pub(crate) fn parse(address: &str) -> Result<SockAddr, TransportError> {
    address
        .strip_prefix('@')
        .filter(|name| !name.is_empty())
        .and_then(|name| SockAddr::unix(format!("\0{name}")).ok())
        .ok_or_else(|| bad_address(address, "@NAME"))
}

/// Whether such a socket can be named here.
pub(crate) fn can_run(kind: &Kind) -> Result<Receipt, WhyNot> {
    let why_not = |reason: String| WhyNot { reason, hint: "allow Unix domain sockets in this sandbox".to_owned() };
    let socket = named(kind, &trial()).map_err(|error| why_not(error.to_string()))?;
    let bytes = socket.send_buffer_size().map_err(|error| why_not(error.to_string()))?;
    Ok(Receipt { detail: format!("abstract name, send buffer {bytes} bytes") })
}
