//! The words of an explanation: a sentence and a fix for each cause, what was seen and what was not.

use hairpin_model::explanation::evidence as names;
use hairpin_model::quantities::{byte_rate, bytes, count, counted, duration, share};
use hairpin_model::trace::End;
use hairpin_model::{Cause, CauseText, ExplainedCause, Explanation, FactValue, RangeNs, Tier, VantagePoint};

/// Writes the texts of an explanation.
pub fn write_explanation(explanation: &mut Explanation) {
    for cause in &mut explanation.causes {
        let words = Words { cause };
        let (sentence, fix) = words.of();
        cause.text = CauseText { sentence, fix };
    }
    let (seen, not_seen) = evidence(explanation);
    explanation.seen.extend(seen);
    explanation.not_seen.extend(not_seen);
}

/// The facts of a cause, in words.
struct Words<'c> {
    cause: &'c ExplainedCause,
}

impl Words<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        let fact = self.cause.evidence.iter().find(|fact| fact.name == name)?;
        match fact.value {
            FactValue::Number(number) => Some(number),
            FactValue::Word(_) => None,
        }
    }

    fn word(&self, name: &str) -> Option<&str> {
        let fact = self.cause.evidence.iter().find(|fact| fact.name == name)?;
        match &fact.value {
            FactValue::Word(word) => Some(word),
            FactValue::Number(_) => None,
        }
    }

    fn time(&self, name: &str) -> String {
        self.number(name).map_or_else(|| "some time".to_owned(), duration)
    }

    fn size(&self, name: &str) -> String {
        self.number(name).map_or_else(|| "some bytes".to_owned(), bytes)
    }

    fn count(&self, name: &str) -> String {
        count(self.number(name).unwrap_or(0.0) as u64)
    }

    fn rate(&self) -> String {
        self.number(names::RATE_BYTES_PER_S).map_or_else(String::new, byte_rate)
    }

    /// `in 39 of 40 exchanges`.
    fn in_exchanges(&self) -> String {
        format!("in {} of {} exchanges", self.count(names::AFFECTED), self.count(names::EXCHANGES))
    }

    fn is_client(&self) -> bool {
        self.word(names::END) == Some(End::Client.word())
    }

    fn end(&self) -> &str {
        self.word(names::END).unwrap_or("sender")
    }

    /// The end that must act, with the address: `The server 10.0.0.1:80`.
    fn who(&self) -> String {
        let place = &self.cause.place;
        if self.is_client() { format!("The client of {place}") } else { format!("The server {place}") }
    }

    /// `segment 2 (1000 B)`, or without packets `the last one (1000 B)`.
    fn segment(&self) -> String {
        let name = self.number(names::HELD_SEGMENT).map(|_| format!("segment {}", self.count(names::HELD_SEGMENT)));
        format!("{} ({})", name.unwrap_or_else(|| "the last one".to_owned()), self.size(names::HELD_BYTES))
    }

    fn message(&self) -> &'static str {
        if self.is_client() { "request" } else { "answer" }
    }

    fn of(&self) -> (String, String) {
        let place = &self.cause.place;
        let wait = self.time(names::WAIT_NS);
        let exchanges = self.in_exchanges();
        match self.cause.code {
            Cause::NagleMeetsDelayedAck => (
                format!(
                    "{} sends its {} in several segments; {} waits {wait} for a delayed acknowledgment {exchanges}",
                    self.who(),
                    self.message(),
                    self.segment()
                ),
                format!("set TCP_NODELAY at the {}, or send the {} in one write", self.end(), self.message()),
            ),
            Cause::NagleWaits => (
                format!(
                    "{} sends its {} in several segments; {} waits {wait}, a round trip, for the acknowledgment of the one \
                     before {exchanges}",
                    self.who(),
                    self.message(),
                    self.segment()
                ),
                format!("set TCP_NODELAY at the {}, or send the {} in one write", self.end(), self.message()),
            ),
            Cause::DelayedAck => (
                format!("{} may send no more until a delayed acknowledgment arrives: {wait} {exchanges}", self.who()),
                "set TCP_QUICKACK at the receiver before each read, or raise what the sender may have in flight".to_owned(),
            ),
            Cause::ReceiveWindow => (
                format!(
                    "The receive window of the {} of {place} is small ({}): data waits {wait} for room {exchanges}",
                    self.end(),
                    self.size(names::WINDOW_BYTES)
                ),
                format!(
                    "do not set SO_RCVBUF at the {}, so that Linux grows the buffer (net.ipv4.tcp_rmem), or set it to the rate \
                     times the round trip of {}",
                    self.end(),
                    self.time(names::ROUND_TRIP_NS)
                ),
            ),
            Cause::OwnSendQueue => (
                format!("Data waits {wait} in the send buffer of the {} of {place} {exchanges}", self.end()),
                format!("set TCP_NOTSENT_LOWAT or a smaller SO_SNDBUF at the {}", self.end()),
            ),
            Cause::SlowReader => (
                format!(
                    "The program of the {} of {place} reads too slowly: its receive window is full, and data waits {wait} \
                     {exchanges}",
                    self.end()
                ),
                "read sooner, in a thread of its own; a larger buffer only delays the wait".to_owned(),
            ),
            Cause::BlockedInSend => (
                format!(
                    "The server {place} serves no client while {} does not read: {} times, {wait} each",
                    self.word(names::CLIENT).unwrap_or("one of them"),
                    self.count(names::AFFECTED)
                ),
                "write without blocking (O_NONBLOCK with epoll), and drop messages for clients whose buffer is full"
                    .to_owned(),
            ),
            Cause::CongestionWindow => (
                format!("The congestion window of the {} of {place} is full: data waits {wait} {exchanges}", self.end()),
                "keep connections in use, so that their window is large when it is needed; send less before an answer".to_owned(),
            ),
            Cause::SlowStartAfterIdle => (
                format!(
                    "After a pause, transfers of {place} begin with {} in flight instead of {}, and take {wait} longer \
                     {exchanges}",
                    self.size(names::FIRST_FLIGHT_BYTES),
                    self.size(names::EARLIER_FLIGHT_BYTES)
                ),
                "set net.ipv4.tcp_slow_start_after_idle=0 at the sender".to_owned(),
            ),
            Cause::Retransmission => (
                format!("{}, and {wait} pass {exchanges} until they are sent again", self.losses()),
                "find where packets are lost: `ip -s link`, `tc -s qdisc` and the devices on the path count them".to_owned(),
            ),
            Cause::RetransmissionTimeOut => (
                format!("{}, and the sender waits {wait} for its timer {exchanges}", self.losses()),
                "find where packets are lost (`ip -s link`, `tc -s qdisc`); no later data of these messages shows a loss \
                 sooner, so a shorter minimum time-out (TCP_RTO_MIN_US, Linux 6.15) helps too"
                    .to_owned(),
            ),
            Cause::ApplicationWindow => (
                format!(
                    "The protocol of {place} sends {} and then waits a round trip ({}) for permission {exchanges}: at most {}",
                    self.size(names::WINDOW_BYTES),
                    self.time(names::ROUND_TRIP_NS),
                    self.rate()
                ),
                "raise the protocol's own window to at least the rate times the round trip (HTTP/2: \
                 SETTINGS_INITIAL_WINDOW_SIZE and WINDOW_UPDATE)"
                    .to_owned(),
            ),
            Cause::OneRequestPerRoundTrip => (
                format!(
                    "Each request to {place} waits for the answer before it: {} requests in turn, a round trip ({}) each",
                    self.count(names::AFFECTED),
                    self.time(names::ROUND_TRIP_NS)
                ),
                "send several requests at once (pipelining, batches, connections in parallel), or ask for more with each"
                    .to_owned(),
            ),
            Cause::ConnectionPerRequest => (
                format!(
                    "Requests to {place} open connections: {} of them, with {} exchanges each, and each takes {} to open",
                    self.count(names::CONNECTIONS),
                    self.count(names::EXCHANGES),
                    self.time(names::OPENING_NS)
                ),
                "keep connections open for the next request (keep-alive, a pool)".to_owned(),
            ),
            Cause::ConnectDelayed => (
                format!(
                    "The first packet of {} of {} connections to {place} was lost: they open {wait} later",
                    self.count(names::AFFECTED),
                    self.count(names::CONNECTIONS)
                ),
                "look for a full accept queue (`nstat -az TcpExtListenOverflows`), a firewall, or loss on the path".to_owned(),
            ),
            Cause::AcceptQueueOverflow => (
                format!(
                    "The accept queue of {place} is full: {} of {} connections wait {wait} because the server's kernel dropped \
                     the end of their handshake",
                    self.count(names::AFFECTED),
                    self.count(names::CONNECTIONS)
                ),
                "accept sooner, and raise the backlog of listen() and net.core.somaxconn".to_owned(),
            ),
            Cause::PathMtu => (self.path_mtu(), {
                "let routers' ICMP messages pass (fragmentation needed, packet too big), lower the MTU of the route, or set \
                 net.ipv4.tcp_mtu_probing=1"
                    .to_owned()
            }),
            Cause::ServerWork => (
                format!(
                    "The program of the server {place} takes {wait} of the {} of an exchange",
                    self.time(names::EXCHANGE_NS)
                ),
                "the network is not the cause: profile the server".to_owned(),
            ),
            Cause::ServerStalled => (
                format!(
                    "Requests to {place} wait {wait} {exchanges} while the server's program does something else; the others \
                     take {}",
                    self.time(names::EXCHANGE_NS)
                ),
                "do long work outside the loop that serves requests, in a thread or process of its own".to_owned(),
            ),
            Cause::CpuContention => (
                format!("The programs at {place} wait for a CPU: {wait} in all"),
                "give them a CPU of their own (taskset, isolcpus), or run less beside them".to_owned(),
            ),
            Cause::CpuQuota => (
                format!("A CPU quota stops the programs at {place}: {wait} in all"),
                "raise the quota (cpu.max of the control group)".to_owned(),
            ),
            Cause::UdpReceiveOverrun => (
                format!("The receive buffer of {place} was full: {} datagrams were dropped", self.count(names::AFFECTED)),
                "raise SO_RCVBUF and net.core.rmem_max, and read sooner".to_owned(),
            ),
            Cause::ClientIdle => (
                format!(
                    "The client of {place} sends rarely: it is idle for {} of the time, {wait} before an exchange",
                    share(self.cause.share.unwrap_or(0.0))
                ),
                "the network is not the cause: the client's program decides when it sends".to_owned(),
            ),
            Cause::LinkSaturated => (
                format!(
                    "The path of {place} is full at {}: packets wait in a queue, and the round trip grows from {} to {}",
                    self.rate(),
                    self.time(names::ROUND_TRIP_NS),
                    self.time(names::LOADED_ROUND_TRIP_NS)
                ),
                "send slower (SO_MAX_PACING_RATE), put a queue with fq_codel at the bottleneck, or get a faster path".to_owned(),
            ),
        }
    }

    fn losses(&self) -> String {
        format!(
            "Packets of {} are lost ({} of {} were sent again)",
            self.cause.place,
            self.count(names::SENT_AGAIN),
            self.count(names::SENT)
        )
    }

    fn path_mtu(&self) -> String {
        let smaller = self.number(names::ARRIVED_PACKET_BYTES).map(bytes);
        let smaller = smaller.map(|size| format!(", those of {size} and less do")).unwrap_or_default();
        let router = self.number(names::PATH_MTU_BYTES).map(bytes);
        let router = router.map(|size| format!("; a router accepts at most {size}")).unwrap_or_default();
        format!("{}: packets of {} never arrive{smaller}{router}", self.who(), self.size(names::LOST_PACKET_BYTES))
    }
}

