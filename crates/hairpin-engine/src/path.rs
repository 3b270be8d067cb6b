//! The path between the ends of one round: the loopback, or a link that exists only during the round. A case with
//! kernel settings uses the loopback of a network namespace created for the round.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use hairpin_link::profile::Profile;
use hairpin_link::stages::delay::Order;
use hairpin_model::digest::digest;
use hairpin_model::flow::{self};
use hairpin_model::link::LOGS;
use hairpin_model::options::OptionName;
use hairpin_model::{AnsweredBy, Case, Failure, FailureKind, Flow, RoundOrder};

use crate::ends::opening;
use crate::links::namespace;
use crate::links::tcp;
use crate::links::traces::Traces;
use crate::links::{FlowMatch, LinkEnd, LinkOrder, LogTo, Namespaces, Numbered, RunningLink, create_log};
use crate::placement::Cpus;
use hairpin_loops::clock::RealClock;

/// Maximum delay of a farewell on a path that reorders packets, in ns.
const MAX_HOLD_NS: u64 = 2_000_000_000;
/// Limit of [`longest_gap_ns`], in ns.
const MAX_GAP_NS: u64 = 60_000_000_000;
/// Upper limit of the headers of a packet, in bytes.
const HEADERS_BYTES: u64 = 100;
/// Number of standard deviations taken as the maximum of an unbounded delay.
const DEVIATIONS: u64 = 6;

pub(crate) struct LinkSetup<'a> {
    pub(crate) traces: &'a Traces,
    /// The run folder, if link logs are kept.
    pub(crate) link_logs: Option<&'a Path>,
    pub(crate) clock: RealClock,
    pub(crate) cpus: &'a Cpus,
    pub(crate) server_program: &'a Path,
}

/// A link between the ends of a round.
pub(crate) struct Link {
    running: RunningLink,
    profile: Profile,
    /// The digests of the traces that the link replays, by name.
    traces: BTreeMap<String, String>,
    /// The name of the link's log in the run folder, if logs are kept.
    log_file: Option<String>,
}

impl Link {
    /// Creates the link of the order; `None` if the case has none. Call this before pinning the calling thread,
    /// because the link's process inherits the allowed CPUs.
    pub(crate) fn open(setup: &LinkSetup<'_>, number: u32, order: &RoundOrder) -> Result<Option<Self>, Failure> {
        let case = &order.case;
        if !case.is_emulated() {
            return Ok(None);
        }
        let profile: Profile = case.path.link.parse().map_err(|error| {
            Failure::new(
                FailureKind::Unsupported,
                format!("cannot read the link `{}`: {error}", case.path.link),
                "`hairpin link list` lists the words of a profile",
            )
        })?;
        let traces = setup.traces.of(&profile)?;
        let digests = traces.iter().map(|(name, text)| (name.clone(), digest(text))).collect();
        let log = log_of(setup.link_logs, number)?;
        let (log_file, log) = log.unzip();
        let logged = log_file.as_ref().zip(setup.link_logs);
        let shown = logged.map(|(name, folder)| folder.join(name).display().to_string());
        let ends: Vec<_> = case.flows.iter().map(|flow| case.ends_of(flow)).collect();
        let of_primary = case.ends_of(case.primary());
        let link_order = LinkOrder {
            profile: case.path.link.clone(),
            traces,
            seed: order.link_seed,
            // A congestion control set on the route would override the case's option.
            congestion_control: (case.primary().options.get(OptionName::Congestion))
                .map_or_else(tcp::default_congestion_control, str::to_owned),
            clock: setup.clock,
            cpu: setup.cpus.cpu_for_relay(&of_primary, &ends),
            allowed_cpus: setup.cpus.allowed.clone(),
            messages: unreliable_flows(order)
                .map(|flow| (flow.id.clone(), numbered(flow, port_of(order, flow))))
                .collect(),
            log: log.as_ref().zip(shown).map(|(file, name)| LogTo::opened(file, name)),
        };
        let running = RunningLink::start(setup.server_program, &link_order)?;
        Ok(Some(Self { running, profile, traces: digests, log_file }))
    }

    pub(crate) fn namespaces(&self) -> &Namespaces {
        self.running.namespaces()
    }

    /// Maximum time in ns by which a packet can arrive later than a packet sent at the same time. A farewell delayed by
    /// this time overtakes nothing.
    pub(crate) fn overtaken_by_ns(&self) -> u64 {
        let path = &self.profile.up;
        let free = if path.delay.order == Order::Free { path.delay.spread_ns.saturating_mul(DEVIATIONS) } else { 0 };
        let held = path.reorder.as_ref().map_or(0, |reorder| reorder.by_ns);
        free.saturating_add(held).min(MAX_HOLD_NS)
    }

    /// The round-trip time in ns from the link's delays and their variation, without queues.
    pub(crate) fn round_trip_ns(&self) -> u64 {
        let way = |path: &hairpin_link::profile::PathProfile| {
            let varies = path.delay.spread_ns.saturating_mul(DEVIATIONS);
            let held = path.reorder.as_ref().map_or(0, |reorder| reorder.by_ns);
            path.delay.base_ns.saturating_add(varies).saturating_add(held)
        };
        way(&self.profile.up).saturating_add(way(&self.profile.down))
    }

    pub(crate) fn finish(self) -> Result<LinkEnd, Failure> {
        let mut end = self.running.finish()?;
        end.record.traces = self.traces;
        end.record.log_file = self.log_file;
        Ok(end)
    }
}

