//! What it takes to open a connection.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;

/// The connections that a round opened, and what Hairpin's hello adds to each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Opened {
    /// Connections, including the warm-up.
    pub connections: u64,
    /// Packets of a hello over a link without losses, both ways.
    pub hello_packets: u64,
    /// Their bytes, with IP headers.
    pub hello_bytes: u64,
}

/// Figures of a connection with one exchange, by what the ends knew of each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SetUp {
    /// The ends knew nothing of each other.
    Cold(SetUpFigures),
    /// The session was resumed, with or without 0-RTT.
    Warm(SetUpFigures),
}

impl SetUp {
    pub fn figures(&self) -> &SetUpFigures {
        let (Self::Cold(figures) | Self::Warm(figures)) = self;
        figures
    }
}

/// Medians over rounds, without Hairpin's hello.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct SetUpFigures {
    /// Time from the connect call to the first answer.
    pub time_ns: Option<Figure>,
    /// The same in round trips of an established connection; null where an exchange takes less than 2 ms.
    pub round_trips: Option<f64>,
    /// Bytes of the whole connection with IP headers, both ways; null without a link.
    pub bytes: Option<Figure>,
    /// Packets of the whole connection, both ways; null without a link.
    pub packets: Option<Figure>,
    /// CPU time of both ends for a connection, with the hello.
    pub cpu_ns: Option<Figure>,
}
