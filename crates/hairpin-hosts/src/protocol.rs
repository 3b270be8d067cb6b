//! What a client and `hairpin serve` tell each other before a round: who the client is, and what it may do.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hairpin_model::environment::Environment;
use hairpin_model::limits::Limits;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The major version of everything that two hosts tell each other: another one is refused, and both are named. Within it messages
/// only get more fields, so versions of Hairpin that share it work together.
pub const VERSION: u32 = 1;

/// The largest message before the client is known, in bytes.
pub const MOST_BYTES_OF_A_STRANGER: usize = 4 << 10;

/// Bytes in base64.
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

/// What the first message of a client has in every version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spoken {
    /// See [`Greeting::version`].
    pub version: u32,
    /// See [`Greeting::tool`].
    #[serde(default)]
    pub tool: String,
}

/// The first message of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// [`VERSION`] of the client.
    pub version: u32,
    /// Its Hairpin, for the log.
    pub tool: String,
    /// The name of its ticket.
    pub ticket: String,
    /// That it has the ticket's secret.
    pub proof: Base64,
    /// What it wants.
    pub purpose: Purpose,
}

/// What a client wants of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To be told what the server can do and allows, and to hold a place for the rounds of one run.
    Session,
    /// One round, or one flow of it, of that session.
    Round(u64),
}

/// What a server says of its host and of the ticket at the begin of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// Its environment, as a run records it.
    pub environment: Environment,
    /// The names of the transports that can run there.
    pub transports: Vec<String>,
    /// The congestion controls that its processes may set.
    pub congestion_controls: Vec<String>,
    /// The limits of the ticket.
    pub limits: Limits,
    /// Bytes that the ticket has used today (UTC).
    pub used_bytes: u64,
    /// When the ticket expires, in seconds since 1970.
    pub expires_unix_s: u64,
    /// Sessions under way, this one too.
    pub sessions: u64,
}

/// What a client asks during a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// To take datagrams with that cookie for a while, so that it is seen whether they come through.
    TryDatagrams([u8; 16]),
    /// What came of that.
    DatagramsSeen([u8; 16]),
}

/// What came of a trial of datagrams, as the server saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramsSeen {
    /// Hellos that came, each of which was answered.
    pub hellos: u64,
    /// Confirmations of these answers.
    pub confirmed: u64,
}

/// The answer to a greeting.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The client is known.
    Welcome {
        /// [`VERSION`] of the server.
        version: u32,
        /// Its Hairpin.
        tool: String,
        /// That the server has the secret too.
        proof: Base64,
        /// The session.
        session: u64,
    },
    /// The client is known, and its round waits for those of other clients. Another answer follows.
    Waiting {
        /// So long at most, in ms.
        most_ms: u64,
    },
    /// It is refused.
    Refused {
        /// Why.
        what: String,
        /// What would help.
        hint: String,
    },
}
