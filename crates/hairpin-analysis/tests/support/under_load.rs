//! Rounds of a probe next to a load, with given latencies, waits and queues.

use hairpin_model::flow::{ConnectionUse, Direction, FlowRole, WRITE_BYTES};
use hairpin_model::phases::Phase;
use hairpin_model::trace::End;
use hairpin_model::{
    ByPhase, Case, EndReport, Flow, FlowRecord, Ledger, LinkRecord, LinkTimeline, Measured, Options, Percentiles,
    PhaseLengths, PhaseUsage, ProbePhase, ProbePhases, ProbeTimeLine, Received, SenderState, Sent, Span, StageRecord,
};

use super::links::{link, over};
use super::{Fixture, paced};

pub const MESSAGES: u64 = 100;
/// The intervals of the link's time line, in ns.
const INTERVAL_NS: u64 = 100_000_000;

/// Lengths of the phases over a link, and otherwise the default.
pub fn lengths(is_emulated: bool) -> PhaseLengths {
    let seconds = |seconds: u64| seconds * 1_000_000_000;
    let long = PhaseLengths { idle: seconds(1), ramp: seconds(5), loaded: seconds(5), recovering: seconds(2) };
    if is_emulated { long } else { PhaseLengths::usual(false) }
}

/// A probe of 64 B over UDP, 100 per second, next to a stream over TCP in each of these directions.
pub fn probed(ways: &[Direction]) -> Case {
    let mut case = Case::of(Flow::ping_pong("udp").in_role(FlowRole::Probe));
    case.primary_mut().load.set_sizes(64, 64);
    case.primary_mut().load = case.primary().load.paced(100.0);
    for (way, id) in ways.iter().zip(["load", "load-back"]) {
        let load = Flow::stream("tcp", WRITE_BYTES, *way).in_role(FlowRole::Load);
        case.flows.push(Flow { id: id.into(), ..load });
    }
    case
}

/// Like [`probed`] with a load upwards, over a link of 10 Mbit/s.
pub fn probed_over_link() -> Case {
    over("rate=10mbit queue=256KiB delay=5ms", probed(&[Direction::Up]))
}

/// Like [`probed_over_link`], with a probe over TCP on the load's connection.
pub fn shared_over_link() -> Case {
    let mut case = probed_over_link();
    case.primary_mut().transport = "tcp".to_owned();
    case.primary_mut().connection_use = ConnectionUse::Shared;
    case
}

/// Like [`shared_over_link`], with a limit on the unsent data in the sender's socket.
pub fn bounded_over_link() -> Case {
    let mut case = shared_over_link();
    for flow in &mut case.flows[..2] {
        flow.options = Options::parse("notsent-lowat=16384").expect("an option of TCP");
    }
    case
}

/// The values of a round.
#[derive(Clone, Copy)]
pub struct Beside {
    /// Latency of each message without load and under load, in ns.
    pub latency_ns: [u64; 2],
    /// The lateness of each message, which is part of its latency under load, in ns.
    pub late_ns: u64,
    /// Wait of both ends together for a CPU per message, in ns.
    pub waited_ns: [u64; 2],
    /// Bytes in the queue of each direction under load, and the bytes per second that left it; `None` without a link.
    pub queues: Option<[(u64, u64); 2]>,
    /// The state of the load's TCP while the load is steady.
    pub state: Option<SenderState>,
}

impl Beside {
    /// With these latencies and without waits.
    pub fn latencies(idle_ns: u64, loaded_ns: u64) -> Self {
        Self { latency_ns: [idle_ns, loaded_ns], late_ns: 0, waited_ns: [0, 0], queues: None, state: None }
    }

    /// On an idle path of 10 ms, with these unsent bytes of a load of 1.2 MB/s.
    pub fn unsent(loaded_ns: u64, not_sent_bytes: u64) -> Self {
        let state = SenderState { not_sent_bytes, ..SenderState::default() };
        Self { state: Some(state), ..Self::latencies(10_000_000, loaded_ns) }
    }

    /// With `bytes` in the queue upwards, on a link that drains 1.25 MB/s.
    pub fn queued(self, bytes: u64) -> Self {
        Self { queues: Some([(bytes, 1_250_000), (0, 1_250_000)]), ..self }
    }
}

impl Fixture {
    pub fn beside(&mut self, case: &Case, block: u32, beside: Beside) {
        self.beside_with(case, block, beside, |_| {});
    }

    /// Like [`Self::beside`], modified by `change`.
    pub fn beside_with(&mut self, case: &Case, block: u32, beside: Beside, change: impl Fn(&mut Measured)) {
        let message = (beside.late_ns, beside.latency_ns[1] - beside.late_ns);
        // The first message shows the latency of the empty path.
        let mut messages = vec![message; MESSAGES as usize];
        messages[0] = (0, beside.latency_ns[0]);
        let samples = paced(10_000_000, &messages);
        self.round_with(case, block, &samples, |measured| {
            fill(measured, case, beside);
            change(measured);
        });
        let order = &mut self.rounds.last_mut().unwrap().order;
        order.phases = Some(lengths(case.is_emulated()));
    }

    /// Six identical rounds of each case.
    pub fn of_beside(cases: &[(Case, Beside)]) -> Self {
        let mut fixture = Self::new();
        cases.iter().for_each(|(case, beside)| fixture.all_beside(case, *beside));
        fixture
    }

    /// Six identical rounds.
    pub fn all_beside(&mut self, case: &Case, beside: Beside) {
        (0..6).for_each(|block| self.beside(case, block, beside));
    }
}

