//! The client of a round: it connects, runs the load, ends the round at both ends and reports.
//!
//! Every round ends in the same order. The client closes its wire or, over an unreliable transport, sends a farewell
//! and keeps receiving; the server reports; the observers end; the path is torn down and reports the packets still
//! inside it; the client takes the answers received until then. So each message was answered, answered late, dropped
//! and counted, or is still inside the path.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hairpin_model::flow::{ConnectionUse, Direction, Observer};
use hairpin_model::trace::End;
use hairpin_model::{
    Binding, Card, EndReport, EndTrace, Extent, Fact, Failure, FailureKind, Flow, Noise, RoundOrder, Streamed,
};
use hairpin_transports::foreign::ForeignServer;
use hairpin_transports::giving_up::has_given_up;
use hairpin_transports::{Cookie, Setup, Transport, Wire};

use super::codes::{DatagramKey, codes};
use super::one_way::{self, EndCounts, OneWay, Peer};
use super::opening::{
    self, allow_descriptors, check_options, close, counters, effective, facts, facts_of_each, setup,
    unacknowledged_bytes, unopened, wait_until_acknowledged,
};
use super::start::Server;
use super::{Host, devices, is_woken};
use crate::barrier::Barrier;
use crate::capture::reader::CaptureProcess;
use crate::control::{Message, Progress};
use crate::links::LinkEnd;
use crate::links::addresses::FAR;
use crate::observer::{Context, Mark, Observations};
use crate::observers::Observers;
use crate::path::Link;
use crate::scheduling;
use crate::tracing::round::TraceObservations;
use crate::tracing::{Observed, WireObservations};
use hairpin_loops::clock::{Clock, RealClock};
use hairpin_loops::marks::ClientMarks;
use hairpin_loops::shared::{BulkEnd, BulkOrder, load_of};
use hairpin_loops::{self, ClientResult, run_client};

/// Interval of the keep-alives before a load begins, in ns.
const KEEP_ALIVE_INTERVAL_NS: u64 = 1_000_000_000;
/// Longest sleep before a load or a round. After each sleep the client checks whether the user ended the run.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// Interval between checks for late answers.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum time in ns that the hosts add to the path's delay.
const HOST_MARGIN_NS: u64 = 20_000_000;
/// Time for the server to end after the request, in ns. Then the client asks for the report, which fails.
const MAX_ENDING_NS: u64 = 60_000_000_000;

pub(crate) struct Client<'a> {
    pub(crate) host: &'a Host,
    pub(crate) order: &'a RoundOrder,
    pub(crate) transport: &'static dyn Transport,
    pub(crate) card: &'a Card,
    /// The server; `None` if the kernel or a foreign server answers.
    pub(crate) server: Option<&'a mut Server>,
    pub(crate) link: &'a mut Option<Link>,
    pub(crate) binding: Binding,
    /// Set if the round carries one of several flows.
    pub(crate) barrier: Option<&'a Barrier>,
    pub(crate) foreign: Option<Arc<ForeignServer>>,
    /// Set when the user ends the run.
    pub(crate) stop: &'a AtomicBool,
}

pub(crate) struct ClientEnd {
    pub(crate) client_result: ClientResult,
    pub(crate) setup_ns: u64,
    pub(crate) report: EndReport,
    /// The machine during the round.
    pub(crate) noise: Noise,
    pub(crate) server: Option<EndReport>,
    /// Observations of the round and the client's own trace; `None` unless the round is traced.
    pub(crate) watched: Option<(TraceObservations, EndTrace)>,
    /// The results of the path between the ends.
    pub(crate) link: Option<LinkEnd>,
    /// The load on the same connection, if any.
    pub(crate) load: Option<SharedLoad>,
}

/// A load on the connection of a probe.
pub(crate) struct SharedLoad {
    pub(crate) flow: Flow,
    /// The counts of the client and of the server.
    pub(crate) streamed: [Streamed; 2],
    /// When the load began, in ns since all flows of the round were connected; `None` if it did not begin.
    pub(crate) started_ns: Option<u64>,
}

