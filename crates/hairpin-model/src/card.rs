//! What a transport promises, and whether it can run here.

use serde::{Deserialize, Serialize};

use crate::hint::Hint;
use crate::options::OptionName;

/// Who turns a message round at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnsweredBy {
    /// Hairpin's own echo half, in another process or thread.
    EchoHalf,
    /// The kernel itself (ICMP echo): there is no echo half, so no echo-side figures.
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
    pub lossless: bool,
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
    /// The waitings that it supports.
    pub waitings: &'static [crate::case::Waiting],
    /// The options that can be asked of it.
    pub options: &'static [OptionName],
}

/// Proof that a transport can run here: a version or a short fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// For instance `Linux 6.18, raw socket`.
    pub detail: String,
}

/// Why something cannot run here, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyNot {
    /// The cause, with the system's own words where there are any.
    pub reason: String,
    /// What the user could do about it.
    pub hint: String,
}

impl std::fmt::Display for WhyNot {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}{}", self.reason, Hint(&self.hint))
    }
}
