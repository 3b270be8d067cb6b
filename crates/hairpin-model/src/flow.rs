//! A flow: one stream of traffic between the ends of a case.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::arrivals::Arrivals;
use crate::end_settings::EndSettings;
use crate::exchange::Exchange;
use crate::fields::is_default;
use crate::options::Options;
use crate::periodic::Periodic;
use crate::quantities::{bit_rate_argument, exact_bytes, exact_duration};
use crate::words;

words! {
    /// Direction of a flow's messages.
    pub enum Direction: "direction" {
        Up = "up",
        Down = "down",
        /// Requests from the client, answers from the server.
        RoundTrip = "round-trip",
    }
}

impl Direction {
    /// Directions of a load without answers, the first of [`Direction::ALL`].
    pub const ONE_WAY: &'static [Self] = Self::ALL.split_at(2).0;
}

words! {
    /// Purpose of a flow in its case.
    #[derive(Default)]
    pub enum FlowRole: "role" {
        /// The flow's figures answer the run's question.
        #[default]
        Measured = "measured",
        /// Measures latency while other flows load the path; the figures answer the run's question.
        Probe = "probe",
        /// Measures responsiveness on its own connections, in addition to the probe.
        ForeignProbe = "foreign-probe",
        Load = "load",
    }
}

impl FlowRole {
    /// Index of the primary flow, by which a case is judged: its first probe, or else its first measured flow; 0
    /// without either.
    pub(crate) fn primary_index(roles: impl Iterator<Item = Self> + Clone) -> usize {
        let place = |role| roles.clone().position(|other| other == role);
        place(Self::Probe).or_else(|| place(Self::Measured)).unwrap_or(0)
    }
}

words! {
    /// Which connection carries a message.
    #[derive(Default)]
    pub enum ConnectionUse: "connection" {
        /// A connection for this flow alone.
        #[default]
        Own = "own",
        PerMessage = "per-message",
        /// The load's connection: messages and bulk data share one byte stream.
        Shared = "shared",
    }

    /// What the ends know of each other when a connection opens.
    pub enum Opening: "opening" {
        /// Nothing.
        Cold = "cold",
        /// A TLS session of an earlier connection (RFC 8446, section 2.2).
        Resumed = "resumed",
        /// As resumed; the first message is sent with the first packets (RFC 8446, section 2.3).
        ZeroRtt = "0-rtt",
    }

    /// Directions of a load.
    pub enum LoadWays: "direction" {
        Up = "up",
        Down = "down",
        /// Both directions at once, each on its own connections.
        Both = "both",
        None = "none",
    }

    /// Source of a stream's bytes.
    #[derive(Default)]
    pub enum Source: "source" {
        /// The sender's buffer, which each write copies.
        #[default]
        Buffer = "buffer",
        /// A file in the page cache; sendfile(2) sends its pages without a copy.
        File = "file",
    }

    /// What the program at each end does for each message in addition to sending or receiving it.
    #[derive(Default)]
    pub enum Observer: "observer" {
        /// Records the latency of one message in a few, so that recording costs little.
        #[default]
        Sampled = "sampled",
        /// Nothing, not even a latency.
        None = "none",
        /// Adds 1 to a counter of its own.
        Counter = "counter",
        /// Reads CLOCK_MONOTONIC before and after the message.
        Clock = "clock",
        /// As `clock`, and adds the difference to an HDR histogram.
        Hdr = "hdr",
        /// Hairpin's own recorder: each message carries the time at which it was sent, and the receiver records its latency.
        #[serde(alias = "every")]
        Recorder = "recorder",
        /// Adds 1 to a counter of the Prometheus client library.
        PrometheusCounter = "prometheus-counter",
        /// As `clock`, and adds the difference to a histogram of the Prometheus client library.
        PrometheusHistogram = "prometheus-histogram",
        /// Writes a log line with the crate `tracing`, which is discarded.
        TracingNull = "tracing-null",
        /// Writes a log line with the crate `tracing` to a temporary file.
        TracingFile = "tracing-file",
        /// The receiver takes the kernel's time stamp of each message or segment (`SO_TIMESTAMPING`).
        Timestamps = "timestamps",
        /// Another process captures the packets on the interface (packet(7)).
        Capture = "capture",
    }
}

