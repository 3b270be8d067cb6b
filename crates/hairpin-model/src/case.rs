//! A case: one complete choice of transport, options, waiting, placement, link and pattern.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::digest;
pub use crate::end_settings::{
    CpuIdle, EndKind, EndSettings, KERNEL_TIMER_SLACK_NS, Placement, Scheduling, Waiting, WhichCpus,
};
use crate::exchange::Exchange;
use crate::fields::is_default;
use crate::flow::{Direction, Flow, FlowRole, Load, LoadWays, Pacing};
use crate::flows::flows;
use crate::names::distinct;
use crate::options::OptionName;
use crate::periodic::BackgroundLoad;
use crate::quantities::{duration_argument, exact_bytes, exact_duration};
use crate::sysctls::Sysctls;
use crate::words;

/// A fault injected in the server, to prove that the analysis finds the fault (canary) or judges the case slower
/// (calibration).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, crate::JsonSchema)]
pub struct InjectedFault {
    /// How long the server holds a message back, in nanoseconds.
    pub stall_ns: u64,
    /// The server stalls at every Nth message (1: at each).
    pub every: u64,
    /// Whether the server sleeps during a stall; otherwise it keeps its CPU busy.
    pub sleeps: bool,
}

impl fmt::Display for InjectedFault {
    /// As on the command line: `sleep=40ms/1`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stall = duration_argument(self.stall_ns);
        write!(out, "{}={stall}/{}", if self.sleeps { "sleep" } else { "busy" }, self.every)
    }
}

/// The path between the ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Path {
    /// [`LOOPBACK`], or a link profile in one line.
    pub link: String,
    /// Name of a built-in profile, with any changes: `home-uplink up.loss=3%`. For display only; not part of the
    /// identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The server's host, if it is not the client's.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub across: Option<RemotePath>,
}

/// Maximum number of descriptors of an end besides those for its connections. Includes the second descriptor of a pipe.
const OWN_DESCRIPTORS: u64 = 64;

/// Marks a transport that replaced the requested one.
pub const FALLBACK_MARK: &str = "*";

/// A path between two hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct RemotePath {
    /// Kind of the path.
    pub kind: PathKind,
    /// The server's host, as given by the user.
    pub host: String,
    /// Why another transport replaced the requested one; null if none did.
    pub fallback: Option<Fallback>,
}

/// The replacement for a requested transport whose packets do not get through.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Fallback {
    /// The requested transport.
    pub from: String,
    /// The transport that carries the messages.
    pub to: String,
    /// What was sent, what was received, and for how long this was tried, in one sentence.
    pub evidence: String,
}

words! {
    /// Kind of a path that leaves the host.
    pub enum PathKind: "kind of path" {
        Hosts = "hosts",
        /// The path to a server that is not Hairpin's. The host is its URL.
        ForeignServer = "foreign server",
    }
}

/// The path without a relay: the kernel's loopback, or for local transports no network at all.
pub const LOOPBACK: &str = "loopback";

impl Path {
    pub fn loopback() -> Self {
        Self { link: LOOPBACK.to_owned(), name: None, across: None }
    }
}

/// One complete, hashable choice. Two equal cases are the same measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Case {
    /// The traffic, at least one flow.
    #[serde(deserialize_with = "flows")]
    pub flows: Vec<Flow>,
    /// How both ends are set up.
    pub ends: EndSettings,
    /// The path between the ends.
    pub path: Path,
    /// Kernel settings below `net.` and their values. A round with such settings runs in its own network namespace.
    #[serde(default, skip_serializing_if = "Sysctls::is_empty")]
    pub sysctls: Sysctls,
    /// A fault injected in the server, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub injected_fault: Option<InjectedFault>,
    /// 0, or 1 for the second case of an A/A pair: the same settings, measured as a separate case.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicate: u8,
}

