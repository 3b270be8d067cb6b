//! `under-load`: what does a load on the path add to the latency of other traffic?
//!
//! A probe measures round trips before, during and after a load, in one round with four phases: idle, ramp, loaded,
//! recovering. Probe and load have separate connections and processes. The ramp is the load's warm-up and is not
//! reported. A probe message belongs to the phase in which the message was due. Rounds with an unsteady load are
//! marked.
//!
//! Defaults and why:
//! - the probe sends 64 B over an unreliable transport, to measure the path without retransmissions, at 1 000/s; over
//!   a link at 100/s, a few per cent of a slow link's rate.
//! - the load is one stream over the reference transport, up, at full speed.
//! - over a link 0.4 s idle, 2.8 s ramp, 2 s loaded, 0.4 s recovering: a single connection takes seconds to fill a
//!   deep queue (CUBIC leaves slow start early, RFC 9406); on the loopback 300 ms, 300 ms, 700 ms and 300 ms.
//! - on the loopback one case runs the load on the probe's CPU and one on another CPU: the difference is the cost of
//!   waiting for the CPU. Over a link all ends share one CPU, which is mostly idle.

use hairpin_model::card::IPV4_MTU_BYTES;
use hairpin_model::flow::{ConnectionUse, Direction, FlowRole, LoadWays, Pacing, Source};
use hairpin_model::options::OptionName;
use hairpin_model::phases::LENGTH_KNOBS;
use hairpin_model::quantities::{bit_rate_argument, duration_argument};
use hairpin_model::{
    AnsweredBy, Arrivals, ByPhase, Candidate, Card, Case, EndSettings, Extent, Flow, HostCapabilities, Load, Options,
    PhaseLengths, Placement, Refused, Repeat, RoundOrder, Waiting, WhichCpus, names,
};

use crate::budget;
use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind, NO_OPTIONS, count, joined};
use crate::knobs::Knobs;
use crate::links;
use crate::one_way::{self, MESSAGE_BYTES, WRITE_BYTES};
use crate::possible;
use crate::selection;
use crate::sequence;
use crate::shared::{self, AUTO, option_set};

pub const UNDER_LOAD: Experiment = Experiment {
    name: "under-load",
    question: "What does a load on the path add to the latency of other traffic?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: Case::is_under_load,
    refine: None,
    search: None,
};

