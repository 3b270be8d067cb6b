//! The names of all facts but options: who reads one and who reports it use the same constant.

macro_rules! fact_names {
    ($($(#[$list_meta:meta])+ $list:ident { $($(#[$meta:meta])+ $name:ident = $word:literal,)+ })+) => {
        $(
            $($(#[$meta])+ pub const $name: &str = $word;)+
            $(#[$list_meta])+ pub const $list: &[&str] = &[$($name),+];
        )+

        /// Every name.
        pub const ALL: &[&[&str]] = &[$($list),+];
    };
}

fact_names! {
    /// Counts of events since the connection began: rounds add up.
    EVENTS {
        /// Segments sent again (`tcpi_total_retrans`).
        RETRANSMITS = "tcp_info.retransmits",
        /// Segments taken for lost (`tcpi_lost`).
        LOST = "tcp_info.lost",
        /// Segments sent (`tcpi_segs_out`).
        SEGMENTS_OUT = "tcp_info.segments_out",
        /// Segments received (`tcpi_segs_in`).
        SEGMENTS_IN = "tcp_info.segments_in",
        /// Segments with payload sent (`tcpi_data_segs_out`).
        DATA_SEGMENTS_OUT = "tcp_info.data_segments_out",
        /// Segments with payload received (`tcpi_data_segs_in`).
        DATA_SEGMENTS_IN = "tcp_info.data_segments_in",
        /// Times that segments came in another order (`tcpi_reord_seen`).
        REORDERING_SEEN = "tcp_info.reordering_seen",
        /// Segments delivered with a mark of congestion (`tcpi_delivered_ce`).
        DELIVERED_CE = "tcp_info.delivered_ce",
        /// Messages thrown away because the receive buffer was full (`SK_MEMINFO_DROPS`).
        SOCKET_DROPS = "socket.drops",
        /// Sends with `MSG_ZEROCOPY` that are complete; present with the option `zerocopy`, as is the next.
        ZEROCOPY_COMPLETED = "zerocopy.completed",
        /// Those of them whose bytes the kernel copied after all (`SO_EE_CODE_ZEROCOPY_COPIED`).
        ZEROCOPY_COPIED = "zerocopy.copied",
        /// Connections or datagrams that came before the client and did not know the round's hello.
        IGNORED = "hello.ignored",
        /// Times that a sleeping end of `shm` was woken by its time-out and not by its peer.
        SHM_LATE_WAKES = "shm.late_wakes",
        /// Messages of an open loop that were due and had to wait, because as many were unanswered as their numbers
        /// tell apart; absent where none had to.
        WAITED_FOR_ANSWERS = "open_loop.waited_for_answers",
        /// Messages that a server on another host received and answered, the warm-up's too.
        ANSWERED = "server.answered",
        /// That a round of another client ran at the same time: 1.
        OVERLAPPED = "server.overlapped",
        /// Those of them that were copies of one that it had received, the next also only of datagrams.
        DUPLICATED_UP = "server.duplicated",
        /// Those of them before which one had come that was sent later (RFC 4737).
        REORDERED_UP = "server.reordered",
        /// `TCPAutoCorking` of /proc/net/netstat, of all connections of the network namespace.
        AUTOCORKING = "netstat.TCPAutoCorking",
        /// Segments sent again because of acknowledgments that came (`TCPFastRetrans`). Read under a link only, where the
        /// network namespace carries this connection and no other; so are the next five.
        FAST_RETRANSMITS = "netstat.TCPFastRetrans",
        /// Times that the retransmission timer ran out (`TCPTimeouts`).
        RETRANSMISSION_TIMEOUTS = "netstat.TCPTimeouts",
        /// Tail loss probes (`TCPLossProbes`; RFC 8985, section 7).
        LOSS_PROBES = "netstat.TCPLossProbes",
        /// Segments sent again in slow start after a time-out (`TCPSlowStartRetrans`).
        SLOW_START_RETRANSMITS = "netstat.TCPSlowStartRetrans",
        /// Datagrams thrown away for a wrong checksum (`Udp: InCsumErrors` of /proc/net/snmp).
        UDP_CHECKSUM_ERRORS = "snmp.UdpInCsumErrors",
        /// Datagrams thrown away because the receive buffer was full (`Udp: RcvbufErrors`). The socket's own counter adds
        /// wrong checksums to them.
        UDP_BUFFER_ERRORS = "snmp.UdpRcvbufErrors",
        /// Packets that queue disciplines of this end's network namespace dropped during a one-way load (`TCA_STATS2`), of all
        /// programs in it.
        QDISC_DROPS = "namespace.qdisc_drops",
        /// Packets that were received and dropped by devices of this end's network namespace during a one-way load
        /// (/proc/net/dev), of all programs in it.
        DEVICE_DROPS = "namespace.device_drops",
    }
    /// Quantities: the median over rounds counts.
    QUANTITIES {
        /// The congestion window (`tcpi_snd_cwnd`).
        CWND_PACKETS = "tcp_info.cwnd_packets",
        /// The least round-trip time (`tcpi_min_rtt`).
        MIN_RTT_US = "tcp_info.min_rtt_us",
        /// The smoothed round-trip time (`tcpi_rtt`).
        RTT_US = "tcp_info.rtt_us",
        /// Its variation (`tcpi_rttvar`).
        RTTVAR_US = "tcp_info.rttvar_us",
        /// Bytes of the IP and TCP headers of a segment, with time stamps where both ends send them (`tcpi_options`), and without SACK.
        HEADER_BYTES = "tcp.header_bytes",
        /// The most payload of a segment that is sent (`tcpi_snd_mss`).
        SND_MSS_BYTES = "tcp_info.snd_mss_bytes",
        /// The same of one received, as it is guessed (`tcpi_rcv_mss`).
        RCV_MSS_BYTES = "tcp_info.rcv_mss_bytes",
        /// The rate at which segments are paced (`tcpi_pacing_rate`); absent where there is no limit.
        PACING_RATE = "tcp_info.pacing_rate_bytes_per_s",
        /// The rate at which segments were delivered lately (`tcpi_delivery_rate`).
        DELIVERY_RATE = "tcp_info.delivery_rate_bytes_per_s",
        /// Time in which something was unacknowledged (`tcpi_busy_time`).
        BUSY_TIME_US = "tcp_info.busy_time_us",
        /// The retransmission time-out (`tcpi_rto`).
        RTO_US = "tcp_info.rto_us",
        /// The time-out of delayed acknowledgments (`tcpi_ato`).
        ATO_US = "tcp_info.ato_us",
        /// The TTL, of IPv6 the hop limit, of a packet with which the flow began, as this end received it across a link or from
        /// another host. Each router on the way has taken one off; most hosts begin at 64, 128 or 255.
        RECEIVED_TTL = "received.ttl",
        /// Its DSCP (RFC 2474).
        RECEIVED_DSCP = "received.dscp",
        /// Its two bits of ECN (RFC 3168): 0 not ECT, 1 ECT(1), 2 ECT(0), 3 CE. Packets that open a connection of TCP have 0.
        RECEIVED_ECN = "received.ecn",
        /// The largest packet that the kernel sends on the path, across a link or to another host (`IP_MTU`, `IPV6_MTU`).
        PATH_MTU_BYTES = "path.mtu_bytes",
        /// Bytes that a pipe holds (`F_GETPIPE_SZ`).
        PIPE_CAPACITY_BYTES = "pipe.capacity_bytes",
        /// Messages that fit between two ends of `memory`.
        MEMORY_SLOTS = "memory.slots",
        /// Messages that fit between two ends of `shm`.
        SHM_SLOTS = "shm.slots",
        /// Bytes of each of them.
        SHM_SLOT_BYTES = "shm.slot_bytes",
    }
    /// Words.
    WORDS {
        /// The address of the socket's own end.
        LOCAL_ADDRESS = "socket.local_address",
        /// Whether the ends of a TCP connection use ECN (`tcpi_options`): `off`, `on`, or `received` where a packet has come with it.
        ECN = "tcp.ecn",
        /// Whether Multipath TCP goes on as plain TCP: `yes` or `no`.
        FELL_BACK_TO_TCP = "mptcp.fell_back_to_tcp",
        /// Why the kernel stamps nothing.
        KERNEL_STAMPS_REFUSED = "kernel_stamps.refused",
    }
}

/// Whether a fact of that name exists.
#[must_use]
pub fn exists(name: &str) -> bool {
    ALL.iter().any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_stands_for_two_facts() {
        let all: Vec<&str> = ALL.concat();
        let distinct: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(exists("tcp_info.snd_mss_bytes") && !exists("tcp_info.snd_mss"));
    }
}
