//! One round from order to record.

use std::io;
use std::net::Ipv4Addr;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hairpin_model::card::{AnsweredBy, Card};
use hairpin_model::case::{CpuIdle, Ends};
use hairpin_model::fact::Fact;
use hairpin_model::fact_names;
use hairpin_model::ground::{Candidate, Ground};
use hairpin_model::link::{LinkRecord, PacketCounts};
use hairpin_model::round::{
    EndReport, Failure, Finished, Measured, Noise, Outcome, Purpose, RoundOrder, RoundRecord,
};
use hairpin_model::samples::Samples;
use hairpin_model::summary::RoundFigures;
use hairpin_model::trace::{End, EndTrace, RoundTrace};
use hairpin_transports::Transport;
use hairpin_transports::giving_up::has_given_up;

use crate::clock::{Clock, RealClock};
use crate::ends::far::{self, EchoOrder};
use crate::ends::process::EchoProcess;
use crate::ends::thread::EchoThread;
use crate::ends::{EchoEnd, is_woken};
use crate::halves::{Client, Journey, run_client};
use crate::keep_awake;
use crate::links::LinkEnd;
use crate::links::addresses::FAR;
use crate::links::traces::Traces;
use crate::noise::Reading;
use crate::parting::{Parted, Parting};
use crate::path::Link;
use crate::placement::{Cpus, place};
use crate::probe::Probing;
use crate::store::Folder;
use crate::system::{cpu, ending};
use crate::tracing::Observed;
use crate::tracing::round::{About, Watch, Watched};
use crate::usage::Usage;

/// Runs rounds on this machine.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The one clock.
    pub clock: RealClock,
    /// The CPUs for the two ends.
    pub cpus: Cpus,
    /// The program that is started as the echo half.
    pub echo_program: PathBuf,
    /// When the run began, on the clock.
    pub started_ns: u64,
    /// Raised when the user ends the run: the round in flight stops early.
    pub stop: Arc<AtomicBool>,
    /// What links replay.
    pub traces: Traces,
    /// The run folder, where rounds over a link are to keep the relay's log; `None` keeps none.
    pub link_logs: Option<Folder>,
}

impl Engine {
    /// An engine with a calibrated clock.
    ///
    /// # Errors
    /// The kernel does not tell which CPUs are allowed.
    pub fn new(echo_program: PathBuf, stop: Arc<AtomicBool>) -> io::Result<Self> {
        let clock = RealClock::calibrated();
        Ok(Self {
            clock,
            cpus: Cpus::choose()?,
            echo_program,
            started_ns: clock.now_ns(),
            stop,
            traces: Traces::default(),
            link_logs: None,
        })
    }

    /// Nanoseconds since the run began.
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.started_ns)
    }

    /// Waits until so many ns of the run are over, or until the user ends the run.
    pub(crate) fn wait_until(&self, elapsed_ns: u64) {
        const SLICE_NS: u64 = 20_000_000;
        while !self.stop.load(Ordering::Relaxed) {
            let left_ns = elapsed_ns.saturating_sub(self.elapsed_ns());
            if left_ns == 0 {
                break;
            }
            std::thread::sleep(Duration::from_nanos(left_ns.min(SLICE_NS)));
        }
    }

    /// Runs one round on the calling thread, which is pinned meanwhile. Whatever goes wrong is a failed round, never a
    /// lost run.
    ///
    /// It takes no thread of its own on purpose: in a process of several threads the kernel counts references in
    /// every call on a descriptor (`fdget`, fs/file.c), which costs a blocking round trip on one CPU 2 to 5 %.
    #[must_use]
    pub fn run(&self, number: u32, order: &RoundOrder) -> Finished {
        self.wait_until(order.not_before_ns);
        let started_ns = self.elapsed_ns();
        let attempt = std::panic::catch_unwind(AssertUnwindSafe(|| attempt(self, number, order)));
        let attempt = attempt.unwrap_or_else(|_| Err(panicked()));
        // Freed again: what happens between rounds must not wait for the CPU of one end.
        let freed = place(None, &self.cpus.allowed).map_err(|error| far::unplaced(None, &error));
        let attempt = attempt.and_then(|measured| freed.map(|()| measured));
        let attempt = attempt.map_err(|failure| if has_given_up() { given_up() } else { failure });
        let (outcome, samples, trace) = match attempt {
            Ok(Done { measured, samples, trace }) => (Outcome::Measured(Box::new(measured)), Some(samples), trace),
            Err(failure) => (Outcome::Failed(failure), None, None),
        };
        let record = RoundRecord { number, started_ns, case_id: order.case.id(), order: order.clone(), outcome };
        Finished { record, samples, trace }
    }
}

/// What can run here, for the experiments to plan on.
///
/// # Errors
/// The kernel does not tell which CPUs are allowed.
pub fn ground() -> io::Result<Ground> {
    let candidate = |transport: &&dyn Transport| Candidate { card: transport.card(), can_run: transport.can_run() };
    let setting = |name: &str| std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    Ok(Ground {
        candidates: hairpin_transports::ALL.iter().map(candidate).collect(),
        cpus: cpu::allowed()?,
        may_keep_cpus_awake: keep_awake::may_keep_awake(),
        congestion_controls: setting("tcp_available_congestion_control")
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        default_congestion_control: setting("tcp_congestion_control").trim().to_owned(),
        waking_round_trip_ns: crate::waking::round_trip_ns,
        links: crate::links::known::ground(),
    })
}

