//! Packet sockets with a receive ring (packet(7); Documentation/networking/packet_mmap.rst; net/packet/af_packet.c).
//!
//! The ring is TPACKET_V2: each packet is available as soon as the kernel has written it. TPACKET_V3 makes packets
//! available only in whole blocks, which a kernel timer closes. The timer would run during the measured loop, reading
//! would have to wait for the last block, and every close would use up a block of the ring.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::done;

const FRAME_BYTES: usize = 512;
/// Number of slots in the ring, which takes 8 MiB.
const SLOTS: usize = 16_384;
/// Size of the kernel's allocations.
const BLOCK_BYTES: usize = 64 * 1024;

/// Maximum bytes captured of a packet, including the link header. The kernel needs 66 bytes of each slot for its own
/// header, the sender's link address and padding.
pub(crate) const SNAP_BYTES: u32 = 440;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: i32,
    /// `ARPHRD_*` of `linux/if_arp.h`.
    pub(crate) hardware: u16,
}

impl Interface {
    /// Finds interface `name` in this network namespace.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let none = || io::Error::from_raw_os_error(libc::ENODEV);
        let text = CString::new(name).map_err(|_| none())?;
        // SAFETY: a NUL-terminated name.
        let index = i32::try_from(unsafe { libc::if_nametoindex(text.as_ptr()) }).map_err(|_| none())?;
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: takes three integers and returns a new descriptor or -1.
        let socket = owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: ifreq is plain data, for which all zeroes is a valid value.
        let mut request: libc::ifreq = unsafe { zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
            *place = libc::c_char::from_ne_bytes([byte]);
        }
        // SAFETY: the request names an interface, outlives the call, and is where the kernel writes the answer.
        done(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) })?;
        // SAFETY: the call succeeded, so the kernel has written this member of the union.
        let hardware = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
        Ok(Self { index, hardware })
    }

    /// Fails if this network namespace has no interface with this index.
    pub(crate) fn check_exists(self) -> io::Result<()> {
        let index = u32::try_from(self.index).expect("the index is positive");
        let mut name = [0; libc::IF_NAMESIZE];
        // SAFETY: the buffer has as much room as the call may write.
        let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
        if found.is_null() { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A packet socket that receives nothing until it is bound.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    // SAFETY: takes three integers and returns a new descriptor or -1. Protocol 0 receives nothing.
    owned(unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })
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
    address.sll_ifindex = interface.index;
    let length = libc::socklen_t::try_from(size_of_val(&address)).expect("the address has 20 bytes");
    // SAFETY: the address and its length are those of a live sockaddr_ll.
    done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) })
}

/// Reads and clears the socket's error: `ENETDOWN` if the interface is down or went down.
pub(crate) fn pending_error(socket: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an integer.
    match unsafe { get::<i32>(socket, libc::SOL_SOCKET, libc::SO_ERROR)? } {
        0 => Ok(()),
        number => Err(io::Error::from_raw_os_error(number)),
    }
}

/// Number of packets that passed the filter since the last call, and how many of these were dropped for lack of room.
pub(crate) fn statistics(socket: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    // SAFETY: two integers.
    let statistics = unsafe { get::<libc::tpacket_stats>(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS)? };
    Ok((u64::from(statistics.tp_packets), u64::from(statistics.tp_drops)))
}

/// A packet in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// When the packet passed the interface: CLOCK_REALTIME, in ns.
    pub(crate) realtime_ns: u64,
    pub(crate) length_bytes: u32,
    /// The captured bytes, from the start of the link header.
    pub(crate) bytes: Vec<u8>,
}

/// The mapped ring of a packet socket. The kernel fills the ring from its start, and no slot is returned to the
/// kernel, so the first packets are kept if there are too many.
pub(crate) struct PacketRing {
    start: NonNull<u8>,
}

impl PacketRing {
    /// Creates and maps a ring for the socket.
    pub(crate) fn new(socket: BorrowedFd<'_>) -> io::Result<Self> {
        const { assert!(BLOCK_BYTES.is_multiple_of(FRAME_BYTES) && (SLOTS * FRAME_BYTES).is_multiple_of(BLOCK_BYTES)) };
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        set(socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let size = |number: usize| u32::try_from(number).expect("a ring is some MiB");
        let request = libc::tpacket_req {
            tp_block_size: size(BLOCK_BYTES),
            tp_block_nr: size(SLOTS * FRAME_BYTES / BLOCK_BYTES),
            tp_frame_size: size(FRAME_BYTES),
            tp_frame_nr: size(SLOTS),
        };
        set(socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (length, descriptor) = (SLOTS * FRAME_BYTES, socket.as_raw_fd());
        // SAFETY: a new mapping at an address of the kernel's choice; it overlaps nothing of ours.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, descriptor, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { start })
    }

    /// The received packets, in the order in which they passed the interface.
    pub(crate) fn frames(&self) -> Vec<Frame> {
        (0..SLOTS).map_while(|place| self.frame(place)).collect()
    }

    fn frame(&self, place: usize) -> Option<Frame> {
        assert!(place < SLOTS, "the ring has no such slot");
        // SAFETY: inside the mapping, whose blocks are whole frames.
        let start = unsafe { self.start.as_ptr().add(place * FRAME_BYTES) };
        // SAFETY: the status is the frame's first word, aligned, and the kernel may write it: accessed as an atomic.
        let status = unsafe { AtomicU32::from_ptr(start.cast()) }.load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel has handed the frame over and never writes it again, because the slot is not returned; the
        // header is plain numbers at the start of the frame.
        let header: libc::tpacket2_hdr = unsafe { start.cast::<libc::tpacket2_hdr>().read() };
        let first = usize::from(header.tp_mac).min(FRAME_BYTES);
        let kept = usize::try_from(header.tp_snaplen).unwrap_or(usize::MAX).min(FRAME_BYTES - first);
        // SAFETY: as for the header; the range is inside the frame, whatever the header contains.
        let bytes = unsafe { std::slice::from_raw_parts(start.add(first), kept) }.to_vec();
        let realtime_ns = u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec);
        Some(Frame { realtime_ns, length_bytes: header.tp_len, bytes })
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping of `new`; everything read was copied. munmap cannot fail for such a range.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), SLOTS * FRAME_BYTES);
        }
    }
}

fn owned(raw: i32) -> io::Result<OwnedFd> {
    done(raw)?;
    // SAFETY: a new descriptor without another owner.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

pub(super) fn set<T>(socket: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<T>()).expect("options are small");
    // SAFETY: the pointer and the length are those of a live value, which the kernel only reads.
    done(unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length) })
}

/// # Safety
/// `T` is plain numbers, for which every bit pattern is a valid value.
unsafe fn get<T>(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<T> {
    let mut length = libc::socklen_t::try_from(size_of::<T>()).expect("options are small");
    // SAFETY: all zeroes is valid, as the caller guarantees; the pointer and the length are those of a live,
    // exclusively borrowed value, and any part of it that the kernel writes leaves it valid.
    unsafe {
        let mut value: T = zeroed();
        done(libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length))?;
        Ok(value)
    }
}
