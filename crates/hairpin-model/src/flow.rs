//! A flow: one stream of traffic between the ends of a case.

use serde::{Deserialize, Serialize};

use crate::exchange::Exchange;
use crate::options::Options;
use crate::quantities::{exact_bytes, exact_duration};
use crate::words;

words! {
    /// Which way the messages of a flow go.
    pub enum Direction: "direction" {
        /// From the client to the server.
        Up = "up",
        /// From the server to the client.
        Down = "down",
        /// Requests from the client, answers from the server.
        RoundTrip = "round-trip",
    }
}

impl Direction {
    /// Those of a load without answers, the first of [`Direction::ALL`].
    pub const ONE_WAY: &'static [Self] = Self::ALL.split_at(2).0;
}

/// What is sent when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Load {
    /// Closed loop: the next message leaves when the answer to the last has arrived.
    PingPong {
        /// Bytes of each message.
        size_bytes: u64,
        /// Bytes of each answer.
        reply_size_bytes: u64,
    },
    /// Open loop: messages are due at a fixed rate, whatever has come back.
    Paced {
        /// Messages a second.
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
    /// One way: writes follow one another as fast as the receiver takes them.
    Stream {
        /// Bytes of each write, which is a message where the transport keeps boundaries.
        write_size_bytes: u64,
    },
}

impl Load {
    /// Its name, as it is saved.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::PingPong { .. } => "ping-pong",
            Self::Paced { .. } => "paced",
            Self::Exchange { .. } => "exchange",
            Self::Stream { .. } => "stream",
        }
    }

    /// The ping-pong of 4 bytes.
    pub const PLAIN: Self = Self::PingPong { size_bytes: 4, reply_size_bytes: 4 };

    /// Bytes of each message: of an exchange all writes of its request, of a stream one write.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::PingPong { size_bytes, .. } | Self::Paced { size_bytes, .. } => *size_bytes,
            Self::Exchange { exchange, .. } => exchange.writes.total_bytes(),
            Self::Stream { write_size_bytes } => *write_size_bytes,
        }
    }

    /// Bytes of each answer; 0 where there are none.
    #[must_use]
    pub fn reply_size_bytes(&self) -> u64 {
        match self {
            Self::PingPong { reply_size_bytes, .. }
            | Self::Paced { reply_size_bytes, .. }
            | Self::Exchange { reply_size_bytes, .. } => *reply_size_bytes,
            Self::Stream { .. } => 0,
        }
    }

    /// The exchange, where the load is made of exchanges.
    #[must_use]
    pub fn exchange(&self) -> Option<&Exchange> {
        if let Self::Exchange { exchange, .. } = self { Some(exchange) } else { None }
    }

    /// The same, to change it.
    pub fn exchange_mut(&mut self) -> Option<&mut Exchange> {
        if let Self::Exchange { exchange, .. } = self { Some(exchange) } else { None }
    }

    /// Messages that are due a second, in an open loop.
    #[must_use]
    pub fn rate_per_s(&self) -> Option<f64> {
        if let Self::Paced { rate_per_s, .. } = self { Some(*rate_per_s) } else { None }
    }

    /// Messages and answers of the same sizes, due at that rate.
    #[must_use]
    pub fn paced(&self, rate_per_s: f64) -> Self {
        Self::Paced { rate_per_s, size_bytes: self.size_bytes(), reply_size_bytes: self.reply_size_bytes() }
    }

    /// Changes the sizes of a message and of its answer; those of an exchange and of a stream stand in its writes.
    pub fn set_sizes(&mut self, of_message_bytes: u64, of_reply_bytes: u64) {
        match self {
            Self::PingPong { size_bytes, reply_size_bytes } | Self::Paced { size_bytes, reply_size_bytes, .. } => {
                (*size_bytes, *reply_size_bytes) = (of_message_bytes, of_reply_bytes);
            }
            Self::Exchange { reply_size_bytes, .. } => *reply_size_bytes = of_reply_bytes,
            Self::Stream { write_size_bytes } => *write_size_bytes = of_message_bytes,
        }
    }
}

/// One stream of traffic: what carries it, what is sent when, and which way.
///
/// Bidirectional traffic is two flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flow {
    /// Its name in the case.
    pub name: String,
    /// The transport's name.
    pub transport: String,
    /// What is asked of the sockets.
    pub options: Options,
    /// What is sent when.
    pub load: Load,
    /// Which way.
    pub direction: Direction,
    /// Streams of each connection.
    pub streams: u32,
    /// Connections.
    pub connections: u32,
    /// Servers that receive it.
    pub receivers: u32,
}

/// The name of the only flow of a case.
pub const MAIN: &str = "main";

impl Flow {
    /// A plain ping-pong of 4 bytes over one stream of one connection.
    #[must_use]
    pub fn ping_pong(transport: &str) -> Self {
        Self {
            name: MAIN.to_owned(),
            transport: transport.to_owned(),
            options: Options::default(),
            load: Load::PLAIN,
            direction: Direction::RoundTrip,
            streams: 1,
            connections: 1,
            receivers: 1,
        }
    }

    /// Exchanges with answers of 4 bytes.
    #[must_use]
    pub fn exchanges(transport: &str, exchange: Exchange) -> Self {
        Self { load: Load::Exchange { exchange, reply_size_bytes: 4 }, ..Self::ping_pong(transport) }
    }

    /// Writes of that size one way.
    #[must_use]
    pub fn stream(transport: &str, write_size_bytes: u64, direction: Direction) -> Self {
        Self { load: Load::Stream { write_size_bytes }, direction, ..Self::ping_pong(transport) }
    }

    /// What sets it apart from a ping-pong of 4 bytes, beyond the transport, a word or two each.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let mut words = Vec::new();
        if let Some(exchange) = self.load.exchange() {
            words.push(exchange.remedy.to_string());
            words.push(format!("{} B", exchange.writes.in_words()));
            if exchange.gap_ns > 0 {
                words.push(format!("gap {}", exact_duration(exchange.gap_ns)));
            }
            if exchange.pipeline > 1 {
                words.push(format!("{} in flight", exchange.pipeline));
            }
        }
        match (&self.load, self.load.size_bytes(), self.load.reply_size_bytes()) {
            (Load::Stream { write_size_bytes }, ..) => {
                words.push(format!("{} {}", self.direction, exact_bytes(*write_size_bytes)))
            }
            (Load::Exchange { .. }, _, 4) | (_, 4, 4) => {}
            (Load::Exchange { .. }, _, reply) => words.push(format!("answer {}", exact_bytes(reply))),
            (_, size, reply) if size == reply => words.push(exact_bytes(size)),
            (_, size, reply) if size % 1024 != 0 && reply % 1024 != 0 => words.push(format!("{size}/{reply} B")),
            (_, size, reply) => words.push(format!("{}/{}", exact_bytes(size), exact_bytes(reply))),
        }
        words.extend(self.load.rate_per_s().map(|rate_per_s| format!("{rate_per_s}/s")));
        for (count, what) in [(self.connections, "connections"), (self.streams, "streams")] {
            if count > 1 {
                words.push(format!("{count} {what}"));
            }
        }
        words.extend(self.options.iter().map(|(name, value)| format!("{name}={value}")));
        words
    }

    /// Wires: streams of all its connections.
    #[must_use]
    pub fn wires(&self) -> u64 {
        u64::from(self.streams) * u64::from(self.connections)
    }
}
