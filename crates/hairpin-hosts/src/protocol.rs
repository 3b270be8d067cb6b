//! Messages between a client and `hairpin serve` outside a round: authentication, limits and datagram trials.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hairpin_model::{Environment, Limits};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Major version of the protocol between hosts. A client with another version is refused, and the error names both
/// versions. Within a major version messages only gain fields, so that all its releases work together.
pub const VERSION: u32 = 1;

/// Maximum size of a message from an unauthenticated client, in bytes.
pub const MAX_STRANGER_BYTES: usize = 4 << 10;

#[derive(Clone, PartialEq, Eq)]
pub struct Base64(pub Vec<u8>);

impl fmt::Debug for Base64 {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} bytes", self.0.len())
    }
}

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD_NO_PAD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD_NO_PAD.decode(text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// The fields of a client's first message that exist in every version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AnyGreeting {
    /// See [`Greeting::version`].
    pub version: u32,
    /// See [`Greeting::tool`].
    #[serde(default)]
    pub tool: String,
}

/// The first message of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Greeting {
    pub version: u32,
    /// Name and version of the client's Hairpin, for the log.
    pub tool: String,
    /// Public name of the client's ticket.
    pub ticket: String,
    /// Proof that the client knows the ticket's secret.
    pub proof: Base64,
    pub purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// A session for the rounds of one run. The server answers with [`ServerInfo`].
    Session,
    /// The control channel of one round, or of one flow of a round. The number is the session's id.
    Round(u64),
}

/// Describes the server, its host and the ticket's limits; sent when a session begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerInfo {
    /// Environment of the server's host, as recorded in the run.
    pub environment: Environment,
    /// Whether the environment has all facts of the host.
    pub describes_host: bool,
    /// Names of the transports that can run on the server's host.
    pub transports: Vec<String>,
    /// Names of the transports that the server's program adds to the built-in ones.
    pub own_transports: Vec<String>,
    /// What the server can be ordered to do, see [`hairpin_model::capability`]; empty for versions that do not say.
    pub capabilities: Vec<String>,
    /// Congestion controls that the server's processes may set.
    pub congestion_controls: Vec<String>,
    pub limits: Limits,
    /// Payload bytes that the ticket has used today (UTC).
    pub used_bytes: u64,
    /// When the ticket expires, in seconds since 1970.
    pub expires_unix_s: u64,
    /// Sessions in progress, including this one.
    pub sessions: u64,
}

/// A client's request during a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Count datagrams with that cookie until the session ends, to test whether they arrive.
    TryDatagrams([u8; 16]),
    /// Report how many datagrams with that cookie were received.
    DatagramsSeen([u8; 16]),
}

/// Datagrams that the server received in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramsSeen {
    /// Hellos received. The server tried to answer each.
    pub hellos: u64,
    /// Confirmations received, which the client sends after an answer.
    pub confirmed: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The client is accepted.
    Welcome {
        version: u32,
        /// Name and version of the server's Hairpin.
        tool: String,
        /// Proof that the server knows the secret too.
        proof: Base64,
        session: u64,
    },
    /// The client is accepted, and its round waits for the rounds of other clients. Another answer follows.
    Waiting {
        /// Longest wait, in ms.
        most_ms: u64,
    },
    Refused {
        what: String,
        hint: String,
    },
}

#[cfg(test)]
mod tests {
    use hairpin_engine::control::{Message, Progress};
    use hairpin_engine::ends::EndOrder;
    use hairpin_model::flow::{Direction, Pacing};
    use hairpin_model::{Arrivals, Case, Exchange, Failure, FailureKind, Flow, Load, Remedy, RoundOrder, quantities};
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// The messages of this module, and some control messages, as JSON.
    fn messages() -> Vec<Value> {
        let proof = || Base64(vec![7; 32]);
        let (tool, ticket) = ("hairpin 0.1.0".to_owned(), "f123e0b2".to_owned());
        let greeting = |purpose| {
            let (tool, ticket) = (tool.clone(), ticket.clone());
            json!(Greeting { version: VERSION, tool, ticket, proof: proof(), purpose })
        };
        let order = |flow| {
            let round = RoundOrder::of(Case::of(flow), 5);
            json!(Message::Order(Box::new(EndOrder {
                round,
                cookie: [3; 16],
                reports_progress: true,
                datagram_key: None
            })))
        };
        let about = ServerInfo { limits: Limits::parse("rate=1mbit,turn=1s").unwrap(), ..ServerInfo::default() };
        let exchange = Exchange {
            writes: "5x2".parse().unwrap(),
            gap_ns: 0,
            pipeline: 1,
            reply_writes: None,
            remedy: Remedy::Default,
        };
        let offered = Load::Offered {
            offered_per_s: 1000.0,
            size_bytes: 100,
            arrivals: Arrivals::Fixed,
            pacing: Pacing::SleepSpin,
        };
        let failure = Failure::new(FailureKind::Other, "why", "");
        vec![
            greeting(Purpose::Session),
            greeting(Purpose::Round(7)),
            json!(about),
            json!(Ask::TryDatagrams([3; 16])),
            json!(Ask::DatagramsSeen([3; 16])),
            json!(DatagramsSeen::default()),
            json!(Answer::Welcome { version: VERSION, tool: tool.clone(), proof: proof(), session: 7 }),
            json!(Answer::Waiting { most_ms: 7 }),
            json!(Answer::Refused { what: "why".to_owned(), hint: String::new() }),
            order(Flow::ping_pong("tcp")),
            order(Flow::stream("udp", 100, Direction::Down)),
            order(Flow { load: Flow::ping_pong("tcp").load.paced(1000.0), ..Flow::ping_pong("tcp") }),
            order(Flow::exchanges("tcp", exchange)),
            order(Flow::one_way("udp", offered, Direction::Up)),
            json!(Message::Progress(Progress::default())),
            json!(Message::Failed(failure)),
        ]
    }

