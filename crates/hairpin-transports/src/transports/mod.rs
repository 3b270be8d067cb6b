//! Every transport, a file each. A test fails when a file in this folder is not in [`ALL`].

use crate::wire::Transport;

/// Every transport, in the order of the ladder: the shortest path first.
pub const ALL: &[&dyn Transport] = &[];

/// The transport of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static dyn Transport> {
    ALL.iter().copied().find(|transport| transport.card().name == name)
}
