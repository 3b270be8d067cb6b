//! Runs one round, from its order to its record.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hairpin_model::flow::{ConnectionUse, Direction};
use hairpin_model::latency_budget::MAX_TRIPS;
use hairpin_model::samples::{Fate, MAX_LATENCY_NS, latency_histogram};
use hairpin_model::set_up::Opened;
use hairpin_model::trace::End;
use hairpin_model::{
    AnsweredBy, Binding, Candidate, Card, Case, CpuIdle, EndPoints, EndReport, Fact, Failure, FailureKind, Finished,
    Flow, FlowRecord, FlowSamples, HostCapabilities, LinkRecord, Measured, Outcome, PacketCounts, RoundOrder,
    RoundRecord, RoundTrace, Sampled, SampledRound, SampledTrip, Samples, Sent, Stamps, Times, fact_names,
};
use hairpin_transports::giving_up::has_given_up;
use hairpin_transports::{Transport, hello_on_the_wire};

use crate::barrier::Barrier;
use crate::control::Control;
use crate::ends::client::{Client, ClientEnd, OneWayEnd, SharedLoad, wait_until};
use crate::ends::start::Server;
use crate::ends::{Host, opening};
use crate::foreign::{ForeignTarget, not_foreign};
use crate::keep_awake;
use crate::links::LinkEnd;
use crate::links::namespace;
use crate::links::traces::Traces;
use crate::path::{Link, LinkSetup, OwnNamespace};
use crate::placement::{Cpus, place};
use crate::sysctl;
pub use crate::system::ending::bound as bound_the_end;
use crate::tracing::round::TraceInput;
use hairpin_loops::clock::{Clock, RealClock};
use hairpin_loops::tally::{self, LinkLosses};

/// Runs rounds on this machine.
#[derive(Clone, Debug)]
pub struct Engine {
    pub clock: RealClock,
    pub cpus: Cpus,
    pub server_program: PathBuf,
    /// When the run began, in ns of the clock.
    pub started_ns: u64,
    /// Set when the user ends the run: the current round stops early.
    pub stop: Arc<AtomicBool>,
    pub traces: Traces,
    /// The run folder, if link logs are kept (in its folder [`hairpin_model::link::LOGS`]).
    pub link_logs: Option<PathBuf>,
    /// Set if this engine runs one flow of a round that has several.
    pub barrier: Option<Barrier>,
    /// The server of every round, if it is on another host.
    pub far: Option<Far>,
}

/// A server on another host.
#[derive(Clone)]
pub struct Far {
    /// The address that the flows connect to.
    pub at: SocketAddr,
    /// The credentials that `dial` needs. Secret.
    pub credentials: String,
    /// Opens the control channel of a round.
    pub dial: Dial,
    /// The binding of the flows' sockets. `dial` takes the binding of its own sockets from its credentials.
    pub binding: Binding,
    /// Set if the server is not Hairpin's; there is then no control channel.
    pub foreign: Option<ForeignTarget>,
}

/// Opens a control channel to the server on another host, with the given credentials.
pub type Dial = fn(&str) -> Result<Box<dyn Control>, Failure>;

impl fmt::Debug for Far {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Far").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates an engine with a calibrated clock.
    pub fn new(server_program: PathBuf, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let clock = RealClock::calibrated();
        Ok(Self {
            clock,
            cpus: Cpus::choose()?,
            server_program,
            started_ns: clock.now_ns(),
            stop,
            traces: Traces::default(),
            link_logs: None,
            barrier: None,
            far: None,
        })
    }