impl Case {
    /// A case of one flow, blocking, both ends on one CPU, without a link.
    pub fn of(flow: Flow) -> Self {
        Self {
            flows: vec![flow],
            ends: EndSettings {
                kind: EndKind::Processes,
                waiting: Waiting::Block,
                placement: Placement::SameCpu,
                cpus: WhichCpus::Same,
                cpu_idle: CpuIdle::Deep,
                scheduling: Scheduling::Other,
                timer_slack_ns: None,
                lock_memory: false,
            },
            path: Path::loopback(),
            sysctls: Sysctls::default(),
            injected_fault: None,
            replicate: 0,
        }
    }

    /// A plain ping-pong of 4 bytes over `transport`, blocking, both ends on one CPU.
    pub fn ping_pong(transport: &str) -> Self {
        Self::of(Flow::ping_pong(transport))
    }

    /// Exchanges over `transport`, with answers of 4 bytes, blocking, both ends on one CPU.
    pub fn small_writes(transport: &str, exchange: Exchange) -> Self {
        Self::of(Flow::exchanges(transport, exchange))
    }

    /// Whether a probe measures latency before, during and after a load.
    pub fn is_under_load(&self) -> bool {
        self.primary().role == FlowRole::Probe
    }

    /// The load flows beside a probe; empty for other cases.
    pub fn loads(&self) -> Vec<&Flow> {
        let is_load = |flow: &&Flow| flow.role == FlowRole::Load && self.is_under_load();
        self.flows.iter().filter(is_load).collect()
    }

    pub fn background(&self) -> Option<BackgroundLoad> {
        self.primary().load.periodic()?;
        let is_there = |id: &&str| self.flows.iter().any(|flow| flow.id.to_string() == **id);
        BackgroundLoad::ALL.iter().copied().rfind(|load| load.flows().iter().all(is_there))
    }

    pub fn load_ways(&self) -> Option<LoadWays> {
        self.is_under_load().then(|| match self.loads().as_slice() {
            [] => LoadWays::None,
            [one] if one.direction == Direction::Down => LoadWays::Down,
            [_] => LoadWays::Up,
            _ => LoadWays::Both,
        })
    }

    /// Returns the case with only `flow`, whose end settings become those of the case.
    pub fn alone(&self, flow: &Flow) -> Self {
        // The busy threads of `--load cpu` send nothing, so they need no link.
        let is_busy = self.background().is_some() && matches!(flow.load, Load::Messages { .. });
        let path = if is_busy && self.is_emulated() { Path::loopback() } else { self.path.clone() };
        Self { ends: self.ends_of(flow), flows: vec![flow.clone()], path, ..self.clone() }
    }

    pub fn ends_of(&self, flow: &Flow) -> EndSettings {
        flow.ends.unwrap_or(self.ends)
    }

    /// The primary flow, by which the case is judged: its probe, or else its first measured flow.
    pub fn primary(&self) -> &Flow {
        &self.flows[self.primary_index()]
    }

    pub fn is_judged_by(&self, flow: &Flow) -> bool {
        self.primary().id == flow.id
    }

    pub fn primary_mut(&mut self) -> &mut Flow {
        let place = self.primary_index();
        &mut self.flows[place]
    }

    fn primary_index(&self) -> usize {
        FlowRole::primary_index(self.flows.iter().map(|flow| flow.role))
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// A short stable identity: the [`digest`] of the canonical JSON.
    pub fn id(&self) -> String {
        let unnamed = self.clone().with(|changed| changed.path.name = None);
        let json = serde_json::to_string(&unnamed).expect("a case has only string keys");
        digest(&json)
    }

    pub fn is_emulated(&self) -> bool {
        self.path.link != LOOPBACK
    }

    /// The server's host, if it is not the client's.
    pub fn host(&self) -> Option<&str> {
        self.path.across.as_ref().map(|across| across.host.as_str())
    }

    pub fn is_foreign(&self) -> bool {
        self.path.across.as_ref().is_some_and(|across| across.kind == PathKind::ForeignServer)
    }

    /// The requested transport, if another transport replaced it.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.path.across.as_ref()?.fallback.as_ref()
    }