impl Observer {
    /// Whether the kernel observes packets, not the program messages.
    pub fn sees_packets(self) -> bool {
        matches!(self, Self::Timestamps | Self::Capture)
    }
}

words! {
    /// Build of the loops that send and receive messages.
    #[derive(Default)]
    pub enum Build: "build" {
        /// Optimised by the compiler.
        #[default]
        Optimised = "optimised",
        /// The same source text, compiled without optimisation.
        Unoptimised = "unoptimised",
    }

    /// How a sender keeps to the times at which messages are due.
    pub enum Pacing: "pacing method" {
        /// Sleeps until shortly before the time, then polls the clock.
        SleepSpin = "sleep+spin",
        Spin = "spin",
        /// Writes as fast as the kernel accepts data; the kernel's TCP paces it (`SO_MAX_PACING_RATE`, socket(7)).
        Kernel = "kernel",
    }
}

impl LoadWays {
    /// All but no load.
    pub const SOME: &'static [Self] = Self::ALL.split_at(3).0;
}

/// Default write size of bulk data on a byte stream.
pub const WRITE_BYTES: u64 = 64 << 10;
/// Default size of messages that must fit a packet or are due at a rate.
pub const MESSAGE_BYTES: u64 = 1400;

/// What is sent when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Load {
    /// Closed loop: the next message is sent when the answer to the previous one has arrived.
    PingPong {
        /// Bytes of each message.
        size_bytes: u64,
        /// Bytes of each answer.
        reply_size_bytes: u64,
    },
    /// Open loop: messages are due at a fixed rate, independent of the answers.
    Paced {
        /// Messages per second.
        rate_per_s: f64,
        /// Bytes of each message.
        size_bytes: u64,
        /// Bytes of each answer.
        reply_size_bytes: u64,
    },
    /// Closed loop of exchanges: each request is several writes.
    Exchange {
        /// The request.
        #[serde(flatten)]
        exchange: Exchange,
        /// Bytes of each answer.
        reply_size_bytes: u64,
    },
    /// One way: messages are sent as fast as the receiver accepts them.
    Messages {
        /// Bytes of each message.
        size_bytes: u64,
        /// Messages per send call; if the transport keeps boundaries, also the maximum per receive call.
        batch: u64,
        #[serde(default, alias = "timestamps", skip_serializing_if = "is_default")]
        observer: Observer,
    },
    /// One way: data is written as fast as the receiver accepts it.
    Stream {
        /// Bytes of each write. A write is a message if the transport keeps boundaries.
        write_size_bytes: u64,
        /// Where the bytes come from.
        #[serde(default, skip_serializing_if = "is_default")]
        source: Source,
    },
    /// One way, open loop: messages are due at this rate, independent of the receiver.
    Offered {
        /// Messages per second, summed over all connections.
        offered_per_s: f64,
        /// Bytes of each message.
        size_bytes: u64,
        /// When messages are due.
        arrivals: Arrivals,
        /// How the sender keeps to these times.
        pacing: Pacing,
    },
    /// A control loop: a cycle of messages and answers is due every period.
    Periodic {
        /// The loop.
        #[serde(flatten)]
        periodic: Periodic,
        /// Bytes of each message.
        size_bytes: u64,
        /// Bytes of each answer.
        reply_size_bytes: u64,
    },
}

impl Load {
    /// The names of all loads in JSON.
    pub const KINDS: &[&str] = &["ping-pong", "paced", "exchange", "messages", "stream", "offered", "periodic"];

