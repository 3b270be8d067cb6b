//! A packet socket that carries whole packets both ways: a receive ring whose slots are reused, and batched sends
//! (packet(7); Documentation/networking/packet_mmap.rst; net/packet/af_packet.c).
//!
//! The ring's memory does not count against the socket's receive buffer, whose size an ordinary user may not raise, and
//! reading the ring takes no system call. The ring is TPACKET_V2: a packet is available as soon as it is written.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::done;
use super::packet_ring::{self, Interface, set};

/// Maximum frames per call of sendmmsg(2).
pub(crate) const BATCH: usize = 64;

/// Size of the ring: 4096 packets of 1500 bytes, which a relay receives in 20 ms at its maximum rate.
const RING_BYTES: usize = 8 * 1024 * 1024;
/// Minimum slots in the ring, regardless of the packet size.
const MIN_SLOTS: usize = 128;
/// Bytes of a slot before the link header: the kernel's own header, the link address and padding take 66.
const PLACE_HEADER_BYTES: usize = 128;
/// Minimum size of the kernel's allocations.
const BLOCK_BYTES: usize = 64 * 1024;
/// Requested send buffer: fits a batch of maximum-size packets.
const SEND_BUFFER_BYTES: i32 = 8 * 1024 * 1024;
/// Longest wait for room before a packet counts as refused.
const ROOM_WAIT_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    /// When the frame passed the interface: CLOCK_REALTIME, in ns.
    pub(crate) realtime_ns: u64,
    pub(crate) length_bytes: usize,
    /// The frame including the link header, truncated to the size of a slot.
    pub(crate) bytes: &'a [u8],
    /// Whether the kernel removed a VLAN tag from the frame.
    pub(crate) had_tag: bool,
}

pub(crate) struct PacketSocket {
    socket: OwnedFd,
    interface: Interface,
    ring: NonNull<u8>,
    place_bytes: usize,
    places: usize,
    /// The slot that the kernel fills next or has already filled.
    next: usize,
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
        let ring = ring(of, place_bytes, places)?;
        // SAFETY: plain numbers and pointers, for which all zeroes is a valid value.
        let batch = Box::new(unsafe { zeroed::<Batch>() });
        let socket = Self { socket, interface, ring, place_bytes, places, next: 0, batch };
        packet_ring::bind(socket.socket.as_fd(), interface)?;
        Ok(socket)
    }

    /// Slots of the ring.
    pub(crate) fn places(&self) -> usize {
        self.places
    }

    /// Passes the oldest received frame, if any, to `take`, then returns its slot to the kernel.
    pub(crate) fn receive<T>(&mut self, take: impl FnOnce(Received<'_>) -> T) -> Option<T> {
        // SAFETY: `next` is a slot of the ring, so this is inside the mapping, which lives as long as `self`.
        let start = unsafe { self.ring.as_ptr().add(self.next * self.place_bytes) };
        // SAFETY: the status is the slot's first word, aligned, and the kernel may write it: accessed as an atomic.
        let status = unsafe { AtomicU32::from_ptr(start.cast()) };
        let flags = status.load(Ordering::Acquire);
        if flags & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel does not write the slot until the slot is returned below; the header is plain numbers at
        // the start of the slot.
        let header: libc::tpacket2_hdr = unsafe { start.cast::<libc::tpacket2_hdr>().read() };
        let first = usize::from(header.tp_mac).min(self.place_bytes);
        let kept = usize::try_from(header.tp_snaplen).unwrap_or(usize::MAX).min(self.place_bytes - first);
        // SAFETY: as for the header; the range is inside the slot, whatever the header contains, and the slice is not
        // used after the slot is returned.
        let bytes = unsafe { std::slice::from_raw_parts(start.add(first), kept) };
        let taken = take(Received {
            realtime_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
            length_bytes: usize::try_from(header.tp_len).unwrap_or(usize::MAX),
            bytes,
            had_tag: flags & libc::TP_STATUS_VLAN_VALID != 0,
        });
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.places;
        Some(taken)
    }

    /// Sends frames, at most [`BATCH`]. Returns how many the kernel accepted; it refused the next one, if any.
    pub(crate) fn send(&mut self, frames: &[&[u8]]) -> usize {
        let frames = &frames[..frames.len().min(BATCH)];
        match self.send_now(frames) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let _ = poll(&mut [entry(self.socket.as_fd(), libc::POLLOUT)], Some(ROOM_WAIT_NS));
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

impl Drop for PacketSocket {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping of `ring`; no frame is borrowed. munmap cannot fail for such a range.
        unsafe {
            libc::munmap(self.ring.as_ptr().cast(), self.places * self.place_bytes);
        }
    }
}

/// Creates and maps a ring for the socket.
fn ring(socket: BorrowedFd<'_>, place_bytes: usize, places: usize) -> io::Result<NonNull<u8>> {
    let version = libc::tpacket_versions::TPACKET_V2 as i32;
    set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
    let size = |number: usize| u32::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let (block_bytes, length) = (place_bytes.max(BLOCK_BYTES), place_bytes * places);
    let request = libc::tpacket_req {
        tp_block_size: size(block_bytes)?,
        tp_block_nr: size(length / block_bytes)?,
        tp_frame_size: size(place_bytes)?,
        tp_frame_nr: size(places)?,
    };
    set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    let (access, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, socket.as_raw_fd());
    // SAFETY: a new mapping at an address of the kernel's choice; it overlaps nothing of ours.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, descriptor, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

/// Waits until one of the sockets has a frame, `end` is readable or closed, or `at_most_ns` have passed (`None`:
/// unlimited). Returns whether `end` is readable or closed.
pub(crate) fn wait(sockets: [&PacketSocket; 2], end: BorrowedFd<'_>, at_most_ns: Option<u64>) -> io::Result<bool> {
    let [near, far] = sockets.map(|socket| entry(socket.socket.as_fd(), libc::POLLIN));
    let mut entries = [entry(end, libc::POLLIN), near, far];
    match poll(&mut entries, at_most_ns) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(false),
        polled => polled?,
    }
    for (entry, socket) in entries[1..].iter().zip(sockets) {
        if entry.revents & libc::POLLERR != 0 {
            // Reading the error clears it. An interface that is down sends nothing, and packets sent to it count as
            // refused. The interface may come up again unless it was removed.
            packet_ring::pending_error(socket.socket.as_fd()).or_else(|error| match error.raw_os_error() {
                Some(libc::ENETDOWN) => socket.interface.check_exists(),
                _ => Err(error),
            })?;
        }
    }
    Ok(entries[0].revents != 0)
}

fn entry(descriptor: BorrowedFd<'_>, events: i16) -> libc::pollfd {
    libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 }
}

fn poll(entries: &mut [libc::pollfd], at_most_ns: Option<u64>) -> io::Result<()> {
    let (count, time) = (libc::nfds_t::try_from(entries.len()).expect("a few"), at_most_ns.map(timespec));
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the entries and the time are live for the call; without a time or a mask the pointers are null.
    done(unsafe { libc::ppoll(entries.as_mut_ptr(), count, time, std::ptr::null()) })
}

fn timespec(ns: u64) -> libc::timespec {
    let second = 1_000_000_000;
    let part = |value: u64| value.try_into().expect("a part of a time in ns fits");
    libc::timespec { tv_sec: part(ns / second), tv_nsec: part(ns % second) }
}
