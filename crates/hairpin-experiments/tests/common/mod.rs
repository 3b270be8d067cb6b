//! Host capabilities for plans, with cards like those of the real transports.
#![allow(unreachable_pub, reason = "a module of tests")]

mod one_way;

use hairpin_experiments::{Done, Experiment, Forecast, Knobs, Refused, Step, experiments};
use hairpin_model::card::{IPV4_MTU_BYTES, IPV6_MTU_BYTES};
use hairpin_model::options::OptionName;
use hairpin_model::{
    AnsweredBy, Candidate, Card, Case, Failure, FailureKind, FlowRecord, HostCapabilities, KnownLink,
    LinkCapabilities, Measured, Outcome, Placement, Protocol, Reach, Receipt, RoughRoundTrip, RoundOrder,
    RoundRecord, Skipped, Waiting, WhyNot,
};

/// Test-only experiments, which follow the rules of all experiments.
const DOUBLES: &[Experiment] = &[one_way::ONE_WAY];

/// Every experiment, including the test-only ones.
pub fn every() -> Vec<Experiment> {
    [experiments::ALL, DOUBLES].concat()
}

const GIB: u64 = 1 << 30;
const BUFFERS: &[OptionName] = &[OptionName::Sndbuf, OptionName::Rcvbuf];
const MPTCP: &[OptionName] = &[OptionName::Nodelay, OptionName::Cork, OptionName::Sndbuf, OptionName::Rcvbuf];
const DATAGRAM: &[OptionName] = &[OptionName::Sndbuf, OptionName::Rcvbuf, OptionName::Tos, OptionName::Dscp];

/// The card of a pipe, the template of all other cards.
fn plain() -> Card {
    Card {
        library: None,
        name: "pipe",
        summary: "a pair of pipes",
        ordered: true,
        reliable: true,
        boundaries: false,
        max_message_bytes: GIB,
        min_message_bytes: 1,
        min_mtu_bytes: 0,
        answered_by: AnsweredBy::Server,
        reach: Reach::Machine,
        protocol: Protocol::None,
        cpu_only: false,
        rough_round_trip: rough(5_000, 4_000),
        is_reference: false,
        in_survey: true,
        many_connections: true,
        many_streams: false,
        sends_files: true,
        waitings: Waiting::ALL,
        options: &[],
    }
}

fn rough(blocking_ns: u64, spinning_ns: u64) -> RoughRoundTrip {
    RoughRoundTrip { blocking_ns, spinning_ns }
}

/// The template of both shared-memory transports.
fn of_memory() -> Card {
    Card {
        boundaries: true,
        max_message_bytes: 16 << 20,
        cpu_only: true,
        rough_round_trip: rough(4_500, 140),
        waitings: &[Waiting::Block, Waiting::Spin],
        ..plain()
    }
}

/// The template of both Unix sockets that keep message boundaries.
fn unix_messages() -> Card {
    Card {
        boundaries: true,
        max_message_bytes: 200_000,
        rough_round_trip: rough(7_800, 3_400),
        options: BUFFERS,
        ..plain()
    }
}

fn udp() -> Card {
    Card {
        name: "udp",
        boundaries: true,
        max_message_bytes: 65_507,
        reliable: false,
        many_connections: false,
        sends_files: false,
        min_mtu_bytes: IPV4_MTU_BYTES,
        reach: Reach::Network,
        protocol: Protocol::Udp,
        rough_round_trip: rough(10_200, 6_100),
        options: DATAGRAM,
        ..plain()
    }
}

fn tcp() -> Card {
    Card {
        name: "tcp",
        reach: Reach::Network,
        protocol: Protocol::Tcp,
        rough_round_trip: rough(13_400, 8_100),
        is_reference: true,
        options: OptionName::ALL,
        ..plain()
    }
}

pub fn ladder() -> Vec<Card> {
    vec![
        Card { name: "memory", reach: Reach::Process, ..of_memory() },
        Card { name: "shm", ..of_memory() },
        plain(),
        Card { name: "fifo", ..plain() },
        Card { name: "unix-stream", rough_round_trip: rough(9_400, 3_300), options: BUFFERS, ..plain() },
        Card { name: "unix-seqpacket", ..unix_messages() },
        Card { name: "unix-datagram", ..unix_messages() },
        udp(),
        Card { name: "udp6", min_mtu_bytes: IPV6_MTU_BYTES, max_message_bytes: 65_527, ..udp() },
        tcp(),
        Card { name: "tcp6", min_mtu_bytes: IPV6_MTU_BYTES, is_reference: false, ..tcp() },
        Card {
            name: "mptcp",
            rough_round_trip: rough(15_000, 9_000),
            options: MPTCP,
            is_reference: false,
            in_survey: false,
            ..tcp()
        },
        Card {
            name: "icmp",
            protocol: Protocol::Icmp,
            rough_round_trip: rough(4_000, 4_000),
            answered_by: AnsweredBy::Kernel,
            options: &[OptionName::Tos],
            ..udp()
        },
    ]
}

