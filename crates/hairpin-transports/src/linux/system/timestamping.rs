//! The kernel's time stamps of what a socket sends and receives (Documentation/networking/timestamping.rst).

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use hairpin_model::trace::StampKind;

use super::counted;
use super::sockopt::{self, Place};

/// Each segment when it is scheduled and handed to the driver, and what is received when it came; sent bytes are named
/// by their number, and the bytes themselves are not given back.
const WANTED: u32 = libc::SOF_TIMESTAMPING_TX_SCHED
    | libc::SOF_TIMESTAMPING_TX_SOFTWARE
    | libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_ID_TCP
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// `SCM_TSTAMP_*` of linux/errqueue.h.
const DRIVER: u32 = 0;
const SCHEDULED: u32 = 1;
const ACKNOWLEDGED: u32 = 2;

const STAMPS: Place = Place(libc::SOL_SOCKET, libc::SO_TIMESTAMPING);

/// Asks for stamps of everything from here on, and with `acknowledged` also of when segments are acknowledged; bytes
/// count from 0 at the next that is written.
pub(crate) fn begin(on: BorrowedFd<'_>, acknowledged: bool) -> io::Result<()> {
    let more = if acknowledged { libc::SOF_TIMESTAMPING_TX_ACK } else { 0 };
    sockopt::set(on, STAMPS, (WANTED | more).cast_signed())
}

/// Asks for no stamps any more.
pub(crate) fn end(on: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set(on, STAMPS, 0)
}

/// The stamp of a segment that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Of what.
    pub(crate) kind: StampKind,
    /// CLOCK_REALTIME.
    pub(crate) realtime_ns: u64,
    /// The lower 32 bits of the number of the last byte that it covers.
    pub(crate) last_byte: u32,
}

/// Takes the next stamp off the socket's error queue; `None` when there is none.
pub(crate) fn next_sent(of: BorrowedFd<'_>) -> io::Result<Option<Sent>> {
    loop {
        let mut control = Control::default();
        match receive_with(of, &mut [], &mut control, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            // What is no stamp is an error that the next call on the socket tells too.
            Ok(_) => match control.sent() {
                None => {}
                stamp => return Ok(stamp),
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// `recvmsg(2)`, and when the last segment of what it took came (CLOCK_REALTIME, in ns); 0 bytes are the stream's end.
pub(crate) fn receive(from: BorrowedFd<'_>, into: &mut [u8], may_block: bool) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control::default();
    let flags = if may_block { 0 } else { libc::MSG_DONTWAIT };
    let bytes = receive_with(from, into, &mut control, flags)?;
    Ok((bytes, control.received_ns()))
}

fn receive_with(from: BorrowedFd<'_>, into: &mut [u8], control: &mut Control, flags: i32) -> io::Result<usize> {
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: an all-zero `msghdr` is valid; the part is a live, exclusively borrowed slice, and so is the room for
    // control data, whose length the kernel keeps to and then says how much of it it filled.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.room.as_mut_ptr().cast();
        message.msg_controllen = size_of::<[u64; CONTROL_WORDS]>() as _;
        let bytes = counted(libc::recvmsg(from.as_raw_fd(), &raw mut message, flags))?;
        control.filled = message.msg_controllen as usize;
        Ok(bytes)
    }
}

/// Three times of 16 bytes (`scm_timestamping`) and an extended error with an address of 28, with their headers of 16
/// bytes each, are 140 bytes.
const CONTROL_WORDS: usize = 32;

/// Control data as recvmsg(2) gives it, aligned for its headers.
#[derive(Default)]
struct Control {
    room: [u64; CONTROL_WORDS],
    filled: usize,
}

impl Control {
    fn sent(&self) -> Option<Sent> {
        let error: libc::sock_extended_err =
            self.find(libc::SOL_IP, libc::IP_RECVERR).or_else(|| self.find(libc::SOL_IPV6, libc::IPV6_RECVERR))?;
        if error.ee_origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
            return None;
        }
        let kind = match error.ee_info {
            SCHEDULED => StampKind::Scheduled,
            DRIVER => StampKind::Driver,
            ACKNOWLEDGED => StampKind::Acknowledged,
            _ => return None,
        };
        Some(Sent { kind, realtime_ns: self.received_ns()?, last_byte: error.ee_data })
    }

    /// The software stamp, which is the first of three (`scm_timestamping`, linux/errqueue.h); zero where there is
    /// none.
    fn received_ns(&self) -> Option<u64> {
        let [software, _, _]: [libc::timespec; 3] = self.find(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING)?;
        let seconds = u64::try_from(software.tv_sec).ok().filter(|seconds| *seconds > 0)?;
        let nanoseconds = u64::try_from(software.tv_nsec).ok()?;
        Some(seconds * 1_000_000_000 + nanoseconds)
    }

    /// The control message of that level and kind.
    fn find<T: Plain>(&self, level: i32, kind: i32) -> Option<T> {
        // SAFETY: the header describes `room`, which is aligned for `cmsghdr` and of which the kernel filled so much;
        // the macros stay inside of it. What is read is plain numbers and lies inside its control message, which is
        // checked; it need not be aligned.
        unsafe {
            let mut message: libc::msghdr = zeroed();
            message.msg_control = self.room.as_ptr().cast_mut().cast();
            message.msg_controllen = self.filled.min(size_of::<[u64; CONTROL_WORDS]>()) as _;
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while !header.is_null() {
                let room = ((*header).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                if (*header).cmsg_level == level && (*header).cmsg_type == kind && room >= size_of::<T>() {
                    return Some(ptr::read_unaligned(libc::CMSG_DATA(header).cast()));
                }
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        None
    }
}

/// Numbers alone, so that any bytes are a value.
///
/// # Safety
/// Every pattern of bits must be a valid value.
unsafe trait Plain {}

// SAFETY: whole numbers.
unsafe impl Plain for libc::sock_extended_err {}
// SAFETY: whole numbers.
unsafe impl Plain for [libc::timespec; 3] {}