    /// Replaces leaf number `index` in depth-first order. With fewer leaves, fails with `index` minus their number.
    fn put(value: &mut Value, index: usize, leaf: &Value) -> Result<(), usize> {
        let children: Vec<&mut Value> = match value {
            Value::Array(values) if !values.is_empty() => values.iter_mut().collect(),
            Value::Object(values) if !values.is_empty() => values.values_mut().collect(),
            _ if index == 0 => {
                *value = leaf.clone();
                return Ok(());
            }
            _ => return Err(index - 1),
        };
        let mut index = index;
        for child in children {
            match put(child, index, leaf) {
                Ok(()) => return Ok(()),
                Err(rest) => index = rest,
            }
        }
        Err(index)
    }

    fn leaf() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            prop_oneof![Just(0_u64), Just(u64::MAX), Just(1_u64 << 32)].prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,40}".prop_map(Value::from),
            Just(json!([])),
            Just(json!({})),
            proptest::collection::vec(any::<u8>(), 0..40).prop_map(Value::from),
        ]
    }

    /// Parses the text as each message type, and evaluates the limits and figures of the result as a host does.
    fn read(text: &[u8]) -> Result<(), TestCaseError> {
        drop((serde_json::from_slice::<AnyGreeting>(text), serde_json::from_slice::<Greeting>(text)));
        drop((serde_json::from_slice::<Answer>(text), serde_json::from_slice::<Ask>(text)));
        drop(serde_json::from_slice::<DatagramsSeen>(text));
        let about = serde_json::from_slice::<ServerInfo>(text).unwrap_or_default();
        drop((about.limits.words(), about.limits.waits_ns(), quantities::utc(about.expires_unix_s)));
        drop(quantities::bytes(about.used_bytes as f64));
        let limits = Limits::parse("rate=100mbit,turn=60s,daily-bytes=10GiB").unwrap();
        if let Ok(Message::Order(order)) = serde_json::from_slice::<Message>(text) {
            for limits in [limits, about.limits] {
                drop(limits.allow_round(&order.round, about.used_bytes));
                drop(limits.allow_case(&order.round.case, 1, 0.0));
            }
            let rate = Limits::case_bits_per_s(&order.round.case, 1);
            prop_assert!(rate.is_none_or(|rate| rate >= 0.0), "negative rate {rate:?}");
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn parsing_a_message_with_changed_values_does_not_panic(
            which in any::<prop::sample::Index>(),
            puts in proptest::collection::vec((0..120_usize, leaf()), 1..4),
        ) {
            let mut message = which.get(&messages()).clone();
            for (index, leaf) in puts {
                let _ = put(&mut message, index, &leaf);
            }
            read(message.to_string().as_bytes())?;
        }

        #[test]
        fn parsing_a_message_with_a_changed_byte_or_cut_short_does_not_panic(
            which in any::<prop::sample::Index>(),
            index in any::<prop::sample::Index>(),
            byte in any::<u8>(),
            end in any::<prop::sample::Index>(),
        ) {
            let mut text = which.get(&messages()).to_string().into_bytes();
            let index = index.index(text.len());
            text[index] = byte;
            read(&text)?;
            read(&text[..end.index(text.len())])?;
        }
    }

    #[test]
    fn deeply_nested_json_is_refused() {
        let deep = "[".repeat(1 << 20);
        assert!(serde_json::from_str::<Value>(&deep).is_err());
        assert!(read(deep.as_bytes()).is_ok());
    }
}