/// The value of `--load-rate` that selects full speed.
const FULL: &str = "full";

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT
            .help("Transports of the probe, separated by commas [default: the unreliable one over IPv4]"),
        Knob::new("size", "BYTES", shared::SIZE)
            .help("Size of each message of the probe and of its answer")
            .many()
            .or(&["64B"])
            .print(|repeat| repeat.values("64", |case| Some(case.primary().load.size_bytes().to_string()))),
        Knob::new("rate", "MESSAGES", KnobKind::RateOr(AUTO, 1e6))
            .help("Probe messages per second; auto: 1000; over a link 100, or 10 with per-message")
            .many()
            .or(&[AUTO])
            .print(shared::print_rate),
        Knob::switch("closed-loop", "The probe sends its next message when the last was answered, instead of at a rate")
            .print(|repeat| if shared::print_rate(repeat).is_empty() { vec!["on".to_owned()] } else { Vec::new() }),
        Knob::new("probe-connection", "WHICH", KnobKind::Words(ConnectionUse::WORDS))
            .help("Connection of the probe: own, per-message (a new one for each), shared (that of the load), or all")
            .many()
            .or(&["own"])
            .print(|repeat| {
                repeat.values(ConnectionUse::Own.word(), |case| Some(case.primary().connection_use.to_string()))
            }),
        Knob::new("load", "WAY", KnobKind::Words(LoadWays::WORDS))
            .help("Direction of the load: up (client to server), down, both at once, none, or all")
            .many()
            .or(&["up"])
            .print(|repeat| repeat.values(LoadWays::Up.word(), |case| Some(case.load_ways()?.to_string()))),
        Knob::new("load-transport", "NAME", KnobKind::Transport)
            .help("Transports of the load [default: the reference transport]")
            .many()
            .print(|repeat| print_load(repeat, "", |load| load.transport.clone())),
        Knob::new("load-rate", "BITS", KnobKind::BitRateOr(FULL))
            .help("Rate at which the load offers its bytes, for instance 9mbit; full: at full speed")
            .many()
            .or(&[FULL])
            .print(|repeat| print_load(repeat, FULL, load_rate)),
        Knob::new("load-size", "BYTES", KnobKind::Bytes { min: 1, max: 16 << 20 })
            .help("Size of each write of the load [default: 64KiB; 1400B at a rate, and where a write is a message]")
            .print(print_load_size),
        Knob::new("connections", "NUMBER", one_way::CONNECTIONS.kind)
            .help("Connections of the load, up to 1000")
            .many()
            .or(&["1"])
            .print(|repeat| print_load(repeat, "1", |load| load.connections.to_string())),
        Knob::new("congestion", "NAME", KnobKind::Congestion)
            .help("Congestion controls of the load, separated by commas [default: that of the host; cubic over a link]")
            .many()
            .print(|repeat| if each_has_congestion(repeat) { print_load(repeat, "", congestion) } else { Vec::new() }),
        Knob::new("load-option", "SET", KnobKind::OptionSet)
            .help("Socket options of the load. Repeat it to compare sets")
            .repeat()
            .print(print_load_options),
        Knob::new("load-cpu", "WHERE", KnobKind::Words(WhichCpus::WORDS))
            .help("CPUs of the load: same as the probe, other, or all [default: all; over a link same]")
            .many()
            .print(print_load_cpu),
        Knob::new("responsiveness", "ON_OFF", KnobKind::OnOff)
            .help("Measure round trips per minute (RPM, IETF responsiveness) under TCP load: on or off [default: on over a link]")
            .print(print_responsiveness),
        Knob::new("idle", "TIME", shared::LASTS)
            .help("How long the probe runs alone [default: 300ms; 400ms over a link]")
            .print(|repeat| print_length(repeat, |lengths| lengths.idle)),
        Knob::new("ramp", "TIME", shared::LASTS)
            .help("How long the load may take to become steady, not measured [default: 300ms; 2800ms over a link]")
            .print(|repeat| print_length(repeat, |lengths| lengths.ramp)),
        Knob::new("duration", "TIME", shared::LASTS)
            .help("How long the probe runs during the steady load [default: 700ms; 2s over a link]")
            .print(|repeat| print_length(repeat, |lengths| lengths.loaded)),
        Knob::new("recovery", "TIME", shared::LASTS)
            .help("How long the probe runs after the load [default: 300ms; 400ms over a link]")
            .print(|repeat| print_length(repeat, |lengths| lengths.recovering)),
        shared::WAITING,
        shared::PLACEMENT
            .help("Where the probe runs: same-cpu, cross-cpu, same-core, same-cache, same-node, cross-node, unpinned, or all")
            .or(&["same-cpu"]),
    ],
    shared::CIRCUMSTANCES,
    budget::BLOCKS,
    &[
        Knob::new("warmup", "TIME", shared::LASTS)
            .help("Warm-up of the probe before the first phase [default: 40ms, over a link at least a round trip]"),
        shared::BOUND
            .help("Show how often a latency under load is above this bound; with --load none, an unloaded one"),
        shared::SEED,
        shared::TIMEOUT,
        shared::KEEP_SAMPLES,
        shared::KEEP_LINK_LOG,
        shared::ALLOW_UNMET_OPTIONS,
        shared::REPLICATE,
    ],
];

fn print_load(repeat: &Repeat, usual: &str, of: fn(&Flow) -> String) -> Vec<String> {
    repeat.values(usual, |case| case.loads().into_iter().map(of).collect::<Vec<_>>())
}

