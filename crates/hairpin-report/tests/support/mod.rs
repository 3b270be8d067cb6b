//! Fixture runs with plausible figures. The survey has 12 transports in three groups over 10 rounds.
//!
//! All figures are invented; they resemble those of a two-CPU virtual machine, and depend only on the seed.
#![allow(dead_code, unreachable_pub, reason = "test files and the preview each use only a part of this module")]

pub mod bulk;
pub mod claims;
pub mod findings;
pub mod links;
pub mod one_way;
pub mod small_writes;
pub mod under_load;

use std::collections::BTreeMap;

use hairpin_model::compared_by::ComparedBy;
use hairpin_model::options::OptionName;
use hairpin_model::run::{FORMAT, State};
use hairpin_model::summary::{Role, Verdict};
use hairpin_model::trace::End;
use hairpin_model::{
    Answer, AnsweredBy, Case, CaseSummary, ClockFacts, Comparison, CurvePoint, Effective, EndKind, EndSummary,
    Environment, Figure, FlowSummary, Host, LatencyFigures, Ledger, Load, Machine, MachineState, Options, OtherState,
    Pair, PathSummary, Placement, Plan, RoundPoint, Run, Skipped, StateShare, Statement, Tool, Waiting,
};
use hairpin_report::words::write_answer;

/// A small seeded random generator (SplitMix64), so that fixtures need no dependency.
pub struct Generator(pub u64);

impl Generator {
    /// Returns a random number from 0 to 1.
    pub fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a random factor from `1 - spread` to `1 + spread`.
    pub fn near_one(&mut self, spread: f64) -> f64 {
        1.0 + spread * (2.0 * self.roll() - 1.0)
    }
}

/// Transport, and p50 in ns for each of [`GROUPS`]; 0 if not measured.
const LADDER: &[(&str, [f64; 3])] = &[
    ("memory", [2480.0, 51_300.0, 92.0]),
    ("shm", [4510.0, 55_900.0, 142.0]),
    ("pipe", [4960.0, 54_100.0, 3060.0]),
    ("fifo", [5010.0, 54_600.0, 3090.0]),
    ("unix-datagram", [7840.0, 66_200.0, 3410.0]),
    ("unix-seqpacket", [8010.0, 63_800.0, 3380.0]),
    ("unix-stream", [9420.0, 60_300.0, 3290.0]),
    ("icmp", [4020.0, 4350.0, 0.0]),
    ("udp", [10_200.0, 68_900.0, 6070.0]),
    ("udp6", [10_450.0, 69_300.0, 6150.0]),
    ("tcp", [13_400.0, 70_200.0, 8120.0]),
    ("tcp6", [13_700.0, 70_900.0, 8260.0]),
];

const GROUPS: [(Waiting, Placement); 3] = [
    (Waiting::Block, Placement::SameCpu),
    (Waiting::Block, Placement::CrossCpu),
    (Waiting::Spin, Placement::CrossCpu),
];

/// Number of rounds per case.
pub const ROUNDS: u32 = 10;

/// The survey: 35 cases of the ladder, an A/A replicate, an open-loop case, and one invalid case.
pub fn survey(seed: u64) -> Run {
    let mut generator = Generator(seed);
    let mut cases = Vec::new();
    for (place, (waiting, placement)) in GROUPS.into_iter().enumerate() {
        for (transport, p50s) in LADDER.iter().filter(|(_, p50s)| p50s[place] > 0.0) {
            let ends = if *transport == "memory" { EndKind::Threads } else { EndKind::Processes };
            let case = Case::ping_pong(transport).with(|changed| {
                changed.ends.waiting = waiting;
                changed.ends.placement = placement;
                changed.ends.kind = ends;
            });
            cases.push(summary(case, p50s[place], &mut generator));
        }
    }
    let replicate = Case::ping_pong("tcp").with(|changed| changed.replicate = 1);
    cases.push(summary(replicate, 13_430.0, &mut generator));
    cases.push(open_loop(&mut generator));
    cases.push(invalid(&mut generator));
    spoil(&mut cases);
    let comparisons = comparisons(&cases);
    let findings = findings::findings(&cases);
    let answer = Answer { pairs: pairs(&comparisons), ..Answer::from(statements(&cases)) };
    let mut run = Run {
        format: FORMAT,
        tool: Tool {
            name: "hairpin".to_owned(),
            version: "0.1.0".to_owned(),
            commit: Some("0123456789ab".to_owned()),
            build: "release".to_owned(),
        },
        command_line: vec!["hairpin".to_owned()],
        started_unix_s: 1_795_257_377,
        duration_ns: 21_340_000_000,
        state: State::Complete,
        seed: 42,
        plan: plan(cases.len() as u64),
        hosts: vec![Host { role: End::Client, environment: environment() }],
        cards: hairpin_model::upgrade::earlier_cards(),
        cases,
        comparisons,
        findings,
        skipped: skipped(),
        answer,
        ..Run::default()
    };
    write_answer(&mut run);
    run
}

