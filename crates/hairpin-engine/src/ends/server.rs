//! The server of a round: it listens, accepts, echoes and reports. Wherever the server runs, it uses only its host
//! and its channel to the client.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hairpin_model::case::Scheduling;
use hairpin_model::flow::{ConnectionUse, Direction};
use hairpin_model::trace::End;
use hairpin_model::{Binding, Card, Case, EndReport, Fact, Failure, FailureKind, RoundOrder, Turnaround, fact_names};
use hairpin_transports::{Cookie, Listener, Setup, TransportError, Wire};

use super::codes::codes;
use super::devices;
use super::digest::order_digest;
use super::driving::{Driving, drive};
use super::one_way::{self, OneWay, Peer};
use super::opening::{
    self, allow_descriptors, check_options, close, counters, effective, facts, facts_of_each, setup, unopened,
};
use super::{EndOrder, Host, PINGS, is_woken};
use crate::control::{Control, ControlError, Message, Progress, agree, receive_past};
use crate::observer::{Context, Mark, Observations};
use crate::observers::Observers;
use crate::scheduling;
use crate::socket_passing::{PassedListener, Sockets};
use crate::tracing::{Observed, WireObservations};
use hairpin_loops::arrival_order::ArrivalOrder;
use hairpin_loops::clock::{Clock, RealClock};
use hairpin_loops::connecting;
use hairpin_loops::driver::PROGRESS_NS;
use hairpin_loops::echo::{Answered, Echo};
use hairpin_loops::marks::{Notice, ServerMarks};
use hairpin_loops::run_server;
use hairpin_loops::shared::{self, BulkOrder};
use hairpin_loops::undamaged::{Filtered, is_whole, may_be_damaged};

/// Over a link, an unreliable transport may lose the farewell. After this silence the server checks whether the load is
/// over.
const LINK_SILENCE: Duration = Duration::from_millis(100);
/// Time-out for the rest of a message that has begun to arrive.
const PARTIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for the load to begin: longer than all earlier phases of a round can last.
const MAX_START: Duration = Duration::from_hours(72);
/// Time-out for the client's next message. A client that exits is noticed sooner.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// Longest silence of a client on another host, in ns, without the pauses of its load and its time-out.
const MAX_SILENCE_NS: u64 = 10_000_000_000;

/// Serves the round that `control` orders. Reports a failure to the client. If another process owns the port, `sockets`
/// supplies the sockets.
pub fn run(control: &mut dyn Control, host: &Host, sockets: Option<Sockets>) {
    let last = match attempt(control, host, sockets) {
        Ok(report) => Message::Report(Box::new(report)),
        Err(failure) => Message::Failed(failure),
    };
    // The client may have exited.
    drop(control.send(&last));
}

fn attempt(control: &mut dyn Control, host: &Host, sockets: Option<Sockets>) -> Result<EndReport, Failure> {
    let order = receive_order(control).map_err(|error| error.failure("the client"))?;
    let EndOrder { round, cookie, reports_progress, datagram_key } = order;
    let case = &round.case;
    // Orders are not trusted, so they are checked against this end's limits.
    let flow = case.primary();
    match (case.flows.len(), case.loads().as_slice()) {
        (1, _) => {}
        (2, [load]) if flow.connection_use == ConnectionUse::Shared => {
            one_way::check(load, &opening::transport(&load.transport)?.card())?;
        }
        (count, _) => return Err(several_flows(count)),
    }
    let transport = opening::transport(&case.primary().transport)?;
    let card = transport.card();
    one_way::check(flow, &card)?;
    let context =
        Context { clock: host.clock, order: &round, card: &card, end: End::Server, binding: Binding::default() };
    let mut observers = Observers::begin(context);
    let pinned = host.enter_and_pin(&case.ends, End::Server)?;
    if case.ends.timer_slack_ns.is_some() || case.ends.scheduling != Scheduling::Other || case.ends.lock_memory {
        scheduling::apply(&round, End::Server)?;
    }
    let mut setup = setup(&round, End::Server, Cookie(cookie), host.across);
    setup.codes = datagram_key.map(|key| codes(&key, End::Server, flow));
    if case.crosses_a_network() && !card.reliable {
        setup.timeout = setup.timeout.min(LINK_SILENCE);
    }
    // This mark precedes the address, because the address starts the client's observers, perhaps on the same CPU.
    observers.mark(Mark::Opening { pinned, address: None, server_namespace: None });
    let joined = setup.clone();
    let mut listener = match sockets {
        None => transport.listen(&setup).map_err(|error| unopened(End::Server, &error))?,
        Some(sockets) => Box::new(PassedListener::new(transport, setup, sockets)),
    };
    let address = listener.address();
    let digest = host.across.map_or_else(String::new, |_| format!(" {}", order_digest(&round)));
    send(control, &Message::Listening(format!("{address}{digest}")))?;
    let wires = accept(&mut *listener, control, case)?;
    let before = facts_of_each(&wires);
    check_options(End::Server, &card, &round, &before)?;
    if flow.direction != Direction::RoundTrip {
        return one_way(control, host, &round, &card, Opened { wires, before, observers });
    }
    let opened = Opened { wires, before, observers };
    answer(control, host, &round, opened, (&mut *listener, &joined, reports_progress))
}