fn load_rate(load: &Flow) -> String {
    let per_s = load.load.rate_per_s();
    per_s.map_or(FULL.to_owned(), |per_s| bit_rate_argument(per_s * load.load.size_bytes() as f64 * 8.0))
}

fn print_load_size(repeat: &Repeat) -> Vec<String> {
    let is_usual = |load: &Flow| {
        let is_small = load.load.rate_per_s().is_some() || repeat.cards.boundaries(&load.transport);
        load.load.size_bytes() == if is_small { MESSAGE_BYTES } else { WRITE_BYTES }
    };
    let mut loads = repeat.cases.iter().flat_map(|case| case.loads());
    let other = loads.find(|load| !is_usual(load)).map(|load| load.load.size_bytes().to_string());
    other.into_iter().collect()
}

fn congestion(load: &Flow) -> String {
    load.options.get(OptionName::Congestion).unwrap_or_default().to_owned()
}

/// Whether `--congestion` can name the congestion control of every load.
fn each_has_congestion(repeat: &Repeat) -> bool {
    print_load(repeat, "", congestion).iter().all(|control| !control.is_empty())
}

fn print_load_options(repeat: &Repeat) -> Vec<String> {
    if each_has_congestion(repeat) {
        return print_load(repeat, NO_OPTIONS, |load| {
            option_set(&load.options.clone().without(OptionName::Congestion))
        });
    }
    print_load(repeat, NO_OPTIONS, |load| option_set(&load.options))
}

/// Prints `--load-cpu`. On the loopback every value is measured by default.
fn print_load_cpu(repeat: &Repeat) -> Vec<String> {
    let crosses = repeat.cases.iter().all(|case| case.loads().is_empty() || case.crosses_a_network());
    repeat.values(if crosses { WhichCpus::Same.word() } else { "" }, |case| {
        case.loads().into_iter().map(|load| case.ends_of(load).cpus.to_string()).collect::<Vec<_>>()
    })
}

/// Prints `--responsiveness`, which is on by default over a link and to another host. It has no effect on a probe
/// that opens a connection per message, because such a probe measures responsiveness itself.
fn print_responsiveness(repeat: &Repeat) -> Vec<String> {
    repeat.values("", |case| {
        let is_on = case.flows.iter().any(|flow| flow.role == FlowRole::ForeignProbe);
        let has_own = case.loads().is_empty() || case.primary().connection_use == ConnectionUse::PerMessage;
        let is_default = has_own || is_on == case.crosses_a_network();
        (!is_default).then(|| if is_on { "on" } else { "off" }.to_owned())
    })
}

fn print_length(repeat: &Repeat, of: fn(&PhaseLengths) -> u64) -> Vec<String> {
    let usual = PhaseLengths::usual(repeat.cases.iter().any(Case::crosses_a_network));
    let length_ns = repeat.phases.as_ref().map(of).filter(|length_ns| *length_ns != of(&usual));
    length_ns.map(duration_argument).into_iter().collect()
}

/// Connections opened per second to measure responsiveness. Each takes about 500 bytes, little even for a slow link.
const FOREIGN_PER_S: f64 = 10.0;
/// Default probe rates in messages/s: on the loopback, over a link.
const RATES_PER_S: [f64; 2] = [1_000.0, 100.0];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let asked = Params::read(knobs, capabilities)?;
    let is_default = |card: &Card| asked.connections.iter().any(|choice| is_default_probe(card, *choice));
    let probes = selection::candidates_if(knobs, "transport", capabilities, is_default)?;
    let probe = |card: &Card| Case::of(Flow::ping_pong(card.name).in_role(FlowRole::Probe));
    Combinations::default()
        .each(knobs.values("size"), |case, size: u64| case.primary_mut().load.set_sizes(size, size))
        .in_circumstances(knobs, capabilities, |_| true)?
        .vary(asked.connections.len(), |case, card| asked.on_connections(case, card))
        .vary(asked.rates.len().max(1), |case, _| asked.at_rates(case))
        .vary(asked.loads.len() * asked.which_cpus.len().max(1), |case, _| {
            asked.loads.iter().flat_map(|load| asked.with_load(case, load, capabilities)).collect()
        })
        .with_replicates(knobs)
        .plan(&probes, capabilities, probe, |case, _| asked.planned(case, knobs, capabilities))
}