/// The default link of `streams`.
pub(crate) const LOSSY: &str = "up.loss=1% delay=20ms";

/// The default link of `set-up`.
pub(crate) const SLOW: &str = "delay=10ms";

/// Parses the known links by name or by line: the loopback, a 4 ms link without a rate, and a 600 ms link with a
/// rate.
fn read_link(text: &str) -> Result<KnownLink, WhyNot> {
    let plain = |name: Option<&str>, line: &str, round_trip_ns| KnownLink {
        name: name.map(str::to_owned),
        line: line.to_owned(),
        round_trip_ns,
        bits_per_s: [None; 2],
        mtu_bytes: 1500,
        queue_ns: 0,
        may_lose: false,
    };
    match text {
        "loopback" => Ok(plain(Some("loopback"), "loopback", 0)),
        "bridged-vm" => Ok(plain(Some("bridged-vm"), "delay=2ms", 4_000_000)),
        "delay=2ms" => Ok(plain(None, "delay=2ms", 4_000_000)),
        SLOW => Ok(plain(None, SLOW, 20_000_000)),
        LOSSY => Ok(KnownLink { may_lose: true, ..plain(None, LOSSY, 40_000_000) }),
        NARROW => Ok(KnownLink { mtu_bytes: 1279, ..plain(None, NARROW, 4_000_000) }),
        "satellite" | SATELLITE => Ok(KnownLink {
            bits_per_s: [Some(10_000_000), Some(100_000_000)],
            queue_ns: 1_300_000_000,
            ..plain((text == "satellite").then_some("satellite"), SATELLITE, 600_000_000)
        }),
        _ => Err(WhyNot::new(format!("link `{text}` is not known"), "try bridged-vm")),
    }
}

/// A link whose MTU is too small for IPv6.
pub const NARROW: &str = "delay=2ms mtu=1279B";

/// The line of the link `satellite`.
pub const SATELLITE: &str = "up=10mbit down=100mbit queue=500packets delay=300ms";

/// The error of a placement that this host lacks.
fn lacks_level(reason: &str) -> Result<Vec<[usize; 2]>, WhyNot> {
    Err(WhyNot::new(reason, "use --placement cross-cpu"))
}

/// A host with two CPUs, where every transport can run and nearly every setting may be changed.
pub fn capabilities() -> HostCapabilities {
    let can_run = Ok(Receipt { detail: "Linux 6.18".to_owned() });
    HostCapabilities {
        omitted: &[("some-feature", &["omitted"])],
        candidates: ladder().into_iter().map(|card| Candidate { card, can_run: can_run.clone() }).collect(),
        cpus: vec![0, 1],
        busy_per_cpu: 0.0,
        cpu_quota: None,
        levels: vec![
            (Placement::SameCore, lacks_level("one thread")),
            (Placement::SameCache, Ok(vec![[0, 1]])),
            (Placement::SameNode, lacks_level("one cache")),
            (Placement::CrossNode, lacks_level("one node")),
        ],
        given_cpus: None,
        may_keep_cpus_awake: Ok(()),
        congestion_controls: vec!["bbr".to_owned(), "cubic".to_owned(), "reno".to_owned()],
        waking_round_trip_ns: || 54_000,
        process_start_ns: || 240_000,
        links: LinkCapabilities {
            names: vec!["loopback", "bridged-vm", "satellite"],
            read: read_link,
            relay: || Ok(Receipt { detail: "here".to_owned() }),
        },
        far: None,
        may_set: |name| match name {
            "net.core.rmem_max" => {
                let hint = "compare runs".to_owned();
                Err(WhyNot::new(format!("kernel setting `{name}` cannot be changed for a single round"), hint))
            }
            _ => Ok(()),
        },
        may_capture: || Ok(()),
        may_schedule: |_, _| Ok(()),
        may_use_io_uring: || Ok(()),
    }
}

