//! Captures the packets of one connection in this process, without a thread.
//!
//! A packet socket ([`begin`]) makes the kernel copy every packet of the port into a shared ring. The ring is read
//! after the load ([`Live::finish`]), so the measured loop makes no extra calls. Needs CAP_NET_RAW (capabilities(7)).

mod crossing;
mod filter;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod packets;
mod pcapng;
pub mod reader;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use self::frame::{Frame, SNAP_BYTES};
use hairpin_model::{Capture, Packet, WhyNot};

use crate::packets::headers;
use crate::realtime::RealtimeMap;
use crate::system::packet_ring::{self, Interface, PacketRing};

/// Size of a slot of the ring.
const SLOT_BYTES: usize = 512;
/// Number of slots in the ring, which takes 8 MiB.
const SLOTS: usize = 16_384;
/// A running capture.
pub struct Live {
    interface: String,
    port: u16,
    socket: OwnedFd,
    ring: PacketRing,
}

#[derive(Clone, Debug)]
pub struct Captured {
    interface: String,
    port: u16,
    operating_system: String,
    frames: Vec<Frame>,
    received: u64,
    dropped: u64,
}

/// Begins to capture TCP from and to `port` on `interface`, from the first packet after this call. A packet on the
/// loopback interface both leaves and arrives, but is captured once. Keeps the first 440 bytes of each packet and the
/// first 16 384 packets; further packets are only counted.
pub fn begin(interface: &str, port: u16) -> Result<Live, WhyNot> {
    begin_of(interface, headers::TCP, port)
}

/// Whether this process may open packet sockets.
pub fn may_capture() -> Result<(), WhyNot> {
    packet_ring::socket().map(drop).map_err(|error| why_not("open a packet socket", "any interface", &error))
}

/// Like [`begin`], for this protocol number.
fn begin_of(interface: &str, protocol: u8, port: u16) -> Result<Live, WhyNot> {
    let failed = |operation: &'static str| move |error: io::Error| why_not(operation, interface, &error);
    let found = Interface::named(interface).map_err(failed("find the interface"))?;
    let loopback = found.hardware == libc::ARPHRD_LOOPBACK;
    if !loopback && found.hardware != libc::ARPHRD_ETHER {
        return Err(WhyNot::new(
            format!("cannot capture on {interface}: it carries no Ethernet frames"),
            "capture on an Ethernet device, a veth device or the loopback device",
        ));
    }
    let socket = packet_ring::socket().map_err(failed("open a packet socket"))?;
    // Set the filter before binding: without a filter, a bound socket would receive unrelated packets.
    packet_ring::attach_filter(socket.as_fd(), &filter::of_port(protocol, port))
        .map_err(failed("set the packet filter"))?;
    if loopback {
        packet_ring::ignore_outgoing(socket.as_fd()).map_err(failed("exclude outgoing packets"))?;
    }
    let ring = PacketRing::new(socket.as_fd(), SLOT_BYTES, SLOTS).map_err(failed("create the packet ring"))?;
    packet_ring::bind(socket.as_fd(), found).map_err(failed("bind the packet socket"))?;
    packet_ring::pending_error(socket.as_fd()).map_err(failed("bind the packet socket"))?;
    Ok(Live { interface: interface.to_owned(), port, socket, ring })
}

impl Live {
    /// Ends the capture and reads its packets from the ring.
    pub fn finish(self) -> Result<Captured, WhyNot> {
        let Self { interface, port, socket, ring } = self;
        packet_ring::pending_error(socket.as_fd()).map_err(|error| ended_early(&interface, &error))?;
        // Timestamps taken on different CPUs may not be in ring order.
        let mut frames: Vec<_> = ring.frames().map(Frame::of).collect();
        frames.sort_by_key(|frame| frame.realtime_ns);
        let (received, dropped) = packet_ring::statistics(socket.as_fd())
            .map_err(|error| why_not("read the counters", &interface, &error))?;
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let operating_system = format!("Linux {}", release.trim());
        Ok(Captured { interface, port, operating_system, frames, received, dropped })
    }
}

impl Captured {
    /// The packets of the connection with `client_port`, in the order in which they passed the interface, with times
    /// converted by `map`. Omits other connections to the same server port.
    pub fn packets(&self, client_port: u16, map: &RealtimeMap) -> Vec<Packet> {
        packets::packets(&self.frames, client_port, self.port, map)
    }

    /// The packets that crossed a link, in sending order, each with its arrival at the other end. `self` was captured
    /// at the client's interface and `server` at the server's.
    pub fn packets_across(&self, server: &Self, client_port: u16, map: &RealtimeMap) -> Vec<Packet> {
        let crossings = crossing::crossings(&self.frames, &server.frames, client_port, self.port);
        packets::crossed(crossings, client_port, self.port, map)
    }

    /// All packets as a pcapng file.
    pub fn pcapng(&self) -> Vec<u8> {
        let comment = format!(
            "TCP port {} on {}, captured by Hairpin during one traced round; only the first {SNAP_BYTES} bytes of each packet",
            self.port, self.interface
        );
        let about = pcapng::FileInfo {
            comment: &comment,
            operating_system: &self.operating_system,
            interface: &self.interface,
            received: self.received,
            dropped: self.dropped,
        };
        pcapng::file(&about, &self.frames)
    }

    /// The outcome of this capture, and of the capture `other` at the other end of the link, for the trace. The file
    /// gets its name when it is saved in the run folder.
    pub fn outcome(&self, other: Option<&Self>) -> Capture {
        let packets = u64::try_from(self.frames.len()).expect("a ring is small");
        let dropped = self.dropped + other.map_or(0, |other| other.dropped);
        Capture::Saved { file: String::new(), packets, dropped }
    }
}

fn ended_early(interface: &str, error: &io::Error) -> WhyNot {
    WhyNot::new(
        format!("the capture on {interface} ended early: {error}"),
        "did the interface go down or disappear? see `ip link`",
    )
}

pub(crate) fn why_not(operation: &str, interface: &str, error: &io::Error) -> WhyNot {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "run as root, or allow this program once with `setcap cap_net_raw+ep PROGRAM`"
        }
        Some(libc::ENODEV | libc::ENXIO) => "`ip link` lists the interfaces of this network namespace",
        Some(libc::ENETDOWN) => "the interface is down: `ip link set dev INTERFACE up`",
        Some(libc::ENOMEM | libc::ENOBUFS) => "the kernel needs 8 MiB for the packet ring",
        Some(libc::ENOPROTOOPT | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
            "a capture needs Linux 4.20 or later with packet sockets (CONFIG_PACKET)"
        }
        _ => "the round was measured without a capture",
    };
    WhyNot::new(format!("cannot {operation} for a capture on {interface}: {error}"), hint)
}

#[cfg(test)]
pub(crate) mod tests;