    /// Name of the transport, with [`FALLBACK_MARK`] if it replaced another transport.
    pub fn marked_transport(&self) -> String {
        format!("{}{}", self.primary().transport, if self.fallback().is_some() { FALLBACK_MARK } else { "" })
    }

    /// `over home-uplink`, `over delay=2ms`, `to lab.example.org`; `None` on the loopback.
    pub fn path_in_words(&self) -> Option<String> {
        match self.host() {
            Some(host) => Some(match self.fallback() {
                Some(fallback) => format!("to {host} in place of {}", fallback.from),
                None => format!("to {host}"),
            }),
            None => {
                self.is_emulated().then(|| format!("over {}", self.path.name.as_ref().unwrap_or(&self.path.link)))
            }
        }
    }

    /// Whether the path is an emulated link or a network between two hosts, and so may lose, delay and reorder packets.
    pub fn crosses_a_network(&self) -> bool {
        self.is_emulated() || self.path.across.is_some()
    }

    /// The case in one line for tables: transport, waiting, placement, and all settings that are not defaults.
    pub fn label(&self) -> String {
        self.words().join(" ")
    }

    pub fn descriptors(&self) -> u64 {
        self.primary().wires().saturating_mul(self.ends.waiting.descriptors_per_connection()) + OWN_DESCRIPTORS
    }

    pub fn words(&self) -> Vec<String> {
        let has_load = self.is_under_load() || self.background().is_some();
        let beside_load = |flow: &&Flow| !has_load || flow.id == self.primary().id;
        let judged = self.flows.iter().filter(beside_load);
        let transports = distinct(judged.map(|flow| flow.transport.as_str()));
        let mut words = vec![transports.join("+"), self.ends.waiting.to_string(), self.ends.placement.to_string()];
        words.extend(self.details());
        words
    }

    /// Non-default settings beyond transport, waiting and placement, a word or two each.
    pub fn details(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend((self.ends.kind == EndKind::Threads).then(|| "threads".to_owned()));
        if self.is_under_load() {
            words.extend(self.primary().details());
            words.extend(self.load_in_words());
        } else if let Some(background) = self.background() {
            words.extend(self.primary().details());
            words.extend((background != BackgroundLoad::None).then(|| format!("load {background}")));
        } else {
            words.extend(flows_in_words(&self.flows.iter().collect::<Vec<_>>()));
        }
        words.extend((self.ends.cpu_idle == CpuIdle::Shallow).then(|| "CPUs kept awake".to_owned()));
        let EndSettings { scheduling, timer_slack_ns, lock_memory, .. } = self.ends;
        words
            .extend((scheduling != Scheduling::Other).then(|| format!("SCHED_{}", scheduling.word().to_uppercase())));
        let own_slack_ns = timer_slack_ns.filter(|slack_ns| *slack_ns != KERNEL_TIMER_SLACK_NS);
        words.extend(own_slack_ns.map(|slack_ns| format!("timer slack {}", exact_duration(slack_ns))));
        words.extend(lock_memory.then(|| "memory locked".to_owned()));
        words.extend(self.sysctls.iter().map(|(name, value)| format!("{name}={value}")));
        words.extend(self.path_in_words());
        let fault = self.injected_fault;
        words.extend(fault.map(|fault| format!("injected {} every {}", exact_duration(fault.stall_ns), fault.every)));
        words.extend((self.replicate != 0).then(|| "(again)".to_owned()));
        words
    }

    /// Whether the case has exactly two flows, which differ only in direction.
    pub fn goes_both_ways(&self) -> bool {
        matches!(self.flows.as_slice(), [up, down] if go_both_ways(up, down))
    }

    /// The probe of a case under load: its transport and its details, a word or two each.
    pub fn probe_words(&self) -> Vec<String> {
        std::iter::once(self.marked_transport()).chain(self.primary().details()).collect()
    }