/// Answers messages, on one connection or on a new connection for each message.
fn answer(
    control: &mut dyn Control,
    host: &Host,
    round: &RoundOrder,
    opened: Opened,
    (listener, setup, reports_progress): (&mut dyn Listener, &Setup, bool),
) -> Result<EndReport, Failure> {
    let Opened { wires, before, mut observers } = opened;
    let (case, flow) = (&round.case, round.case.primary());
    let card = opening::transport(&flow.transport)?.card();
    observers.mark(Mark::Load(&wires));
    let mut wire = devices::as_one(End::Server, round, wires, setup)?;
    let mut observed = Observed::begin(round, End::Server, (&mut *wire, card.boundaries), &host.clock);
    send(control, &Message::Ready)?;
    if is_woken(case) {
        answer_pings(control).map_err(|error| error.failure("the client"))?;
    }
    // The client's deadline is earlier, because the client's failure explains more.
    let within_ns = round.deadline_ns.saturating_add(round.timeout_ns.saturating_mul(2));
    let until_ns = host.clock.now_ns().saturating_add(within_ns);
    let mut marks = Marks {
        control,
        clock: &host.clock,
        until_ns,
        observers: &mut observers,
        notice: Notice::Nothing,
        next_report_ns: reports_progress.then(|| host.clock.now_ns()),
        came_bytes: 0,
        longest_silence_ns: longest_silence_ns(round),
        silent_since_ns: None,
    };
    let sizes = [flow.load.size_bytes(), flow.load.reply_size_bytes()];
    let sizes = sizes.map(|size| usize::try_from(size).unwrap_or(0));
    let (mut turnaround, mut answered, mut streamed) = (None, Vec::new(), Vec::new());
    match flow.connection_use {
        ConnectionUse::Own => {
            let (held, facts) = echo(host, round, &card, observed.wire(), &mut marks)?;
            (turnaround, answered) = (held, facts);
        }
        ConnectionUse::PerMessage => {
            let count = connecting::serve(|| accept_next(listener), &mut marks, sizes)?;
            answered = two_host_facts(case, count);
        }
        ConnectionUse::Shared => {
            let bulk = BulkOrder::of(round).ok_or_else(|| several_flows(case.flows.len()))?;
            streamed.push(shared::server::run(&host.clock, observed.wire(), &mut marks, sizes[1], bulk)?);
        }
    }
    let of_thread = scheduling::facts(&case.ends);
    scheduling::end(&case.ends);
    observers.end();
    let WireObservations { trace, sampled, facts: of_wire } = observed.finish()?;
    let report = EndReport { turnaround, trace: trace.map(Box::new), streamed, sampled, ..EndReport::default() };
    let report = observers.report(Observations { report, ..Observations::default() }).report;
    let facts = [facts(case, &card, wire.effective()), answered, of_wire, of_thread].concat();
    Ok(EndReport {
        options: effective(&card, &opening::asked(case, End::Server), &before, std::slice::from_ref(&facts)),
        facts: [counters(facts), report.facts].concat(),
        ..report
    })
}