/// A round that ran.
struct Done {
    measured: Measured,
    samples: Samples,
    trace: Option<Traced>,
}

/// A trace, and its packets as a pcapng file where they were captured.
type Traced = (RoundTrace, Option<Vec<u8>>);

/// One round: fresh ends, a fresh connection, then the client half's journey.
fn attempt(engine: &Engine, number: u32, order: &RoundOrder) -> Result<Done, Failure> {
    let transport = far::transport(&order.case.transport)?;
    let card = transport.card();
    let awake = match order.case.cpu_idle {
        CpuIdle::Deep => None,
        CpuIdle::Shallow => Some(keep_awake::keep_awake().map_err(|error| not_awake(&error))?),
    };
    // The link and the echo half start before this thread is pinned: they inherit where they may run.
    let mut link = Link::open(engine, number, order, &card)?;
    let mut echo = start_echo(engine, order, &card, link.as_ref())?;
    let pinned = engine.cpus.cpu_for(order.case.placement, true);
    place(pinned, &engine.cpus.allowed).map_err(|error| far::unplaced(pinned, &error))?;
    cpu::sharpen_timers();

    let near = near_half(engine, order, &card, transport, echo.as_deref_mut(), &mut link, pinned);

    drop(awake);
    let near = near.map_err(|failure| explained(failure, echo.as_deref_mut(), link.take()))?;
    let Near { journey, setup_ns, mut report, noise, mut echo_report, watched, link } = near;
    for end in [Some(&mut report), echo_report.as_mut()].into_iter().flatten() {
        end.cpu_ns = journey.tally.measured_part(end.cpu_ns);
    }
    let waited = Some(journey.tally.waited_for_answers).filter(|waited| *waited > 0);
    report.facts.extend(waited.map(|waited| Fact::number(fact_names::WAITED_FOR_ANSWERS, waited as f64)));
    let echo_facts = echo_report.as_ref().map_or(&[][..], |report| &report.facts);
    let link_lost = link.as_ref().map(|link| &link.lost_messages);
    let ledger = journey.tally.ledger(card.lossless, &report.facts, echo_facts, link_lost);
    let link = link.map(|LinkEnd { record, started_ns, .. }| LinkRecord {
        samples_began_ns: Some(journey.origin_ns.saturating_sub(started_ns)),
        ..record
    });
    let first_message_ns = journey.recorder.first_message_ns();
    let samples = journey.recorder.finish(journey.origin_ns);
    let far_trace = echo_report.as_mut().and_then(|report| report.trace.take()).unwrap_or_default();
    let trace = watched.map(|(watch, near_trace)| {
        let about =
            About { case: &order.case, samples: &samples, began_ns: journey.origin_ns, near_facts: &report.facts };
        watch.trace(near_trace, *far_trace, &about)
    });
    let measured = Measured {
        figures: RoundFigures::default(),
        ledger,
        setup_ns,
        first_message_ns,
        duration_ns: journey.duration_ns,
        client: report,
        echo: echo_report,
        noise,
        samples_file: None,
        link,
        samples_kept: samples.kept() as u64,
        exchange_counts: journey.exchange_counts,
        traced: None,
        trace_file: None,
        interrupted: journey.interrupted,
    };
    Ok(Done { measured, samples, trace })
}

/// What the client half brings home, with its own report.
struct Near {
    journey: Journey,
    setup_ns: u64,
    report: EndReport,
    /// The machine meanwhile.
    noise: Noise,
    /// The echo half's report.
    echo_report: Option<EndReport>,
    /// What was watched of the round, and the client half's own trace, where the round is traced.
    watched: Option<(Watched, EndTrace)>,
    /// What the link between the ends left.
    link: Option<LinkEnd>,
}