    /// Nanoseconds since the run began.
    pub fn elapsed_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.started_ns)
    }

    fn link_setup(&self) -> LinkSetup<'_> {
        LinkSetup {
            traces: &self.traces,
            link_logs: self.link_logs.as_deref(),
            clock: self.clock,
            cpus: &self.cpus,
            server_program: &self.server_program,
        }
    }

    /// Waits until `elapsed_ns` after the start of the run, or until the user ends the run.
    pub(crate) fn wait_until(&self, elapsed_ns: u64) {
        wait_until(&self.clock, self.started_ns.saturating_add(elapsed_ns), &self.stop);
    }

    /// Runs one round on the calling thread, and pins the thread meanwhile. An error makes this round fail, but does
    /// not end the run.
    ///
    /// This function deliberately starts no thread: in a process with several threads the kernel counts references in
    /// every call on a descriptor (`fdget`, fs/file.c), which makes a blocking round trip on one CPU 2 to 5 % slower.
    pub fn run(&self, number: u32, order: &RoundOrder) -> Finished {
        self.run_with(number, order, |host| match &self.far {
            None => Server::start(&self.server_program, order, host),
            Some(far) => Ok(Server::behind((far.dial)(&far.credentials)?, order)),
        })
    }

    /// Like [`Engine::run`], with a server that waits for its order at the other end of `control`.
    pub fn run_over(&self, number: u32, order: &RoundOrder, control: Box<dyn Control>) -> Finished {
        self.run_with(number, order, |_| Ok(Server::behind(control, order)))
    }

    fn run_with(&self, number: u32, order: &RoundOrder, serve: impl Serve) -> Finished {
        self.record(number, order, || attempt(self, number, order, serve))
    }

    /// Runs `attempt` and returns the result of the round.
    pub(crate) fn record(
        &self,
        number: u32,
        order: &RoundOrder,
        attempt: impl FnOnce() -> Result<Done, Failure>,
    ) -> Finished {
        self.wait_until(order.not_before_ns);
        let started_ns = self.elapsed_ns();
        let attempt = std::panic::catch_unwind(AssertUnwindSafe(attempt));
        let attempt = attempt.unwrap_or_else(|_| Err(panicked()));
        // Unpin the thread: work between rounds must not wait for the CPU of one end.
        let unpinned = place(None, &self.cpus.allowed).map_err(|error| opening::unplaced(None, &error));
        let attempt = attempt.and_then(|measured| unpinned.map(|()| measured));
        let attempt = attempt.map_err(|failure| if has_given_up() { given_up() } else { failure });
        let (outcome, samples, trace, budget) = match attempt {
            Ok(Done { mut measured, samples, trace, budget }) => {
                // Only the process that joins several flows needs this value.
                if self.barrier.is_none() {
                    measured.ends.iter_mut().for_each(|end| end.used_in_all = None);
                }
                measured.noise.keep_cpus_of(&measured.ends);
                (Outcome::Measured(Box::new(measured)), samples, trace, budget)
            }
            Err(failure) => (Outcome::Failed(failure), FlowSamples::new(), None, None),
        };
        let record = RoundRecord { number, started_ns, case_id: order.case.id(), order: order.clone(), outcome };
        Finished { record, samples, trace, budget }
    }
}

pub fn capabilities(cpus: &Cpus) -> HostCapabilities {
    let candidate = |transport: &dyn Transport| Candidate { card: transport.card(), can_run: transport.can_run() };
    let runnable_of_others = crate::noise::Reading::now().runnable.saturating_sub(1);
    HostCapabilities {
        omitted: hairpin_transports::OMITTED,
        candidates: hairpin_transports::all().map(candidate).collect(),
        busy_per_cpu: runnable_of_others as f64 / cpus.allowed.len().max(1) as f64,
        cpu_quota: crate::cpu_quota::cpus(),
        cpus: cpus.allowed.clone(),
        levels: cpus.levels.clone(),
        given_cpus: None,
        may_keep_cpus_awake: keep_awake::may_keep_awake(),
        congestion_controls: sysctl::available_congestion_controls(),
        waking_round_trip_ns: crate::waking::round_trip_ns,
        process_start_ns: crate::waking::process_start_ns,
        links: crate::links::known::capabilities(),
        far: None,
        may_set: crate::links::namespace::may_set,
        may_capture: crate::capture::may_capture,
        may_schedule: crate::scheduling::may_use,
        may_use_io_uring: hairpin_transports::may_use_io_uring,
    }
}

/// Supplies the server of a round, which must run on the given host.
trait Serve: FnOnce(&Host) -> Result<Server, Failure> {}
impl<F: FnOnce(&Host) -> Result<Server, Failure>> Serve for F {}

pub(crate) struct Done {
    pub(crate) measured: Measured,
    /// See [`Finished::samples`].
    pub(crate) samples: FlowSamples,
    pub(crate) trace: Option<Traced>,
    /// See [`Finished::budget`].
    pub(crate) budget: Option<SampledRound>,
}

/// A trace, and its packets as a pcapng file if they were captured.
pub(crate) type Traced = (RoundTrace, Option<Vec<u8>>);

