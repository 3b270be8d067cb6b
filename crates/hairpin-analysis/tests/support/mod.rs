//! Made-up samples and runs for the tests of this crate: every latency, and so every figure, is known.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part of this")]

pub mod links;
pub mod one_way;
pub mod one_way_losses;
pub mod traces;
pub mod trips;
pub mod under_load;

use hairpin_analysis::statistics::interval::ALPHA;
use hairpin_analysis::{Digest, States, comparisons, findings, round_figures, stamped, traced};
use hairpin_model::options::OptionName;
use hairpin_model::round::Purpose;
use hairpin_model::run::{FORMAT, State};
use hairpin_model::samples::{Fate, MAX_LATENCY_NS, latency_histogram};
use hairpin_model::trace::End;
use hairpin_model::upgrade::earlier_cards;
use hairpin_model::{
    Case, Effective, EndKind, EndReport, Environment, Exchange, Extent, Failure, FailureKind, Figure, Finding,
    FlowRecord, Host, Key, Ledger, Measured, Noise, Outcome, Placement, RoundOrder, RoundRecord, RoundTrace, Run,
    SampledRound, SampledTrip, Samples,
};

/// Samples of a closed loop: each message leaves when the last was answered.
pub fn back_to_back(warm_up: &[u64], latencies: &[u64]) -> Samples {
    let mut samples = Samples::with_rows(0);
    samples.warm_up = warm_up.len();
    let mut now = 0_u64;
    for (row, latency) in warm_up.iter().chain(latencies).enumerate() {
        push(&mut samples, now, now, now.saturating_add(*latency));
        now = now.saturating_add(*latency);
        if row >= warm_up.len() {
            samples.latency.saturating_record(as_recorded(*latency));
        }
    }
    samples.measured = latencies.len() as u64;
    samples
}

/// Samples of an open loop: one message every `interval_ns`, each with (lateness, service time).
pub fn paced(interval_ns: u64, messages: &[(u64, u64)]) -> Samples {
    let mut samples = Samples::with_rows(0);
    let (mut service, mut late) = (latency_histogram(), latency_histogram());
    for (row, (lateness_ns, service_ns)) in messages.iter().enumerate() {
        let due = row as u64 * interval_ns;
        push(&mut samples, due, due + lateness_ns, due + lateness_ns + service_ns);
        samples.latency.saturating_record(as_recorded(lateness_ns + service_ns));
        service.saturating_record(as_recorded(*service_ns));
        late.saturating_record(as_recorded(*lateness_ns));
    }
    (samples.service, samples.lateness) = (Some(service), Some(late));
    samples.measured = messages.len() as u64;
    samples
}

/// The value that the recorder puts into a histogram for this time.
fn as_recorded(ns: u64) -> u64 {
    ns.clamp(1, MAX_LATENCY_NS)
}

fn push(samples: &mut Samples, due: u64, sent: u64, received: u64) {
    samples.sequence.push(samples.sequence.len() as u64);
    samples.due_ns.push(due);
    samples.sent_ns.push(sent);
    samples.received_ns.push(received);
    samples.fate.push(Fate::Received);
}

const SEED: u64 = 7;

/// A run under construction; rounds get the `purpose` that is set when they are added.
pub struct Fixture {
    pub plan: Vec<Case>,
    pub rounds: Vec<RoundRecord>,
    pub environment: Environment,
    pub purpose: Purpose,
    digest: Digest,
}

impl Fixture {
    pub fn new() -> Self {
        let environment = Environment { cpus_online: 2, cpus_allowed: vec![0, 1], ..Environment::default() };
        Self { plan: Vec::new(), rounds: Vec::new(), environment, purpose: Purpose::Timed, digest: Digest::new() }
    }

    /// With rounds of these cases, 100 messages each, all with the latency given for the round.
    pub fn of(cases: &[(&Case, &[u64])]) -> Self {
        let mut fixture = Self::new();
        cases.iter().for_each(|(case, latencies)| fixture.rounds_of(case, latencies));
        fixture
    }

