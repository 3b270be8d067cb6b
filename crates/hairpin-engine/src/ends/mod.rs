//! The two ends of a round, and how they talk beside the wire.
//!
//! An order says what a round is; each end's own [`Host`] decides how: which CPU, which clock, which network namespace. So the
//! server is the same wherever it runs, and whatever carries its [`crate::control`].

pub mod client;
mod credit;
mod one_way;
pub mod opening;
pub mod server;
mod stalled;
pub mod start;

use std::net::SocketAddr;
use std::path::PathBuf;

use hairpin_model::case::{Case, EndSettings, Placement, Waiting};
use hairpin_model::round::{Failure, RoundOrder};
use hairpin_model::trace::End;
use serde::{Deserialize, Serialize};

use crate::links::namespace;
use crate::placement::{Cpus, place};
use hairpin_loops::clock::RealClock;

/// What a server is told: nothing in it makes sense on the client's machine only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndOrder {
    /// The round.
    pub round: RoundOrder,
    /// What the client will say when it comes: see [`hairpin_transports::Cookie`].
    pub cookie: [u8; 16],
    /// The server tells during a load of round trips too what was moved, as somebody between both ends limits that. A one-way load
    /// tells it always.
    #[serde(default)]
    pub tells_moved: bool,
}

/// The machine that an end runs on, as far as its order leaves that open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Its one clock.
    pub clock: RealClock,
    /// Its CPUs.
    pub cpus: Cpus,
    /// The network namespace of the end, where it is at an end of a link.
    pub namespace: Option<PathBuf>,
    /// Where the server is reached, where the two ends are on two hosts.
    #[serde(default)]
    pub across: Option<SocketAddr>,
}

impl Host {
    /// Enters the network namespace, and pins the calling thread as the placement says for that end; answers the CPU.
    ///
    /// # Errors
    /// The kernel refuses either.
    pub(crate) fn settle(&self, ends: &EndSettings, end: End) -> Result<Option<usize>, Failure> {
        let pinned = self.cpus.cpu_for_end(ends, end == End::Client);
        place(pinned, &self.cpus.allowed).map_err(|error| opening::unplaced(pinned, &error))?;
        self.namespace.as_deref().map(namespace::enter).transpose()?;
        Ok(pinned)
    }
}

/// So many pings are answered before the first message where [`is_woken`].
pub(crate) const PINGS: usize = 24;
/// Of which the first bring both ends back into their caches.
pub(crate) const UNCOUNTED_PINGS: usize = 4;

/// Whether a message has to wake another CPU, so that how long that takes now is a state of the machine.
pub(crate) fn is_woken(case: &Case) -> bool {
    case.path.across.is_none() && case.ends.placement != Placement::SameCpu && case.ends.waiting != Waiting::Spin
}