/// The answer of the survey: shared memory is the fastest between two processes.
fn statements(cases: &[CaseSummary]) -> Vec<Statement> {
    let [shm, tcp, waking] =
        ["shm spin cross-cpu", "tcp spin cross-cpu", "tcp block cross-cpu"].map(|label| find(cases, label));
    let p50 = |row: &CaseSummary| row.p50_ns().expect("a measured case");
    vec![
        Statement::Best { cases: ids([shm]), verdict: Some(Verdict::Faster) },
        Statement::Reference { case: tcp.id.clone(), ratio: p50(tcp) / p50(shm), same_conditions: true },
        Statement::Finding { code: "wake-up-dominated".to_owned(), case: waking.id.clone() },
    ]
}

pub fn ids<'r>(rows: impl IntoIterator<Item = &'r CaseSummary>) -> Vec<String> {
    rows.into_iter().map(|row| row.id.clone()).collect()
}

pub fn answer(run: &mut Run, statements: Vec<Statement>) {
    run.answer = statements.into();
    write_answer(run);
}

/// The survey on a machine that was slowed in 4 of 10 rounds. Only TCP on one CPU has figures of the slowed state.
pub fn slowed_survey() -> Run {
    let mut run = survey(1);
    run.machine = Machine {
        states: [(85_000.0, 0.6), (103_000.0, 0.4)]
            .map(|(probe_ns, share)| MachineState { probe_ns, share, rounds: (share * 360.0) as u64 })
            .to_vec(),
        switches: 5,
        waking_ns: None,
    };
    for row in &mut run.cases {
        row.state = Some(StateShare { index: 0, share: 0.6 });
        row.round_points.iter_mut().skip(6).for_each(|point| point.state = 1);
    }
    let tcp = run.cases.iter_mut().find(|row| row.label == "tcp block same-cpu").expect("a case of the survey");
    let latency_ns = LatencyFigures {
        p50: Some(Figure::new(5700.0, 5600.0, 5800.0)),
        p99: Some(Figure::bare(9100.0)),
        ..LatencyFigures::default()
    };
    tcp.other_states = vec![OtherState { index: 1, share: 0.4, latency_ns }];
    run
}

fn plan(cases: u64) -> Plan {
    let knob =
        |name: &str, values: &[&str]| (name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect());
    Plan {
        experiment: "survey".to_owned(),
        question: "How fast is a round trip over every local transport here, and what makes it slow?".to_owned(),
        knobs: vec![
            knob("size", &["4"]),
            knob("rounds", &["10"]),
            knob("duration", &["50ms"]),
            knob("transport", &["all"]),
        ],
        rounds_ordered: cases * u64::from(ROUNDS),
        ..Plan::default()
    }
}

