//! A packet socket that carries whole packets both ways: a receive ring whose slots are reused, and batched sends
//! (packet(7); Documentation/networking/packet_mmap.rst; net/packet/af_packet.c).
//!
//! The ring's memory does not count against the socket's receive buffer, whose size an ordinary user may not raise, and
//! reading the ring takes no system call. The ring is TPACKET_V2: a packet is available as soon as it is written.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::net::netdevice::index_to_name;

use super::packet_ring::{self, Interface, PacketRing, set};
use crate::wait::{wait_with, writable};

/// Maximum frames per call of sendmmsg(2).
pub(crate) const BATCH: usize = 64;

/// Size of the ring: 4096 packets of 1500 bytes, which a relay receives in 20 ms at its maximum rate.
const RING_BYTES: usize = 8 * 1024 * 1024;
/// Minimum slots in the ring, regardless of the packet size.
const MIN_SLOTS: usize = 128;
/// Bytes of a slot before the link header: the kernel's own header, the link address and padding take 66.
const PLACE_HEADER_BYTES: usize = 128;
/// Requested send buffer: fits a batch of maximum-size packets.
const SEND_BUFFER_BYTES: i32 = 8 * 1024 * 1024;
/// Longest wait for room before a packet counts as refused.
const ROOM_WAIT: Duration = Duration::from_millis(1);

pub(crate) struct PacketSocket {
    socket: OwnedFd,
    interface: Interface,
    pub(crate) ring: PacketRing,
    batch: Box<Batch>,
}

// SAFETY: the ring belongs to the process, not to a thread, and only the owner of the socket accesses the ring. The
// pointers of the batch are written before each call that reads them.
unsafe impl Send for PacketSocket {}

/// The arguments of sendmmsg(2). They are allocated once, because they take several KiB.
struct Batch {
    pieces: [libc::iovec; BATCH],
    messages: [libc::mmsghdr; BATCH],
}

impl PacketSocket {
    /// Opens a socket on the interface, for frames of up to `frame_bytes`. No packet after this call is missed.
    pub(crate) fn open(interface: Interface, frame_bytes: usize) -> io::Result<Self> {
        let socket = packet_ring::socket()?;
        let of = socket.as_fd();
        packet_ring::ignore_outgoing(of)?;
        set(of, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1_i32)?;
        // Timestamps packets on arrival at the interface instead of at the ring.
        set(of, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
        if set(of, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES).is_err() {
            set(of, libc::SOL_SOCKET, libc::SO_SNDBUF, &SEND_BUFFER_BYTES)?;
        }
        let place_bytes = (frame_bytes + PLACE_HEADER_BYTES).next_power_of_two();
        let places = (RING_BYTES / place_bytes).max(MIN_SLOTS);
        let ring = PacketRing::new(of, place_bytes, places)?;
        // SAFETY: plain numbers and pointers, for which all zeroes is a valid value.
        let batch = Box::new(unsafe { zeroed::<Batch>() });
        let socket = Self { socket, interface, ring, batch };
        packet_ring::bind(socket.socket.as_fd(), interface)?;
        Ok(socket)
    }

    /// Sends frames, at most [`BATCH`]. Returns how many the kernel accepted; it refused the next one, if any.
    pub(crate) fn send(&mut self, frames: &[&[u8]]) -> usize {
        let frames = &frames[..frames.len().min(BATCH)];
        match self.send_now(frames) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                drop(writable(&self.socket, ROOM_WAIT));
                self.send_now(frames).unwrap_or(0)
            }
            sent => sent.unwrap_or(0),
        }
    }

    fn send_now(&mut self, frames: &[&[u8]]) -> io::Result<usize> {
        let Batch { pieces, messages } = &mut *self.batch;
        for ((frame, piece), message) in frames.iter().zip(pieces).zip(messages.iter_mut()) {
            *piece = libc::iovec { iov_base: frame.as_ptr().cast_mut().cast(), iov_len: frame.len() };
            message.msg_hdr.msg_iov = piece;
            message.msg_hdr.msg_iovlen = 1;
        }
        let (count, flags) = (u32::try_from(frames.len()).expect("a batch"), libc::MSG_DONTWAIT);
        // SAFETY: each of the `count` messages points to one piece, which points to a live frame that the kernel only
        // reads. The call does not wait, so no signal interrupts it half-way. The flags are unsigned with musl,
        // signed with glibc.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count, flags as _) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Number of packets dropped since the last call because the ring had no room.
    pub(crate) fn overrun(&self) -> io::Result<u64> {
        packet_ring::statistics(self.socket.as_fd()).map(|(_, lost)| lost)
    }
}

/// Waits until one of the sockets has a frame, `end` is readable or closed, or `at_most_ns` have passed (`None`:
/// unlimited). Returns whether `end` is readable or closed.
pub(crate) fn wait(sockets: [&PacketSocket; 2], end: BorrowedFd<'_>, at_most_ns: Option<u64>) -> io::Result<bool> {
    let [near, far] = sockets.map(|socket| socket.socket.as_fd());
    let mut files = [end, near, far].map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
    wait_with(&mut files, at_most_ns.map(Duration::from_nanos))?;
    for (file, PacketSocket { socket, interface, .. }) in files[1..].iter().zip(sockets) {
        if file.revents().contains(PollFlags::ERR) {
            // Reading the error clears it. An interface that is down sends nothing, and packets sent to it count as
            // refused. The interface may come up again unless it was removed.
            packet_ring::pending_error(socket.as_fd()).or_else(|error| match error.raw_os_error() {
                Some(libc::ENETDOWN) => Ok(index_to_name(socket, interface.index).map(drop)?),
                _ => Err(error),
            })?;
        }
    }
    Ok(!files[0].revents().is_empty())
}