/// Sends every message back. Returns the turnaround times, and the facts that only a round between two hosts records.
fn echo(
    host: &Host,
    round: &RoundOrder,
    card: &Card,
    wire: &mut dyn Wire,
    marks: &mut Marks<'_>,
) -> Result<(Option<Turnaround>, Vec<Fact>), Failure> {
    let case = &round.case;
    let echo = Echo {
        clock: &host.clock,
        case,
        boundaries: card.boundaries,
        cpu_only: card.cpu_only,
        warm_up: round.warm_up,
        notes_order: ArrivalOrder::may_differ(case, !card.reliable),
    };
    let Answered { turnaround, count, order } = if !card.reliable && may_be_damaged(case) {
        echo.run(&mut Filtered::new(wire, is_whole(case)), marks)?
    } else {
        run_server(&echo, wire, marks)?
    };
    let mut facts = two_host_facts(case, count);
    if let Some(ArrivalOrder { duplicated, reordered, .. }) = order {
        let number = |name, count: u64| Fact::number(name, count as f64);
        facts.extend([number(fact_names::DUPLICATED_UP, duplicated), number(fact_names::REORDERED_UP, reordered)]);
    }
    Ok((turnaround, facts))
}

/// The number of answered messages, as a fact that only a round between two hosts records.
fn two_host_facts(case: &Case, answered: u64) -> Vec<Fact> {
    let fact = || Fact::number(fact_names::ANSWERED, answered as f64);
    case.path.across.is_some().then(fact).into_iter().collect()
}

/// Longest allowed silence of a client on another host after its first message, in ns. On the same host there is no
/// limit, because the kernel reports the client's exit.
fn longest_silence_ns(round: &RoundOrder) -> u64 {
    if round.case.path.across.is_none() {
        return u64::MAX;
    }
    let own_ns = round.timeout_ns.saturating_add(round.case.primary().longest_pause_ns());
    MAX_SILENCE_NS.saturating_add(own_ns.saturating_mul(2))
}

fn receive_order(control: &mut dyn Control) -> Result<EndOrder, ControlError> {
    agree(control, MESSAGE_TIMEOUT)?;
    match control.receive(MESSAGE_TIMEOUT)? {
        Message::Order(order) => Ok(*order),
        other => Err(ControlError::Unexpected(other.name())),
    }
}

/// Accepts the wires of the flow. Stops waiting if the client has ended the round or exited.
fn accept(
    listener: &mut dyn Listener,
    control: &mut dyn Control,
    case: &Case,
) -> Result<Vec<Box<dyn Wire>>, Failure> {
    let mut wires = Vec::new();
    let flow = case.primary();
    allow_descriptors(End::Server, case)?;
    let is_new_for_each = flow.connection_use == ConnectionUse::PerMessage;
    listener.expect(if is_new_for_each { u32::MAX } else { flow.connections });
    for _ in 0..flow.connections {
        let mut ended = None;
        let accepted = listener.accept(&mut || {
            drive(&mut wires);
            ended = ended.take().or_else(|| why_ended(control));
            ended.is_some()
        });
        let of_one =
            accepted.and_then(|mut connection| (0..flow.streams).map(|_| connection.accept_wire()).collect());
        let of_one: Vec<_> = match (of_one, ended) {
            (Err(TransportError::Abandoned), Some(failure)) => return Err(failure),
            (of_one, _) => of_one.map_err(|error| unopened(End::Server, &error))?,
        };
        wires.extend(of_one);
    }
    Ok(wires)
}

/// Time after which a server without a new connection checks for control messages.
const ACCEPT_SLICE: Duration = Duration::from_millis(100);

/// Accepts the next connection of a client that opens one per message; `None` if none arrived in a short time.
fn accept_next(listener: &mut dyn Listener) -> Result<Option<Box<dyn Wire>>, Failure> {
    let began = Instant::now();
    let accepted = listener.accept(&mut || began.elapsed() >= ACCEPT_SLICE);
    match accepted.and_then(|mut connection| connection.accept_wire()) {
        Ok(wire) => Ok(Some(wire)),
        Err(TransportError::Abandoned) => Ok(None),
        Err(error) => Err(unopened(End::Server, &error)),
    }
}

struct Opened {
    wires: Vec<Box<dyn Wire>>,
    /// The kernel's facts about each wire before the load.
    before: Vec<Vec<Fact>>,
    observers: Observers,
}