/// A case whose rounds vary by a few percent around `p50`. The tail depends on waiting mode and placement.
pub fn summary(case: Case, p50: f64, generator: &mut Generator) -> CaseSummary {
    let apart_and_blocking =
        case.ends.waiting == Waiting::Block && case.ends.placement == Placement::CrossCpu && p50 > 10_000.0;
    let spread = if apart_and_blocking { 0.09 } else { 0.02 };
    let points: Vec<RoundPoint> =
        (0..ROUNDS).map(|block| round_point(&case, block, p50, spread, generator)).collect();
    let samples = (50e6 * f64::from(ROUNDS) / (p50 * 1.1)) as u64;
    let medians: Vec<f64> = points.iter().map(|point| point.p50_ns).collect();
    let curve = curve(p50, apart_and_blocking, samples, generator);
    let middle = interval_of(&medians);
    let at = |quantile: f64| {
        let found = curve.iter().find(|point| point.quantile >= quantile).expect("the curve ends at 1");
        Some(around(found.latency_ns.max(middle.value), 0.04))
    };
    let max = curve.last().expect("a curve with points").latency_ns;
    let flow = FlowSummary {
        set_up: None,
        answered_by: AnsweredBy::default(),
        exceeds: None,
        by_stream: Vec::new(),
        flow: case.primary().clone(),
        samples,
        latency_ns: LatencyFigures {
            p50: Some(middle),
            p90: at(0.9),
            p99: at(0.99).filter(|_| samples >= 1000),
            p999: at(0.999).filter(|_| samples >= 10_000),
            max: Some(Figure::new(max, max * 0.21, max)),
            mean: Some(around(p50 * 1.06, 0.02)),
        },
        service_ns: None,
        lateness_ns: None,
        rate_per_s: Some(around(1e9 / (p50 * 1.06), 0.02)),
        setup_ns: Some(around(21_000.0 + p50 * 2.3 * generator.near_one(0.2), 0.08)),
        first_message_ns: Some(around(p50 * 3.1 * generator.near_one(0.3) + 9000.0, 0.11)),
        ledger: Ledger { sent: samples, received: samples, ..Ledger::default() },
        curve,
        modes: Vec::new(),
        exchanges: None,
        periodic: None,
        one_way: None,
        over_time: None,
    };
    CaseSummary {
        refused: Vec::new(),
        id: case.id(),
        label: case.label(),
        rounds: u64::from(ROUNDS),
        failed_rounds: Vec::new(),
        failed_rounds_started_ns: Vec::new(),
        state: None,
        other_states: Vec::new(),
        flows: vec![flow],
        goodput_of_all_bytes_per_s: None,
        cpu_seconds_per_gb_of_all: None,
        under_load: None,
        ends: ends(&case),
        path: PathSummary { path: case.path.clone(), relay: None },
        valid: true,
        why_invalid: Vec::new(),
        reasons: Vec::new(),
        omitted_rounds: Vec::new(),
        round_points: points,
        trace: None,
        budget: None,
        case,
    }
}

/// The client, and, unless the kernel answers, the server.
fn ends(case: &Case) -> Vec<EndSummary> {
    let spins = case.ends.waiting == Waiting::Spin;
    let end = |role: End, cpu_seconds: f64| EndSummary {
        role,
        flow: case.primary().id.clone(),
        host: End::Client,
        waiting: case.ends.waiting,
        placement: case.ends.placement,
        cpu_seconds,
        cpu_seconds_per_message: None,
        effective_options: effective(case),
        differing_options: Vec::new(),
        facts: Vec::new(),
    };
    let client = end(End::Client, if spins { 0.5 } else { 0.21 });
    let server = (case.primary().transport != "icmp").then(|| end(End::Server, if spins { 0.5 } else { 0.19 }));
    [Some(client), server].into_iter().flatten().collect()
}

fn round_point(case: &Case, block: u32, p50: f64, spread: f64, generator: &mut Generator) -> RoundPoint {
    let drift = if case.ends.placement == Placement::CrossCpu && case.primary().transport == "tcp" {
        0.012 * f64::from(block)
    } else {
        0.0
    };
    let p50_ns = p50 * (generator.near_one(spread) + drift);
    let within = generator.roll() * 1.9e9;
    let started_ns = (f64::from(block) * 2.1e9 + within) as u64;
    RoundPoint {
        number: block,
        block,
        started_ns,
        state: 0,
        p50_ns,
        p90_ns: Some(p50_ns * 1.2),
        p99_ns: Some(p50_ns * 1.7),
        max_ns: p50_ns * 30.0,
        rate_per_s: 1e9 / p50_ns,
        lost: 0,
        goodput_bytes_per_s: None,
    }
}

fn interval_of(values: &[f64]) -> Figure {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (sorted[1], sorted[sorted.len() - 2]);
    Figure::new(f64::midpoint(sorted[sorted.len() / 2 - 1], sorted[sorted.len() / 2]), low, high)
}

fn around(value: f64, spread: f64) -> Figure {
    Figure::new(value, value * (1.0 - spread), value * (1.0 + spread))
}

/// A percentile curve with a body and a tail, up to the maximum of `samples` messages.
fn curve(p50: f64, wide: bool, samples: u64, generator: &mut Generator) -> Vec<CurvePoint> {
    let last_nines = (samples.max(10) as f64).log10();
    let body = if wide { 0.28 } else { 0.07 };
    let knee = 1.7 + generator.roll();
    let steps = 80;
    let mut places: Vec<f64> = (0..steps).map(|step| last_nines * f64::from(step) / f64::from(steps - 1)).collect();
    places.extend([0.5_f64, 0.1, 0.01, 0.001, 0.0001, 0.00001].map(|beyond| -beyond.log10()));
    places.retain(|nines| *nines <= last_nines);
    places.sort_by(f64::total_cmp);
    let mut curve: Vec<CurvePoint> = places
        .into_iter()
        .map(|nines| {
            let tail = if nines > knee { (nines - knee).powi(2) * 0.9 } else { 0.0 };
            let latency_ns = p50 * (1.0 + body * (nines - 0.301) + tail).max(0.6);
            CurvePoint { quantile: 1.0 - 10_f64.powf(-nines), latency_ns }
        })
        .collect();
    let greatest = curve.last().map_or(p50, |point| point.latency_ns) * (1.2 + 3.0 * generator.roll());
    curve.push(CurvePoint { quantile: 1.0, latency_ns: greatest });
    curve
}

