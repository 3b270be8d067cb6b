//! Reads and sets socket options, and reads the counters of sockets.

use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use hairpin_model::{Fact, SenderState, fact_names};

use super::check;
use crate::wire::Segments;

/// Level and number of an option, as in setsockopt(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SockOpt(pub(crate) i32, pub(crate) i32);

impl SockOpt {
    pub(crate) fn numbers(self) -> (i32, i32) {
        (self.0, self.1)
    }
}

pub(crate) const NODELAY: SockOpt = SockOpt(libc::IPPROTO_TCP, libc::TCP_NODELAY);
pub(crate) const CORK: SockOpt = SockOpt(libc::IPPROTO_TCP, libc::TCP_CORK);
pub(crate) const QUICKACK: SockOpt = SockOpt(libc::IPPROTO_TCP, libc::TCP_QUICKACK);
pub(crate) const NOTSENT_LOWAT: SockOpt = SockOpt(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
pub(crate) const CONGESTION: SockOpt = SockOpt(libc::IPPROTO_TCP, libc::TCP_CONGESTION);
pub(crate) const SNDBUF: SockOpt = SockOpt(libc::SOL_SOCKET, libc::SO_SNDBUF);
pub(crate) const RCVBUF: SockOpt = SockOpt(libc::SOL_SOCKET, libc::SO_RCVBUF);
pub(crate) const BUSY_POLL: SockOpt = SockOpt(libc::SOL_SOCKET, libc::SO_BUSY_POLL);
/// The network device's queue that the last packet came from; 0 on devices without one, which cannot be busy-polled.
pub(crate) const INCOMING_NAPI_ID: SockOpt = SockOpt(libc::SOL_SOCKET, libc::SO_INCOMING_NAPI_ID);
pub(crate) const PRIORITY: SockOpt = SockOpt(libc::SOL_SOCKET, libc::SO_PRIORITY);
pub(crate) const TOS: SockOpt = SockOpt(libc::IPPROTO_IP, libc::IP_TOS);
pub(crate) const TRAFFIC_CLASS: SockOpt = SockOpt(libc::IPPROTO_IPV6, libc::IPV6_TCLASS);
pub(crate) const UDP_GRO: SockOpt = SockOpt(libc::SOL_UDP, libc::UDP_GRO);
pub(crate) const ZEROCOPY: SockOpt = SockOpt(libc::SOL_SOCKET, libc::SO_ZEROCOPY);
pub(crate) const MAX_PACING_RATE: SockOpt = SockOpt(libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
/// `ICMP_FILTER` of `linux/icmp.h`: a bit mask of the ICMP types that a raw socket drops.
pub(crate) const ICMP_FILTER: SockOpt = SockOpt(libc::SOL_RAW, 1);

/// The kernel's MTU for the path of a connected socket (ip(7), ipv6(7)).
pub(crate) const PATH_MTU: SockOpt = SockOpt(libc::IPPROTO_IP, libc::IP_MTU);
pub(crate) const PATH_MTU_V6: SockOpt = SockOpt(libc::IPPROTO_IPV6, libc::IPV6_MTU);

pub(crate) fn set(on: BorrowedFd<'_>, option: SockOpt, value: i32) -> io::Result<()> {
    set_bytes(on, option, &value.to_ne_bytes())
}

/// Reads an `int` option.
pub(crate) fn get(on: BorrowedFd<'_>, option: SockOpt) -> io::Result<i32> {
    let mut value = [0_u8; 4];
    get_bytes(on, option, &mut value)?;
    Ok(i32::from_ne_bytes(value))
}

/// Reads a 64-bit option.
pub(crate) fn get_long(on: BorrowedFd<'_>, option: SockOpt) -> io::Result<u64> {
    let mut value = [0_u8; 8];
    match get_bytes(on, option, &mut value)? {
        8 => Ok(u64::from_ne_bytes(value)),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Reads a text option of at most 16 bytes, such as the name of a congestion control.
pub(crate) fn get_text(on: impl AsFd, option: SockOpt) -> io::Result<String> {
    let mut value = [0_u8; 16];
    let length = get_bytes(on.as_fd(), option, &mut value)?;
    let text = &value[..length.min(value.len())];
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

pub(crate) fn set_bytes(on: BorrowedFd<'_>, SockOpt(level, name): SockOpt, value: &[u8]) -> io::Result<()> {
    let length = value.len() as libc::socklen_t;
    // SAFETY: the pointer and the length describe a live slice, which the kernel only reads.
    check(unsafe { libc::setsockopt(on.as_raw_fd(), level, name, value.as_ptr().cast(), length) })
}

/// Lets a classic BPF program choose among the sockets that share a port (socket(7), `SO_ATTACH_REUSEPORT_CBPF`).
pub(crate) fn set_port_selector(on: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let (name, length) = (libc::SO_ATTACH_REUSEPORT_CBPF, size_of::<libc::sock_fprog>() as libc::socklen_t);
    // SAFETY: a pointer to a live sock_fprog, whose pointer and length describe a live slice; the kernel only
    // reads.
    check(unsafe { libc::setsockopt(on.as_raw_fd(), libc::SOL_SOCKET, name, (&raw const program).cast(), length) })
}

pub(super) fn get_bytes(on: BorrowedFd<'_>, SockOpt(level, name): SockOpt, into: &mut [u8]) -> io::Result<usize> {
    let mut length = into.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the slice's length, and reports how many it wrote.
    check(unsafe { libc::getsockopt(on.as_raw_fd(), level, name, into.as_mut_ptr().cast(), &raw mut length) })?;
    Ok(length as usize)
}

/// Messages that the socket dropped because its receive buffer was full (`SK_MEMINFO_DROPS` of `SO_MEMINFO`,
/// linux/sock_diag.h).
pub(crate) fn drops(of: BorrowedFd<'_>) -> io::Result<u32> {
    const FIRST: usize = libc::SK_MEMINFO_DROPS as usize * 4;
    let mut memory = [0_u8; FIRST + 4];
    let length = get_bytes(of, SockOpt(libc::SOL_SOCKET, libc::SO_MEMINFO), &mut memory)?;
    memory
        .get(FIRST..length)
        .and_then(|word| word.try_into().ok())
        .map(u32::from_ne_bytes)
        .ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))
}

/// Whether a Multipath TCP connection fell back to plain TCP, because an end or the path does not support MPTCP. The
/// accepted end of such a connection is a TCP socket, on which this option fails (`MPTCP_INFO`, linux/mptcp.h: the
/// flags follow eight bytes of counts and limits).
pub(crate) fn fell_back_to_tcp(of: BorrowedFd<'_>) -> bool {
    const SOL_MPTCP: i32 = 284;
    const MPTCP_INFO: i32 = 1;
    const FLAGS: usize = 8;
    const FALLBACK: u64 = 1;
    let mut info = [0_u8; FLAGS + 4];
    let length = get_bytes(of, SockOpt(SOL_MPTCP, MPTCP_INFO), &mut info).unwrap_or(0);
    info.get(..length).and_then(|known| number(known, FLAGS, 4)).is_none_or(|flags| flags & FALLBACK != 0)
}

macro_rules! tcp_info_field {
    ($name:expr, $field:ident, $kind:ty) => {
        ($name, offset_of!(libc::tcp_info, $field), size_of::<$kind>())
    };
}

/// Name of each counter, and its offset and width in `struct tcp_info` (linux/tcp.h), in bytes.
const TCP_INFO: &[(&str, usize, usize)] = &[
    tcp_info_field!(fact_names::RETRANSMITS, tcpi_total_retrans, u32),
    tcp_info_field!(fact_names::LOST, tcpi_lost, u32),
    tcp_info_field!(fact_names::CWND_PACKETS, tcpi_snd_cwnd, u32),
    tcp_info_field!(fact_names::MIN_RTT_US, tcpi_min_rtt, u32),
    tcp_info_field!(fact_names::RTT_US, tcpi_rtt, u32),
    tcp_info_field!(fact_names::RTTVAR_US, tcpi_rttvar, u32),
    tcp_info_field!(fact_names::SND_MSS_BYTES, tcpi_snd_mss, u32),
    tcp_info_field!(fact_names::RCV_MSS_BYTES, tcpi_rcv_mss, u32),
    tcp_info_field!(fact_names::PACING_RATE, tcpi_pacing_rate, u64),
    tcp_info_field!(fact_names::DELIVERY_RATE, tcpi_delivery_rate, u64),
    tcp_info_field!(fact_names::SEGMENTS_OUT, tcpi_segs_out, u32),
    tcp_info_field!(fact_names::SEGMENTS_IN, tcpi_segs_in, u32),
    tcp_info_field!(fact_names::DATA_SEGMENTS_OUT, tcpi_data_segs_out, u32),
    tcp_info_field!(fact_names::DATA_SEGMENTS_IN, tcpi_data_segs_in, u32),
    tcp_info_field!(fact_names::REORDERING_SEEN, tcpi_reord_seen, u32),
    tcp_info_field!(fact_names::DELIVERED_CE, tcpi_delivered_ce, u32),
    tcp_info_field!(fact_names::BUSY_TIME_US, tcpi_busy_time, u64),
    tcp_info_field!(fact_names::RTO_US, tcpi_rto, u32),
    tcp_info_field!(fact_names::ATO_US, tcpi_ato, u32),
];

/// Returns the `tcp_info` counters that this kernel provides. Omits counters with all bits set, which have no value yet
/// (or, for the pacing rate, no limit).
pub(crate) fn tcp_info(of: BorrowedFd<'_>) -> Vec<Fact> {
    let mut info = RawTcpInfo::default();
    let Ok(known) = info.read(of) else { return Vec::new() };
    TCP_INFO
        .iter()
        .filter_map(|(name, first, width)| {
            let value = number(known, *first, *width)?;
            let none = if *width == 4 { u64::from(u32::MAX) } else { u64::MAX };
            (value != none).then(|| Fact::number(name, value as f64))
        })
        .collect()
}

/// Returns the flags of the options that both ends of a TCP connection negotiated (`tcpi_options`, linux/tcp.h).
fn negotiated_options(of: BorrowedFd<'_>) -> Option<u8> {
    let mut info = RawTcpInfo::default();
    info.read(of).ok()?.get(offset_of!(libc::tcp_info, tcpi_options)).copied()
}

/// Returns the TCP header size of a segment without SACK (RFC 9293, section 3.1; RFC 7323, appendix A).
pub(crate) fn tcp_header_bytes(of: BorrowedFd<'_>) -> Option<u32> {
    const TIMESTAMPS: u8 = 1;
    Some(if negotiated_options(of)? & TIMESTAMPS == 0 { 20 } else { 32 })
}

/// Returns whether a TCP connection uses ECN: `off`, `on`, or `received` if packets with ECN have arrived.
pub(crate) fn ecn(of: BorrowedFd<'_>) -> Option<&'static str> {
    const NEGOTIATED: u8 = 8;
    const SEEN: u8 = 16;
    let options = negotiated_options(of)?;
    Some(match (options & NEGOTIATED != 0, options & SEEN != 0) {
        (false, _) => "off",
        (true, false) => "on",
        (true, true) => "received",
    })
}

/// Returns the counts of segments with and without payload, both directions. The kernel's counters wrap at 32 bits.
pub(crate) fn segments(of: BorrowedFd<'_>) -> Option<Segments> {
    let mut info = RawTcpInfo::default();
    let known = info.read(of).ok()?;
    let sum = |sent, received| Some(number(known, sent, 4)? + number(known, received, 4)?);
    let all = sum(offset_of!(libc::tcp_info, tcpi_segs_out), offset_of!(libc::tcp_info, tcpi_segs_in))?;
    let with_payload =
        sum(offset_of!(libc::tcp_info, tcpi_data_segs_out), offset_of!(libc::tcp_info, tcpi_data_segs_in))?;
    Some(Segments { with_payload, bare: all.saturating_sub(with_payload) })
}

/// Returns a connection's bytes in flight and in the send buffer, and the sender's estimates of the path.
pub(crate) fn sender_state(of: BorrowedFd<'_>) -> Option<SenderState> {
    let mut info = RawTcpInfo::default();
    let known = info.read(of).ok()?;
    let field = |first| number(known, first, 4);
    let mss_bytes = field(offset_of!(libc::tcp_info, tcpi_snd_mss))?;
    let min_rtt_us = field(offset_of!(libc::tcp_info, tcpi_min_rtt))?;
    Some(SenderState {
        at_ns: 0,
        in_flight_bytes: field(offset_of!(libc::tcp_info, tcpi_unacked))? * mss_bytes,
        not_sent_bytes: field(offset_of!(libc::tcp_info, tcpi_notsent_bytes))?,
        round_trip_ns: field(offset_of!(libc::tcp_info, tcpi_rtt))? * 1000,
        // All bits are set until the kernel has measured an RTT.
        least_round_trip_ns: if min_rtt_us == u64::from(u32::MAX) { 0 } else { min_rtt_us * 1000 },
        delivered_bytes_per_s: number(known, offset_of!(libc::tcp_info, tcpi_delivery_rate), 8)?,
    })
}

/// `struct tcp_info` as bytes. Older kernels fill fewer bytes.
struct RawTcpInfo([u8; size_of::<libc::tcp_info>()]);

impl Default for RawTcpInfo {
    fn default() -> Self {
        Self([0; size_of::<libc::tcp_info>()])
    }
}

impl RawTcpInfo {
    fn read(&mut self, of: BorrowedFd<'_>) -> io::Result<&[u8]> {
        let length = get_bytes(of, SockOpt(libc::IPPROTO_TCP, libc::TCP_INFO), &mut self.0)?;
        Ok(&self.0[..length.min(self.0.len())])
    }
}

/// Reads the field at offset `first`, which is 4 or 8 bytes wide; `None` if the kernel did not fill it.
fn number(known: &[u8], first: usize, width: usize) -> Option<u64> {
    let bytes = known.get(first..first + width)?;
    match width {
        4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
        _ => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
    }
}