impl Client<'_> {
    pub(crate) fn run(mut self) -> Result<ClientEnd, Failure> {
        let clock = &self.host.clock;
        let Opened { mut observers, setup_ns, wires, options, waking_ns, started } = self.open()?;
        observers.mark(Mark::Load(&wires));
        let mut wire = devices::as_one(End::Client, self.order, wires, &started.setup)?;
        let mut observed = Observed::begin(self.order, End::Client, (&mut *wire, self.card.boundaries), clock);
        let all_connected_ns = started.all_connected_ns;
        let (client_result, bulk) = self.load(observed.wire(), &mut observers, &started)?;
        let of_thread = scheduling::facts(&self.order.case.ends);
        scheduling::end(&self.order.case.ends);
        // The server waits for the wire to close and uses no CPU, so it does not disturb the observers.
        observers.end();
        let WireObservations { trace, sampled, facts: of_wire } = observed.finish()?;
        let (order, card, foreign) = (self.order, self.card, self.foreign.clone());
        let RoundEnd { client_result, facts, mut server, seen, link } = self.end(wire, client_result, observers)?;
        let Observations { report, noise, watched, .. } = seen;
        let of_both = |((bulk, flow), server): ((BulkEnd, &Flow), &mut EndReport)| -> Result<SharedLoad, Failure> {
            let of_server = one_way::of_server(server, flow)?;
            let streamed = [bulk.streamed, of_server].map(|one| one.since(all_connected_ns));
            let started_ns = bulk.began_ns.map(|ns| ns.saturating_sub(all_connected_ns));
            Ok(SharedLoad { flow: flow.clone(), streamed, started_ns })
        };
        let load = bulk.zip(load_of(&order.case)).zip(server.as_mut()).map(of_both).transpose()?;
        let asked = opening::asked(&order.case, End::Client);
        let options = effective(card, &asked, &options, std::slice::from_ref(&facts));
        let of_foreign = foreign.iter().flat_map(|server| server.facts()).collect();
        let facts = [counters(facts), report.facts, of_wire, of_foreign, of_thread].concat();
        let report = EndReport { options, facts, waking_ns, sampled, ..report };
        Ok(ClientEnd { client_result, setup_ns, report, noise, server, watched: watched.zip(trace), link, load })
    }

    pub(crate) fn run_one_way(mut self) -> Result<OneWayEnd, Failure> {
        one_way::check(self.order.case.primary(), self.card)?;
        let (clock, order, card) = (&self.host.clock, self.order, self.card);
        let Opened { mut observers, setup_ns, mut wires, options, waking_ns, started } = self.open()?;
        let starts_ns = self.load_at_ns(&started);
        let Some(server) = self.server else { return Err(no_server(card)) };
        while !self.stop.load(Ordering::Relaxed) && clock.now_ns() < starts_ns {
            server.send(&Message::Progress(Progress::default()))?;
            wait_until(clock, starts_ns.min(clock.now_ns() + KEEP_ALIVE_INTERVAL_NS), self.stop);
        }
        server.send(&Message::Begin)?;
        let started_ns = clock.now_ns().saturating_sub(started.all_connected_ns);
        observers.mark(Mark::Load(&wires));
        let captures = order.case.primary().load.observer() == Observer::Capture;
        let capture = captures.then(|| CaptureProcess::start(card.protocol, &wires[0].effective())).transpose()?;
        let load = OneWay { clock, order, card, end: End::Client, stop: self.stop };
        let EndCounts { streamed, system_calls, warm_up_messages, interrupted, observed } =
            load.run(&mut wires, server, &mut observers)?;
        // A server that receives ends when it has all data. A server that sends keeps its wires open until then.
        if order.case.primary().direction == Direction::Down {
            server.send(&Message::Complete)?;
        }
        let mut server = server.report(&mut wires)?;
        observers.end();
        let captured = capture.map(CaptureProcess::finish).transpose()?.unwrap_or_default();
        let after = facts_of_each(&wires);
        close(wires);
        let Observations { report, noise, .. } = observers.report(Observations::default());
        let link = self.link.take().map(Link::finish).transpose()?;
        let report = EndReport {
            options: effective(card, &opening::asked(&order.case, End::Client), &options, &after),
            facts: [counters(one_way::facts_of_all(order, card, &after)), observed, captured, report.facts].concat(),
            system_calls,
            warm_up_messages: Some(warm_up_messages),
            waking_ns,
            ..report
        };
        let of_server = one_way::of_server(&mut server, order.case.primary())?;
        let streamed = [streamed, of_server].map(|one| one.since(started.all_connected_ns));
        Ok(OneWayEnd { setup_ns, started_ns, report, noise, server, streamed, interrupted, link })
    }

    /// Connects to the server and waits until it is ready.
    fn open(&mut self) -> Result<Opened, Failure> {
        let (clock, order, card) = (&self.host.clock, self.order, self.card);
        let context = Context { clock: *clock, order, card, end: End::Client, binding: self.binding };
        let mut observers = Observers::begin(context);
        let cookie = Cookie::draw().map_err(|error| no_cookie(&error))?;
        let has_codes = self.host.across.is_some() && card.has_codes();
        let key = has_codes.then(draw_key).transpose().map_err(|error| no_cookie(&error))?;
        let address = match &mut self.server {
            Some(server) => {
                let listening = server.listening(order, cookie, key)?;
                self.host.across.map_or(listening, |at| at.to_string())
            }
            None if order.case.is_emulated() => FAR.v4.to_string(),
            None => self.host.across.map_or_else(|| Ipv4Addr::LOCALHOST.to_string(), |at| at.to_string()),
        };
        let pinned = self.host.enter_and_pin(&order.case.ends, End::Client)?;
        scheduling::apply(order, End::Client)?;
        let server_namespace = self.link.as_ref().map(|link| link.namespaces().far.as_path());
        observers.mark(Mark::Opening { pinned, address: Some(&address), server_namespace });
        let setup = Setup {
            binding: self.binding,
            codes: key.map(|key| codes(&key, End::Client, order.case.primary())),
            foreign: self.foreign.clone(),
            ..setup(order, End::Client, cookie, self.host.across)
        };
        let connect_ns = clock.now_ns();
        let flow = order.case.primary();
        allow_descriptors(End::Client, &order.case)?;
        let mut wires = Vec::new();
        for _ in 0..flow.connections {
            let connected = self.transport.connect(&address, &setup);
            let of_one = connected.and_then(|mut connection| (0..flow.streams).map(|_| connection.open()).collect());
            let of_one: Vec<_> = of_one.map_err(|error| unopened(End::Client, &error))?;
            wires.extend(of_one);
        }
        let setup_ns = clock.now_ns() - connect_ns;
        let options = facts_of_each(&wires);
        check_options(End::Client, card, order, &options)?;
        let mut waking_ns = None;
        if let Some(server) = self.server.as_deref_mut() {
            server.ready(&mut wires)?;
            waking_ns = is_woken(&order.case).then(|| server.waking_ns(clock)).transpose()?;
        }
        // The first message would otherwise wait behind the hello (Nagle's algorithm).
        wait_until_acknowledged(|| unacknowledged_bytes(&mut wires), Duration::from_nanos(order.timeout_ns));
        let server = self.server.as_ref().and_then(|server| server.id());
        let all_connected_ns = self.barrier.map(|barrier| barrier.wait_for_all(server)).transpose()?;
        let all_connected_ns = all_connected_ns.unwrap_or_else(|| clock.now_ns());
        let started = Started { all_connected_ns, address, setup };
        Ok(Opened { observers, setup_ns, wires, options, waking_ns, started })
    }

    /// Runs the load. Also returns the counts of a load on the same connection.
    fn load(
        &mut self,
        wire: &mut dyn Wire,
        observers: &mut Observers,
        started: &Started,
    ) -> Result<(ClientResult, Option<BulkEnd>), Failure> {
        let begin_ns = started.all_connected_ns.saturating_add(warm_up_ns(self.order));
        let client = hairpin_loops::Client {
            clock: &self.host.clock,
            order: self.order,
            lossy: !self.card.reliable,
            boundaries: self.card.boundaries,
            phases: self.order.phases.map(|lengths| lengths.spans(begin_ns)),
            stop: self.stop,
        };
        let load_at_ns = self.load_at_ns(started);
        let mut marks = Marks { server: self.server.as_deref_mut(), has_asked: false, observers };
        let flow = self.order.case.primary();
        Ok(match (flow.connection_use, flow.load.rate_per_s()) {
            (ConnectionUse::PerMessage, rate_per_s) => {
                let hello_ns = Arc::new(AtomicU64::new(0));
                let measured = flow.opening.map(|_| Arc::clone(&hello_ns));
                let setup = Setup { hello_ns: measured, ..started.setup.clone() };
                let connect = || {
                    let wire = open_wire(self.transport, &started.address, &setup)?;
                    Ok(wire.map(|wire| (wire, hello_ns.swap(0, Ordering::Relaxed))))
                };
                (hairpin_loops::connecting::run(&client, connect, &mut marks, rate_per_s)?, None)
            }
            (ConnectionUse::Shared, rate_per_s) => {
                let bulk = BulkOrder::of(self.order).zip(rate_per_s).ok_or_else(|| no_shared_load(self.card))?;
                let (client_result, end) =
                    hairpin_loops::shared::client::run(&client, wire, &mut marks, bulk, load_at_ns)?;
                (client_result, Some(end))
            }
            _ => (run_client(&client, wire, &mut marks)?, None),
        })
    }

    /// Start of the load in ns of the clock. Other flows of the round may start earlier.
    fn load_at_ns(&self, started: &Started) -> u64 {
        started.all_connected_ns.saturating_add(self.barrier.map_or(0, |barrier| barrier.starts_after_ns))
    }

    /// Ends the round in the order that the module documentation describes.
    fn end(
        self,
        wire: Box<dyn Wire>,
        mut client_result: ClientResult,
        observers: Observers,
    ) -> Result<RoundEnd, Failure> {
        let Self { host, order, card, mut server, link, .. } = self;
        let facts_of = |wire: &dyn Wire| facts(&order.case, card, wire.effective());
        let link = link.take();
        // On an unreliable transport, answers in flight must be received late or counted, so the wire stays open.
        let mut open = None;
        let mut facts = Vec::new();
        if let Some(link) = link.as_ref().filter(|_| !card.reliable) {
            let mut leaving = Leaving {
                clock: &host.clock,
                wire,
                client_result: &mut client_result,
                server: server.as_deref_mut(),
            };
            leaving.leave(link)?;
            open = Some(leaving.wire);
        } else {
            facts = facts_of(&*wire);
            drop(wire);
        }
        let report = server.map(|server| {
            // The server may have ended when the wire closed.
            drop(server.send(&Message::Stop));
            server.report(&mut [])
        });
        let report = report.transpose()?;
        let seen = observers.report(Observations::default());
        let link = link.map(Link::finish).transpose()?;
        if let Some(mut wire) = open {
            client_result.take_late_replies(&host.clock, &mut *wire)?;
            facts = facts_of(&*wire);
        }
        Ok(RoundEnd { client_result, facts, server: report, seen, link })
    }
}