/// Whether a probe uses this transport by default. A probe with its own connection uses the unreliable IPv4 transport
/// that a program answers; other probes use the reference transport.
fn is_default_probe(card: &Card, connection_use: ConnectionUse) -> bool {
    match connection_use {
        ConnectionUse::Own => {
            !card.reliable && card.min_mtu_bytes == IPV4_MTU_BYTES && card.answered_by == AnsweredBy::Server
        }
        ConnectionUse::PerMessage | ConnectionUse::Shared => card.is_reference,
    }
}

struct Params {
    /// Rates in messages/s; empty for a closed loop. The rate 0 selects the default for the path.
    rates: Vec<f64>,
    loads: Vec<Vec<Flow>>,
    which_cpus: Vec<WhichCpus>,
    connections: Vec<ConnectionUse>,
    transports_given: bool,
    responsiveness: Option<bool>,
    lengths: ByPhase<Option<u64>>,
    warm_up_ns: Option<u64>,
}

impl Params {
    fn read(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Self, Refused> {
        let closed_loop = knobs.is_on("closed-loop");
        if closed_loop && knobs.is_given("rate") {
            return Err(Refused::new("--closed-loop and --rate both set when the probe sends", "give one of them"));
        }
        let chosen = knobs.has_chosen("rate").then_some(0.0);
        let loads = loads(knobs, capabilities)?;
        let has_tcp = loads.iter().flatten().any(|load| {
            capabilities.candidate(&load.transport).is_some_and(|candidate| possible::is_tcp(&candidate.card))
        });
        let responsiveness = knobs.value("responsiveness");
        let of_tcp = [("responsiveness", responsiveness == Some(true)), ("congestion", knobs.is_given("congestion"))];
        if let Some((name, _)) = of_tcp.iter().find(|(_, is_asked)| *is_asked && !has_tcp) {
            return Err(Refused::new(
                format!("--{name} needs a load over TCP, and there is none"),
                format!("omit --{name}, or choose another --load-transport or --load"),
            ));
        }
        Ok(Self {
            rates: if closed_loop { Vec::new() } else { chosen.into_iter().chain(knobs.values("rate")).collect() },
            loads,
            which_cpus: knobs.choices("load-cpu", WhichCpus::ALL),
            connections: knobs.choices("probe-connection", ConnectionUse::ALL),
            transports_given: knobs.is_given("transport"),
            responsiveness,
            lengths: LENGTH_KNOBS.map(|name| knobs.value(name)),
            warm_up_ns: knobs.value("warmup"),
        })
    }

    /// Returns the case with each kind of connection that suits a probe over this transport.
    fn on_connections(&self, case: &Case, card: &Card) -> Vec<Case> {
        // The default transport depends on the connection use. To another host the transport may use IPv6.
        let suits =
            |choice: &&ConnectionUse| self.transports_given || card.reliable == (**choice != ConnectionUse::Own);
        let on = |connection: &ConnectionUse| {
            case.clone().with(|case| *case.primary_mut() = on_connection(case.primary().clone(), *connection, card))
        };
        self.connections.iter().filter(suits).map(on).collect()
    }

    /// Returns the case with each rate of the probe, or in a closed loop.
    fn at_rates(&self, case: &Case) -> Vec<Case> {
        let usual = match case.primary().connection_use {
            ConnectionUse::PerMessage if case.crosses_a_network() => FOREIGN_PER_S,
            _ => RATES_PER_S[usize::from(case.crosses_a_network())],
        };
        let rates = self.rates.iter().map(|rate| if *rate > 0.0 { *rate } else { usual });
        if self.rates.is_empty() { vec![case.clone()] } else { rates.map(|rate| case.at_rate(rate)).collect() }
    }

    /// Returns the case with a load, once for each requested choice of CPUs.
    fn with_load(&self, case: &Case, load: &[Flow], capabilities: &HostCapabilities) -> Vec<Case> {
        let shares = case.primary().connection_use == ConnectionUse::Shared;
        let has_others = possible::check_two_pairs(case.ends.placement, capabilities).is_ok()
            && case.ends.placement != Placement::Unpinned
            && !shares;
        let which = match self.which_cpus.as_slice() {
            [] if case.crosses_a_network() || !has_others => &[WhichCpus::Same][..],
            [] => WhichCpus::ALL,
            given => given,
        };
        let which = if load.is_empty() { &which[..1] } else { which };
        let with = |which: &WhichCpus| {
            let flows = load.iter().map(|flow| {
                let ends = EndSettings { waiting: load_waiting(flow, capabilities), cpus: *which, ..case.ends };
                Flow { ends: (ends != case.ends && !shares).then_some(ends), ..flow.clone() }
            });
            let responsiveness_flow = self.responsiveness_flow(case, load, capabilities);
            case.clone().with(|case| {
                // Probe and load share the connection, so they share the options.
                if let Some(load) = load.first().filter(|_| shares) {
                    case.primary_mut().options = load.options.clone();
                }
                case.flows.extend(flows.chain(responsiveness_flow));
            })
        };
        which.iter().map(with).collect()
    }

    /// Returns the flow that measures responsiveness under a load over TCP; `None` if not wanted.
    fn responsiveness_flow(&self, case: &Case, load: &[Flow], capabilities: &HostCapabilities) -> Option<Flow> {
        let first = load.first()?;
        let card = &capabilities.candidate(&first.transport)?.card;
        let wanted = self.responsiveness.unwrap_or(case.crosses_a_network());
        let has_own = case.primary().connection_use == ConnectionUse::PerMessage;
        (wanted && possible::is_tcp(card) && !has_own).then(|| {
            let flow = Flow::ping_pong(&first.transport);
            let ends = EndSettings { waiting: Waiting::Block, ..case.ends };
            let ends = (ends != case.ends).then_some(ends);
            let flow = Flow { load: flow.load.paced(FOREIGN_PER_S), ends, ..flow.in_role(FlowRole::ForeignProbe) };
            on_connection(flow, ConnectionUse::PerMessage, card)
        })
    }

    fn planned(&self, case: Case, knobs: &Knobs, capabilities: &HostCapabilities) -> RoundOrder {
        let own = PhaseLengths::usual(case.crosses_a_network());
        let lengths = PhaseLengths::of(|phase| self.lengths.get(phase).unwrap_or(*own.get(phase)));
        let warm_up_ns =
            self.warm_up_ns.unwrap_or_else(|| crate::warm_up::WARM_UP_NS.max(links::travel_ns(&case, capabilities)));
        let extents = [warm_up_ns, lengths.total_ns()].map(Extent::DurationNs);
        RoundOrder { phases: Some(lengths), ..sequence::template(case, extents, knobs, capabilities) }
    }
}

/// Returns the flow on this kind of connection. A connection per message begins with a hello, and Nagle's algorithm
/// would hold the message behind the hello for a round trip. So `nodelay` is on unless the user sets that option.
fn on_connection(flow: Flow, connection_use: ConnectionUse, card: &Card) -> Flow {
    let is_new = connection_use == ConnectionUse::PerMessage && card.options.contains(&OptionName::Nodelay);
    let mut flow = Flow { connection_use, ..flow };
    if is_new && flow.options.get(OptionName::Nodelay).is_none() {
        flow.options = flow.options.with(OptionName::Nodelay, "on");
    }
    flow
}

/// How the ends of a load wait: they block on one connection, poll several, or spin if polling is impossible.
fn load_waiting(flow: &Flow, capabilities: &HostCapabilities) -> Waiting {
    let card = capabilities.candidate(&flow.transport).map(|candidate| &candidate.card);
    if card.is_some_and(|card| !card.waitings.contains(&Waiting::Poll)) {
        Waiting::Spin
    } else if flow.wires() > 1 {
        Waiting::Poll
    } else {
        Waiting::Block
    }
}

fn loads(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Vec<Vec<Flow>>, Refused> {
    let carriers = selection::candidates_if(knobs, "load-transport", capabilities, |card| card.is_reference)?;
    let ups: Vec<Flow> = carriers.into_iter().flat_map(|candidate| flows_up(knobs, candidate)).collect();
    let ways = knobs.choices("load", LoadWays::ALL);
    let loads = ways.into_iter().flat_map(|way| ups.iter().map(move |up| in_directions(up, way)));
    Ok(names::distinct(loads))
}

fn in_directions(up: &Flow, way: LoadWays) -> Vec<Flow> {
    let down = Flow { direction: Direction::Down, ..up.clone() };
    match way {
        LoadWays::Up => vec![up.clone()],
        LoadWays::Down => vec![down],
        LoadWays::Both => vec![up.clone(), Flow { id: "load-back".into(), ..down }],
        LoadWays::None => Vec::new(),
    }
}

/// Returns every requested upward load over one transport.
fn flows_up(knobs: &Knobs, candidate: &Candidate) -> Vec<Flow> {
    let card = &candidate.card;
    let size_bytes: Option<u64> = knobs.value("load-size");
    let stream = Load::Stream {
        write_size_bytes: size_bytes.unwrap_or(if card.boundaries { MESSAGE_BYTES } else { WRITE_BYTES }),
        source: Source::Buffer,
    };
    let offered = |bits_per_s: f64| {
        let size_bytes = size_bytes.unwrap_or(MESSAGE_BYTES);
        Load::Offered {
            offered_per_s: bits_per_s / 8.0 / size_bytes as f64,
            size_bytes,
            arrivals: Arrivals::Fixed,
            pacing: Pacing::SleepSpin,
        }
    };
    let full = knobs.has_chosen("load-rate").then_some(stream);
    let rates = knobs.values::<f64>("load-rate").into_iter().map(offered);
    let options = option_sets(knobs, card);
    let mut flows = Vec::new();
    for load in full.into_iter().chain(rates) {
        for connections in one_way::counts(knobs, "connections") {
            flows.extend(options.iter().map(|options| Flow {
                options: options.clone(),
                connections,
                ..Flow::one_way(card.name, load.clone(), Direction::Up).in_role(FlowRole::Load)
            }));
        }
    }
    flows
}

/// Combines each set of options with each congestion control, if the transport has any.
fn option_sets(knobs: &Knobs, card: &Card) -> Vec<Options> {
    let mut sets: Vec<Options> = knobs.values("load-option");
    if sets.is_empty() {
        sets.push(Options::default());
    }
    let controls: Vec<String> = knobs.values("congestion");
    if controls.is_empty() || !card.options.contains(&OptionName::Congestion) {
        return sets;
    }
    let with = |set: &Options, control: &String| set.clone().with(OptionName::Congestion, control);
    sets.iter().flat_map(|set| controls.iter().map(move |control| with(set, control))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_lists_the_values_of_every_load() {
        let load = |id: &str, control: &str| Flow {
            id: id.into(),
            options: hairpin_model::options::Options::parse(&format!("congestion={control}")).unwrap(),
            ..Flow::stream("tcp", WRITE_BYTES, Direction::Up).in_role(FlowRole::Load)
        };
        let mut case = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
        case.flows.extend([load("one", "cubic"), load("two", "bbr")]);
        assert_eq!(print_load(&Repeat::of(vec![case]), "", congestion), ["cubic", "bbr"]);
    }
}