    pub fn kind(&self) -> &'static str {
        match self {
            Self::PingPong { .. } => "ping-pong",
            Self::Paced { .. } => "paced",
            Self::Exchange { .. } => "exchange",
            Self::Messages { .. } => "messages",
            Self::Stream { .. } => "stream",
            Self::Offered { .. } => "offered",
            Self::Periodic { .. } => "periodic",
        }
    }

    pub fn is_one_way(&self) -> bool {
        match self {
            Self::PingPong { .. } | Self::Paced { .. } | Self::Exchange { .. } | Self::Periodic { .. } => false,
            Self::Messages { .. } | Self::Stream { .. } | Self::Offered { .. } => true,
        }
    }

    pub fn observer(&self) -> Observer {
        match self {
            Self::Messages { observer, .. } => *observer,
            Self::Offered { .. } => Observer::Recorder,
            _ => Observer::Sampled,
        }
    }

    pub fn batch(&self) -> u64 {
        if let Self::Messages { batch, .. } = self { *batch } else { 1 }
    }

    pub fn source(&self) -> Option<Source> {
        if let Self::Stream { source, .. } = self { Some(*source) } else { None }
    }

    pub fn offered(&self) -> Option<(Arrivals, Pacing)> {
        if let Self::Offered { arrivals, pacing, .. } = self { Some((*arrivals, *pacing)) } else { None }
    }

    /// A ping-pong of 4 bytes.
    pub const PLAIN: Self = Self::PingPong { size_bytes: 4, reply_size_bytes: 4 };

    /// Bytes per message: all writes of an exchange's request, one write of a stream.
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::PingPong { size_bytes, .. }
            | Self::Paced { size_bytes, .. }
            | Self::Periodic { size_bytes, .. }
            | Self::Messages { size_bytes, .. }
            | Self::Offered { size_bytes, .. } => *size_bytes,
            Self::Exchange { exchange, .. } => exchange.writes.total_bytes(),
            Self::Stream { write_size_bytes, .. } => *write_size_bytes,
        }
    }

    pub fn reply_size_bytes(&self) -> u64 {
        match self {
            // An order from another host may have two sizes that differ.
            Self::Exchange { exchange: Exchange { reply_writes: Some(writes), .. }, .. } => writes.total_bytes(),
            Self::PingPong { reply_size_bytes, .. }
            | Self::Paced { reply_size_bytes, .. }
            | Self::Periodic { reply_size_bytes, .. }
            | Self::Exchange { reply_size_bytes, .. } => *reply_size_bytes,
            Self::Messages { .. } | Self::Stream { .. } | Self::Offered { .. } => 0,
        }
    }

    pub fn exchange(&self) -> Option<&Exchange> {
        if let Self::Exchange { exchange, .. } = self { Some(exchange) } else { None }
    }

    pub fn periodic(&self) -> Option<&Periodic> {
        if let Self::Periodic { periodic, .. } = self { Some(periodic) } else { None }
    }

    pub fn periodic_mut(&mut self) -> Option<&mut Periodic> {
        if let Self::Periodic { periodic, .. } = self { Some(periodic) } else { None }
    }

    pub fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        if let Self::Exchange { exchange, .. } = self { Some(exchange) } else { None }
    }

    pub fn rate_per_s(&self) -> Option<f64> {
        match self {
            Self::Paced { rate_per_s, .. } | Self::Offered { offered_per_s: rate_per_s, .. } => Some(*rate_per_s),
            _ => None,
        }
    }

    /// An open loop with the same sizes of messages and answers, due at `rate_per_s`.
    pub fn paced(&self, rate_per_s: f64) -> Self {
        Self::Paced { rate_per_s, size_bytes: self.size_bytes(), reply_size_bytes: self.reply_size_bytes() }
    }

    /// Sets the sizes of a message (of a stream: a write) and its answer. An exchange keeps its writes.
    pub fn set_sizes(&mut self, of_message_bytes: u64, of_reply_bytes: u64) {
        match self {
            Self::PingPong { size_bytes, reply_size_bytes }
            | Self::Paced { size_bytes, reply_size_bytes, .. }
            | Self::Periodic { size_bytes, reply_size_bytes, .. } => {
                (*size_bytes, *reply_size_bytes) = (of_message_bytes, of_reply_bytes);
            }
            Self::Exchange { reply_size_bytes, .. } => *reply_size_bytes = of_reply_bytes,
            Self::Messages { size_bytes, .. } | Self::Offered { size_bytes, .. } => *size_bytes = of_message_bytes,
            Self::Stream { write_size_bytes, .. } => *write_size_bytes = of_message_bytes,
        }
    }
}