/// Runs a one-way load.
fn one_way(
    control: &mut dyn Control,
    host: &Host,
    round: &RoundOrder,
    card: &Card,
    opened: Opened,
) -> Result<EndReport, Failure> {
    let Opened { mut wires, before, mut observers } = opened;
    send(control, &Message::Ready)?;
    if is_woken(&round.case) {
        answer_pings(control).map_err(|error| error.failure("the client"))?;
    }
    wait_for_the_load(&mut Driving { control, wires: &mut wires }, round)?;
    // A server has no user: only the client can stop the load.
    let stop = AtomicBool::new(false);
    observers.mark(Mark::Load(&wires));
    let load = OneWay { clock: &host.clock, order: round, card, end: End::Server, stop: &stop };
    let ran = load.run(&mut wires, &mut ClientOfRound { control, is_gone: false }, &mut observers)?;
    if round.case.primary().direction == Direction::Down {
        // Sent data may still be in flight: keep the wires open until the client has received it.
        let within = MESSAGE_TIMEOUT.max(Duration::from_nanos(round.deadline_ns));
        wait_for_the_client(&mut Driving { control, wires: &mut wires }, within)
            .map_err(|error| error.failure("the client"))?;
    }
    observers.end();
    let after = facts_of_each(&wires);
    close(wires);
    let report = observers.report(Observations::default()).report;
    Ok(EndReport {
        options: effective(card, &opening::asked(&round.case, End::Server), &before, &after),
        facts: [counters(one_way::facts_of_all(round, card, &after)), ran.observed, report.facts].concat(),
        streamed: vec![ran.streamed],
        system_calls: ran.system_calls,
        warm_up_messages: Some(ran.warm_up_messages),
        ..report
    })
}

/// Waits for the client to begin its load. Until then the client sends keep-alives.
fn wait_for_the_load(control: &mut dyn Control, round: &RoundOrder) -> Result<(), Failure> {
    let patience = MESSAGE_TIMEOUT.min(Duration::from_nanos(round.deadline_ns.saturating_add(round.timeout_ns)));
    let began = Instant::now();
    while began.elapsed() < MAX_START {
        match control.receive(patience).map_err(|error| error.failure("the client"))? {
            Message::Begin => return Ok(()),
            Message::Progress(_) => {}
            Message::Stop => return Err(ended_before_its_load()),
            Message::Failed(failure) => return Err(failure),
            other => return Err(ControlError::Unexpected(other.name()).failure("the client")),
        }
    }
    Err(ControlError::OnlyProgress(MAX_START).failure("the client"))
}

fn ended_before_its_load() -> Failure {
    Failure::new(
        FailureKind::Closed,
        "the client ended the round before its load began",
        "see the cause at the client, if any",
    )
}

/// Waits until the client has received everything or has exited.
fn wait_for_the_client(control: &mut dyn Control, within: Duration) -> Result<(), ControlError> {
    let is_passed_over = |message: &Message| matches!(message, Message::Progress(_) | Message::Stop);
    match receive_past(control, within, is_passed_over) {
        Ok(Message::Complete) | Err(ControlError::Closed) => Ok(()),
        Ok(other) => Err(ControlError::Unexpected(other.name())),
        Err(error) => Err(error),
    }
}

fn several_flows(count: usize) -> Failure {
    Failure::new(
        FailureKind::Unsupported,
        format!("the server: the case has {count} flows, and this version carries one"),
        "use the same version of Hairpin at both ends",
    )
}

/// The client of a one-way load, as a [`Peer`].
struct ClientOfRound<'c> {
    control: &'c mut dyn Control,
    /// Whether the channel was closed. Further reads would report this again.
    is_gone: bool,
}

impl Peer for ClientOfRound<'_> {
    fn send(&mut self, message: &Message) -> Result<(), Failure> {
        send(self.control, message)
    }

    fn try_receive(&mut self) -> Result<Option<Message>, Failure> {
        if self.is_gone || !self.control.is_ready() {
            return Ok(None);
        }
        match self.control.receive(PARTIAL_TIMEOUT) {
            Ok(message) => Ok(Some(message)),
            Err(ControlError::Closed) => {
                self.is_gone = true;
                Ok(Some(Message::Stop))
            }
            Err(error) => Err(error.failure(self.name())),
        }
    }

    fn name(&self) -> &'static str {
        "the client"
    }
}