    /// With `blocks` rounds of a case, all with these samples.
    pub fn alike(blocks: u32, case: &Case, samples: &Samples) -> Self {
        Self::alike_with(blocks, case, samples, |_| {})
    }

    /// Like [`Self::alike`], with each round modified by `change`.
    pub fn alike_with(blocks: u32, case: &Case, samples: &Samples, change: impl Fn(&mut Measured)) -> Self {
        let mut fixture = Self::new();
        (0..blocks).for_each(|block| fixture.round_with(case, block, samples, &change));
        fixture
    }

    /// One measured round, without noise.
    pub fn round(&mut self, case: &Case, block: u32, samples: &Samples) {
        self.round_with(case, block, samples, |_| {});
    }

    /// One measured round, modified by `change`.
    pub fn round_with(&mut self, case: &Case, block: u32, samples: &Samples, change: impl FnOnce(&mut Measured)) {
        let mut measured = measured(case, self.purpose, samples);
        change(&mut measured);
        // Computes the drops of a link that `change` added.
        if measured.link.is_some() && measured.primary().figures.drops.is_none() {
            let duration_ns = measured.duration_ns;
            let figures = round_figures(
                case,
                self.purpose,
                samples,
                duration_ns,
                measured.link.as_ref().filter(|_| case.flows.len() == 1),
                earlier_cards().reliable(&case.primary().transport),
            );
            measured.primary_mut().figures.drops = figures.drops;
        }
        self.push(case, block, Outcome::Measured(Box::new(measured)), Some(samples));
    }

    /// A stamped round with these sampled round trips and these samples, modified by `change`.
    pub fn stamped(
        &mut self,
        (case, block): (&Case, u32),
        sampled: &SampledRound,
        samples: &Samples,
        change: impl FnOnce(&mut Measured),
    ) {
        self.purpose = Purpose::Stamped;
        self.round_with(case, block, samples, change);
        self.purpose = Purpose::Timed;
        let record = self.rounds.last_mut().unwrap();
        stamped(record, sampled, Some(samples));
        self.digest.add_trips(record, sampled);
    }

    /// Six blocks of a timed round with this latency, and a stamped round with 40 of each of these round trips.
    pub fn budget_of(&mut self, case: &Case, latency_ns: u64, trips: &[SampledTrip]) {
        let trips = trips.iter().flat_map(|trip| [*trip; 40]).collect();
        let sampled = SampledRound { server_has_own_clock: false, trips };
        for block in 0..6 {
            let samples = back_to_back(&[], &[latency_ns + latency_ns / 1000 * u64::from(block); 100]);
            self.round(case, block, &samples);
            self.stamped((case, block), &sampled, &samples, |_| {});
        }
    }

    pub fn failed(&mut self, case: &Case, block: u32, cause: &str) {
        let failure = Failure::new(FailureKind::Other, cause, "none");
        self.push(case, block, Outcome::Failed(failure), None);
    }

    /// Rounds of `case` with 100 messages each, all with the latency given for the round.
    pub fn rounds_of(&mut self, case: &Case, latencies: &[u64]) {
        self.rounds_with(case, latencies, |_| {});
    }

    /// Like [`Self::rounds_of`], with each round modified by `change`.
    pub fn rounds_with(&mut self, case: &Case, latencies: &[u64], change: impl Fn(&mut Measured)) {
        for (block, latency) in latencies.iter().enumerate() {
            self.round_with(case, block as u32, &back_to_back(&[*latency; 20], &[*latency; 100]), &change);
        }
    }

    fn push(&mut self, case: &Case, block: u32, outcome: Outcome, samples: Option<&Samples>) {
        if !self.plan.contains(case) {
            self.plan.push(case.clone());
        }
        let number = self.rounds.len() as u32;
        let record = RoundRecord {
            number,
            started_ns: u64::from(block) * 1_000_000_000 + u64::from(number) * 1_000_000,
            case_id: case.id(),
            order: RoundOrder {
                purpose: self.purpose,
                sample_every: (self.purpose == Purpose::Stamped).then_some(16),
                ..order(case, block)
            },
            outcome,
        };
        self.digest.add(&record, samples);
        self.rounds.push(record);
    }