/// Runs one round: fresh ends, a fresh connection, then the client's load.
fn attempt(engine: &Engine, number: u32, order: &RoundOrder, serve: impl Serve) -> Result<Done, Failure> {
    let transport = opening::transport(&order.case.primary().transport)?;
    let foreign = engine.far.as_ref().and_then(|far| far.foreign.as_ref());
    let card = match foreign {
        None => transport.card(),
        Some(_) => transport.foreign().ok_or_else(|| not_foreign(&transport.card()))?.card,
    };
    let shares = order.case.primary().connection_use == ConnectionUse::Shared;
    if order.case.flows.len() > 1 + usize::from(shares) {
        return Err(Failure::new(
            FailureKind::Unsupported,
            format!("cannot run a round of {} flows in one process", order.case.flows.len()),
            "run each flow in its own process",
        ));
    }
    if let Some(barrier) = &engine.barrier {
        let namespaces = [barrier.client.clone(), barrier.server.clone()];
        return one_flow(engine, order, (transport, &card), &mut None, namespaces, serve);
    }
    let mut path = Prepared::open(engine, number, order)?;
    let namespaces = path.namespaces.clone();
    one_flow(engine, order, (transport, &card), &mut path.link, namespaces, serve)
}

/// Everything prepared before the ends of a round start: the path between them, and CPUs that are kept awake.
pub(crate) struct Prepared {
    pub(crate) link: Option<Link>,
    /// The network namespaces of the client and of the server; `None` for an end without its own.
    pub(crate) namespaces: [Option<PathBuf>; 2],
    // Dropping these fields at the end of the round removes the namespace and lets the CPUs idle.
    _own: Option<OwnNamespace>,
    _awake: Option<keep_awake::KeptAwake>,
}

impl Prepared {
    /// Creates the path. Call this before pinning the calling thread: link and server inherit the allowed CPUs.
    pub(crate) fn open(engine: &Engine, number: u32, order: &RoundOrder) -> Result<Self, Failure> {
        let awake = match order.case.ends.cpu_idle {
            CpuIdle::Deep => None,
            CpuIdle::Shallow => Some(keep_awake::keep_awake().map_err(|error| not_awake(&error))?),
        };
        let link = Link::open(&engine.link_setup(), number, order)?;
        let own = OwnNamespace::open(&order.case)?;
        let own_path = own.as_ref().map(OwnNamespace::path);
        let of_link = link.as_ref().map(Link::namespaces);
        let namespaces = [of_link.map(|of| of.near.clone()), of_link.map(|of| of.far.clone())];
        let namespaces = namespaces.map(|of_link| of_link.or_else(|| own_path.clone()));
        if !order.case.sysctls.is_empty() {
            namespaces.iter().flatten().try_for_each(|path: &PathBuf| namespace::set(order, path))?;
        }
        Ok(Self { link, namespaces, _own: own, _awake: awake })
    }
}