    /// The load on a probe: `under tcp up 64 KiB`, or `unloaded` without load flows; `None` for other cases.
    pub fn load_in_words(&self) -> Option<String> {
        self.is_under_load().then(|| self.load_words().join(" "))
    }

    /// The short parts of [`Self::load_in_words`], transport and direction first: `under tcp up`, `64 KiB`.
    pub fn load_words(&self) -> Vec<String> {
        let loads = self.loads();
        let Some(first) = loads.first() else { return vec!["unloaded".to_owned()] };
        let mut details = flows_in_words(&loads).into_iter();
        let way_and_size = details.next().unwrap_or_default();
        let size = exact_bytes(first.load.size_bytes());
        let way = way_and_size.strip_suffix(&size).map_or(way_and_size.as_str(), str::trim_end);
        let transports = distinct(loads.iter().map(|load| load.transport.as_str())).join("+");
        let mut words = vec![format!("under {transports} {way}")];
        words.extend((way.len() < way_and_size.len()).then_some(size));
        words.extend(details);
        for ends in loads.iter().filter_map(|load| load.ends) {
            words.extend((ends.waiting != self.ends.waiting).then(|| ends.waiting.in_words().to_owned()));
            words.extend((ends.cpus != self.ends.cpus).then(|| "on another CPU".to_owned()));
        }
        distinct(words)
    }

    pub fn without_link(&self) -> Self {
        Self { path: Path::loopback(), ..self.clone() }
    }

    /// Returns the case with messages due at `per_s`. Also sets the rate of kernel pacing per connection.
    pub fn at_rate(&self, per_s: f64) -> Self {
        let mut case = self.clone();
        let flow = case.primary_mut();
        let wires = flow.wires() as f64;
        match &mut flow.load {
            Load::Offered { offered_per_s, size_bytes, pacing, .. } => {
                *offered_per_s = per_s;
                if *pacing == Pacing::Kernel {
                    // The kernel takes 0 bytes per second as no limit.
                    let bytes_per_s = (per_s * *size_bytes as f64 / wires).round().max(1.0) as u64;
                    flow.options = flow.options.clone().with(OptionName::PacingRate, &bytes_per_s.to_string());
                }
            }
            load => *load = load.paced(per_s),
        }
        case
    }

    /// Returns the case with an offered rate, if any, set to 1 and without the kernel's pacing rate, so that the cases
    /// of one sweep are equal.
    pub fn without_rate(&self) -> Self {
        let mut case = self.clone();
        for flow in &mut case.flows {
            if let Load::Offered { offered_per_s, pacing, .. } = &mut flow.load {
                *offered_per_s = 1.0;
                if *pacing == Pacing::Kernel {
                    flow.options = flow.options.clone().without(OptionName::PacingRate);
                }
            }
        }
        case
    }

    pub fn without_replicate(&self) -> Self {
        Self { replicate: 0, ..self.clone() }
    }

    /// Returns the case without its loads, to group cases that differ only in their load.
    pub fn without_loads(&self) -> Self {
        let probe = self.primary().clone();
        self.without_replicate().with(|case| case.flows = vec![probe])
    }
}

fn flows_in_words(flows: &[&Flow]) -> Vec<String> {
    match flows {
        [up, down] if go_both_ways(up, down) => {
            let both = up.details().into_iter();
            both.map(|word| word.replacen(&format!("{} ", Direction::Up), "both ways ", 1)).collect()
        }
        _ => flows.iter().flat_map(|flow| flow.details()).collect(),
    }
}

