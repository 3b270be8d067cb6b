//! The words of an explanation: a sentence and a fix for each cause, what was seen and what was not.

use hairpin_model::explanation::evidence as names;
use hairpin_model::quantities::{DASH, byte_rate, bytes, count, counted, duration, share};
use hairpin_model::trace::End;
use hairpin_model::{
    Cause, CauseText, ExplainedCause, ExplainedConnection, Explanation, FactValue, RangeNs, StateUnion, Tier,
    VantagePoint, fact,
};

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

/// The sentence and the fix of each cause, with the keys of [`Words::value`] in braces.
const TEXTS: &[(Cause, &str, &str)] = &[
    (
        Cause::NagleMeetsDelayedAck,
        "{who} sends its {message} in several segments; {segment} waits {wait} for a delayed acknowledgment {in}",
        "set TCP_NODELAY at the {end}, or send the {message} in one write",
    ),
    (
        Cause::NagleWaits,
        "{who} sends its {message} in several segments; {segment} waits {wait}, a round trip, for the acknowledgment of the one \
         before {in}",
        "set TCP_NODELAY at the {end}, or send the {message} in one write",
    ),
    (
        Cause::DelayedAck,
        "{who} may send no more until a delayed acknowledgment arrives: {wait} {in}",
        "set TCP_QUICKACK at the receiver before each read, or raise what the sender may have in flight",
    ),
    (
        Cause::ReceiveWindow,
        "The receive window of the {end} of {place} is small ({window}): data waits {wait} for room {in}",
        "do not set SO_RCVBUF at the {end}, so that Linux grows the buffer (net.ipv4.tcp_rmem), or set it to the rate times the \
         round trip of {rtt}",
    ),
    (
        Cause::OwnSendQueue,
        "{who} writes faster than the path takes: {affected} of {exchanges} messages wait {wait} in its send buffer, behind \
         {queued} of earlier ones",
        "write less than the path takes: drop or merge old messages while poll(2) does not report POLLOUT, with TCP_NOTSENT_LOWAT \
         set to a few messages at the {end}",
    ),
    (
        Cause::SlowReader,
        "The program of the {end} of {place} reads too slowly: its receive window is full, and data waits {wait} {in}",
        "read sooner, in a thread of its own; a larger buffer only delays the wait",
    ),
    (
        Cause::BlockedInSend,
        "The server {place} serves no client while {client} does not read: {times}, {wait} each",
        "write without blocking (O_NONBLOCK with epoll), and drop messages for clients whose buffer is full",
    ),
    (
        Cause::CongestionWindow,
        "The congestion window of the {end} of {place} is full: data waits {wait} {in}",
        "keep connections in use, so that their window is large when it is needed; send less before an answer",
    ),
    (
        Cause::SlowStartAfterIdle,
        "After a pause, transfers of {place} begin with {first} in flight instead of {earlier}, and take {wait} longer {in}",
        "set net.ipv4.tcp_slow_start_after_idle=0 at the sender",
    ),
    (
        Cause::Retransmission,
        "{losses}, and {wait} pass {in} until they are sent again or the smaller window lets others leave",
        "find where packets are lost: `ip -s link`, `tc -s qdisc` and the devices on the path count them",
    ),
    (
        Cause::RetransmissionTimeOut,
        "{losses}, and the sender waits {wait} for its timer {in}",
        "find where packets are lost (`ip -s link`, `tc -s qdisc`); no later data of these messages shows a loss sooner, so a \
         shorter minimum time-out (TCP_RTO_MIN_US, Linux 6.15) helps too",
    ),
    (
        Cause::ApplicationWindow,
        "The protocol of {place} sends {window} and then waits a round trip ({rtt}) for permission {in}: at most {rate}",
        "raise the protocol's own window to at least the rate times the round trip (HTTP/2: SETTINGS_INITIAL_WINDOW_SIZE and \
         WINDOW_UPDATE)",
    ),
    (
        Cause::OneRequestPerRoundTrip,
        "Each request to {place} waits for the answer before it: {affected} requests in turn, a round trip ({rtt}) each",
        "send several requests at once (pipelining, batches, connections in parallel), or ask for more with each",
    ),
    (
        Cause::ConnectionPerRequest,
        "Requests to {place} open a new connection each: {connections} connections, which take {opening} to open",
        "keep connections open for the next request (keep-alive, a pool)",
    ),
    (
        Cause::ConnectDelayed,
        "The first packet of {affected} of {connections} connections to {place} was lost: they open {wait} later",
        "look for a full accept queue (`nstat -az TcpExtListenOverflows`), a firewall, or loss on the path",
    ),
    (
        Cause::AcceptQueueOverflow,
        "The accept queue of {place} was full: its kernel dropped the end of {affected} handshakes, whose clients wait a second and \
         more",
        "accept sooner, and raise the backlog of listen() and net.core.somaxconn",
    ),
    (
        Cause::PathMtu,
        "{mtu}",
        "let routers' ICMP messages pass (fragmentation needed, packet too big), lower the MTU of the route, or set \
         net.ipv4.tcp_mtu_probing=1",
    ),
    (
        Cause::ServerWork,
        "The program of the server {place} takes {wait} of {duration} {in}",
        "the network is not the cause: profile the server",
    ),
    (
        Cause::ServerStalled,
        "Requests to {place} wait {wait} {in} while the server's program does something else; the others take {duration}",
        "do long work outside the loop that serves requests, in a thread or process of its own",
    ),
    (
        Cause::CpuContention,
        "The programs at {place} wait for a CPU: {wait} in all",
        "give them a CPU of their own (taskset, isolcpus), or run fewer programs on their CPUs",
    ),
    (
        Cause::CpuQuota,
        "A CPU quota stops the programs at {place}: {wait} in all",
        "raise the quota (cpu.max of the control group)",
    ),
    (
        Cause::UdpReceiveOverrun,
        "The receive buffer of {place} was full: {affected} datagrams were dropped",
        "raise SO_RCVBUF and net.core.rmem_max, and read sooner",
    ),
    (
        Cause::ClientIdle,
        "The client of {place} sends rarely: it is idle for {share} of the time, {wait} before an exchange",
        "the network is not the cause: the client's program decides when it sends",
    ),
    (
        Cause::LinkSaturated,
        "The path of {place} is full at {rate}: packets wait in a queue, and the round trip grows from {rtt} to {loaded}",
        "send slower (SO_MAX_PACING_RATE), put a queue with fq_codel at the bottleneck, or get a faster path",
    ),
];

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
        fact::word(&self.cause.evidence, name)
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
        let all = self.number(names::EXCHANGES).unwrap_or(0.0) as u64;
        format!("in {} of {}", self.count(names::AFFECTED), counted(all, "exchange"))
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
        let program = self.word(names::PROGRAM).map(|program| format!(" ({program})")).unwrap_or_default();
        if self.is_client() {
            format!("The client of {place}{program}")
        } else {
            format!("The server {place}{program}")
        }
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
        let text = TEXTS.iter().find(|text| text.0 == self.cause.code);
        text.map_or_else(Default::default, |(_, sentence, fix)| (self.fill(sentence), self.fill(fix)))
    }

    /// Replaces each `{key}` of a template.
    fn fill(&self, template: &str) -> String {
        let mut parts = template.split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (key, rest) = part.split_once('}').unwrap_or((part, ""));
            text.push_str(&self.value(key));
            text.push_str(rest);
        }
        text
    }

    fn value(&self, key: &str) -> String {
        match key {
            "place" => self.cause.place.clone(),
            "who" => self.who(),
            "end" => self.end().to_owned(),
            "message" => self.message().to_owned(),
            "segment" => self.segment(),
            "in" => self.in_exchanges(),
            "losses" => self.losses(),
            "mtu" => self.path_mtu(),
            "rate" => self.rate(),
            "share" => share(self.cause.share.unwrap_or(0.0)),
            "client" => self.word(names::CLIENT).unwrap_or("one of them").to_owned(),
            "wait" => self.time(names::WAIT_NS),
            "duration" => self.time(names::EXCHANGE_NS),
            "rtt" => self.time(names::ROUND_TRIP_NS),
            "loaded" => self.time(names::LOADED_ROUND_TRIP_NS),
            "opening" => self.time(names::OPENING_NS),
            "window" => self.size(names::WINDOW_BYTES),
            "queued" => self.size(names::QUEUED_BYTES),
            "first" => self.size(names::FIRST_FLIGHT_BYTES),
            "earlier" => self.size(names::EARLIER_FLIGHT_BYTES),
            "times" => counted(self.number(names::AFFECTED).unwrap_or(0.0) as u64, "time"),
            "affected" => self.count(names::AFFECTED),
            "exchanges" => self.count(names::EXCHANGES),
            "connections" => self.count(names::CONNECTIONS),
            unknown => format!("{{{unknown}}}"),
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
        // In bytes, like an MTU.
        let smaller = self.number(names::ARRIVED_PACKET_BYTES);
        let smaller = smaller.map(|bytes| format!(", those of {bytes} bytes and less do")).unwrap_or_default();
        let router = self.number(names::PATH_MTU_BYTES);
        let router = router.map(|bytes| format!("; a router accepts at most {bytes}")).unwrap_or_default();
        let lost = self.number(names::LOST_PACKET_BYTES).unwrap_or(0.0);
        format!("{}: packets of {lost} bytes never arrive{smaller}{router}", self.who())
    }
}