    /// The run without findings.
    pub fn run(self) -> Run {
        let states = States::of(&self.rounds);
        let cases = self.digest.summaries(&self.plan, &earlier_cards(), &self.rounds, &states, ALPHA);
        Run {
            format: FORMAT,
            command_line: vec!["hairpin".to_owned()],
            duration_ns: 1,
            state: State::Complete,
            seed: SEED,
            hosts: vec![Host { role: End::Client, environment: self.environment }],
            cards: earlier_cards(),
            comparisons: comparisons(&cases, ALPHA),
            machine: states.machine.clone(),
            cases,
            rounds: self.rounds,
            ..Run::default()
        }
    }

    pub fn findings(self, code: &str) -> Vec<Finding> {
        findings(&self.run()).into_iter().filter(|finding| finding.code == code).collect()
    }
}

pub fn value(finding: &Finding, key: Key) -> f64 {
    finding.figure(key).unwrap_or_else(|| panic!("no {key:?} in {finding:?}")).value
}

/// Returns the figure of the end, direction or stage `of`.
pub fn figure_of(finding: &Finding, key: Key, of: &str) -> Option<Figure> {
    finding.evidence.iter().find(|piece| piece.key == key.name && piece.of == of).map(|piece| piece.value)
}

/// Whether a figure equals `expected` to the three digits that are printed.
pub fn shows(finding: &Finding, key: Key, expected: f64) -> bool {
    (value(finding, key) - expected).abs() <= 0.005 * expected.abs()
}

/// The two cases that the counter-experiment compares.
pub fn pair(finding: &Finding) -> [Case; 2] {
    *finding.counter_experiment.as_ref().unwrap().pair.clone().unwrap()
}

/// The cases that the counter-experiment measures.
pub fn repeated(finding: &Finding) -> &[Case] {
    &finding.counter_experiment.as_ref().unwrap().repeat.cases
}

/// The verdict on the cause, by its counter-experiment.
pub fn verdict(finding: &Finding) -> &str {
    &finding.proved.as_ref().unwrap().verdict
}

fn order(case: &Case, block: u32) -> RoundOrder {
    RoundOrder {
        block,
        warm_up: Extent::Count(20),
        link_seed: if case.is_emulated() { SEED + u64::from(block) } else { 0 },
        ..RoundOrder::of(case.clone(), 100)
    }
}

/// A round on a quiet machine: client on CPU 0, server on CPU 0 or 1 as placed, no CPU time except that of the ends.
fn measured(case: &Case, purpose: Purpose, samples: &Samples) -> Measured {
    let first = samples.due_ns.get(samples.warm_up).copied().unwrap_or(0);
    let duration_ns = samples.received_ns.last().map_or(0, |last| last.saturating_sub(first));
    let answered = samples.latency.len();
    let end = |role, cpu: usize| EndReport {
        role,
        flow: case.primary().id.clone(),
        seen_cpus: vec![cpu, cpu],
        cpu_ns: duration_ns / 4,
        ..EndReport::default()
    };
    let noise = Noise { busy_ns: duration_ns / 2, wall_ns: duration_ns, runnable_before: 1, ..Noise::default() };
    let flow = FlowRecord {
        figures: round_figures(case, purpose, samples, duration_ns, None, true),
        ledger: Ledger { sent: answered, received: answered, ..Ledger::default() }.closed(),
        setup_ns: 50_000,
        first_message_ns: samples.received_ns.first().map_or(0, |received| received - samples.due_ns[0]),
        samples_kept: samples.kept() as u64,
        ..FlowRecord::of(case.primary())
    };
    let server_cpu = usize::from(case.ends.placement == Placement::CrossCpu);
    let ends = vec![end(End::Client, 0), end(End::Server, server_cpu)];
    Measured { flows: vec![flow], ends, duration_ns, noise, ..Measured::default() }
}

