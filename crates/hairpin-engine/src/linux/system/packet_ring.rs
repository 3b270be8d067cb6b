//! Packet sockets with a receive ring (packet(7); Documentation/networking/packet_mmap.rst; net/packet/af_packet.c).
//!
//! The ring is TPACKET_V2: each packet is available as soon as the kernel has written it. TPACKET_V3 makes packets
//! available only in whole blocks, which a kernel timer closes. The timer would run during the measured loop, reading
//! would have to wait for the last block, and every close would use up a block of the ring.

use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::sockopt::socket_error;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::{device, done};

/// Minimum size of the kernel's allocations.
const BLOCK_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    /// `ARPHRD_*` of `linux/if_arp.h`.
    pub(crate) hardware: u16,
}

impl Interface {
    /// Finds interface `name` in this network namespace.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let index = device::index(name)?;
        // SAFETY: the operation takes no data, and the kernel writes this member of its answer.
        let hardware = unsafe { device::ask(name, libc::SIOCGIFHWADDR, null_mut())?.ifru_hwaddr.sa_family };
        Ok(Self { index, hardware })
    }
}

/// A packet socket that receives nothing until it is bound.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    // Without a protocol the socket receives nothing.
    Ok(socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?)
}

/// Passes only packets that the classic BPF program accepts, truncated to the length it returns.
pub(crate) fn attach_filter(socket: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let length = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Skips outgoing packets, because each packet of the loopback interface is also received.
pub(crate) fn ignore_outgoing(socket: BorrowedFd<'_>) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32)
}

/// Begins to receive from the interface.
pub(crate) fn bind(socket: BorrowedFd<'_>, interface: Interface) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data, for which all zeroes is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = u16::try_from(libc::AF_PACKET).expect("AF_PACKET is 17");
    address.sll_protocol = u16::try_from(libc::ETH_P_ALL).expect("ETH_P_ALL is 3").to_be();
    address.sll_ifindex = interface.index.cast_signed();
    let length = libc::socklen_t::try_from(size_of_val(&address)).expect("the address has 20 bytes");
    // SAFETY: the address and its length are those of a live sockaddr_ll.
    done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })
}

/// Reads and clears the socket's error: `ENETDOWN` if the interface is down or went down.
pub(crate) fn pending_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(socket_error(socket)??)
}

/// Number of packets that passed the filter since the last call, and how many of these were dropped for lack of room.
pub(crate) fn statistics(socket: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    // SAFETY: two integers, for which all zeroes is a valid value.
    let mut statistics: libc::tpacket_stats = unsafe { zeroed() };
    let mut length = libc::socklen_t::try_from(size_of_val(&statistics)).expect("options are small");
    let value = (&raw mut statistics).cast();
    // SAFETY: the pointer and the length are those of a live value of two integers.
    done(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &raw mut length)
    })?;
    Ok((u64::from(statistics.tp_packets), u64::from(statistics.tp_drops)))
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Received<'a> {
    /// When the frame passed the interface: CLOCK_REALTIME, in ns.
    pub(crate) realtime_ns: u64,
    pub(crate) length_bytes: u32,
    /// The frame including the link header, truncated to the size of a slot.
    pub(crate) bytes: &'a [u8],
    /// Whether the kernel removed a VLAN tag from the frame.
    pub(crate) had_tag: bool,
    /// The interface that the frame passed.
    pub(crate) interface: Interface,
    /// Whether this host sent it.
    pub(crate) is_outgoing: bool,
}

/// The mapped ring of a packet socket, which the kernel fills slot by slot.
pub(crate) struct PacketRing {
    start: NonNull<u8>,
    slot_bytes: usize,
    pub(crate) slots: usize,
    /// The slot that the kernel fills next or has already filled.
    next: usize,
}

