//! What a transport promises, and whether it can run here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::flow::Opening;
use crate::hint::{Hint, Hinted};
use crate::options::OptionName;

/// Who answers messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AnsweredBy {
    /// Hairpin's own server, in another process or thread.
    #[default]
    Server,
    /// The kernel itself (ICMP echo): no server, so no server figures.
    Kernel,
    /// A server that is not Hairpin's: no server figures.
    #[serde(rename = "foreign server")]
    ForeignServer,
}

impl AnsweredBy {
    pub fn is_server(&self) -> bool {
        *self == Self::Server
    }
}

/// How far a transport reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Two threads of one process only.
    Process,
    /// Two processes on one machine.
    Machine,
    /// Two machines.
    Network,
}

/// The protocol whose packets carry the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// TCP segments, including those of Multipath TCP.
    Tcp,
    /// UDP datagrams.
    Udp,
    /// ICMP echo messages.
    Icmp,
    /// No packets: the two ends share a machine.
    None,
}

/// Approximate p50 of a 4 B round trip, in ns; used only to estimate the duration of a run. The values were measured
/// with C loops on a 2-CPU KVM guest with Linux 6.18; transports without a C loop have the values of a similar one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoughRoundTrip {
    /// Both ends block and share one CPU.
    pub blocking_ns: u64,
    /// Both ends spin, each on its own CPU.
    pub spinning_ns: u64,
}

/// Minimum MTU of IPv4 (RFC 791, section 3.2).
pub const IPV4_MTU_BYTES: u32 = 68;
/// Minimum MTU of IPv6 (RFC 8200, section 5).
pub const IPV6_MTU_BYTES: u32 = 1280;

/// A transport's promises, as printed by `hairpin list` and checked by the contract test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Card {
    /// Name on the command line, for instance `unix-stream`.
    pub name: &'static str,
    /// One line: what carries the bytes.
    pub summary: &'static str,
    /// Messages arrive in the order they were sent.
    pub ordered: bool,
    /// Every accepted message arrives.
    pub reliable: bool,
    /// One send is one receive; otherwise the bytes are a stream.
    pub boundaries: bool,
    /// Largest message, in bytes, that one send accepts.
    pub max_message_bytes: u64,
    /// Smallest message, in bytes (1 unless the protocol needs more).
    pub min_message_bytes: u64,
    /// Minimum MTU of a path, in bytes, as its IP version requires; 0 without packets.
    pub min_mtu_bytes: u32,
    pub answered_by: AnsweredBy,
    pub reach: Reach,
    pub protocol: Protocol,
    /// Messages move by memory loads and stores; an end makes system calls only to sleep. Reading the clock twice
    /// would take a tenth of a round trip.
    pub cpu_only: bool,
    #[serde(skip)]
    pub rough_round_trip: RoughRoundTrip,
    /// Other transports are compared with this one; exactly one transport is the reference.
    pub is_reference: bool,
    pub in_survey: bool,
    /// A listener accepts more than one connection.
    pub many_connections: bool,
    /// A connection carries more than one stream.
    pub many_streams: bool,
    /// The sender can send a file with sendfile(2).
    pub sends_files: bool,
    pub waitings: &'static [crate::case::Waiting],
    pub options: &'static [OptionName],
    /// The library that moves the bytes; `None` if Hairpin makes the system calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<Library>,
}

/// A library that implements a protocol, and what the words of a load mean for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, crate::JsonSchema)]
pub struct Library {
    /// Name of the crate.
    pub name: &'static str,
    /// Version, as in Cargo.lock.
    pub version: &'static str,
    /// What a message is, and when it is sent.
    pub message: &'static str,
    /// What a stream is.
    pub stream: &'static str,
    /// What runs the library, and its timers.
    pub runtime: &'static str,
    /// Defaults that matter, and how they differ from those of the library.
    pub defaults: &'static str,
    /// Options that the library implements instead of the kernel.
    pub options: &'static [OptionName],
    /// Its congestion controls, the default first; empty if the kernel controls congestion.
    pub congestion_controls: &'static [&'static str],
    /// Its connections are encrypted.
    pub is_encrypted: bool,
    /// How its connections can open.
    pub openings: &'static [Opening],
}

impl Library {
    /// A library whose options are all the kernel's.
    pub const UNNAMED: Self = Self {
        name: "",
        version: "",
        message: "",
        stream: "",
        runtime: "",
        defaults: "",
        options: &[],
        congestion_controls: &[],
        is_encrypted: false,
        openings: &[Opening::Cold],
    };
}

/// The part of a transport's card that a run saves, so that readers of the run need not know the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
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
    /// Whether its connections are encrypted; false in earlier versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_encrypted: bool,
    /// Whether its ends may be two processes; false in earlier versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub between_processes: bool,
}

impl Card {
    /// A byte stream between two processes of this machine; transports' cards override some of the fields.
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
        many_streams: false,
        sends_files: false,
        waitings: crate::case::Waiting::BASIC,
        options: &[],
        library: None,
    };

    /// Whether messages between hosts carry codes, because anyone could send others.
    pub fn has_codes(&self) -> bool {
        self.protocol == Protocol::Udp && self.library.is_none()
    }

    pub fn saved(&self) -> SavedCard {
        SavedCard {
            protocol: self.protocol,
            ordered: self.ordered,
            reliable: self.reliable,
            boundaries: self.boundaries,
            cpu_only: self.cpu_only,
            is_reference: self.is_reference,
            is_encrypted: self.library.is_some_and(|library| library.is_encrypted),
            between_processes: self.reach != Reach::Process,
        }
    }
}

/// The cards saved in a run, by transport name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(transparent)]
pub struct SavedCards(BTreeMap<String, SavedCard>);

impl SavedCards {
    /// True for runs of versions that did not save cards.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, transport: &str) -> Option<&SavedCard> {
        self.0.get(transport)
    }

    /// A transport between processes that moves messages without system calls.
    pub fn cpu_only(&self) -> Option<&str> {
        let is_meant = |(_, card): &(&String, &SavedCard)| card.cpu_only && card.between_processes;
        self.0.iter().find(is_meant).map(|(name, _)| name.as_str())
    }

    /// Whether `transport` is reliable. A transport without a card is assumed to be reliable.
    pub fn reliable(&self, transport: &str) -> bool {
        self.get(transport).is_none_or(|card| card.reliable)
    }

    /// Whether `transport` keeps message boundaries. A transport without a card is assumed not to keep them.
    pub fn boundaries(&self, transport: &str) -> bool {
        self.get(transport).is_some_and(|card| card.boundaries)
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
    /// The cause, with the system's error message if there is one.
    pub reason: String,
    /// What the user could do about it.
    pub hint: String,
}

impl WhyNot {
    pub fn new(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: hint.into() }
    }
}

impl Hinted for WhyNot {
    fn cause(&self) -> String {
        self.reason.clone()
    }

    fn hint(&self) -> String {
        self.hint.clone()
    }
}
