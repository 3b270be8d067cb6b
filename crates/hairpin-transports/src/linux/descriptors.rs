//! Descriptors in the interfaces: those of a wire, sockets handed to a listener, and the limit of a process.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::system::process::{Limits, descriptor_limits, set_descriptor_limits};
use crate::wire::TransportError;
use crate::wires::ip_header::IpHeader;

/// Allows this process to have `count` open descriptors: raises its soft limit (`RLIMIT_NOFILE`, setrlimit(2)) if it is
/// lower.
///
/// # Errors
/// [`TransportError::System`] if the hard limit is lower; it names both limits.
pub fn allow(count: u64) -> Result<(), TransportError> {
    let failed = |source| allowing(count, source, "");
    let limits = descriptor_limits().map_err(failed)?;
    match raised(limits, count)? {
        Some(raised) => set_descriptor_limits(raised).map_err(failed),
        None => Ok(()),
    }
}

/// The limits that allow `count` descriptors; `None` if the current ones do.
fn raised(limits: Limits, count: u64) -> Result<Option<Limits>, TransportError> {
    if count <= limits.soft {
        return Ok(None);
    }
    if count > limits.hard {
        let source = io::Error::other(format!("the soft limit is {}, the hard limit {}", limits.soft, limits.hard));
        return Err(allowing(count, source, "`ulimit -Hn` shows the hard limit, which root can raise"));
    }
    Ok(Some(Limits { soft: count, ..limits }))
}

fn allowing(count: u64, source: io::Error, hint: &str) -> TransportError {
    let object = format!("{count} open descriptors");
    TransportError::System { operation: "allow", object, source, hint: hint.to_owned() }
}

/// A socket that another part of the program opened, for [`crate::Transport::listen_on`], which takes ownership.
#[derive(Debug)]
pub enum PassedSocket {
    /// Bound to an address. A stream socket may already listen, and share its port with other descriptors of it.
    Bound(OwnedFd),
    /// Accepted from a listening socket; nothing was read from it, not even the hello.
    Accepted(OwnedFd),
    /// A datagram socket connected to a client that has confirmed its hello, in a packet with that header, but is not
    /// welcomed yet.
    Confirmed(OwnedFd, Option<IpHeader>),
}

/// The descriptors of a wire; the same one twice for a socket.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors<'w> {
    /// The descriptor to poll for reading.
    pub readable: BorrowedFd<'w>,
    /// The descriptor to poll for writing.
    pub writable: BorrowedFd<'w>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_rises_as_far_as_needed_and_never_falls() {
        let limits = Limits { soft: 1024, hard: 4096 };
        assert_eq!(raised(limits, 1024).unwrap(), None);
        assert_eq!(raised(limits, 1025).unwrap(), Some(Limits { soft: 1025, hard: 4096 }));
        assert_eq!(raised(limits, 4096).unwrap(), Some(Limits { soft: 4096, hard: 4096 }));
        assert_eq!(
            raised(limits, 4097).unwrap_err().to_string(),
            "cannot allow 4097 open descriptors: the soft limit is 1024, the hard limit 4096 (hint: `ulimit -Hn` shows the \
             hard limit, which root can raise)"
        );
    }

    #[test]
    fn the_kernel_gets_the_allowed_limit() {
        let before = descriptor_limits().unwrap();
        // Far more than the concurrent tests use.
        let lower = Limits { soft: before.hard.min(900), ..before };
        set_descriptor_limits(lower).unwrap();
        allow(lower.soft - 1).unwrap();
        assert_eq!(descriptor_limits().unwrap(), lower, "already enough");
        let wanted = before.hard.min(1000);
        allow(wanted).unwrap();
        assert_eq!(descriptor_limits().unwrap(), Limits { soft: wanted, ..before });
        assert!(before.hard == u64::MAX || allow(before.hard + 1).is_err());
        set_descriptor_limits(before).unwrap();
    }
}
