//! The two ends of a round, and the messages that they exchange outside the wire.
//!
//! An order describes the round; each end's [`Host`] supplies its CPUs, clock and network namespace. The server's
//! code is therefore the same on every host and over every carrier of [`crate::control`].

pub mod client;
pub mod codes;
mod credit;
mod devices;
pub mod digest;
mod driving;
mod one_way;
pub mod opening;
pub mod server;
mod stalled;
pub mod start;

use std::net::SocketAddr;
use std::path::PathBuf;

use hairpin_model::trace::End;
use hairpin_model::{Case, EndSettings, Failure, FailureKind, Placement, RoundOrder, Waiting};
use serde::{Deserialize, Serialize};

use self::codes::DatagramKey;
use crate::links::namespace;
use crate::placement::{Cpus, place};
use hairpin_loops::clock::RealClock;

/// The order to a server. It contains nothing specific to the client's machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndOrder {
    pub round: RoundOrder,
    /// Identifies the client's connection: see [`hairpin_transports::Cookie`].
    pub cookie: [u8; 16],
    /// Whether the server also reports progress during round-trip loads, so that `hairpin serve` can enforce its
    /// limits. The server always reports progress during one-way loads.
    #[serde(default)]
    pub reports_progress: bool,
    /// Key of the messages' codes, for a datagram flow between hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagram_key: Option<DatagramKey>,
}

/// The machine on which an end runs. It supplies what the order leaves open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    pub clock: RealClock,
    pub cpus: Cpus,
    /// The network namespace of this end, if a link connects the ends.
    pub namespace: Option<PathBuf>,
    /// The server's address, if the ends are on two hosts.
    pub across: Option<SocketAddr>,
}

impl Host {
    /// Enters the network namespace and pins the calling thread to the CPU of this end. Returns that CPU.
    pub(crate) fn enter_and_pin(&self, ends: &EndSettings, end: End) -> Result<Option<usize>, Failure> {
        self.cpus.pair(ends.placement).map_err(|why| Failure::new(FailureKind::Unsupported, why.reason, why.hint))?;
        let pinned = self.cpus.cpus_of(ends).map(|[client, server]| if end == End::Client { client } else { server });
        place(pinned, &self.cpus.allowed).map_err(|error| opening::unplaced(pinned, &error))?;
        self.namespace.as_deref().map(namespace::enter).transpose()?;
        Ok(pinned)
    }
}

/// Number of pings before the first message if [`is_woken`].
pub(crate) const PINGS: usize = 24;
/// Number of initial pings that are not timed: they refill the caches of both ends.
pub(crate) const UNCOUNTED_PINGS: usize = 4;

/// Whether each message has to wake another CPU. If so, the client measures the cost of waking before the load.
pub(crate) fn is_woken(case: &Case) -> bool {
    case.path.across.is_none() && case.ends.placement != Placement::SameCpu && case.ends.waiting != Waiting::Spin
}