/// Returns the first cause and the others; without one, what can be said.
pub(crate) fn answer(explanation: &Explanation) -> Result<(&ExplainedCause, &[ExplainedCause]), &'static str> {
    match explanation.causes.split_first() {
        Some(found) => Ok(found),
        None if explanation.connections.is_empty() && explanation.programs.is_some() => {
            Err("No TCP connection was seen, and no UDP socket of the programs dropped anything.")
        }
        None if explanation.connections.is_empty() => {
            Err("No TCP connection was seen, so there is nothing to explain.")
        }
        None => Err("No known cause takes a notable part of the time of the exchanges."),
    }
}

/// Returns `nagle-waits: 93 % of the time of these exchanges; an exchange with it would save 40 ms to 44 ms`.
pub(crate) fn cost(cause: &ExplainedCause) -> String {
    let of_time = cause.share.map(|part| format!("{} of the time of these exchanges", share(part)));
    let saves =
        cause.saved_if_fixed_ns.as_ref().map(|range| format!("each affected exchange would save {}", saved(range)));
    let evidence: Vec<String> = [of_time, saves].into_iter().flatten().collect();
    if evidence.is_empty() { cause.code.to_string() } else { format!("{}: {}", cause.code, evidence.join("; ")) }
}

/// A sentence of a cause after the first, with its share and its fix.
pub(crate) fn told(cause: &ExplainedCause) -> String {
    let part = cause.share.map(|part| format!(" ({})", share(part))).unwrap_or_default();
    format!("{}{part}. Fix: {}.", cause.text.sentence, cause.text.fix)
}

