//! What a transport promises, and whether it can run here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::hint::{Hint, Hinted};
use crate::options::OptionName;

/// Who turns a message round at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnsweredBy {
    /// Hairpin's own server, in another process or thread.
    Server,
    /// The kernel itself (ICMP echo): there is no server, so no echo-side figures.
    Kernel,
}

/// Which ends a transport can join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Two threads of one process only.
    Process,
    /// Two processes on one machine.
    Machine,
    /// Two machines.
    Network,
}

/// The protocol that carries the bytes, where they become packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP segments, those of Multipath TCP among them.
    Tcp,
    /// UDP datagrams.
    Udp,
    /// ICMP echo messages.
    Icmp,
    /// No packets: the two ends share a machine.
    None,
}

/// How long a round trip of 4 B takes, roughly, in ns (p50): enough to announce how long a run will take, and used for
/// nothing else. The values are those of hand-written C loops on a 2-CPU KVM guest with Linux 6.18, or of the nearest
/// relative that such a loop exists for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoughRoundTrip {
    /// Both ends block and share one CPU.
    pub blocking_ns: u64,
    /// Both ends spin, each on a CPU of its own.
    pub spinning_ns: u64,
}

/// The smallest MTU that IPv4 has (RFC 791, section 3.2).
pub const IPV4_MTU_BYTES: u32 = 68;
/// The smallest MTU that IPv6 has (RFC 8200, section 5).
pub const IPV6_MTU_BYTES: u32 = 1280;

/// A transport's promises, as printed by `hairpin list` and checked by the contract test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The CLI's word for it, for instance `unix-stream`.
    pub name: &'static str,
    /// One line: what carries the bytes.
    pub summary: &'static str,
    /// Messages arrive in the order they were sent.
    pub ordered: bool,
    /// Every accepted message arrives.
    pub reliable: bool,
    /// One send is one receive; without it the bytes are a stream.
    pub boundaries: bool,
    /// The largest message, in bytes, that one send accepts.
    pub max_message_bytes: u64,
    /// The smallest message, in bytes (1 unless the protocol needs more).
    pub min_message_bytes: u64,
    /// The smallest MTU, in bytes, of a path that can carry it: that of its version of IP; 0 where no packets do.
    pub min_mtu_bytes: u32,
    /// Who answers.
    pub answered_by: AnsweredBy,
    /// How far it reaches.
    pub reach: Reach,
    /// The protocol that carries it.
    pub protocol: Protocol,
    /// Messages move by loads and stores alone, without a system call unless an end sleeps: two reads of the clock would
    /// be a tenth of a round trip.
    pub cpu_only: bool,
    /// Its round trip, roughly.
    pub rough_round_trip: RoughRoundTrip,
    /// The transport that others are put beside; exactly one is.
    pub is_reference: bool,
    /// The survey measures it.
    pub in_survey: bool,
    /// A listener accepts more than one connection.
    pub many_connections: bool,
    /// It sends from a file by sendfile(2).
    pub sends_files: bool,
    /// The waitings that it supports.
    pub waitings: &'static [crate::case::Waiting],
    /// The options that can be asked of it.
    pub options: &'static [OptionName],
}

/// What a run keeps of a transport's card, so that whoever reads the run need not know the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SavedCard {
    /// As [`Card::protocol`].
    pub protocol: Protocol,
    /// As [`Card::ordered`].
    pub ordered: bool,
    /// As [`Card::reliable`].
    pub reliable: bool,
    /// As [`Card::boundaries`].
    pub boundaries: bool,
    /// As [`Card::cpu_only`].
    pub cpu_only: bool,
    /// As [`Card::is_reference`].
    pub is_reference: bool,
}

impl Card {
    /// A byte stream between two processes of this machine: what a transport's own card differs from.
    pub const LOCAL: Self = Self {
        name: "",
        summary: "",
        ordered: true,
        reliable: true,
        boundaries: false,
        max_message_bytes: 1 << 30,
        min_message_bytes: 1,
        min_mtu_bytes: 0,
        answered_by: AnsweredBy::Server,
        reach: Reach::Machine,
        protocol: Protocol::None,
        cpu_only: false,
        rough_round_trip: RoughRoundTrip { blocking_ns: 0, spinning_ns: 0 },
        is_reference: false,
        in_survey: true,
        many_connections: false,
        sends_files: false,
        waitings: crate::case::Waiting::ALL,
        options: &[],
    };

    /// What a run keeps of it.
    #[must_use]
    pub fn saved(&self) -> SavedCard {
        SavedCard {
            protocol: self.protocol,
            ordered: self.ordered,
            reliable: self.reliable,
            boundaries: self.boundaries,
            cpu_only: self.cpu_only,
            is_reference: self.is_reference,
        }
    }
}

/// The cards that a run keeps, by the names of the transports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct SavedCards(BTreeMap<String, SavedCard>);

impl SavedCards {
    /// Whether there are none: the run was saved before runs kept them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The card of that transport.
    #[must_use]
    pub fn get(&self, transport: &str) -> Option<&SavedCard> {
        self.0.get(transport)
    }

    /// Whether that transport promises every message; one without a card is taken to.
    #[must_use]
    pub fn reliable(&self, transport: &str) -> bool {
        self.get(transport).is_none_or(|card| card.reliable)
    }
}

impl<N: Into<String>> FromIterator<(N, SavedCard)> for SavedCards {
    fn from_iter<I: IntoIterator<Item = (N, SavedCard)>>(cards: I) -> Self {
        Self(cards.into_iter().map(|(name, card)| (name.into(), card)).collect())
    }
}

/// Proof that a transport can run here: a version or a short fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// For instance `Linux 6.18, raw socket`.
    pub detail: String,
}

/// Why something cannot run here, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}{}", Hint(.hint))]
pub struct WhyNot {
    /// The cause, with the system's own words where there are any.
    pub reason: String,
    /// What the user could do about it.
    pub hint: String,
}

impl Hinted for WhyNot {
    fn cause(&self) -> String {
        self.reason.clone()
    }

    fn hint(&self) -> String {
        self.hint.clone()
    }
}