// SAFETY: the ring alone owns the mapping, which belongs to the process and not to a thread.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Creates and maps a ring for the socket. The size of a slot is a power of two.
    pub(crate) fn new(socket: BorrowedFd<'_>, slot_bytes: usize, slots: usize) -> io::Result<Self> {
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let size = |number: usize| u32::try_from(number).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
        let (block_bytes, length) = (slot_bytes.max(BLOCK_BYTES), slot_bytes * slots);
        let request = libc::tpacket_req {
            tp_block_size: size(block_bytes)?,
            tp_block_nr: size(length / block_bytes)?,
            tp_frame_size: size(slot_bytes)?,
            tp_frame_nr: size(slots)?,
        };
        set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (access, descriptor) = (libc::PROT_READ | libc::PROT_WRITE, socket.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice; it overlaps nothing of ours.
        let start = unsafe { libc::mmap(null_mut(), length, access, libc::MAP_SHARED, descriptor, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { start, slot_bytes, slots, next: 0 })
    }

    /// Passes the oldest received frame, if any, to `take`, then returns its slot to the kernel.
    pub(crate) fn receive<T>(&mut self, take: impl FnOnce(Received<'_>) -> T) -> Option<T> {
        // SAFETY: `next` is a slot of the ring, and the frame is not used after the slot is returned.
        let (status, frame) = unsafe { self.frame(self.next) }?;
        let taken = take(frame);
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.slots;
        Some(taken)
    }

    /// The frames in the first slots, in the order in which they passed the interface. Returns no slot to the kernel,
    /// so the first frames are kept if there are too many.
    pub(crate) fn frames(&self) -> impl Iterator<Item = Received<'_>> {
        // SAFETY: these are the slots of the ring, and none is returned to the kernel.
        (0..self.slots).map_while(|slot| unsafe { self.frame(slot) }.map(|(_, frame)| frame))
    }

    /// The status of a slot and the frame in it; `None` if the kernel has not filled the slot.
    ///
    /// # Safety
    /// The ring has this slot, and the frame is not used after the slot is returned to the kernel.
    #[inline]
    unsafe fn frame(&self, slot: usize) -> Option<(&AtomicU32, Received<'_>)> {
        // SAFETY: inside the mapping, which lives as long as `self`.
        let start = unsafe { self.start.as_ptr().add(slot * self.slot_bytes) };
        // SAFETY: the status is the slot's first word, aligned, and the kernel may write it: accessed as an atomic.
        let status = unsafe { AtomicU32::from_ptr(start.cast()) };
        let flags = status.load(Ordering::Acquire);
        if flags & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel does not write the slot until the slot is returned; the header is plain numbers at the
        // start of the slot.
        let header: libc::tpacket2_hdr = unsafe { start.cast::<libc::tpacket2_hdr>().read() };
        let first = usize::from(header.tp_mac).min(self.slot_bytes);
        let kept = usize::try_from(header.tp_snaplen).unwrap_or(usize::MAX).min(self.slot_bytes - first);
        // SAFETY: as for the header; the range is inside the slot, whatever the header contains.
        let bytes = unsafe { std::slice::from_raw_parts(start.add(first), kept) };
        let realtime_ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        // SAFETY: the kernel writes the address after its header, aligned to 16 bytes (`TPACKET_ALIGN`), in every slot.
        let address: libc::sockaddr_ll = unsafe {
            start.add(size_of::<libc::tpacket2_hdr>().next_multiple_of(16)).cast::<libc::sockaddr_ll>().read()
        };
        let interface = Interface { index: address.sll_ifindex.cast_unsigned(), hardware: address.sll_hatype };
        let is_outgoing = address.sll_pkttype == libc::PACKET_OUTGOING;
        let had_tag = flags & libc::TP_STATUS_VLAN_VALID != 0;
        Some((status, Received { realtime_ns, length_bytes: header.tp_len, bytes, had_tag, interface, is_outgoing }))
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping of `new`; no frame is borrowed. munmap cannot fail for such a range.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.slots * self.slot_bytes);
        }
    }
}

pub(super) fn set<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).expect("options are small");
    // SAFETY: the pointer and the length are those of a live value, which the kernel only reads.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length) })
}