pub(crate) fn head(connection: &ExplainedConnection) -> String {
    let [client, server] = &connection.ends;
    let number = connection.connections;
    let number = if number > 1 { format!(" ({} connections)", count(number)) } else { String::new() };
    format!("{client} -> {server}{number}")
}

pub(crate) fn figures(connection: &ExplainedConnection) -> String {
    let time = |ns: Option<u64>| ns.map_or_else(|| DASH.to_owned(), |ns| duration(ns as f64));
    let [sent, received] = connection.bytes.map(|count| bytes(count as f64));
    format!(
        "{}, p50 {}, p99 {}; {sent} sent, {received} received; shortest round trip {}",
        counted(connection.exchanges, "exchange"),
        time(connection.p50_ns),
        time(connection.p99_ns),
        time(connection.min_round_trip_ns)
    )
}

/// The unions that take a tenth of the time, and what would separate them.
pub(crate) fn unions(connection: &ExplainedConnection) -> Vec<String> {
    let takes_time = |union: &&StateUnion| {
        connection.states.iter().any(|time| time.state == union.name && time.share >= MIN_UNION_SHARE)
    };
    let text = |union: &StateUnion| {
        let of: Vec<&str> = union.of.iter().map(|state| state.word()).collect();
        let of = match of.as_slice() {
            all if all.len() <= MAX_MEMBERS => all.join(", "),
            all => format!("{} states (docs/states.md)", all.len()),
        };
        let by = union.separated_by.join(" or ");
        format!("not separable here: {} is one of {of}; to tell: {by}", union.name)
    };
    connection.unions.iter().filter(takes_time).map(text).collect()
}

const MIN_UNION_SHARE: f64 = 0.1;
/// More states of a union are counted, not listed.
const MAX_MEMBERS: usize = 6;

/// Returns what each exchange would save: `40 ms to 44 ms`.
fn saved(range: &RangeNs) -> String {
    let [low, high] = [range.low, range.high].map(duration);
    if low == high { low } else { format!("{low} to {high}") }
}

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
        format!("{number} packets cut before the end of their TCP header (capture at least 128 bytes)")
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
            "{} with sockets, for {watched}: {} of sockets, waits for a CPU, counters of drops; watching took {} of a CPU",
            counted(programs.programs, "program"),
            counted(programs.samples, "sample"),
            share(programs.own_cpu_ns as f64 / programs.duration_ns.max(1) as f64)
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

#[cfg(test)]
mod tests {
    use hairpin_model::Fact;

    use super::*;

    fn cause(code: Cause, evidence: Vec<Fact>) -> ExplainedCause {
        let text = CauseText::default();
        ExplainedCause {
            code,
            place: "10.0.0.2:80".to_owned(),
            share: Some(0.9),
            saved_if_fixed_ns: None,
            evidence,
            text,
        }
    }

    #[test]
    fn every_cause_has_a_sentence_and_a_fix_without_unknown_keys() {
        for code in Cause::ALL {
            let cause = cause(*code, Vec::new());
            let (sentence, fix) = Words { cause: &cause }.of();
            assert!(sentence.len() > 20 && fix.len() > 20, "{code}: {sentence} {fix}");
            assert!(!sentence.contains(['{', '}']) && !fix.contains(['{', '}']), "{code}: {sentence} {fix}");
        }
    }

    #[test]
    fn a_sentence_has_the_figures_of_its_evidence() {
        let evidence = vec![
            Fact::number(names::AFFECTED, 39.0),
            Fact::number(names::EXCHANGES, 40.0),
            Fact::number(names::WAIT_NS, 43.1e6),
            Fact::number(names::HELD_BYTES, 1000.0),
            Fact::number(names::HELD_SEGMENT, 2.0),
            Fact::word(names::END, End::Server.word()),
        ];
        let cause = cause(Cause::NagleMeetsDelayedAck, evidence);
        let (sentence, fix) = Words { cause: &cause }.of();
        assert_eq!(
            sentence,
            "The server 10.0.0.2:80 sends its answer in several segments; segment 2 (1000 B) waits 43.1 ms for a delayed \
             acknowledgment in 39 of 40 exchanges"
        );
        assert_eq!(fix, "set TCP_NODELAY at the server, or send the answer in one write");
    }
}
