//! Captures the packets of all interfaces of the calling thread's network namespace.

use std::os::fd::{AsFd, OwnedFd};

use hairpin_model::WhyNot;
use hairpin_transports::bpf::statement;

use crate::capture::{may_capture, why_not};
use crate::packets::{CapturedFrame, Connections, LinkLayer};
use crate::system::packet_ring::{self, Interface, PacketRing, Received};

/// Enough for all headers.
const SNAP_BYTES: u32 = 160;
const SLOT_BYTES: usize = 256;
/// The ring takes 16 MiB: 65 536 packets until it is read again.
const SLOTS: usize = 65_536;
/// Maximum number of packets that are read at a time.
const MAX_BATCH: usize = 20_000;

const INTERFACES: &str = "all interfaces";

pub(super) struct AllPackets {
    socket: OwnedFd,
    ring: PacketRing,
}

impl AllPackets {
    pub(super) fn begin() -> Result<Self, WhyNot> {
        may_capture()?;
        let failed = |operation: &'static str| move |error: std::io::Error| why_not(operation, INTERFACES, &error);
        let socket = packet_ring::socket().map_err(failed("open a packet socket"))?;
        packet_ring::attach_filter(socket.as_fd(), &[statement(libc::BPF_RET | libc::BPF_K, SNAP_BYTES)])
            .map_err(failed("set the packet filter"))?;
        let ring = PacketRing::new(socket.as_fd(), SLOT_BYTES, SLOTS).map_err(failed("create the packet ring"))?;
        packet_ring::bind(socket.as_fd(), Interface { index: 0, hardware: 0 })
            .map_err(failed("bind the packet socket"))?;
        Ok(Self { socket, ring })
    }

    /// Adds the packets since the last call. Returns whether there may be more. `place` is the number of the namespace.
    pub(super) fn read(&mut self, place: usize, into: &mut Connections) -> bool {
        let mut read = 0;
        while read < MAX_BATCH && self.ring.receive(|frame| add(place, frame, into)).is_some() {
            read += 1;
        }
        read == MAX_BATCH
    }

    /// Adds the last packets, and how many had no room.
    pub(super) fn finish(mut self, place: usize, into: &mut Connections) {
        // As many batches as the ring has slots: it fills while it is read.
        for _ in 0..SLOTS / MAX_BATCH + 1 {
            if !self.read(place, into) {
                break;
            }
        }
        let (_, dropped) = packet_ring::statistics(self.socket.as_fd()).unwrap_or_default();
        into.add_lost(dropped);
    }
}

fn add(place: usize, frame: Received<'_>, into: &mut Connections) {
    // Interfaces have numbers of their own in each namespace.
    let place = u32::try_from(place).unwrap_or(u32::MAX).rotate_right(8);
    let layer = match frame.interface.hardware {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => LinkLayer::Ethernet,
        _ => LinkLayer::Raw,
    };
    into.add(CapturedFrame {
        realtime_ns: frame.realtime_ns,
        interface: frame.interface.index ^ place,
        layer,
        bytes: frame.bytes,
        length_bytes: frame.length_bytes,
        is_outgoing: Some(frame.is_outgoing),
    });
}