fn go_both_ways(up: &Flow, down: &Flow) -> bool {
    let turned = Flow { id: down.id.clone(), direction: Direction::Down, ..up.clone() };
    up.direction == Direction::Up && turned == *down
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_depends_on_every_choice_and_on_nothing_else() {
        let case = Case::ping_pong("tcp");
        assert_eq!(case.id(), Case::ping_pong("tcp").id());
        let others = [
            case.clone().with(|changed| changed.ends.waiting = Waiting::Spin),
            case.clone().with(|changed| changed.ends.placement = Placement::CrossCpu),
            case.clone().with(|changed| changed.primary_mut().load.set_sizes(5, 4)),
            case.clone().with(|changed| changed.primary_mut().load.set_sizes(4, 5)),
            case.clone().with(|changed| changed.ends.cpu_idle = CpuIdle::Shallow),
            case.clone().with(|changed| changed.replicate = 1),
            case.clone().with(|changed| changed.sysctls = "net.ipv4.tcp_sack=0".parse().unwrap()),
            case.clone().with(|changed| changed.primary_mut().load = changed.primary().load.paced(1000.0)),
        ];
        for other in others {
            assert_ne!(case.id(), other.id(), "{}", other.label());
        }
    }

    #[test]
    fn an_exchange_is_flattened_into_the_load() {
        let (writes, remedy) = ("100x2".parse().unwrap(), crate::exchange::Remedy::CorkForgotten);
        let case = Case::small_writes("tcp", Exchange { writes, gap_ns: 0, pipeline: 1, reply_writes: None, remedy });
        let json = serde_json::to_value(&case).unwrap();
        let load = &json["flows"][0]["load"];
        let words = ["kind", "writes", "remedy"].map(|name| load[name].as_str().unwrap());
        assert_eq!(words, ["exchange", "100x2", "cork-forgotten"]);
        assert_eq!(serde_json::from_value::<Case>(json).unwrap(), case);
        assert_eq!(case.label(), "tcp block same-cpu cork-forgotten 100x2 B");
    }

    #[test]
    fn a_fault_is_printed_in_the_largest_exact_unit() {
        let injected_fault = |stall_ns, every, sleeps| InjectedFault { stall_ns, every, sleeps };
        assert_eq!(injected_fault(40_000_000, 1, true).to_string(), "sleep=40ms/1");
        assert_eq!(injected_fault(1_300, 100, false).to_string(), "busy=1300ns/100");
        let injected =
            Case::ping_pong("tcp").with(|changed| changed.injected_fault = Some(injected_fault(1_500_000, 7, true)));
        assert_eq!(injected.details(), ["injected 1500 us every 7"]);
    }

    #[test]
    fn a_load_on_a_probe_is_labelled_with_its_direction_first() {
        use crate::flow::WRITE_BYTES;
        let mut probed = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
        probed.primary_mut().load = Load::PingPong { size_bytes: 64, reply_size_bytes: 64 }.paced(100.0);
        let words = [probed.load_words(), probed.probe_words()].map(|words| words.join(" "));
        assert_eq!(words, ["unloaded", "udp 64 B 100/s"]);
        let up = Flow::stream("tcp", WRITE_BYTES, Direction::Up).in_role(FlowRole::Load);
        let options = crate::options::Options::default().with(OptionName::Congestion, "bbr");
        probed.flows.push(Flow { connections: 4, options, ..up });
        assert_eq!(probed.load_words(), ["under tcp up", "64 KiB", "4 connections", "congestion=bbr"]);
        assert_eq!(probed.label(), "udp block same-cpu 64 B 100/s under tcp up 64 KiB 4 connections congestion=bbr");
        let kind = crate::ladder::CaseKind::of(&probed);
        assert_eq!(kind, crate::ladder::CaseKind::UnderLoad, "a probe makes the case one under load");
        let back = Flow { id: "load-back".into(), direction: Direction::Down, ..probed.flows[1].clone() };
        probed.flows.push(back);
        assert_eq!(probed.load_words()[..2], ["under tcp both ways", "64 KiB"]);
        let elsewhere = EndSettings { cpus: WhichCpus::Other, ..probed.ends };
        probed.flows[1].ends = Some(elsewhere);
        probed.flows[2].ends = Some(elsewhere);
        assert_eq!(probed.load_words()[2..], ["4 connections", "congestion=bbr", "on another CPU"]);
        assert_eq!(Case::ping_pong("udp").load_in_words(), None);
    }
}
