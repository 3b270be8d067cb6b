//! What a set of wires asks a wire besides its descriptors.

use std::time::Duration;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data to receive.
    Read,
    /// Room to send.
    Write,
    Both,
}

impl Interest {
    pub(crate) fn reads(self) -> bool {
        self != Self::Write
    }

    pub(crate) fn writes(self) -> bool {
        self != Self::Read
    }
}

/// The state of a wire in a set, besides that of its descriptor.
#[derive(Clone, Copy, Debug, Default)]
pub struct WireState {
    /// There are data to receive.
    pub readable: bool,
    /// There is room to send.
    pub writable: bool,
    /// Whether room in the socket is an event too.
    pub wants_write: bool,
    /// When the library must run again, even without an event.
    pub due_in: Option<Duration>,
}

/// A wire's part of a library's connection.
pub trait Readiness: Send + Sync {
    /// Runs what the library can do without waiting. `on` says for what the wire's descriptor is ready.
    fn drive(&self, on: DescriptorState, interest: Interest) -> WireState;
}

/// For what a descriptor is ready.
#[derive(Clone, Copy, Debug, Default)]
pub struct DescriptorState {
    pub readable: bool,
    pub writable: bool,
}