/// Longest silence of a one-way load over the case's path while messages are still in flight, in ns: the link's delay
/// with its variation, plus the transmission time of a message, plus the longest outage. 0 on the loopback; at most
/// [`MAX_GAP_NS`].
pub(crate) fn longest_gap_ns(case: &Case) -> u64 {
    let Some(profile) = case.path.link.parse::<Profile>().ok().filter(|_| case.is_emulated()) else { return 0 };
    let path = if case.primary().direction == flow::Direction::Down { &profile.down } else { &profile.up };
    let delay_ns = path.delay.base_ns.saturating_add(path.delay.spread_ns.saturating_mul(DEVIATIONS));
    let held_ns = path.reorder.as_ref().map_or(0, |reorder| reorder.by_ns);
    let bits = case.primary().load.size_bytes().saturating_add(HEADERS_BYTES).saturating_mul(8);
    let send_ns = path.bottleneck.rate_bits_per_s.map_or(0, |rate| bits.saturating_mul(1_000_000_000) / rate.max(1));
    let down_ns = path.outages.iter().map(|outage| outage.until_ns.saturating_sub(outage.from_ns)).max().unwrap_or(0);
    [held_ns, send_ns, down_ns].into_iter().fold(delay_ns, u64::saturating_add).min(MAX_GAP_NS)
}

/// A network namespace for a round on the loopback whose case has kernel settings. Changing the settings in this
/// namespace changes nothing on the host.
pub(crate) struct OwnNamespace(File);

impl OwnNamespace {
    /// Creates the namespace; `None` if the case has no settings, or has a link, which creates its own namespaces.
    pub(crate) fn open(case: &Case) -> Result<Option<Self>, Failure> {
        let needed = !case.sysctls.is_empty() && !case.is_emulated();
        needed.then(namespace::fresh).transpose().map(|made| made.map(Self))
    }

    /// The path of the namespace, valid while `self` exists.
    pub(crate) fn path(&self) -> PathBuf {
        namespace::path_of(&self.0)
    }
}

/// The flows over unreliable transports. A link must recognize their individual messages.
pub(crate) fn unreliable_flows(order: &RoundOrder) -> impl Iterator<Item = &Flow> {
    let may_be_lost = |flow: &&Flow| opening::transport(&flow.transport).is_ok_and(|known| !known.card().reliable);
    order.case.flows.iter().filter(may_be_lost)
}

/// The first server port of several flows over one link. All ports of the link's namespaces are free.
const FIRST_PORT: u16 = 40_000;

/// The server port of `flow` if the link recognizes its messages by their port; `None` if any port will do.
pub(crate) fn port_of(order: &RoundOrder, flow: &Flow) -> Option<u16> {
    let needs_one = order.case.is_emulated() && unreliable_flows(order).count() > 1;
    let (_, port) = order.case.flows.iter().zip(FIRST_PORT..).find(|(other, _)| other.id == flow.id)?;
    needs_one.then_some(port)
}

/// Creates a round's log. Returns its name in the run folder and the open file; `None` if logs are not kept.
fn log_of(folder: Option<&Path>, number: u32) -> Result<Option<(String, File)>, Failure> {
    let Some(folder) = folder else { return Ok(None) };
    let name = format!("{LOGS}/round-{number:06}.log");
    let file = create_log(&folder.join(&name)).map_err(|error| {
        Failure::new(
            &error,
            format!("cannot create the link's log {name} in {}: {error}", folder.display()),
            "omit --keep-link-log, or use another folder with --out",
        )
    })?;
    Ok(Some((name, file)))
}

/// How a link recognizes the messages of a flow: see [`hairpin_loops::message`], and for one-way loads
/// [`hairpin_loops::driver::phase`].
fn numbered(flow: &Flow, port: Option<u16>) -> Numbered {
    let bytes = |size: u64| usize::try_from(size.min(8)).expect("at most 8");
    let (size, reply) = (flow.load.size_bytes(), flow.load.reply_size_bytes());
    let one_way = match flow.direction {
        flow::Direction::RoundTrip => None,
        flow::Direction::Up => Some(hairpin_link::Direction::Up),
        flow::Direction::Down => Some(hairpin_link::Direction::Down),
    };
    let is_icmp =
        opening::transport(&flow.transport).is_ok_and(|known| known.card().answered_by == AnsweredBy::Kernel);
    let flow_match = port.map(|port| if is_icmp { FlowMatch::Icmp } else { FlowMatch::Udp(port) });
    Numbered { message_bytes: bytes(size), answer_bytes: bytes(size.min(reply)), one_way, flow_match }
}

#[cfg(test)]
mod tests {
    use hairpin_model::flow::Direction;

    use super::*;

    #[test]
    fn the_longest_gap_is_the_time_that_the_path_holds_a_message() {
        let gap_ms = |line: &str, way: Direction| {
            let case = Case::of(Flow::stream("udp", 1_150, way)).with(|case| case.path.link = line.to_owned());
            longest_gap_ns(&case) / 1_000_000
        };
        // 1 250 bytes take 100 ms at 100 kbit/s.
        let line = "up=100kbit down=10mbit delay=20ms+-5ms up.reorder=1%/7ms up.outage=100ms-400ms";
        assert_eq!(
            (gap_ms(line, Direction::Up), gap_ms(line, Direction::Down)),
            (20 + 30 + 100 + 7 + 300, 20 + 30 + 1)
        );
        assert_eq!(longest_gap_ns(&Case::of(Flow::stream("udp", 64, Direction::Up))), 0);
        assert_eq!(gap_ms("delay=1h", Direction::Up).min(60_000), gap_ms("delay=1h", Direction::Up));
    }
}