/// Returns what each exchange would save: `40 ms to 44 ms`.
pub(crate) fn saved(range: &RangeNs) -> String {
    let [low, high] = [range.low, range.high].map(duration);
    if low == high { low } else { format!("{low} to {high}") }
}

/// Returns what the evidence shows, and what it cannot show.
fn evidence(explanation: &Explanation) -> (Vec<String>, Vec<String>) {
    let (tier, packets) = (explanation.tier, &explanation.packets);
    let mut seen = Vec::new();
    if packets.frames > 0 {
        let at = match packets.seen_at {
            Some(VantagePoint::Client) => ", captured at the client",
            Some(VantagePoint::Server) => ", captured at the server",
            Some(VantagePoint::Both) => ", captured at both ends",
            Some(VantagePoint::Between) => ", captured between the ends",
            Some(VantagePoint::Unknown) | None => "",
        };
        seen.push(format!(
            "{} in {}, {} of TCP{at}",
            counted(packets.frames, "packet"),
            duration(packets.duration_ns as f64),
            counted(packets.connections, "connection")
        ));
    }
    let mut not_seen: Vec<String> = Vec::new();
    let mut lacks = |number: u64, text: &dyn Fn(String) -> String| {
        if number > 0 {
            not_seen.push(text(count(number)));
        }
    };
    lacks(packets.lost_by_capture, &|number| format!("{number} packets that the capture lost"));
    lacks(packets.cut, &|number| {
        format!("{number} packets cut before the end of their TCP header (capture at least 96 bytes)")
    });
    lacks(packets.not_kept, &|number| format!("{number} packets beyond the limit of 4 million"));
    lacks(packets.exchanges_skipped, &|number| {
        format!("the states of {number} exchanges after the first 20,000 of a connection")
    });
    lacks(packets.without_handshake, &|number| {
        format!(
            "the beginning of {number} connections, and with it the scale of their windows and the shortest round trip"
        )
    });
    not_seen.extend(packets.ended_early.as_ref().map(|why| format!("the rest of the capture: {why}")));
    if let Some(programs) = &explanation.programs {
        let watched = duration(programs.duration_ns as f64);
        seen.push(format!(
            "{} with sockets, for {watched}: {} of sockets, waits for a CPU, counters of drops",
            counted(programs.programs, "program"),
            counted(programs.samples, "sample")
        ));
        not_seen.extend(programs.no_packets.as_ref().map(|why| {
            format!("packets: {why}; --own-network needs no root if the programs talk only to each other")
        }));
        not_seen.push(
            "what io_uring and encrypted protocols carry, and connections that were shorter than 20 ms without \
             packets"
                .to_owned(),
        );
    }
    if tier == Tier::File {
        not_seen.push(
            "what the programs and their kernels did: work, waiting for a CPU and unread data look alike in packets \
             (`hairpin explain -- COMMAND` samples them)"
                .to_owned(),
        );
    }
    (seen, not_seen)
}
