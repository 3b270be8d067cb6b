//! Descriptors in the interfaces: of a wire, and of a socket that is handed to a listener.

use std::os::fd::{BorrowedFd, OwnedFd};

/// A socket that another part of the program opened, for [`crate::Transport::listen_on`], which owns it from then on.
#[derive(Debug)]
pub enum Handed {
    /// Bound to an address; of a stream it may listen already, and share its port with other descriptors of it.
    Bound(OwnedFd),
    /// Accepted from a listening socket; nothing was read from it, so that its hello is still to come.
    Accepted(OwnedFd),
}

/// The descriptors of a wire; a socket's are one.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors<'w> {
    /// What becomes readable.
    pub readable: BorrowedFd<'w>,
    /// What becomes writable.
    pub writable: BorrowedFd<'w>,
}
