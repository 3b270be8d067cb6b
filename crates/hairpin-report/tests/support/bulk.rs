//! A fixture run of one-way streams, which have no latency. All figures are invented.

use hairpin_model::answer::BusyCpu;
use hairpin_model::flow::{Direction, Source};
use hairpin_model::ledger::RECEIVE_BUFFER;
use hairpin_model::summary::Verdict;
use hairpin_model::{
    BothEnds, Case, CaseSummary, Figure, LatencyFigures, Ledger, Load, OneWayFigures, Placement, Run, Statement,
    Waiting,
};

use super::Generator;

/// Transport, write size in bytes, and goodput in bytes per second on one CPU and on two CPUs.
const STREAMS: [(&str, u64, [f64; 2]); 4] = [
    ("unix-stream", 65_536, [8.25e9, 2.29e9]),
    ("pipe", 65_536, [6.46e9, 0.977e9]),
    ("tcp", 65_536, [1.97e9, 1.56e9]),
    ("udp", 1400, [74.3e6, 385e6]),
];

/// Streams on one CPU and on two CPUs. UDP loses messages in all rounds, and one round of TCP on one CPU failed.
pub fn run() -> Run {
    let mut generator = Generator(5);
    let mut run = super::survey(1);
    "How many bytes per second get through, one way?".clone_into(&mut run.plan.question);
    "bulk".clone_into(&mut run.plan.experiment);
    let places = [Placement::SameCpu, Placement::CrossCpu].into_iter().enumerate();
    run.cases = places
        .flat_map(|(place, placement)| STREAMS.map(|stream| (place, placement, stream)))
        .map(|(place, placement, (transport, bytes, goodputs))| {
            summary(transport, bytes, placement, goodputs[place], &mut generator)
        })
        .collect();
    run.comparisons.clear();
    run.findings.retain(|finding| finding.code == "noisy-machine");
    let failed = run.cases.iter_mut().find(|row| row.label.starts_with("tcp ")).expect("a case over tcp");
    failed.failed_rounds.push("round 3: the server is gone".to_owned());
    failed.failed_rounds_started_ns.push(7_000_000_000);
    let same_cpu = |transport: &str| super::find(&run.cases, &format!("{transport} poll same-cpu up 64 KiB"));
    let best = super::ids(["unix-stream", "pipe"].map(same_cpu));
    let lost = run.cases.iter().filter(|row| row.ledger().sent > row.ledger().received);
    let lost = lost.map(|row| Statement::Lost { cases: super::ids([row]) });
    let statements = [
        Statement::Best { cases: best.clone(), verdict: Some(Verdict::CannotTell) },
        Statement::CpuTime { case: best[0].clone() },
        Statement::BusyCpu { case: best[0].clone(), cpu: BusyCpu::Shared },
    ];
    let statements = statements.into_iter().chain(lost).collect();
    super::answer(&mut run, statements);
    run
}

fn summary(
    transport: &str,
    bytes: u64,
    placement: Placement,
    goodput: f64,
    generator: &mut Generator,
) -> CaseSummary {
    let case = Case::ping_pong(transport).with(|case| {
        case.ends.waiting = Waiting::Poll;
        case.ends.placement = placement;
        case.primary_mut().load = Load::Stream { write_size_bytes: bytes, source: Source::Buffer };
        case.primary_mut().direction = Direction::Up;
    });
    let mut row = super::summary(case, 1000.0, generator);
    let lost = u64::from(transport == "udp") * 300;
    for point in &mut row.round_points {
        (point.p50_ns, point.p90_ns, point.p99_ns, point.max_ns) = (0.0, Some(0.0), Some(0.0), 0.0);
        point.goodput_bytes_per_s = Some(goodput * generator.near_one(0.2));
        point.lost = lost;
    }
    let flow = row.primary_mut();
    flow.latency_ns = LatencyFigures::default();
    flow.first_message_ns = None;
    flow.curve.clear();
    let figure = |value: f64| Some(Figure::new(value, value * 0.8, value * 1.3));
    flow.one_way = Some(OneWayFigures {
        received_per_s: figure(goodput / bytes as f64),
        goodput_bytes_per_s: figure(goodput),
        warm_up_goodput_bytes_per_s: figure(goodput * 0.6),
        cpu_seconds_per_gb: BothEnds { client: figure(0.4e9 / goodput), server: figure(0.5e9 / goodput) },
        ..OneWayFigures::default()
    });
    flow.over_time = Some(super::one_way::over_time(goodput));
    flow.ledger = Ledger { sent: 40_000, received: 40_000 - 10 * lost, ..Ledger::default() };
    flow.samples = flow.ledger.received;
    if lost > 0 {
        flow.ledger.lost.insert(RECEIVE_BUFFER.to_owned(), 10 * lost);
    }
    row
}