/// Runs a round of one flow, with new ends in the given network namespaces of client and server.
fn one_flow(
    engine: &Engine,
    order: &RoundOrder,
    (transport, card): (&'static dyn Transport, &Card),
    link: &mut Option<Link>,
    [client, server]: [Option<PathBuf>; 2],
    serve: impl Serve,
) -> Result<Done, Failure> {
    let across = engine.far.as_ref().map(|far| far.at);
    let host = |namespace| Host { clock: engine.clock, cpus: engine.cpus.clone(), namespace, across };
    let mut server = match card.answered_by {
        AnsweredBy::Kernel | AnsweredBy::ForeignServer => None,
        AnsweredBy::Server => Some(serve(&host(server))?),
    };
    let foreign = engine.far.as_ref().and_then(|far| far.foreign.as_ref()).map(ForeignTarget::open).transpose()?;
    let client = Client {
        binding: engine.far.as_ref().map_or_else(Binding::default, |far| far.binding),
        host: &host(client),
        order,
        transport,
        card,
        server: server.as_mut(),
        link,
        barrier: engine.barrier.as_ref(),
        foreign,
        stop: &engine.stop,
    };
    let done = match order.case.primary().direction {
        Direction::RoundTrip => client.run().map(|ended| done(order, card, ended)),
        Direction::Up | Direction::Down => client.run_one_way().map(|ended| one_way_done(order, card, ended)),
    };
    done.map_err(|failure| with_causes(failure, server.as_mut(), link.take()))
}

fn shared_flow(order: &RoundOrder, card: &Card, setup_ns: u64, load: &SharedLoad) -> FlowRecord {
    let both = load.streamed.each_ref().map(|counted| tally::OneWayEnd { counted, facts: &[] });
    let is_across = order.case.path.across.is_some();
    let (flow, _) = one_way_flow(&load.flow, card, both, LinkLosses::default(), is_across);
    FlowRecord { setup_ns, started_ns: load.started_ns, ..flow }
}

fn one_way_done(order: &RoundOrder, card: &Card, ended: OneWayEnd) -> Done {
    let OneWayEnd { setup_ns, started_ns, report, noise, server, streamed: [client, of_server], interrupted, link } =
        ended;
    let flow = order.case.primary();
    let link_lost = link.as_ref().map_or_else(LinkLosses::default, |link| LinkLosses {
        measured: link.lost.get(&flow.id).map_or(0, |lost| lost.by_cause.values().sum()),
        in_warm_up: link.lost.get(&flow.id).map_or(0, |lost| lost.in_warm_up),
        // Packets that the emulator dropped for lack of memory already count as dropped by the link.
        not_carried: link.record.relay.map_or(0, |relay| relay.overrun.saturating_sub(relay.memory_overrun)),
    });
    let both = [(&client, &report), (&of_server, &server)];
    let both = both.map(|(counted, end)| tally::OneWayEnd { counted, facts: &end.facts });
    let is_across = order.case.path.across.is_some();
    let (record, samples) = one_way_flow(flow, card, both, link_lost, is_across);
    // Two hosts have two clocks, whose times cannot be compared.
    let samples = samples.filter(|_| !is_across);
    let samples_kept = samples.as_ref().map_or(0, |samples| samples.kept() as u64);
    let record = FlowRecord { samples_kept, setup_ns, started_ns: Some(started_ns), ..record };
    let duration_ns = record.received.as_ref().map_or(0, |arrivals| arrivals.over_ns);
    let measured = Measured {
        flows: vec![record],
        duration_ns,
        ends: ends_of(&order.case, report, Some(server)),
        noise,
        link: link.map(|link| link.record),
        interrupted,
        ..Measured::default()
    };
    let samples = samples.map(|samples| (flow.id.clone(), samples)).into_iter().collect();
    Done { measured, samples, trace: None, budget: None }
}

fn ends_of(case: &Case, client: EndReport, server: Option<EndReport>) -> Vec<EndReport> {
    let flow = || case.primary().id.clone();
    let host = if case.path.across.is_some() { End::Server } else { End::Client };
    let server = server.map(|server| EndReport { role: End::Server, flow: flow(), host, ..server });
    let client = EndReport { role: End::Client, flow: flow(), host: End::Client, ..client };
    std::iter::once(client).chain(server).collect()
}

/// The record of a one-way flow and its samples, from the counts of client and server.
fn one_way_flow(
    flow: &Flow,
    card: &Card,
    both: [tally::OneWayEnd<'_>; 2],
    link_lost: LinkLosses,
    is_across: bool,
) -> (FlowRecord, Option<Samples>) {
    let [sender, receiver] = if flow.direction == Direction::Up { both } else { [both[1], both[0]] };
    let ledger = if is_across {
        tally::between_hosts(card.reliable, flow.direction == Direction::Up, sender, receiver)
    } else {
        tally::one_way_ledger(card.reliable, sender, receiver, link_lost)
    };
    let (from, to) = (sender.counted, receiver.counted);
    let pacing = from.departures.as_ref().and_then(|sent| sent.pacing).or(to.arrivals_apart);
    let samples = one_way_samples(&to.times, &from.times);
    let record = FlowRecord {
        ledger,
        received: to.arrivals.clone(),
        sent: from.departures.clone().map(|sent| Sent { pacing, ..sent }),
        ..FlowRecord::of(flow)
    };
    (record, samples)
}

/// The samples of a one-way load from the reports of its receiver and sender; `None` if no message carried a send time.
fn one_way_samples(received: &Times, sent: &Times) -> Option<Samples> {
    let histogram = |times: &Times| {
        let mut counts = latency_histogram();
        for (value, count) in &times.counts {
            // A report is not trusted: clamp its values to the valid range.
            counts.saturating_record_n((*value).clamp(1, MAX_LATENCY_NS), *count);
        }
        counts
    };
    let began_ns = received.rows.iter().map(|row| row[1]).min();
    if received.counts.is_empty() {
        return None;
    }
    let rows = received.rows.iter().map(|[sequence, due_ns, received_ns]| Stamps {
        sequence: *sequence,
        due_ns: *due_ns,
        sent_ns: *due_ns,
        received_ns: *received_ns,
        fate: Fate::Received,
    });
    let latency = histogram(received);
    Some(Samples {
        measured: latency.len(),
        latency,
        lateness: (!sent.counts.is_empty()).then(|| histogram(sent)),
        ..Samples::of(&rows.collect::<Vec<_>>(), 0, began_ns.unwrap_or(0))
    })
}

fn done(order: &RoundOrder, card: &Card, ended: ClientEnd) -> Done {
    let ClientEnd { client_result, setup_ns, mut report, noise, mut server, watched, link, load } = ended;
    let waited = Some(client_result.tally.waited_for_answers).filter(|waited| *waited > 0);
    report.facts.extend(waited.map(|waited| Fact::number(fact_names::WAITED_FOR_ANSWERS, waited as f64)));
    let server_facts = server.as_ref().map_or(&[][..], |report| &report.facts);
    let primary = order.case.primary();
    let link_lost = link.as_ref().and_then(|link| link.lost.get(&primary.id)).map(|lost| &lost.by_cause);
    let ledger = client_result.tally.ledger(card.reliable, &report.facts, server_facts, link_lost);
    let link = link.map(|LinkEnd { record, started_ns, .. }| LinkRecord {
        samples_began_ns: Some(client_result.origin_ns.saturating_sub(started_ns)),
        ..record
    });
    let of_server = server.as_mut().map(|report| std::mem::take(&mut report.sampled)).unwrap_or_default();
    let both = [std::mem::take(&mut report.sampled), of_server];
    let is_stamped = order.sample_every.is_some();
    let budget = is_stamped.then(|| sampled_round(&order.case, both, client_result.tally.warm_up_sent));
    let first_message_ns = client_result.recorder.first_message_ns();
    let samples = client_result.recorder.finish(client_result.origin_ns);
    let server_trace = server.as_mut().and_then(|report| report.trace.take()).unwrap_or_default();
    let trace = watched.map(|(watch, client_trace)| {
        let about = TraceInput {
            case: &order.case,
            samples: &samples,
            began_ns: client_result.origin_ns,
            client_facts: &report.facts,
        };
        watch.trace(client_trace, *server_trace, &about)
    });
    let flow = FlowRecord {
        answered_by: card.answered_by,
        ledger,
        setup_ns,
        first_message_ns,
        samples_kept: samples.kept() as u64,
        exchange_counts: client_result.exchange_counts,
        periodic: client_result.periodic,
        opened: primary.opening.map(|_| {
            let [hello_packets, hello_bytes] = hello_on_the_wire(card.protocol);
            // One connection opens before the first message.
            let connections = client_result.tally.warm_up_sent + client_result.tally.sent + 1;
            Opened { connections, hello_packets, hello_bytes }
        }),
        ..FlowRecord::of(primary)
    };
    let shared = load.map(|load| shared_flow(order, card, setup_ns, &load));
    let measured = Measured {
        flows: std::iter::once(flow).chain(shared).collect(),
        duration_ns: client_result.duration_ns,
        ends: ends_of(&order.case, report, server),
        noise,
        link,
        interrupted: client_result.interrupted,
        ..Measured::default()
    };
    Done { measured, samples: [(primary.id.clone(), samples)].into(), trace, budget }
}

/// Joins the points of both ends by message number, without the first `warm_up` messages.
fn sampled_round(case: &Case, [client, server]: [Vec<Sampled>; 2], warm_up: u64) -> SampledRound {
    let server_has_own_clock = case.path.across.is_some();
    let mut of_server: BTreeMap<u64, Option<EndPoints>> = BTreeMap::new();
    for one in server {
        // The points of a duplicated datagram are ambiguous.
        of_server.entry(one.sequence).and_modify(|points| *points = None).or_insert(Some(one.points));
    }
    let trip = |one: Sampled| {
        let origin = one.points.send_called?;
        let server = of_server
            .get(&one.sequence)
            .copied()
            .flatten()
            .and_then(|points| Some(points.since(if server_has_own_clock { points.read? } else { origin })))
            // Another host may report anything.
            .filter(|points| points.is_bounded());
        Some(SampledTrip { sequence: one.sequence, client: one.points.since(origin), server })
    };
    let measured = client.into_iter().filter(|one| one.sequence >= warm_up);
    SampledRound { server_has_own_clock, trips: measured.filter_map(trip).take(MAX_TRIPS).collect() }
}

/// Ends the link, and adds the causes that the server and the link report, because they explain a broken wire better.
fn with_causes(failure: Failure, server: Option<&mut Server>, link: Option<Link>) -> Failure {
    let server = server.and_then(Server::own_cause);
    let link = link.and_then(|link| link.finish().map_or_else(Some, |end| let_nothing_through(&end.record)));
    // Omit repetitions of the failure itself.
    let more: Vec<Failure> = [server, link].into_iter().flatten().filter(|cause| *cause != failure).collect();
    more.into_iter().fold(failure, |failure, cause| {
        Failure::new(cause.kind, format!("{}; {}", failure.cause, cause.cause), cause.hint)
    })
}

fn let_nothing_through(record: &LinkRecord) -> Option<Failure> {
    let PacketCounts { entered, out, dropped, inside, .. } = &record.packets;
    if *entered == 0 || *out > 0 {
        return None;
    }
    let dropped: String = dropped.iter().map(|(stage, count)| format!(", {count} dropped by {stage}")).collect();
    Some(Failure::new(
        FailureKind::Unreachable,
        format!("the link let none of {entered} packets through: {inside} still inside{dropped}"),
        "`hairpin link show` explains the profile",
    ))
}

fn not_awake(error: &io::Error) -> Failure {
    Failure::new(
        error,
        format!("cannot hold /dev/cpu_dma_latency at 0: {error}"),
        "run as root, or use --cpu-idle deep",
    )
}

fn panicked() -> Failure {
    Failure::new(
        FailureKind::Other,
        "the client panicked",
        "this is a defect of Hairpin; please report it with the command line",
    )
}

/// The failure of a round that did not end in time after a request to end.
fn given_up() -> Failure {
    Failure::new(
        FailureKind::Interrupted,
        "the round was interrupted while it waited for the other end",
        "after SIGINT the current round has 2 s to finish",
    )
}

/// Asks the current round to end.
pub fn raise(stop: &AtomicBool) {
    stop.store(true, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use hairpin_model::RemotePath;
    use hairpin_model::case::PathKind;

    use super::*;

    fn sampled(sequence: u64, times: [i64; 2]) -> Sampled {
        let [send_called, read] = times.map(Some);
        Sampled { sequence, points: EndPoints { send_called, read, ..EndPoints::default() } }
    }

    fn joined(case: &Case, server: &[Sampled]) -> Vec<(u64, Option<[Option<i64>; 2]>)> {
        let client = [16, 32, 48].map(|number| sampled(number, [1000, 1900])).to_vec();
        let round = sampled_round(case, [client, server.to_vec()], 32);
        assert!(round.trips.iter().all(|trip| trip.client.read == Some(900)), "{round:?}");
        let of_server = |points: EndPoints| [points.send_called, points.read];
        round.trips.iter().map(|trip| (trip.sequence, trip.server.map(of_server))).collect()
    }

    #[test]
    fn points_of_both_ends_are_joined_by_number_without_the_warm_up() {
        let mut case = Case::ping_pong("memory");
        let server = [sampled(16, [1, 2]), sampled(32, [1500, 1400]), sampled(64, [3, 4])];
        assert_eq!(joined(&case, &server), [(32, Some([Some(500), Some(400)])), (48, None)]);
        case.path.across = Some(RemotePath { kind: PathKind::Hosts, host: "lab".to_owned(), fallback: None });
        assert_eq!(
            joined(&case, &server),
            [(32, Some([Some(100), Some(0)])), (48, None)],
            "by the server's own clock"
        );
    }

    #[test]
    fn ambiguous_and_impossible_points_of_a_server_are_dropped() {
        let case = Case::ping_pong("memory");
        let twice = [sampled(32, [1500, 1400]), sampled(32, [1600, 1500])];
        assert_eq!(joined(&case, &twice), [(32, None), (48, None)]);
        for time in [i64::MIN, i64::MAX, 2_000_000_000_000_000] {
            assert_eq!(joined(&case, &[sampled(32, [time, 1400])]), [(32, None), (48, None)], "{time}");
        }
    }
}