/// The same host without one transport.
pub fn capabilities_without(name: &str, reason: &str, hint: &str) -> HostCapabilities {
    let mut capabilities = capabilities();
    for candidate in capabilities.candidates.iter_mut().filter(|candidate| candidate.card.name == name) {
        candidate.can_run = Err(WhyNot::new(reason, hint));
    }
    capabilities
}

/// A [`Step::Run`].
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub cases: Vec<Case>,
    pub rounds: Vec<RoundOrder>,
    pub skipped: Vec<Skipped>,
    pub forecast: Forecast,
}

impl Plan {
    pub fn labels(&self) -> Vec<String> {
        self.cases.iter().map(Case::label).collect()
    }

    pub fn only_order(&self) -> &RoundOrder {
        assert_eq!(self.cases.len(), 1, "{:?}", self.labels());
        &self.rounds[0]
    }
}

/// Converts a step to a plan; `None` for [`Step::Done`].
pub fn running(step: Step) -> Option<Plan> {
    match step {
        Step::Run { cases, rounds, skipped, forecast } => Some(Plan { cases, rounds, skipped, forecast }),
        Step::Done => None,
    }
}

/// Parses flags such as `("size", "4,8")`. By default adds a seed and `same-cpu`, so that a plan has each case once.
pub fn turned(experiment: &Experiment, flags: &[(&str, &str)]) -> Result<Knobs, Refused> {
    let mut given: Vec<(String, Vec<String>)> =
        flags.iter().map(|(name, text)| ((*name).to_owned(), vec![(*text).to_owned()])).collect();
    if !flags.iter().any(|(name, _)| *name == "seed") {
        given.push(("seed".to_owned(), vec!["7".to_owned()]));
    }
    let has_placement = experiment.knobs.iter().any(|knob| knob.name == "placement");
    if has_placement && !flags.iter().any(|(name, _)| *name == "placement") {
        given.push(("placement".to_owned(), vec!["same-cpu".to_owned()]));
    }
    Knobs::from_given(experiment.knobs, given)
}

/// The step after these rounds, for flags such as `("size", "4,8")`; `None` if the experiment is done.
pub fn next(experiment: &Experiment, flags: &[(&str, &str)], done: &[RoundRecord]) -> Option<Plan> {
    let knobs = turned(experiment, flags).unwrap();
    running(experiment.next(&knobs, &capabilities(), &Done { rounds: done, half_width: None }).unwrap())
}

/// Asserts that an experiment refuses each of these flags with a reason that contains the text.
pub fn assert_refused(experiment: &Experiment, refused: &[(&[(&str, &str)], &str)]) {
    for (flags, expected) in refused {
        let told = plan_on(&capabilities(), experiment, flags).map(|plan| plan.labels()).expect_err("a refusal");
        assert!(told.to_string().contains(expected), "{flags:?}: {told}");
    }
}

/// The first step of an experiment for flags such as `("size", "4,8")`; adds a seed by default.
pub fn plan_on(
    capabilities: &HostCapabilities,
    experiment: &Experiment,
    flags: &[(&str, &str)],
) -> Result<Plan, Refused> {
    let knobs = turned(experiment, flags)?;
    Ok(running(experiment.next(&knobs, capabilities, &Done::default())?).expect("the first step runs"))
}

/// Converts orders to measured rounds.
pub fn measured(orders: &[RoundOrder]) -> Vec<RoundRecord> {
    let flows = vec![FlowRecord::default()];
    recorded(orders, &Outcome::Measured(Box::new(Measured { flows, ..Measured::default() })))
}

/// Converts orders to failed rounds.
pub fn failed(orders: &[RoundOrder]) -> Vec<RoundRecord> {
    let cause = "the server was killed".to_owned();
    recorded(orders, &Outcome::Failed(Failure::new(FailureKind::Other, cause, "")))
}

fn recorded(orders: &[RoundOrder], outcome: &Outcome) -> Vec<RoundRecord> {
    let record = |(number, order): (usize, &RoundOrder)| RoundRecord {
        number: u32::try_from(number).unwrap(),
        started_ns: 0,
        case_id: order.case.id(),
        order: order.clone(),
        outcome: outcome.clone(),
    };
    orders.iter().enumerate().map(record).collect()
}

/// The plan of `round-trip` with all host capabilities.
pub fn round_trip(flags: &[(&str, &str)]) -> Result<Plan, Refused> {
    plan_on(&capabilities(), &experiments::round_trip::ROUND_TRIP, flags)
}

pub fn refusal(flags: &[(&str, &str)]) -> String {
    round_trip(flags).map(|plan| plan.labels()).expect_err("the flags should be refused").to_string()
}