fn effective(case: &Case) -> Vec<Effective> {
    if !case.primary().transport.starts_with("tcp") {
        return Vec::new();
    }
    let option = |name: OptionName, value: &str| Effective {
        name,
        asked: case.primary().options.get(name).map(str::to_owned),
        before: case.primary().options.get(name).unwrap_or(value).to_owned(),
        after: case.primary().options.get(name).unwrap_or(value).to_owned(),
        met: true,
    };
    vec![option(OptionName::Nodelay, "off"), option(OptionName::Congestion, "bbr")]
}

fn open_loop(generator: &mut Generator) -> CaseSummary {
    let case = Case::ping_pong("udp").with(|changed| {
        changed.ends.placement = Placement::CrossCpu;
        changed.primary_mut().load = changed.primary().load.paced(1000.0);
    });
    let mut summary = summary(case, 96_400.0, generator);
    summary.primary_mut().samples = 500;
    summary.primary_mut().latency_ns.p99 = None;
    summary.primary_mut().latency_ns.p999 = None;
    summary.primary_mut().service_ns =
        Some(LatencyFigures { p50: Some(around(95_100.0, 0.03)), ..LatencyFigures::default() });
    summary.primary_mut().lateness_ns =
        Some(LatencyFigures { p50: Some(around(1300.0, 0.1)), ..LatencyFigures::default() });
    summary.primary_mut().rate_per_s = Some(around(999.6, 0.001));
    summary.primary_mut().ledger = Ledger {
        sent: 503,
        received: 500,
        lost: BTreeMap::from([("receive-buffer-overflow".to_owned(), 2)]),
        ..Ledger::default()
    }
    .closed();
    summary
}

fn invalid(generator: &mut Generator) -> CaseSummary {
    let case = Case::ping_pong("tcp").with(|changed| {
        changed.primary_mut().options =
            Options::default().with(OptionName::Nodelay, "on").with(OptionName::Sndbuf, "4096");
        changed.primary_mut().load = changed.primary().load.paced(50_000.0);
    });
    let mut summary = summary(case, 2_310_000.0, generator);
    summary.valid = false;
    summary.why_invalid =
        vec!["the generator was saturated: it sent 41 200 of the 50 000 messages/s requested".to_owned()];
    summary.ends[0].effective_options.push(Effective {
        name: OptionName::Sndbuf,
        asked: Some("4096".to_owned()),
        before: "4608".to_owned(),
        after: "4608".to_owned(),
        met: false,
    });
    summary
}

/// Makes some rounds fail.
fn spoil(cases: &mut [CaseSummary]) {
    let cause = "cannot receive on fifo: no answer within 2000 ms (hint: was the server killed?)";
    let fifo = cases.iter_mut().find(|row| row.label == "fifo block cross-cpu").expect("a case of the survey");
    fifo.failed_rounds = vec![cause.to_owned(), cause.to_owned()];
    fifo.rounds = 8;
    fifo.round_points.truncate(8);
}

fn comparisons(cases: &[CaseSummary]) -> Vec<Comparison> {
    let (tcp, replicate) = (find(cases, "tcp block same-cpu"), find(cases, "tcp block same-cpu (again)"));
    let calibration = Comparison {
        role: Role::AgainstItself,
        ratio: Figure::new(0.998, 0.988, 1.008),
        difference_ns: Some(Figure::new(-26.0, -161.0, 107.0)),
        verdict: Verdict::CannotTell,
        ..compared([tcp, replicate], 0.0, 0.0)
    };
    let mut comparisons = vec![calibration];
    for group in GROUPS {
        let is_ranked = |row: &&CaseSummary| {
            let is_ping_pong = matches!(row.case.primary().load, Load::PingPong { .. });
            row.valid && row.case.replicate == 0 && is_ping_pong
        };
        let rows = cases.iter().filter(|row| (row.case.ends.waiting, row.case.ends.placement) == group);
        comparisons.extend(neighbours(rows.filter(is_ranked), 1.03, 0.025));
    }
    comparisons
}