fn fill(measured: &mut Measured, case: &Case, beside: Beside) {
    let spans = lengths(case.is_emulated()).spans(0);
    let of = |phase: Phase, [idle, loaded]: [u64; 2]| if phase == Phase::Loaded { loaded } else { idle };
    let by_phase = ByPhase::of(|phase| probe_phase(of(phase, beside.latency_ns)));
    // The histogram of the samples is slightly coarser.
    measured.primary_mut().figures.latency_ns = by_phase.loaded.latency_ns;
    let over_time = ProbeTimeLine { interval_ns: INTERVAL_NS, ..ProbeTimeLine::default() };
    measured.primary_mut().phases = Some(ProbePhases { by_phase, over_time });
    let loaded_ns = spans.loaded.until_ns - spans.loaded.from_ns;
    for load in case.loads() {
        measured.flows.push(FlowRecord {
            received: Some(Received {
                bytes: 1_200_000 * loaded_ns / 1_000_000_000,
                bytes_after_first: 1_200_000 * loaded_ns / 1_000_000_000,
                over_ns: loaded_ns,
                began_ns: Some(spans.ramp.from_ns),
                interval_ns: loaded_ns / 10,
                interval_bytes: vec![
                    120_000 * loaded_ns / 1_000_000_000;
                    usize::try_from((spans.loaded.until_ns - spans.ramp.from_ns) * 10 / loaded_ns)
                        .expect("few")
                ],
                ..Received::default()
            }),
            sent: Some(Sent { states: states(&spans, beside.state), ..Sent::default() }),
            started_ns: Some(spans.ramp.from_ns),
            ..FlowRecord::of(load)
        });
    }
    let flows = std::iter::once(case.primary()).chain(case.loads());
    measured.ends = flows.flat_map(|flow| ends(&spans, flow, |phase| of(phase, beside.waited_ns))).collect();
    measured.link = beside.queues.map(|queues| linked(&spans, queues));
    measured.noise.busy_ns = 0;
    measured.phases = Some(spans);
}

fn probe_phase(latency_ns: u64) -> ProbePhase {
    let ns = latency_ns as f64;
    ProbePhase {
        samples: MESSAGES,
        latency_ns: Percentiles { p50: ns, p90: ns, p99: ns, p999: ns, max: ns, mean: ns },
        least_ns: ns,
        ledger: Ledger { sent: MESSAGES, received: MESSAGES, ..Ledger::default() }.closed(),
        trimmed: None,
    }
}

/// Twenty states before the load is steady, which must not count, and ten after.
fn states(spans: &ByPhase<Span>, steady: Option<SenderState>) -> Vec<SenderState> {
    let Some(steady) = steady else { return Vec::new() };
    let ramp_ns = spans.loaded.from_ns - spans.ramp.from_ns;
    let early = |number: u64| SenderState { at_ns: ramp_ns - 1 - number, in_flight_bytes: 1 << 40, ..steady };
    let at = |number: u64| SenderState { at_ns: ramp_ns + number * 10_000_000, ..steady };
    (0..20).map(early).chain((0..10).map(at)).collect()
}

/// Both ends of a flow. The ends of the probe share the waits; the ends of a load use half a CPU each.
fn ends(spans: &ByPhase<Span>, flow: &Flow, waited_ns: impl Fn(Phase) -> u64) -> [EndReport; 2] {
    let usage = ByPhase::of(|phase| {
        let lasts_ns = spans.get(phase).until_ns - spans.get(phase).from_ns;
        match (flow.role, phase) {
            (FlowRole::Probe, _) => PhaseUsage { cpu_ns: 0, waited_for_cpu_ns: waited_ns(phase) * MESSAGES / 2 },
            (_, Phase::Ramp | Phase::Loaded) => PhaseUsage { cpu_ns: lasts_ns / 2, waited_for_cpu_ns: lasts_ns / 2 },
            _ => PhaseUsage::default(),
        }
    });
    let end = |role| EndReport {
        role,
        flow: flow.id.clone(),
        pinned_cpu: Some(0),
        phase_usage: Some(usage),
        ..EndReport::default()
    };
    [end(End::Client), end(End::Server)]
}

/// A link with empty queues except under steady load.
fn linked(spans: &ByPhase<Span>, queues: [(u64, u64); 2]) -> LinkRecord {
    let mut linked = link();
    for (way, (bytes, drained_per_s)) in [&mut linked.up, &mut linked.down].into_iter().zip(queues) {
        let at = |number: u64| (spans.loaded.from_ns..spans.loaded.until_ns).contains(&(number * INTERVAL_NS));
        let intervals = spans.recovering.until_ns / INTERVAL_NS;
        let when_loaded =
            |value: u64| (0..intervals).map(|number| if at(number) { value } else { 0 }).collect::<Vec<_>>();
        way.timeline = Some(LinkTimeline {
            interval_ns: INTERVAL_NS,
            queue_bytes_max: when_loaded(bytes),
            queue_bytes_mean: when_loaded(bytes),
            out_bytes: when_loaded(drained_per_s / 10),
            ..LinkTimeline::default()
        });
        way.stages.push(StageRecord {
            stage: "queue".to_owned(),
            line_without: Some("delay=5ms".to_owned()),
            line_with_codel: Some("rate=10mbit queue=256KiB codel=5ms/100ms delay=5ms".to_owned()),
            ..StageRecord::default()
        });
    }
    linked
}
