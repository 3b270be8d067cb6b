//! The relay: forwards packets between two interfaces through the link and sends each packet when it is due.
//!
//! - [`carrier`] is the loop. It takes in packets, queries the link for their fates, and sends them.
//! - [`interfaces`] is the loop's view of the machine.
//! - [`frames`] parses packets for the link. Only IP goes through the link. ARP bypasses the link without delay, so
//!   that the ends find each other even without neighbour entries. All other frames are dropped and counted.
//! - [`packet_store`] holds the bytes of packets inside, in bounded memory. Packets without room count as `overrun`.
//! - [`lateness`] measures how late packets were sent, and adapts the margins for waking up in time.
//! - [`messages`] counts the messages of a round whose answers the link prevented, by cause.
//! - [`log`] writes one line per packet. A log that cannot be written is reported at the end, without other effects.
//! - [`sockets`] and [`stamps`] are the real interfaces and the kernel's timestamps.
//!
//! A due packet that the kernel refuses counts as dropped by the relay's own last stage, `release`. The relay does
//! not try again, because the packet would be late.

mod carrier;
mod frames;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod interfaces;
mod lateness;
mod log;
mod messages;
mod packet_store;
mod sockets;
mod stamps;
#[cfg(test)]
mod tests;

use std::os::fd::BorrowedFd;

use hairpin_link::link::Link;
use hairpin_link::profile::Profile;
use hairpin_link::trace::Trace;
use hairpin_model::{Failure, FailureKind, RelayReport};

use super::{LinkEnd, LinkOrder};
use crate::ends::opening::unplaced;
use crate::placement::place;
use crate::system::cpu;
use carrier::{Carried, Carrier};
use hairpin_loops::time;
use log::Log;
use messages::Flows;
use packet_store::PacketStore;
use sockets::Sockets;

/// Packets for which memory is allocated in advance.
const RESERVED_PACKETS: usize = 1024;

pub(super) struct Relay {
    carrier: Carrier,
    sockets: Sockets,
    ordered_cpu: Option<usize>,
}

/// Opens packet sockets on the interfaces towards the near and the far end, and pins the calling thread. Both
/// interfaces must be up in this network namespace. No packet after this call is missed.
pub(super) fn open(order: &LinkOrder, near_interface: &str, far_interface: &str) -> Result<Relay, Failure> {
    let profile: Profile = order.profile.parse().map_err(no_link(order))?;
    let trace = |(name, text): &(String, String)| Ok((name.clone(), Trace::parse(text).map_err(no_link(order))?));
    let traces: Vec<_> = order.traces.iter().map(trace).collect::<Result<_, Failure>>()?;
    let link = Link::new(&profile, order.seed, &traces).map_err(no_link(order))?;
    let frame_bytes = usize::try_from(profile.mtu_bytes).unwrap_or(usize::MAX) + frames::ETHERNET_BYTES;
    cpu::set_timer_slack(1);
    cpu::shorten_time_slices();
    let sockets = Sockets::open([near_interface, far_interface], frame_bytes, order.clock)?;
    // The log is opened after the sockets, so that an existing log is truncated only if they can be opened.
    let log = order.log.as_ref().map(|to| Log::new(to, &order.allowed_cpus)).transpose()?;
    let carrier = Carrier::new(
        link,
        PacketStore::new(packet_store::MAX_BYTES, frame_bytes, RESERVED_PACKETS),
        Flows::new(&order.messages),
        log,
    );
    place(order.cpu, &order.allowed_cpus).map_err(|error| unplaced(order.cpu, &error))?;
    Ok(Relay { carrier, sockets, ordered_cpu: order.cpu })
}

fn no_link<E: std::fmt::Display>(order: &LinkOrder) -> impl Fn(E) -> Failure {
    |error| {
        Failure::new(
            FailureKind::Other,
            format!("cannot create the link `{}`: {error}", order.profile),
            "`hairpin link show` explains a profile and its traces",
        )
    }
}

impl Relay {
    /// Carries packets until `end`, a pipe, is readable because its other end was closed. Returns the results.
    pub(super) fn carry(mut self, end: BorrowedFd<'_>) -> Result<LinkEnd, Failure> {
        let before_ns = time::thread_cpu_ns();
        self.carrier.carry(&mut self.sockets.until(end))?;
        let cpu_ns = time::thread_cpu_ns() - before_ns;
        let no_room = self.sockets.overrun()?;
        let pinned_cpu = self.pinned_cpu();
        let Carried { mut record, lost, overrun: memory_overrun, not_carried } = self.carrier.finish();
        let overrun = no_room + memory_overrun;
        record.relay = Some(RelayReport { pinned_cpu, cpu_ns, setup_ns: 0, overrun, memory_overrun, not_carried });
        let started_ns = self.sockets.started_ns();
        self.sockets.close();
        Ok(LinkEnd { record, started_ns, lost })
    }

    /// The CPU of the order, if the kernel confirms that this thread runs only on this CPU.
    fn pinned_cpu(&self) -> Option<usize> {
        let allowed = cpu::allowed().ok()?;
        self.ordered_cpu.filter(|cpu| allowed == [*cpu])
    }
}
