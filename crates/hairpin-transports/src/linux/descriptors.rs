//! Descriptors of wires, sockets passed to listeners, and the process's limit on open descriptors.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::wire::TransportError;
use crate::wires::ip_header::IpHeader;

/// Raises the soft limit on open descriptors to `count` if it is lower (`RLIMIT_NOFILE`, setrlimit(2)).
///
/// # Errors
/// [`TransportError::System`] with both limits if the hard limit is lower.
pub fn allow(count: u64) -> Result<(), TransportError> {
    match raised_limits(getrlimit(Resource::Nofile), count)? {
        Some(raised) => setrlimit(Resource::Nofile, raised).map_err(|error| allow_error(count, error.into(), "")),
        None => Ok(()),
    }
}

/// Returns the limits that allow `count` descriptors; `None` if the current limits suffice.
fn raised_limits(limits: Rlimit, count: u64) -> Result<Option<Rlimit>, TransportError> {
    // A missing limit is infinite.
    let Some(soft) = limits.current.filter(|soft| count > *soft) else { return Ok(None) };
    if let Some(hard) = limits.maximum.filter(|hard| count > *hard) {
        let source = io::Error::other(format!("the soft limit is {soft}, the hard limit {hard}"));
        return Err(allow_error(count, source, "`ulimit -Hn` shows the hard limit, which root can raise"));
    }
    Ok(Some(Rlimit { current: Some(count), ..limits }))
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

    fn limits(soft: u64, hard: u64) -> Rlimit {
        Rlimit { current: Some(soft), maximum: Some(hard) }
    }

    #[test]
    fn the_soft_limit_rises_as_far_as_needed_and_never_falls() {
        let before = limits(1024, 4096);
        assert_eq!(raised_limits(before, 1024).unwrap(), None);
        assert_eq!(raised_limits(before, 1025).unwrap(), Some(limits(1025, 4096)));
        assert_eq!(raised_limits(before, 4096).unwrap(), Some(limits(4096, 4096)));
        assert_eq!(
            raised_limits(before, 4097).unwrap_err().to_string(),
            "cannot allow 4097 open descriptors: the soft limit is 1024, the hard limit 4096 (hint: `ulimit -Hn` shows the \
             hard limit, which root can raise)"
        );
    }

    #[test]
    fn the_kernel_limit_is_raised() {
        let before = getrlimit(Resource::Nofile);
        let hard = before.maximum.unwrap_or(u64::MAX);
        // Enough for the tests that run at the same time.
        let lower = Rlimit { current: Some(hard.min(900)), ..before };
        setrlimit(Resource::Nofile, lower).unwrap();
        allow(hard.min(900) - 1).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), lower, "already enough");
        let wanted = hard.min(1000);
        allow(wanted).unwrap();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: Some(wanted), ..before });
        assert!(before.maximum.is_none() || allow(hard + 1).is_err());
        setrlimit(Resource::Nofile, before).unwrap();
    }
}
