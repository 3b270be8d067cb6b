//! The error queue of a TCP or UDP socket: time stamps (Documentation/networking/timestamping.rst) and completions of
//! zero-copy sends.

use std::io;
use std::os::fd::BorrowedFd;

use hairpin_model::trace::StampKind;

use super::control::{Control, receive_with, send_with};
use super::socket::send_flags;
use super::sockopt::{self, SockOpt};

/// Requests time stamps of sent segments (when scheduled, and at the driver) and of received segments. The stamps of
/// sent segments contain byte numbers instead of the data.
const STAMP_FLAGS: u32 = SEND_FLAGS | REPORT_FLAGS;
/// The stamps of a sent message, which can be requested for each message.
const SEND_FLAGS: u32 = libc::SOF_TIMESTAMPING_TX_SCHED | libc::SOF_TIMESTAMPING_TX_SOFTWARE;
const REPORT_FLAGS: u32 = libc::SOF_TIMESTAMPING_RX_SOFTWARE
    | libc::SOF_TIMESTAMPING_SOFTWARE
    | libc::SOF_TIMESTAMPING_OPT_ID
    | libc::SOF_TIMESTAMPING_OPT_ID_TCP
    | libc::SOF_TIMESTAMPING_OPT_TSONLY;

/// `SCM_TSTAMP_*` of linux/errqueue.h.
const DRIVER: u32 = 0;
const SCHEDULED: u32 = 1;
const ACKNOWLEDGED: u32 = 2;

/// `SO_EE_*` of linux/errqueue.h.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;

const STAMPS: SockOpt = SockOpt(libc::SOL_SOCKET, libc::SO_TIMESTAMPING);

/// Requests stamps; with `acknowledged` also of acknowledgments. The next byte written has number 0.
pub(crate) fn begin(on: BorrowedFd<'_>, acknowledged: bool) -> io::Result<()> {
    let more = if acknowledged { libc::SOF_TIMESTAMPING_TX_ACK } else { 0 };
    sockopt::set(on, STAMPS, (STAMP_FLAGS | more).cast_signed())
}

/// Requests stamps of received data only.
pub(crate) fn begin_arrivals(on: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set(on, STAMPS, (libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE).cast_signed())
}

/// Requests stamps of received messages. Stamps of sent messages are requested by [`send`].
pub(crate) fn begin_for_messages(on: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set(on, STAMPS, REPORT_FLAGS.cast_signed())
}

/// `sendmsg(2)` that requests the stamps of this message.
pub(crate) fn send(to: BorrowedFd<'_>, bytes: &[u8], may_block: bool) -> io::Result<usize> {
    send_with(to, bytes, (libc::SOL_SOCKET, libc::SO_TIMESTAMPING, SEND_FLAGS), send_flags(may_block))
}

/// Ends the request for stamps.
pub(crate) fn end(on: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set(on, STAMPS, 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) kind: StampKind,
    pub(crate) realtime_ns: u64,
    /// Lower 32 bits of the number of the last byte in the segment; of datagrams, the number of the stamped datagram.
    pub(crate) last_byte: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorQueueEntry {
    Stamp(Sent),
    /// Completion of `MSG_ZEROCOPY` sends (Documentation/networking/msg_zerocopy.rst): the memory may be reused.
    Completed {
        /// Number of completed sends, which are consecutive.
        sends: u32,
        /// Whether the kernel copied the bytes after all.
        copied: bool,
    },
    /// Other entries: errors that the next call on the socket also returns.
    Other,
}

/// Takes the next entry of the socket's error queue with one system call; `None` if the queue is empty.
pub(crate) fn next_entry(of: BorrowedFd<'_>) -> io::Result<Option<ErrorQueueEntry>> {
    loop {
        let mut control = Control::default();
        match receive_with(of, &mut [], &mut control, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT, None) {
            Ok(_) => return Ok(Some(entry(&control).unwrap_or(ErrorQueueEntry::Other))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn entry(control: &Control) -> Option<ErrorQueueEntry> {
    let error = control.find(libc::SOL_IP, libc::IP_RECVERR);
    let error: libc::sock_extended_err = error.or_else(|| control.find(libc::SOL_IPV6, libc::IPV6_RECVERR))?;
    if error.ee_origin == SO_EE_ORIGIN_ZEROCOPY {
        // The numbers of the last and the first send, which wrap at 32 bits.
        let sends = error.ee_data.wrapping_sub(error.ee_info).wrapping_add(1);
        return Some(ErrorQueueEntry::Completed { sends, copied: error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0 });
    }
    if error.ee_origin != libc::SO_EE_ORIGIN_TIMESTAMPING {
        return None;
    }
    let kind = match error.ee_info {
        SCHEDULED => StampKind::Scheduled,
        DRIVER => StampKind::Driver,
        ACKNOWLEDGED => StampKind::Acknowledged,
        _ => return None,
    };
    Some(ErrorQueueEntry::Stamp(Sent { kind, realtime_ns: software_ns(control)?, last_byte: error.ee_data }))
}

/// Returns the software stamp, the first of three (`scm_timestamping`, linux/errqueue.h), in ns; `None` if missing.
fn software_ns(control: &Control) -> Option<u64> {
    let [software, _, _]: [libc::timespec; 3] = control.find(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING)?;
    let seconds = u64::try_from(software.tv_sec).ok().filter(|seconds| *seconds > 0)?;
    let nanoseconds = u64::try_from(software.tv_nsec).ok()?;
    Some(seconds * 1_000_000_000 + nanoseconds)
}

/// `recvmsg(2)` with the arrival time of the last segment (CLOCK_REALTIME, in ns). Returns 0 bytes at the stream's end.
/// With `true_length` (datagrams only), returns the full length even of a truncated datagram.
pub(crate) fn receive(
    from: BorrowedFd<'_>,
    into: &mut [u8],
    may_block: bool,
    true_length: bool,
) -> io::Result<(usize, Option<u64>)> {
    let mut control = Control::default();
    let flags = if may_block { 0 } else { libc::MSG_DONTWAIT } | if true_length { libc::MSG_TRUNC } else { 0 };
    let bytes = receive_with(from, into, &mut control, flags, None)?;
    Ok((bytes, software_ns(&control)))
}
