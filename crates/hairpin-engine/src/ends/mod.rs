//! The two ends of a round, and their messages outside the wire.
//!
//! An order describes the round; each end's own [`Host`] supplies its CPUs, clock and network namespace. So the server
//! is the same code wherever it runs and whatever carries its [`crate::control`].

pub mod client;
mod credit;
mod one_way;
pub mod opening;
pub mod server;
mod stalled;
pub mod start;

use std::net::SocketAddr;
use std::path::PathBuf;

use hairpin_model::trace::End;
use hairpin_model::{Case, EndSettings, Failure, Placement, RoundOrder, Waiting};
use serde::{Deserialize, Serialize};

use crate::links::namespace;
use crate::placement::{Cpus, place};
use hairpin_loops::clock::RealClock;

/// The order to a server. It contains nothing that is meaningful only on the client's machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndOrder {
    pub round: RoundOrder,
    /// The client's identification: see [`hairpin_transports::Cookie`].
    pub cookie: [u8; 16],
    /// The server also reports progress during round-trip loads, for `hairpin serve` to enforce its limits. During
    /// one-way loads it always does.
    #[serde(default)]
    pub reports_progress: bool,
}

/// The machine that an end runs on: everything that its order leaves open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    pub clock: RealClock,
    pub cpus: Cpus,
    /// The network namespace of the end, if it is an end of a link.
    pub namespace: Option<PathBuf>,
    /// The server's address, if the ends are on two hosts.
    #[serde(default)]
    pub across: Option<SocketAddr>,
}

impl Host {
    /// Enters the network namespace and pins the calling thread as the placement demands for that end. Returns the CPU.
    pub(crate) fn settle(&self, ends: &EndSettings, end: End) -> Result<Option<usize>, Failure> {
        let pinned = self.cpus.cpu_for_end(ends, end == End::Client);
        place(pinned, &self.cpus.allowed).map_err(|error| opening::unplaced(pinned, &error))?;
        self.namespace.as_deref().map(namespace::enter).transpose()?;
        Ok(pinned)
    }
}

/// Pings before the first message if [`is_woken`].
pub(crate) const PINGS: usize = 24;
/// The first of these pings, which only refill the caches of both ends.
pub(crate) const UNCOUNTED_PINGS: usize = 4;

/// Whether a message has to wake another CPU. The time that this takes now is part of the machine's state.
pub(crate) fn is_woken(case: &Case) -> bool {
    case.path.across.is_none() && case.ends.placement != Placement::SameCpu && case.ends.waiting != Waiting::Spin
}