pub fn granted(name: OptionName, value: &str) -> Effective {
    Effective { name, asked: None, before: value.to_owned(), after: value.to_owned(), met: true }
}

/// Exchanges of 100 writes of 2 bytes over TCP with this remedy.
pub fn small_writes(remedy: &str) -> Case {
    let (writes, remedy) = ("100x2".parse().unwrap(), remedy.parse().unwrap());
    Case::small_writes("tcp", Exchange { writes, gap_ns: 0, pipeline: 1, reply_writes: None, remedy })
}

/// Like [`small_writes`], with `pipeline` requests in flight.
pub fn in_flight(pipeline: u64, remedy: &str) -> Case {
    let case = small_writes(remedy);
    case.with(|case| case.primary_mut().load.exchange_mut().unwrap().pipeline = pipeline)
}

/// Six timed rounds of `case` with this latency, and three blocks of evidence: a round with this trace, and an
/// untraced round whose exchanges take as long. `options` were granted to both ends in all rounds.
pub fn traced_rounds(fixture: &mut Fixture, case: &Case, latency: u64, trace: &RoundTrace, options: &[Effective]) {
    let times = trace.exchange_began_ns.iter().zip(&trace.exchange_ended_ns);
    let untraced: Vec<u64> = times.map(|(began_ns, ended_ns)| ended_ns - began_ns).collect();
    evidence_rounds(fixture, case, latency, (trace, &untraced), [options, options]);
}

/// The findings with this code in a run that has only the rounds of [`traced_rounds`].
pub fn found_traced(
    code: &str,
    case: &Case,
    latency: u64,
    trace: &RoundTrace,
    options: &[Effective],
) -> Vec<Finding> {
    let mut fixture = Fixture::new();
    traced_rounds(&mut fixture, case, latency, trace, options);
    fixture.findings(code)
}

/// Like [`traced_rounds`], with given durations of the untraced exchanges, and separate options of client and server.
pub fn evidence_rounds(
    fixture: &mut Fixture,
    case: &Case,
    latency: u64,
    (trace, untraced): (&RoundTrace, &[u64]),
    [client, echo]: [&[Effective]; 2],
) {
    let grant = |measured: &mut Measured| {
        measured.ends[0].options = client.to_vec();
        measured.ends[1].options = echo.to_vec();
    };
    let latencies: Vec<u64> = (0..6).map(|k| latency + latency / 1000 * k).collect();
    fixture.rounds_with(case, &latencies, grant);
    for block in 0..3 {
        fixture.purpose = Purpose::Traced;
        fixture.round_with(case, block, &back_to_back(&[], &[latency; 6]), grant);
        traced(fixture.rounds.last_mut().unwrap(), trace);
        fixture.purpose = Purpose::Untraced;
        fixture.round_with(case, block, &back_to_back(&[], untraced), grant);
    }
    fixture.purpose = Purpose::Timed;
}

/// `case` at a fixed rate.
pub fn at_rate(case: Case, rate_per_s: f64) -> Case {
    case.with(|changed| changed.primary_mut().load = changed.primary().load.paced(rate_per_s))
}

/// A control loop over TCP with a period and a deadline of 1 ms, and the kernel's timer slack.
pub fn control_loop() -> Case {
    let periodic = hairpin_model::Periodic { period_ns: 1_000_000, deadline_ns: 1_000_000, ..Default::default() };
    apart(Case::ping_pong("tcp")).with(|case| {
        case.primary_mut().load = hairpin_model::Load::Periodic { periodic, size_bytes: 4, reply_size_bytes: 4 };
        case.ends.timer_slack_ns = Some(50_000);
    })
}

/// `case` with its ends pinned to two CPUs.
pub fn apart(case: Case) -> Case {
    case.with(|changed| changed.ends.placement = Placement::CrossCpu)
}

/// `case` with threads as ends.
pub fn threads(case: Case) -> Case {
    case.with(|changed| changed.ends.kind = EndKind::Threads)
}