fn draw_key() -> io::Result<DatagramKey> {
    let [Cookie(first), Cookie(second)] = [Cookie::draw()?, Cookie::draw()?];
    let mut key = [0; 32];
    key[..16].copy_from_slice(&first);
    key[16..].copy_from_slice(&second);
    Ok(key)
}

fn no_cookie(error: &std::io::Error) -> Failure {
    Failure::new(
        error,
        format!("the client: cannot draw random bytes for the hello: {error}"),
        "allow getrandom(2) in this sandbox",
    )
}

fn no_server(card: &Card) -> Failure {
    Failure::new(
        FailureKind::Unsupported,
        format!("the kernel answers {}, so no program receives or sends a stream", card.name),
        "`hairpin list` shows which transports the kernel answers",
    )
}

fn no_shared_load(card: &Card) -> Failure {
    Failure::new(
        FailureKind::Unsupported,
        format!("{}: no load shares the connection of the probe, or the probe has no rate", card.name),
        "use --rate, and a load that shares the connection",
    )
}

/// The results of a one-way round.
pub(crate) struct OneWayEnd {
    pub(crate) setup_ns: u64,
    /// When the load began, in ns since all flows of the round were connected.
    pub(crate) started_ns: u64,
    pub(crate) report: EndReport,
    pub(crate) noise: Noise,
    pub(crate) server: EndReport,
    /// The counts of the client and of the server.
    pub(crate) streamed: [Streamed; 2],
    pub(crate) interrupted: bool,
    pub(crate) link: Option<LinkEnd>,
}