/// Connects, runs the client half, and parts from the echo half. Under a link the calling thread is at its near end
/// meanwhile.
fn near_half(
    engine: &Engine,
    order: &RoundOrder,
    card: &Card,
    transport: &dyn Transport,
    mut echo: Option<&mut (dyn EchoEnd + 'static)>,
    link: &mut Option<Link>,
    pinned: Option<usize>,
) -> Result<Near, Failure> {
    let (before, begin_ns) = (Reading::now(), engine.clock.now_ns());
    let _visit = link.as_ref().map(Link::visit_near).transpose()?;
    let address = match echo.as_deref_mut() {
        Some(echo) => echo.address()?,
        None if order.case.is_emulated() => FAR.v4.to_string(),
        None => Ipv4Addr::LOCALHOST.to_string(),
    };
    let probing = Probing::begin(&engine.clock);
    let far = link.as_ref().map(Link::far);
    let watch = (order.purpose == Purpose::Traced).then(|| Watch::begin(engine.clock, card, &address, far));
    let connect_ns = engine.clock.now_ns();
    let opened = transport.connect(&address, &far::setup(order, End::Near));
    let setup_ns = engine.clock.now_ns() - connect_ns;
    let mut wire = opened.map_err(|error| far::unopened("client half", &error))?;
    let options_before = wire.effective();
    far::check_options(End::Near, card, order, &options_before)?;
    let mut waking_ns = None;
    if let Some(echo) = echo.as_deref_mut() {
        echo.ready()?;
        waking_ns = is_woken(&order.case).then(|| echo.waking_ns(&engine.clock)).transpose()?;
    }
    let client = Client {
        clock: &engine.clock,
        order,
        lossy: !card.lossless,
        boundaries: card.boundaries,
        stop: &engine.stop,
    };
    let mut observed = Observed::begin(order, End::Near, &mut *wire, &engine.clock);
    let usage = Usage::now();
    let journey = run_client(&client, observed.wire());
    let report = usage.since(pinned);
    // The server waits for the wire to close meanwhile, so this CPU is the probe's own.
    let report = EndReport { probe_ns: probing.end(&engine.clock), waking_ns, ..report };
    let noise = before.until(&Reading::now(), engine.clock.now_ns() - begin_ns);
    let trace = if journey.is_ok() { observed.finish() } else { Ok(None) };
    let parting = Parting { clock: &engine.clock, order, card, wire, echo, link, watch };
    let (mut journey, trace) = match (journey, trace) {
        (Ok(journey), Ok(trace)) => (journey, trace),
        (Err(failure), _) | (_, Err(failure)) => {
            parting.close();
            return Err(failure);
        }
    };
    let Parted { facts, echo: echo_report, watched, link } = parting.part(&mut journey)?;
    let options = far::effective(card, &far::asked(&order.case, End::Near), &options_before, &facts);
    let report = EndReport { options, facts: far::counters(facts), ..report };
    Ok(Near { journey, setup_ns, report, noise, echo_report, watched: watched.zip(trace), link })
}

fn start_echo(
    engine: &Engine,
    order: &RoundOrder,
    card: &Card,
    link: Option<&Link>,
) -> Result<Option<Box<dyn EchoEnd>>, Failure> {
    if card.answered_by == AnsweredBy::Kernel {
        return Ok(None);
    }
    let echo_order = EchoOrder {
        round: order.clone(),
        cpu: engine.cpus.cpu_for(order.case.placement, false),
        allowed_cpus: engine.cpus.allowed.clone(),
        clock: engine.clock,
        namespace: link.map(|link| link.far().to_owned()),
    };
    Ok(Some(match order.case.ends {
        Ends::Processes => Box::new(EchoProcess::start(&engine.echo_program, &echo_order)?),
        Ends::Threads => Box::new(EchoThread::start(echo_order)?),
    }))
}

/// The echo half's own cause explains a broken wire better than the wire does, and so does that of the link, which ends
/// with this.
fn explained(failure: Failure, echo: Option<&mut (dyn EchoEnd + 'static)>, link: Option<Link>) -> Failure {
    let echo = echo.and_then(EchoEnd::own_cause);
    let link = link.and_then(|link| link.finish().map_or_else(Some, |end| let_nothing_through(&end.record)));
    [echo, link].into_iter().flatten().fold(failure, |failure, cause| {
        if failure.cause.contains(&cause.cause) {
            return failure;
        }
        Failure { cause: format!("{}; {}", failure.cause, cause.cause), hint: cause.hint }
    })
}

/// A link that let nothing through, whatever it was sent.
fn let_nothing_through(record: &LinkRecord) -> Option<Failure> {
    let PacketCounts { entered, out, dropped, inside, .. } = &record.packets;
    if *entered == 0 || *out > 0 {
        return None;
    }
    let dropped: String = dropped.iter().map(|(stage, count)| format!(", {count} dropped by {stage}")).collect();
    Some(Failure {
        cause: format!("the link let none of {entered} packets through: {inside} still inside{dropped}"),
        hint: "`hairpin link show` tells what a profile does".to_owned(),
    })
}

fn not_awake(error: &io::Error) -> Failure {
    Failure {
        cause: format!("cannot hold /dev/cpu_dma_latency at 0: {error}"),
        hint: "run as root, or leave --cpu-idle at deep".to_owned(),
    }
}

fn panicked() -> Failure {
    Failure {
        cause: "the client half panicked".to_owned(),
        hint: "this is a defect of Hairpin; please report it with the command line".to_owned(),
    }
}

/// Of a round that did not end in order when it was to.
fn given_up() -> Failure {
    Failure {
        cause: "it was ended while it waited for the other half".to_owned(),
        hint: "a signal to end gives the round in flight 2 s".to_owned(),
    }
}

/// Has each of these signals, when it comes, give the round in flight 2 s for an end in order. Then nothing is waited
/// for any longer, in all of the process, and the round fails.
///
/// # Errors
/// The system refuses the handler.
pub fn bound_the_end(signals: &[i32]) -> io::Result<()> {
    ending::bound(signals)
}

/// Raises the sign that ends the round in flight.
pub fn raise(stop: &AtomicBool) {
    stop.store(true, Ordering::Relaxed);
}