/// Compares each case with the next slower case. The verdict is slower if the ratio of the p50s exceeds `least`;
/// `error` is half the width of the interval.
pub fn neighbours<'c>(rows: impl Iterator<Item = &'c CaseSummary>, least: f64, error: f64) -> Vec<Comparison> {
    let mut rows: Vec<&CaseSummary> = rows.collect();
    rows.sort_by(|a, b| p50_of(a).total_cmp(&p50_of(b)));
    rows.windows(2).map(|pair| compared([pair[0], pair[1]], least, error)).collect()
}

fn p50_of(row: &CaseSummary) -> f64 {
    row.primary().latency_ns.p50.expect("a p50").value
}

fn compared([one, other]: [&CaseSummary; 2], least: f64, error: f64) -> Comparison {
    let ratio = p50_of(other) / p50_of(one);
    Comparison {
        role: Role::Neighbours,
        baseline: one.id.clone(),
        candidate: other.id.clone(),
        figure: ComparedBy::P50,
        ratio: Figure::new(ratio, ratio - error, ratio + error),
        difference_ns: Some(around(p50_of(other) - p50_of(one), 0.3)),
        verdict: if ratio > least { Verdict::Slower } else { Verdict::CannotTell },
        pointwise: Verdict::CannotTell,
        tails: Vec::new(),
        blocks: u64::from(ROUNDS),
    }
}

/// Converts the comparisons of neighbours to the ranking by p50.
pub fn pairs(comparisons: &[Comparison]) -> Vec<Pair> {
    let neighbours = comparisons.iter().filter(|comparison| comparison.role == Role::Neighbours);
    let pair = |comparison: &Comparison| Pair {
        figure: ComparedBy::P50,
        a: comparison.baseline.clone(),
        b: comparison.candidate.clone(),
        verdict: comparison.verdict,
        ratio: comparison.ratio,
    };
    neighbours.map(pair).collect()
}

pub fn find<'c>(cases: &'c [CaseSummary], label: &str) -> &'c CaseSummary {
    cases.iter().find(|row| row.label == label).expect("a case of the fixture")
}

fn skipped() -> Vec<Skipped> {
    let spin = "both ends share one CPU, so a spinning end would keep the other from running (hint: use --placement \
                cross-cpu)";
    let mut skipped: Vec<Skipped> = ["tcp", "udp", "shm"]
        .map(|name| Skipped {
            transport: name.to_owned(),
            case: Some(format!("{name} spin same-cpu")),
            reason: spin.to_owned(),
        })
        .to_vec();
    skipped.push(Skipped {
        transport: "icmp".to_owned(),
        case: Some("icmp spin cross-cpu".to_owned()),
        reason: "the kernel answers: there is no server that could spin".to_owned(),
    });
    skipped
}

fn environment() -> Environment {
    let words = |pairs: &[(&str, &str)]| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
    Environment {
        kernel: "Linux 6.18.0".to_owned(),
        architecture: "x86_64".to_owned(),
        cpu_model: "Example Processor 2.60GHz".to_owned(),
        cpus_online: 2,
        cpus_allowed: vec![0, 1],
        cpus_used: vec![0, 1],
        cpus_share_core: Some(false),
        memory_bytes: 25_769_803_776,
        cpu_quota: None,
        memory_limit_bytes: None,
        container: None,
        hypervisor: Some("KVM".to_owned()),
        clock: ClockFacts {
            source: "tsc".to_owned(),
            kernel_source: "tsc".to_owned(),
            resolution_ns: 0.77,
            read_cost_ns: 9.2,
            recorder_cost_ns: None,
            ns_per_tick: 0.3846,
            calibration_error_ppm: 1.4,
        },
        idle_states: vec!["POLL".to_owned(), "haltpoll".to_owned()],
        mitigations: words(&[("spectre_v2", "Mitigation: Enhanced IBRS"), ("mds", "Mitigation: Clear CPU buffers")]),
        settings: words(&[
            ("net.ipv4.tcp_congestion_control", "bbr"),
            ("net.ipv4.tcp_autocorking", "1"),
            ("net.core.rmem_default", "212992"),
        ]),
        loopback: words(&[("mtu", "65536"), ("qdisc", "noqueue"), ("tso", "on")]),
        load: vec![0.42, 0.31, 0.2],
        load_after: vec![1.1, 0.5, 0.3],
        root: Some(true),
        ..Environment::default()
    }
}