/// One stream of traffic: the transport, what is sent when, and the direction.
///
/// Bidirectional traffic is two flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Flow {
    /// Identity of the flow within the case.
    pub id: FlowId,
    /// Purpose of the flow.
    pub role: FlowRole,
    /// The transport's name.
    pub transport: String,
    /// Requested socket options.
    pub options: Options,
    /// What is sent when.
    pub load: Load,
    pub direction: Direction,
    /// Streams per connection.
    pub streams: u32,
    pub connections: u32,
    /// Threads of each end: each has such connections of its own, in processes of its own at both ends.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub threads: u32,
    /// Which build of its loops both ends run. Only loads of messages have a second one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub build: Build,
    /// Which connection carries a message.
    #[serde(default, skip_serializing_if = "is_default")]
    pub connection_use: ConnectionUse,
    /// How each connection opens if its set-up is measured; null otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<Opening>,
    /// Number of servers that receive the flow.
    pub receivers: u32,
    /// Settings of the flow's ends, if they differ from the case's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<EndSettings>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(threads: &u32) -> bool {
    *threads == 1
}

words! {
    /// What carries the streams of a flow.
    pub enum Channels: "channels" {
        Shared = "shared",
        Separate = "separate",
    }
}

/// Maximum number of streams of a flow, over all its connections.
pub const MAX_WIRES: u64 = 4096;

/// Identity of a flow within its case: a word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, crate::JsonSchema)]
#[serde(transparent)]
pub struct FlowId(String);

impl Default for FlowId {
    /// The only flow of a case.
    fn default() -> Self {
        "main".into()
    }
}

