//! Descriptors of wires, sockets passed to listeners, and the process's limit on open descriptors.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::system::process::{Limits, descriptor_limits, set_descriptor_limits};
use crate::wire::TransportError;
use crate::wires::ip_header::IpHeader;

/// Raises the soft limit on open descriptors to `count` if it is lower (`RLIMIT_NOFILE`, setrlimit(2)).
///
/// # Errors
/// [`TransportError::System`] with both limits if the hard limit is lower.
pub fn allow(count: u64) -> Result<(), TransportError> {
    let failed = |source| allow_error(count, source, "");
    let limits = descriptor_limits().map_err(failed)?;
    match raised_limits(limits, count)? {
        Some(raised_limits) => set_descriptor_limits(raised_limits).map_err(failed),
        None => Ok(()),
    }
}

/// Returns the limits that allow `count` descriptors; `None` if the current limits suffice.
fn raised_limits(limits: Limits, count: u64) -> Result<Option<Limits>, TransportError> {
    if count <= limits.soft {
        return Ok(None);
    }
    if count > limits.hard {
        let source = io::Error::other(format!("the soft limit is {}, the hard limit {}", limits.soft, limits.hard));
        return Err(allow_error(count, source, "`ulimit -Hn` shows the hard limit, which root can raise"));
    }
    Ok(Some(Limits { soft: count, ..limits }))
}

fn allow_error(count: u64, source: io::Error, hint: &str) -> TransportError {
    let object = format!("{count} open descriptors");
    TransportError::System { operation: "allow", object, source, hint: hint.to_owned() }
}

/// An open socket for [`crate::Transport::listen_on`], which takes ownership.
#[derive(Debug)]
pub enum PassedSocket {
    /// A socket bound to an address. A stream socket may already listen, and other processes may also have it open.
    Bound(OwnedFd),
    /// A connection accepted from a listening socket. The hello has not been read yet.
    Accepted(OwnedFd),
    /// A datagram socket connected to a client, and the IP header fields of the client's confirmation. The welcome has
    /// not been sent yet.
    Confirmed(OwnedFd, Option<IpHeader>),
}

/// The descriptors of a wire. A socket has one descriptor for both directions.
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
        assert_eq!(raised_limits(limits, 1024).unwrap(), None);
        assert_eq!(raised_limits(limits, 1025).unwrap(), Some(Limits { soft: 1025, hard: 4096 }));
        assert_eq!(raised_limits(limits, 4096).unwrap(), Some(Limits { soft: 4096, hard: 4096 }));
        assert_eq!(
            raised_limits(limits, 4097).unwrap_err().to_string(),
            "cannot allow 4097 open descriptors: the soft limit is 1024, the hard limit 4096 (hint: `ulimit -Hn` shows the \
             hard limit, which root can raise)"
        );
    }

    #[test]
    fn the_kernel_limit_is_raised() {
        let before = descriptor_limits().unwrap();
        // Enough for the tests that run at the same time.
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