/// A connected client before its load.
struct Opened {
    observers: Observers,
    setup_ns: u64,
    wires: Vec<Box<dyn Wire>>,
    /// The kernel's facts about each wire before the load.
    options: Vec<Vec<Fact>>,
    waking_ns: Option<u64>,
    started: Started,
}

/// The starting point of a load.
struct Started {
    /// When all flows of the round were connected, in ns of the clock.
    all_connected_ns: u64,
    address: String,
    setup: Setup,
}

/// Duration of the warm-up in ns; 0 if the warm-up is a number of messages.
pub(crate) fn warm_up_ns(order: &RoundOrder) -> u64 {
    if let Extent::DurationNs(warm_up_ns) = order.warm_up { warm_up_ns } else { 0 }
}

/// Opens a new connection; `None` if the attempt timed out.
fn open_wire(transport: &dyn Transport, address: &str, setup: &Setup) -> Result<Option<Box<dyn Wire>>, Failure> {
    match transport.connect(address, setup).and_then(|mut connection| connection.open()) {
        Ok(wire) => Ok(Some(wire)),
        Err(error) if error.is_time_out() => Ok(None),
        Err(error) => Err(unopened(End::Client, &error)),
    }
}

/// Sleeps until `until_ns`, or until the user ends the run.
pub(crate) fn wait_until(clock: &RealClock, until_ns: u64, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left_ns = until_ns.saturating_sub(clock.now_ns());
        if left_ns == 0 {
            break;
        }
        std::thread::sleep(Duration::from_nanos(left_ns).min(MAX_SLEEP));
    }
}

