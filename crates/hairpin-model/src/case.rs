//! A case: one complete choice of transport, options, waiting, placement, link and pattern.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::digest;
use crate::exchange::Exchange;
use crate::options::Options;
use crate::quantities::{duration_argument, exact_duration};
use crate::words;

words! {
    /// How an end waits for the next message.
    pub enum Waiting: "waiting" {
        /// The receive call itself sleeps until there is data: one system call.
        Block = "block",
        /// `poll` sleeps until there is data, then a receive call takes it: two system calls.
        Poll = "poll",
        /// The receive call is repeated without ever sleeping.
        Spin = "spin",
    }
}

words! {
    /// Where the two ends run.
    pub enum Placement: "placement" {
        /// Both pinned to one CPU.
        SameCpu = "same-cpu",
        /// Pinned to two different CPUs.
        CrossCpu = "cross-cpu",
        /// Left to the scheduler; where they really ran is recorded.
        Unpinned = "unpinned",
    }
}

words! {
    /// What the two ends are.
    pub enum Ends: "ends" {
        /// Two processes.
        Processes = "processes",
        /// Two threads of one process.
        Threads = "threads",
    }
}

words! {
    /// How deep the CPUs may sleep while a round runs.
    pub enum CpuIdle: "CPU idle state" {
        /// As the machine is configured.
        Deep = "deep",
        /// `/dev/cpu_dma_latency` is held at 0 during the round, so that idle CPUs keep polling.
        Shallow = "shallow",
    }
}

/// What is sent when.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Pattern {
    /// Closed loop: the next message leaves when the answer to the last has arrived.
    PingPong,
    /// Open loop: messages are due at a fixed rate, whatever has come back.
    Paced {
        /// Messages a second.
        rate_per_s: f64,
    },
    /// Closed loop of exchanges: each request is several writes, as [`Case::exchange`] says.
    SmallWrites,
}

/// A fault injected in the server, to prove that it is found (canary) or called slower (calibration).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InjectedFault {
    /// How long the server holds a message back, in nanoseconds.
    pub stall_ns: u64,
    /// Every how many messages (1: each one).
    pub every: u64,
    /// Whether it sleeps or keeps its CPU busy meanwhile.
    pub sleeps: bool,
}

impl fmt::Display for InjectedFault {
    /// As the command line takes it: `sleep=40ms/1`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stall = duration_argument(self.stall_ns);
        write!(out, "{}={stall}/{}", if self.sleeps { "sleep" } else { "busy" }, self.every)
    }
}

/// One complete, hashable choice. Two equal cases are the same measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The transport's name.
    pub transport: String,
    /// How both ends wait.
    pub waiting: Waiting,
    /// Where they run.
    pub placement: Placement,
    /// What they are.
    pub ends: Ends,
    /// Bytes of each message.
    pub size_bytes: u64,
    /// Bytes of each answer.
    pub reply_size_bytes: u64,
    /// What is asked of the sockets.
    pub options: Options,
    /// The path between the ends: `loopback`, or a link profile in one line.
    pub link: String,
    /// What the link is called, where it is a built-in profile, also a changed one: `home-uplink up.loss=3%`. It is for
    /// people, and no part of the identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_name: Option<String>,
    /// What is sent when.
    pub pattern: Pattern,
    /// What an exchange is made of; there with [`Pattern::SmallWrites`] and only then.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// How deep the CPUs may sleep.
    #[serde(default = "deep")]
    pub cpu_idle: CpuIdle,
    /// An injected fault, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected_fault: Option<InjectedFault>,
    /// 0, or 1 for the second of an A/A pair: the same case, measured as if it were another.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub replicate: u8,
}