/// Returns why the client will not connect, if control reports it. A client sends nothing else before it connects.
fn why_ended(control: &mut dyn Control) -> Option<Failure> {
    if !control.is_ready() {
        return None;
    }
    Some(match control.receive(MESSAGE_TIMEOUT) {
        Ok(Message::Failed(failure)) => failure,
        Ok(Message::Stop) => Failure::new(
            FailureKind::Closed,
            "the client ended the round before it connected",
            "see the cause at the client, if any",
        ),
        Ok(other) => ControlError::Unexpected(other.name()).failure("the client"),
        Err(error) => error.failure("the client"),
    })
}

fn send(control: &mut dyn Control, message: &Message) -> Result<(), Failure> {
    control.send(message).map_err(|error| error.failure("the client"))
}

fn answer_pings(control: &mut dyn Control) -> Result<(), ControlError> {
    for _ in 0..PINGS {
        match control.receive(MESSAGE_TIMEOUT)? {
            Message::Ping => control.send(&Message::Ping)?,
            other => return Err(ControlError::Unexpected(other.name())),
        }
    }
    Ok(())
}

/// The marks of the server's loop, communicated over control.
struct Marks<'c> {
    control: &'c mut dyn Control,
    clock: &'c RealClock,
    /// When to give up on a silent client, in ns of the clock.
    until_ns: u64,
    observers: &'c mut Observers,
    notice: Notice,
    /// When to report progress next, in ns of the clock; `None` if progress is not requested.
    next_report_ns: Option<u64>,
    came_bytes: u64,
    longest_silence_ns: u64,
    /// Start of the client's silence, in ns of the clock. `None` until a check notices the silence, and before the
    /// first message, when the client may be waiting for other flows.
    silent_since_ns: Option<u64>,
}

impl Marks<'_> {
    fn receive_notice(&mut self, within: Duration) -> Result<Notice, Failure> {
        self.notice = match self.control.receive(within) {
            Ok(Message::Measure) => Notice::Measure,
            Ok(Message::Stop) | Err(ControlError::Closed) => Notice::Stop,
            Ok(other) => return Err(ControlError::Unexpected(other.name()).failure("the client")),
            Err(error) => return Err(error.failure("the client")),
        };
        Ok(self.notice)
    }
}

impl ServerMarks for Marks<'_> {
    fn look(&mut self) -> Result<Notice, Failure> {
        // A notice that the loop has not handled yet is returned again.
        if self.notice == Notice::Nothing && self.control.is_ready() {
            return self.receive_notice(PARTIAL_TIMEOUT);
        }
        let now_ns = self.clock.now_ns();
        if now_ns > self.until_ns {
            return Err(Failure::new(
                FailureKind::TimedOut,
                "the client did not end the round before its deadline",
                "was it stopped?",
            ));
        }
        let longest_ns = self.longest_silence_ns;
        if self.came_bytes > 0 && now_ns - *self.silent_since_ns.get_or_insert(now_ns) >= longest_ns {
            return Err(Failure::new(
                FailureKind::TimedOut,
                format!("server: the client sent nothing for {} s", longest_ns / 1_000_000_000),
                "was it stopped, or is the path down?",
            ));
        }
        Ok(self.notice)
    }

    fn wait(&mut self) -> Result<Notice, Failure> {
        self.receive_notice(MESSAGE_TIMEOUT)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.notice = Notice::Nothing;
        send(self.control, &Message::Measuring)?;
        // This mark is the last action before the first measured message, as at the client.
        self.observers.mark(Mark::First);
        Ok(())
    }

    #[inline]
    fn moved(&mut self, up_bytes: u64, down_bytes: u64) -> Result<(), Failure> {
        if up_bytes > self.came_bytes {
            self.came_bytes = up_bytes;
            self.silent_since_ns = None;
        }
        let Some(next_report_ns) = &mut self.next_report_ns else { return Ok(()) };
        let now_ns = self.clock.now_ns();
        if now_ns < *next_report_ns {
            return Ok(());
        }
        *next_report_ns = now_ns + PROGRESS_NS;
        let progress = Progress { bytes_received: up_bytes, bytes_sent: down_bytes, ..Progress::default() };
        send(self.control, &Message::Progress(progress))
    }
}