impl From<&str> for FlowId {
    fn from(word: &str) -> Self {
        Self(word.to_owned())
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Flow {
    /// What carries the streams.
    pub fn channels(&self) -> Channels {
        if self.streams > 1 { Channels::Shared } else { Channels::Separate }
    }

    /// Puts the streams on one connection, or each on its own.
    pub fn set_channels(&mut self, channels: Channels) {
        let count = self.streams.max(self.connections);
        (self.streams, self.connections) = if channels == Channels::Shared { (count, 1) } else { (1, count) };
    }

    /// Longest time between two messages that the load itself causes, in ns.
    pub fn longest_pause_ns(&self) -> u64 {
        let between_s = match &self.load {
            Load::Offered { offered_per_s, arrivals, .. } => arrivals.longest_gap_s(*offered_per_s),
            Load::Periodic { periodic, .. } => periodic.period_ns as f64 / 1e9,
            load => load.rate_per_s().map_or(0.0, |rate_per_s| 1.0 / rate_per_s),
        };
        let between_ns = (between_s * 1e9) as u64;
        self.load.exchange().map_or(0, |exchange| exchange.gap_ns).saturating_add(between_ns)
    }

    /// A plain ping-pong of 4 bytes over one stream of one connection.
    pub fn ping_pong(transport: &str) -> Self {
        Self {
            id: FlowId::default(),
            role: FlowRole::Measured,
            transport: transport.to_owned(),
            options: Options::default(),
            load: Load::PLAIN,
            direction: Direction::RoundTrip,
            streams: 1,
            connections: 1,
            threads: 1,
            build: Build::Optimised,
            connection_use: ConnectionUse::Own,
            opening: None,
            receivers: 1,
            ends: None,
        }
    }

    pub fn exchanges(transport: &str, exchange: Exchange) -> Self {
        Self { load: Load::Exchange { exchange, reply_size_bytes: 4 }, ..Self::ping_pong(transport) }
    }

    /// Returns the flow with `role`, and with the role's name as its identity.
    pub fn in_role(self, role: FlowRole) -> Self {
        Self { id: role.word().into(), role, ..self }
    }

    pub fn one_way(transport: &str, load: Load, direction: Direction) -> Self {
        Self { load, direction, ..Self::ping_pong(transport) }
    }

    pub fn stream(transport: &str, write_size_bytes: u64, direction: Direction) -> Self {
        Self::one_way(transport, Load::Stream { write_size_bytes, source: Source::Buffer }, direction)
    }

    /// Differences from a ping-pong of 4 bytes, beyond the transport, a word or two each.
    pub fn details(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(exchange) = self.load.exchange() {
            words.push(exchange.remedy.to_string());
            words.push(format!("{} B", exchange.writes.in_words()));
            words.extend((exchange.gap_ns > 0).then(|| format!("gap {}", exact_duration(exchange.gap_ns))));
            words.extend((exchange.pipeline > 1).then(|| format!("{} in flight", exchange.pipeline)));
        }
        words.extend(self.load.periodic().map(Periodic::details).unwrap_or_default());
        match (&self.load, self.load.size_bytes(), self.load.reply_size_bytes()) {
            (Load::Messages { batch, observer, .. }, size, _) => {
                words.push(format!("{} {}", self.direction, exact_bytes(size)));
                words.extend((*batch > 1).then(|| format!("batch {batch}")));
                words.extend((*observer != Observer::Sampled).then(|| format!("observer {observer}")));
            }
            (Load::Stream { source, .. }, size, _) => {
                words.push(format!("{} {}", self.direction, exact_bytes(size)));
                words.extend((*source == Source::File).then(|| "from a file".to_owned()));
            }
            (Load::Offered { arrivals, pacing, .. }, size, _) => {
                words.push(format!("{} {}", self.direction, exact_bytes(size)));
                words.extend((*arrivals != Arrivals::Fixed).then(|| arrivals.to_string()));
                words.extend((*pacing != Pacing::SleepSpin).then(|| format!("pacing {pacing}")));
            }
            (Load::Exchange { exchange: Exchange { reply_writes: Some(writes), .. }, .. }, ..) => {
                words.push(format!("answer {} B", writes.in_words()));
            }
            (Load::Exchange { .. }, _, 4) | (_, 4, 4) => {}
            (Load::Exchange { .. }, _, reply) => words.push(format!("answer {}", exact_bytes(reply))),
            (_, size, reply) if size == reply => words.push(exact_bytes(size)),
            (_, size, reply) if size % 1024 != 0 && reply % 1024 != 0 => words.push(format!("{size}/{reply} B")),
            (_, size, reply) => words.push(format!("{}/{}", exact_bytes(size), exact_bytes(reply))),
        }
        // A rate requested in bits may not be a whole number of messages.
        words.extend(self.load.rate_per_s().map(|rate_per_s| match &self.load {
            Load::Offered { size_bytes, .. } if rate_per_s.fract() != 0.0 => {
                bit_rate_argument(rate_per_s * *size_bytes as f64 * 8.0)
            }
            _ => format!("{rate_per_s}/s"),
        }));
        for (count, what) in [(self.threads, "threads"), (self.connections, "connections"), (self.streams, "streams")]
        {
            words.extend((count > 1).then(|| format!("{count} {what}")));
        }
        if self.build != Build::Optimised {
            words.push(format!("{} build", self.build));
        }
        match (self.connection_use, self.opening) {
            (ConnectionUse::Own, _) => {}
            (ConnectionUse::PerMessage, None) => words.push("a connection each".to_owned()),
            (ConnectionUse::PerMessage, Some(opening)) => words.push(opening.to_string()),
            (ConnectionUse::Shared, _) => words.push("on the load's connection".to_owned()),
        }
        words.extend(self.options.iter().map(|(name, value)| format!("{name}={value}")));
        words
    }

    /// Number of streams over all its connections.
    pub fn wires(&self) -> u64 {
        u64::from(self.streams) * u64::from(self.connections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_in_which_a_load_had_timestamps_are_read() {
        let load = |more: &str| {
            let written = format!(r#"{{"kind": "messages", "size_bytes": 64, "batch": 1{more}}}"#);
            serde_json::from_str::<Load>(&written).unwrap().observer()
        };
        assert_eq!(load(""), Observer::Sampled);
        assert_eq!(load(r#", "timestamps": "every""#), Observer::Recorder);
        assert_eq!(load(r#", "timestamps": "none""#), Observer::None);
        assert_eq!(load(r#", "observer": "hdr""#), Observer::Hdr);
    }
}