fn deep() -> CpuIdle {
    CpuIdle::Deep
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes a reference")]
fn is_zero(value: &u8) -> bool {
    *value == 0
}

/// The link that needs no relay: the kernel's own loopback (or, for local transports, none at all).
pub const LOOPBACK: &str = "loopback";

impl Case {
    /// A plain ping-pong of 4 bytes over `transport`, blocking, both ends on one CPU.
    #[must_use]
    pub fn ping_pong(transport: &str) -> Self {
        Self {
            transport: transport.to_owned(),
            waiting: Waiting::Block,
            placement: Placement::SameCpu,
            ends: Ends::Processes,
            size_bytes: 4,
            reply_size_bytes: 4,
            options: Options::default(),
            link: LOOPBACK.to_owned(),
            link_name: None,
            pattern: Pattern::PingPong,
            exchange: None,
            cpu_idle: CpuIdle::Deep,
            injected_fault: None,
            replicate: 0,
        }
    }

    /// Exchanges over `transport`, with answers of 4 bytes, blocking, both ends on one CPU.
    #[must_use]
    pub fn small_writes(transport: &str, exchange: Exchange) -> Self {
        Self {
            size_bytes: exchange.writes.total_bytes(),
            pattern: Pattern::SmallWrites,
            exchange: Some(exchange),
            ..Self::ping_pong(transport)
        }
    }

    /// A short stable identity: the [`digest`] of the canonical JSON.
    #[must_use]
    pub fn id(&self) -> String {
        let unnamed = Self { link_name: None, ..self.clone() };
        let json = serde_json::to_string(&unnamed).expect("a case has only string keys");
        digest(&json)
    }

    /// Whether an emulated link is between the ends.
    #[must_use]
    pub fn is_emulated(&self) -> bool {
        self.link != LOOPBACK
    }

    /// The case in a line of words for tables: only what differs from the plainest case is said.
    #[must_use]
    pub fn label(&self) -> String {
        let mut words = vec![self.transport.clone(), self.waiting.to_string(), self.placement.to_string()];
        words.extend(self.details());
        words.join(" ")
    }

    /// What sets this case apart beyond transport, waiting and placement, a word or two each.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.ends == Ends::Threads {
            words.push("threads".to_owned());
        }
        if let Some(exchange) = &self.exchange {
            words.push(exchange.remedy.to_string());
            words.push(format!("{} B", exchange.writes));
            if exchange.gap_ns > 0 {
                words.push(format!("gap {}", exact_duration(exchange.gap_ns)));
            }
            if exchange.pipeline > 1 {
                words.push(format!("{} in flight", exchange.pipeline));
            }
        }
        match (self.size_bytes, self.reply_size_bytes) {
            (4, 4) => {}
            (_, 4) if self.exchange.is_some() => {}
            (_, reply) if self.exchange.is_some() => words.push(format!("answer {reply} B")),
            (size, reply) if size == reply => words.push(format!("{size} B")),
            (size, reply) => words.push(format!("{size}/{reply} B")),
        }
        if let Pattern::Paced { rate_per_s } = self.pattern {
            words.push(format!("{rate_per_s}/s"));
        }
        words.extend(self.options.iter().map(|(name, value)| format!("{name}={value}")));
        if self.cpu_idle == CpuIdle::Shallow {
            words.push("CPUs kept awake".to_owned());
        }
        if self.is_emulated() {
            words.push(format!("over {}", self.link_name.as_ref().unwrap_or(&self.link)));
        }
        if let Some(injected_fault) = self.injected_fault {
            words.push(format!(
                "injected {} every {}",
                exact_duration(injected_fault.stall_ns),
                injected_fault.every
            ));
        }
        if self.replicate != 0 {
            words.push("(again)".to_owned());
        }
        words
    }

    /// The same case on the loopback.
    #[must_use]
    pub fn without_link(&self) -> Self {
        Self { link: LOOPBACK.to_owned(), link_name: None, ..self.clone() }
    }

    /// The same case but for its place in an A/A pair.
    #[must_use]
    pub fn without_replicate(&self) -> Self {
        Self { replicate: 0, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_depends_on_every_choice_and_on_nothing_else() {
        let case = Case::ping_pong("tcp");
        assert_eq!(case.id(), Case::ping_pong("tcp").id());
        let others = [
            Case { waiting: Waiting::Spin, ..case.clone() },
            Case { placement: Placement::CrossCpu, ..case.clone() },
            Case { size_bytes: 5, ..case.clone() },
            Case { reply_size_bytes: 5, ..case.clone() },
            Case { cpu_idle: CpuIdle::Shallow, ..case.clone() },
            Case { replicate: 1, ..case.clone() },
            Case { pattern: Pattern::Paced { rate_per_s: 1000.0 }, ..case.clone() },
        ];
        for other in others {
            assert_ne!(case.id(), other.id(), "{}", other.label());
        }
    }

    #[test]
    fn an_exchange_stands_flat_in_the_case() {
        let exchange = Exchange {
            writes: "100x2".parse().unwrap(),
            gap_ns: 0,
            pipeline: 1,
            remedy: crate::exchange::Remedy::CorkForgotten,
        };
        let case = Case::small_writes("tcp", exchange);
        let json = serde_json::to_value(&case).unwrap();
        assert_eq!((json["writes"].as_str(), json["remedy"].as_str()), (Some("100x2"), Some("cork-forgotten")));
        assert_eq!(json["pattern"]["kind"], "small-writes");
        assert_eq!(serde_json::from_value::<Case>(json).unwrap(), case);
        assert_eq!(case.label(), "tcp block same-cpu cork-forgotten 100x2 B");
    }

    #[test]
    fn a_fault_and_a_gap_are_said_in_the_greatest_unit_that_is_exact() {
        let injected_fault = |stall_ns, every, sleeps| InjectedFault { stall_ns, every, sleeps };
        assert_eq!(injected_fault(40_000_000, 1, true).to_string(), "sleep=40ms/1");
        assert_eq!(injected_fault(1_300, 100, false).to_string(), "busy=1300ns/100");
        let injected = Case { injected_fault: Some(injected_fault(1_500_000, 7, true)), ..Case::ping_pong("tcp") };
        assert_eq!(injected.details(), ["injected 1500 us every 7"]);
    }

    #[test]
    fn a_case_survives_json() {
        let case = Case { replicate: 1, pattern: Pattern::Paced { rate_per_s: 12.5 }, ..Case::ping_pong("udp6") };
        let json = serde_json::to_string(&case).unwrap();
        assert_eq!(serde_json::from_str::<Case>(&json).unwrap(), case);
    }
}