impl Peer for Server {
    fn send(&mut self, message: &Message) -> Result<(), Failure> {
        self.send(message)
    }

    fn try_receive(&mut self) -> Result<Option<Message>, Failure> {
        if self.is_ready() { self.receive().map(Some) } else { Ok(None) }
    }

    fn name(&self) -> &'static str {
        "the server"
    }
}

struct RoundEnd {
    client_result: ClientResult,
    facts: Vec<Fact>,
    server: Option<EndReport>,
    seen: Observations,
    link: Option<LinkEnd>,
}

/// The client of a datagram load over a link, after the load: it receives until no more answers can arrive.
struct Leaving<'a> {
    clock: &'a RealClock,
    wire: Box<dyn Wire>,
    client_result: &'a mut ClientResult,
    server: Option<&'a mut Server>,
}

impl Leaving<'_> {
    fn leave(&mut self, link: &Link) -> Result<(), Failure> {
        let began_ns = self.clock.now_ns();
        if self.server.is_none() {
            let until_ns = self.client_result.late_replies.last_sent_ns().unwrap_or(began_ns);
            let until_ns = until_ns.saturating_add(link.round_trip_ns()).saturating_add(HOST_MARGIN_NS);
            if self.client_result.late_replies.is_empty() {
                return Ok(());
            }
            return self.listen(|_, now_ns| now_ns >= until_ns);
        }
        // The server would end too early if the farewell overtook a message.
        self.listen(|_, now_ns| now_ns - began_ns >= link.overtaken_by_ns())?;
        self.wire.farewell();
        let said_ns = self.clock.now_ns();
        let arrives_ns = link.round_trip_ns().saturating_add(HOST_MARGIN_NS);
        let mut is_repeated = false;
        self.listen(|this, now_ns| {
            let Some(server) = this.server.as_deref_mut() else { return true };
            // The farewell may be lost. Repeat it over control when the last message must have arrived.
            if !is_repeated && now_ns - said_ns >= arrives_ns {
                drop(server.send(&Message::Stop));
                is_repeated = true;
            }
            server.is_ready() || now_ns - said_ns >= arrives_ns.saturating_add(MAX_ENDING_NS)
        })
    }

    /// Takes late answers until `is_over` returns true.
    fn listen(&mut self, mut is_over: impl FnMut(&mut Self, u64) -> bool) -> Result<(), Failure> {
        loop {
            let is_open = self.client_result.take_late_replies(self.clock, &mut *self.wire)?;
            let now_ns = self.clock.now_ns();
            if is_over(self, now_ns) || has_given_up() {
                return Ok(());
            }
            // A broken wire always polls as ready, so sleep instead.
            if !is_open || self.wire.wait(POLL_INTERVAL).is_err() {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

/// The marks of the load's loop, coordinated with the server.
struct Marks<'s> {
    /// `None` if no server of Hairpin answers, because only such a server needs marks.
    server: Option<&'s mut Server>,
    has_asked: bool,
    observers: &'s mut Observers,
}

impl ClientMarks for Marks<'_> {
    fn may_measure(&mut self, waits: bool) -> Result<bool, Failure> {
        if let Some(server) = &mut self.server {
            if !self.has_asked {
                server.send(&Message::Measure)?;
                self.has_asked = true;
            }
            if !waits && !server.is_ready() {
                return Ok(false);
            }
            server.expect(&Message::Measuring)?;
        }
        self.observers.mark(Mark::First);
        Ok(true)
    }

    fn end(&mut self) {
        self.observers.mark(Mark::Last);
    }
}
