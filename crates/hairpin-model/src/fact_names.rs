//! Names of all facts except options, shared by the code that reports and the code that reads them.

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
    /// Counts of events since the connection began; summed over rounds.
    EVENTS {
        /// Retransmitted segments (`tcpi_total_retrans`).
        RETRANSMITS = "tcp_info.retransmits",
        /// Segments considered lost (`tcpi_lost`).
        LOST = "tcp_info.lost",
        /// Segments sent (`tcpi_segs_out`).
        SEGMENTS_OUT = "tcp_info.segments_out",
        /// Segments received (`tcpi_segs_in`).
        SEGMENTS_IN = "tcp_info.segments_in",
        /// Segments with payload sent (`tcpi_data_segs_out`).
        DATA_SEGMENTS_OUT = "tcp_info.data_segments_out",
        /// Segments with payload received (`tcpi_data_segs_in`).
        DATA_SEGMENTS_IN = "tcp_info.data_segments_in",
        /// Number of times that TCP detected reordering (`tcpi_reord_seen`).
        REORDERING_SEEN = "tcp_info.reordering_seen",
        /// Segments delivered with a congestion mark (`tcpi_delivered_ce`).
        DELIVERED_CE = "tcp_info.delivered_ce",
        /// Messages dropped because the receive buffer was full (`SK_MEMINFO_DROPS`).
        SOCKET_DROPS = "socket.drops",
        /// Datagrams that were not from the other end, and were dropped; only for datagrams between hosts.
        STRAYS = "socket.strays",
        /// ICMP errors, which anyone may have sent, and which were ignored; only for datagrams between hosts.
        ICMP_ERRORS = "socket.icmp_errors",
        /// QUIC packets sent (quinn's `PathStats::sent_packets`).
        QUIC_SENT_PACKETS = "quic.sent_packets",
        /// QUIC packets that the sender considers lost.
        QUIC_LOST_PACKETS = "quic.lost_packets",
        /// Reductions of QUIC's congestion window.
        QUIC_CONGESTION_EVENTS = "quic.congestion_events",
        /// UDP datagrams sent, of which one may carry several QUIC packets.
        QUIC_SENT_DATAGRAMS = "quic.sent_datagrams",
        /// Answers of a foreign server, warm-up included.
        FOREIGN_ANSWERS = "foreign.answers",
        /// Bytes of these answers, without headers.
        FOREIGN_ANSWER_BYTES = "foreign.answer_bytes",
        /// Completed sends with `MSG_ZEROCOPY`; present only with the option `zerocopy`.
        ZEROCOPY_COMPLETED = "zerocopy.completed",
        /// Sends with `MSG_ZEROCOPY` whose bytes the kernel copied after all (`SO_EE_CODE_ZEROCOPY_COPIED`); present
        /// only with the option `zerocopy`.
        ZEROCOPY_COPIED = "zerocopy.copied",
        /// Kernel time stamps that the receiver took with its messages; present only with the observer `timestamps`.
        STAMPS_RECEIVED = "stamps.received",
        /// Messages that the observer has recorded, warm-up included; with `capture`, captured packets.
        OBSERVED = "observer.recorded",
        /// Packets that the capture lost; present only with the observer `capture`.
        CAPTURE_LOST = "observer.lost",
        /// Connections or datagrams that arrived before the client's and lacked the round's hello message.
        IGNORED = "hello.ignored",
        /// Times that a sleeping end of `shm` was woken by its time-out instead of its peer.
        SHM_LATE_WAKES = "shm.late_wakes",
        /// Due messages of an open loop that waited because unanswered messages used all message numbers; absent if
        /// 0.
        WAITED_FOR_ANSWERS = "open_loop.waited_for_answers",
        /// Messages that a server on another host received and answered, warm-up included.
        ANSWERED = "server.answered",
        /// 1 if a round of another client ran at the same time.
        OVERLAPPED = "server.overlapped",
        /// Answered messages that were copies of one already received; only for datagrams.
        DUPLICATED_UP = "server.duplicated",
        /// Answered messages that arrived after a message sent later (RFC 4737); only for datagrams.
        REORDERED_UP = "server.reordered",
        /// `TCPAutoCorking` of /proc/net/netstat: sends that the kernel delayed to merge them, in the whole network
        /// namespace.
        AUTOCORKING = "netstat.TCPAutoCorking",
        /// Retransmissions triggered by acknowledgments (`TCPFastRetrans`). This and the next five facts are read on
        /// an emulated link, whose network namespace carries no other connection. The trace of a round has the first four
        /// of its network namespace, also without a link.
        FAST_RETRANSMITS = "netstat.TCPFastRetrans",
        /// Expirations of the retransmission timer (`TCPTimeouts`).
        RETRANSMISSION_TIMEOUTS = "netstat.TCPTimeouts",
        /// Tail loss probes (`TCPLossProbes`; RFC 8985, section 7).
        LOSS_PROBES = "netstat.TCPLossProbes",
        /// Retransmissions in slow start after a time-out (`TCPSlowStartRetrans`).
        SLOW_START_RETRANSMITS = "netstat.TCPSlowStartRetrans",
        /// Datagrams dropped for a wrong checksum (`Udp: InCsumErrors` of /proc/net/snmp).
        UDP_CHECKSUM_ERRORS = "snmp.UdpInCsumErrors",
        /// Datagrams dropped because the receive buffer was full (`Udp: RcvbufErrors`). The socket's own counter
        /// includes wrong checksums.
        UDP_BUFFER_ERRORS = "snmp.UdpRcvbufErrors",
        /// Packets of any program that queue disciplines of the end's namespace dropped in a one-way load
        /// (`TCA_STATS2`).
        QDISC_DROPS = "namespace.qdisc_drops",
        /// Packets for any program that devices of the end's namespace dropped on receipt in a one-way load
        /// (/proc/net/dev).
        DEVICE_DROPS = "namespace.device_drops",
        /// Periods in which the end's control groups used up their CPU quota (`nr_throttled` of `cpu.stat`). Present
        /// only with a quota, like the next fact.
        THROTTLED_PERIODS = "cgroup.throttled_periods",
        /// Time for which the control groups were throttled, summed over CPUs (`throttled_usec`).
        THROTTLED_NS = "cgroup.throttled_ns",
    }
    /// Quantities; summarized by their median over rounds.
    QUANTITIES {
        /// The congestion window (`tcpi_snd_cwnd`).
        CWND_PACKETS = "tcp_info.cwnd_packets",
        /// QUIC's congestion window.
        QUIC_WINDOW_BYTES = "quic.congestion_window_bytes",
        /// QUIC's maximum UDP payload, after MTU discovery (RFC 8899).
        QUIC_MTU_BYTES = "quic.mtu_bytes",
        /// Minimum round-trip time (`tcpi_min_rtt`).
        MIN_RTT_US = "tcp_info.min_rtt_us",
        /// Smoothed round-trip time (`tcpi_rtt`).
        RTT_US = "tcp_info.rtt_us",
        /// Variation of the round-trip time (`tcpi_rttvar`).
        RTTVAR_US = "tcp_info.rttvar_us",
        /// Bytes of a segment's IP and TCP headers, with TCP timestamps if both ends send them (`tcpi_options`),
        /// without SACK.
        HEADER_BYTES = "tcp.header_bytes",
        /// Maximum payload of a sent segment (`tcpi_snd_mss`).
        SND_MSS_BYTES = "tcp_info.snd_mss_bytes",
        /// Estimated maximum payload of a received segment (`tcpi_rcv_mss`).
        RCV_MSS_BYTES = "tcp_info.rcv_mss_bytes",
        /// Pacing rate of segments (`tcpi_pacing_rate`); absent if unlimited.
        PACING_RATE = "tcp_info.pacing_rate_bytes_per_s",
        /// Recent delivery rate of segments (`tcpi_delivery_rate`).
        DELIVERY_RATE = "tcp_info.delivery_rate_bytes_per_s",
        /// Time with unacknowledged data (`tcpi_busy_time`).
        BUSY_TIME_US = "tcp_info.busy_time_us",
        /// The retransmission time-out (`tcpi_rto`).
        RTO_US = "tcp_info.rto_us",
        /// The time-out of delayed acknowledgments (`tcpi_ato`).
        ATO_US = "tcp_info.ato_us",
        /// TTL (IPv6: hop limit) of a packet from the start of the flow, as received across a link or from another
        /// host. Each router subtracts one; most hosts start at 64, 128 or 255.
        RECEIVED_TTL = "received.ttl",
        /// DSCP of the same packet (RFC 2474).
        RECEIVED_DSCP = "received.dscp",
        /// ECN bits of the same packet (RFC 3168): 0 not ECT, 1 ECT(1), 2 ECT(0), 3 CE. Packets that open a TCP
        /// connection have 0.
        RECEIVED_ECN = "received.ecn",
        /// The largest packet that the kernel sends across a link or to another host (`IP_MTU`, `IPV6_MTU`).
        PATH_MTU_BYTES = "path.mtu_bytes",
        /// Mean time to encode a message as a document, of one message in 16 (warm-up included). Only of transports whose
        /// messages are documents, as is the next fact.
        ENCODE_NS = "coding.encode_ns",
        /// Mean time to decode a document, of one message in 16.
        DECODE_NS = "coding.decode_ns",
        /// Bytes that a pipe holds (`F_GETPIPE_SZ`).
        PIPE_CAPACITY_BYTES = "pipe.capacity_bytes",
        /// Capacity of `memory` between two ends, in messages.
        MEMORY_SLOTS = "memory.slots",
        /// Capacity of `shm` between two ends, in messages.
        SHM_SLOTS = "shm.slots",
        /// CPUs that the end's control groups may use (`cpu.max`); absent without a quota.
        CPU_QUOTA = "cgroup.cpu_quota",
        /// By how much CLOCK_REALTIME was set during a stamped round; absent if it was not.
        REALTIME_STEP_NS = "realtime.step_ns",
        /// Timer slack of the client's thread (`PR_GET_TIMERSLACK`). Present only if the case sets it, like the next
        /// two facts.
        TIMER_SLACK_NS = "thread.timer_slack_ns",
        /// Locked memory of the end's process (`VmLck` of /proc/self/status).
        LOCKED_BYTES = "process.locked_bytes",
        /// Open descriptors of the end's process at the end of its load. Present only for several connections and for ways to
        /// wait with several threads, like the next two facts.
        DESCRIPTORS = "process.descriptors",
        /// Threads of the process at the last measured message.
        THREADS = "process.threads",
        /// Largest resident memory of the process (`VmHWM` of /proc/self/status).
        PEAK_MEMORY_BYTES = "process.peak_memory_bytes",
        /// Bytes per slot of `shm`.
        SHM_SLOT_BYTES = "shm.slot_bytes",
    }
    /// Words.
    WORDS {
        /// Local address of the socket.
        LOCAL_ADDRESS = "socket.local_address",
        /// Whether a TCP connection uses ECN (`tcpi_options`): `off`, `on`, or `received` after an ECN-capable
        /// packet.
        ECN = "tcp.ecn",
        /// Whether Multipath TCP fell back to plain TCP: `yes` or `no`.
        FELL_BACK_TO_TCP = "mptcp.fell_back_to_tcp",
        /// Scheduling policy of the end's thread.
        SCHEDULING = "thread.scheduling",
        /// Why the kernel refuses timestamps.
        KERNEL_STAMPS_REFUSED = "kernel_stamps.refused",
    }
}

pub fn exists(name: &str) -> bool {
    ALL.iter().any(|names| names.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let all: Vec<&str> = ALL.concat();
        let distinct: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(distinct.len(), all.len());
        assert!(exists("tcp_info.snd_mss_bytes") && !exists("tcp_info.snd_mss"));
    }
}
