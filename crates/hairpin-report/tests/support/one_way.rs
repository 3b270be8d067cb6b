//! Fixture runs of message rates, write sizes, and offered loads. All figures are invented.

use hairpin_model::flow::{Direction, Observer, Pacing, Source};
use hairpin_model::knee::NotDelivered;
use hairpin_model::ledger::{LINK, QDISC, RECEIVE_BUFFER, SEND_BUFFER};
use hairpin_model::summary::Verdict;
use hairpin_model::{
    Arrivals, BothEnds, Case, CaseSummary, Figure, GapPercentiles, Knee, LatencyFigures, Ledger, Load, Moment,
    ObserverCost, OneWayFigures, OverTime, PacingFigures, Placement, Run, Statement, Waiting,
};
use hairpin_report::words::write_answer;

use super::Generator;

/// Transport, messages per second without batches, and share of lost messages.
const TRANSPORTS: [(&str, f64, f64); 4] =
    [("pipe", 1.40e6, 0.0), ("unix-stream", 957e3, 0.0), ("tcp", 1.01e6, 0.0), ("udp", 189e3, 0.62)];
const BATCHES: [u64; 3] = [1, 8, 64];
const WRITES: [u64; 5] = [64, 1024, 8192, 65_536, 1_048_576];
const RATES: [f64; 7] = [1e3, 4e3, 16e3, 64e3, 128e3, 256e3, 1024e3];

fn near(value: f64) -> Option<Figure> {
    Some(Figure::new(value, value * 0.9, value * 1.15))
}

/// Messages of 64 bytes over four transports, in three batches, on one CPU and on two CPUs. UDP loses messages.
pub fn message_rate() -> Run {
    let mut generator = Generator(7);
    let mut cases = Vec::new();
    for placement in [Placement::SameCpu, Placement::CrossCpu] {
        for (transport, per_s, lost) in TRANSPORTS {
            for batch in BATCHES {
                let load = Load::Messages { size_bytes: 64, batch, observer: Observer::Sampled };
                let factor = if lost > 0.0 { 1.2 } else { (batch as f64).sqrt() * 1.5 };
                let per_s = per_s * factor * if placement == Placement::SameCpu { 1.0 } else { 0.4 };
                let p50_ns = 2e9 / per_s * batch as f64;
                cases.push(case(transport, placement, load, (per_s, p50_ns, lost), &mut generator));
            }
        }
    }
    run("message-rate", "How many messages per second get through, and at what latency?", cases)
}

/// Writes of several sizes over three transports on two CPUs.
pub fn write_sizes() -> Run {
    let mut generator = Generator(8);
    let mut cases = Vec::new();
    for (transport, bytes_per_s) in [("unix-stream", 2e9), ("tcp", 1.2e9), ("pipe", 0.9e9)] {
        for write_size_bytes in WRITES {
            let load = Load::Stream { write_size_bytes, source: Source::Buffer };
            let size = write_size_bytes as f64;
            let bytes_per_s: f64 = bytes_per_s * size / (size + 8000.0);
            let mut row =
                case(transport, Placement::CrossCpu, load, (bytes_per_s / size, f64::NAN, 0.0), &mut generator);
            row.primary_mut().latency_ns = LatencyFigures::default();
            row.primary_mut().curve.clear();
            cases.push(row);
        }
    }
    run("bulk", "How many bytes per second get through, one way?", cases)
}

/// Observers of messages over two transports, with their costs, on two CPUs. `none` is measured twice. UDP has no capture.
pub fn observers() -> Run {
    let mut generator = Generator(10);
    let mut cases = Vec::new();
    let costs = [
        (Observer::None, 0, None),
        (Observer::None, 1, Some((0.0, 0.01))),
        (Observer::Counter, 0, Some((0.001, 0.004))),
        (Observer::Clock, 0, Some((0.041, 0.006))),
        (Observer::Recorder, 0, Some((0.062, 0.005))),
        (Observer::TracingFile, 0, Some((0.61, 0.02))),
        (Observer::Capture, 0, Some((0.2, 0.02))),
    ];
    for (transport, per_s) in [("tcp", 1.2e6), ("udp", 3.1e5)] {
        for (observer, replicate, cost) in costs {
            if transport == "udp" && observer == Observer::Capture {
                continue;
            }
            let load = Load::Messages { size_bytes: 64, batch: 1, observer };
            let left = 1.0 - cost.map_or(0.0, |(share, _)| share);
            let mut row = case(transport, Placement::CrossCpu, load, (per_s * left, 2e6, 0.0), &mut generator);
            row.case.replicate = replicate;
            row.id = row.case.id();
            row.label = row.case.label();
            let of = |(_, half): (f64, f64)| {
                let rate_against_none = Figure::new(left, left - half, left + half);
                let ns = |ratio: f64| 1e9 / per_s * (1.0 / ratio - 1.0);
                let each = Figure::new(ns(left), ns(left + half), ns(left - half));
                ObserverCost { observer, rate_against_none, time_per_message_against_none: each }
            };
            row.primary_mut().one_way.as_mut().unwrap().observer = cost.map(of).into_iter().collect();
            cases.push(row);
        }
    }
    let mut run = run_of("observer", "What does measuring cost a program?", cases);
    let of = |observer| {
        let rows = run.cases.iter().filter(|row| row.case.primary().load.observer() == observer);
        Statement::ObserverCosts { cases: super::ids(rows) }
    };
    let all = [Observer::Clock, Observer::TracingFile, Observer::Recorder, Observer::Counter].map(of);
    super::answer(&mut run, all.into());
    run
}

/// Messages at seven rates over TCP and UDP. Above 64 000 per second UDP loses messages, for several causes. TCP
/// delivers at most 256 000 per second, and its highest rate is invalid.
pub fn offered_load() -> Run {
    let mut generator = Generator(9);
    let mut cases = Vec::new();
    for (transport, most_per_s) in [("tcp", 256e3), ("udp", 70e3)] {
        for offered_per_s in RATES {
            let (arrivals, pacing) = (Arrivals::Fixed, Pacing::SleepSpin);
            let load = Load::Offered { offered_per_s, size_bytes: 64, arrivals, pacing };
            let delivered = offered_per_s.min(most_per_s);
            let lost = if transport == "udp" { 1.0 - delivered / offered_per_s } else { 0.0 };
            let p50_ns = 20_000.0 * (1.0 + (offered_per_s / most_per_s).powi(3).min(2000.0));
            let mut row = case(transport, Placement::CrossCpu, load, (delivered, p50_ns, lost), &mut generator);
            if transport == "tcp" && offered_per_s > 1e6 {
                row.valid = false;
                row.why_invalid = vec!["the generator was saturated".to_owned()];
            }
            cases.push(row);
        }
    }
    let brackets = [(256e3, 1024e3, NotDelivered::SenderBehind), (64e3, 128e3, NotDelivered::Lost)];
    let knees = cases.chunks(RATES.len()).zip(brackets).map(|(rows, (delivered, not, why))| Knee {
        cases: rows.iter().map(|row| row.id.clone()).collect(),
        delivered_per_s: Some(delivered),
        not_delivered_per_s: Some(not),
        why_not: Some(why),
        highest_power_per_s: None,
    });
    let knees: Vec<Knee> = knees.collect();
    let question = "How many messages sent at a given rate arrive, how late, and where are the others lost?";
    let mut run = run_of("offered-load", question, cases);
    super::answer(&mut run, knees.iter().map(|knee| Statement::Knee { case: knee.cases[0].clone() }).collect());
    run.answer.knees = knees;
    write_answer(&mut run);
    run
}

/// A run with only these cases. The case with the highest goodput is the answer.
fn run(experiment: &str, question: &str, cases: Vec<CaseSummary>) -> Run {
    let mut run = run_of(experiment, question, cases);
    let value = |row: &CaseSummary| row.goodput().and_then(Figure::finite).unwrap_or_default();
    let best = run.cases.iter().max_by(|a, b| value(a).total_cmp(&value(b)));
    let best = Statement::Best { cases: super::ids(best), verdict: Some(Verdict::Faster) };
    super::answer(&mut run, vec![best]);
    run
}

/// A run with only these cases, and without an answer.
pub fn run_of(experiment: &str, question: &str, cases: Vec<CaseSummary>) -> Run {
    let mut run = super::survey(1);
    question.clone_into(&mut run.plan.question);
    experiment.clone_into(&mut run.plan.experiment);
    run.plan.rounds_ordered = cases.len() as u64 * u64::from(super::ROUNDS);
    run.cases = cases;
    run.comparisons.clear();
    run.findings.clear();
    run.skipped.clear();
    super::answer(&mut run, Vec::new());
    run
}

fn case(
    transport: &str,
    placement: Placement,
    load: Load,
    (per_s, p50_ns, lost): (f64, f64, f64),
    generator: &mut Generator,
) -> CaseSummary {
    let case = Case::ping_pong(transport).with(|case| {
        case.ends.waiting = Waiting::Block;
        case.ends.placement = placement;
        case.primary_mut().load = load.clone();
        case.primary_mut().direction = Direction::Up;
    });
    let size = load.size_bytes() as f64;
    let mut row = super::summary(case, if p50_ns.is_finite() { p50_ns } else { 1000.0 }, generator);
    for point in &mut row.round_points {
        point.rate_per_s = per_s * generator.near_one(0.1);
        point.goodput_bytes_per_s = Some(point.rate_per_s * size);
        point.lost = if lost > 0.0 { 100 } else { 0 };
    }
    let flow = row.primary_mut();
    let sent = 1_000_000;
    let missing = (sent as f64 * lost) as u64;
    flow.ledger = Ledger { sent, received: sent - missing, ..Ledger::default() };
    if missing > 0 {
        let causes = [(RECEIVE_BUFFER, 0.5), (SEND_BUFFER, 0.2), (QDISC, 0.15), (LINK, 0.1)];
        flow.ledger.lost = causes.map(|(cause, share)| (cause.to_owned(), (missing as f64 * share) as u64)).into();
    }
    flow.ledger = flow.ledger.clone().closed();
    flow.samples = flow.ledger.received;
    let is_offered = matches!(load, Load::Offered { .. });
    let nominal_ns = load.rate_per_s().map_or(0.0, |per_s| 1e9 / per_s);
    let gap = |factor: f64| near(nominal_ns * factor);
    let both = |client: f64, server: f64| BothEnds { client: near(client), server: near(server) };
    flow.rate_per_s = near(per_s);
    flow.one_way = Some(OneWayFigures {
        received_per_s: near(per_s),
        sent_per_s: near(per_s / (1.0 - lost)),
        goodput_bytes_per_s: near(per_s * size),
        warm_up_goodput_bytes_per_s: near(per_s * size * 0.6),
        system_calls_per_message: both(1.0 / load.batch() as f64, 0.149),
        context_switches_per_message: both(0.0002, 0.003),
        cpu_seconds_per_million: both(0.439, 0.26),
        cpu_seconds_per_gb: both(6.9, 4.1),
        peak_memory_bytes: both(21e6, 34e6),
        fairness: None,
        offered_per_s: load.rate_per_s(),
        delivered_per_s: is_offered.then(|| near(per_s)).flatten(),
        delivered_share: load
            .rate_per_s()
            .filter(|_| is_offered)
            .map(|offered_per_s| Figure::bare(per_s / offered_per_s)),
        pacing: is_offered.then(|| PacingFigures {
            method: Pacing::SleepSpin,
            nominal_ns,
            gap_ns: GapPercentiles { p50: gap(1.001), p99: gap(1.08), p999: gap(2.4) },
            share_below_half: near(if per_s > 2e5 { 0.31 } else { 0.004 }),
        }),
        observer: Vec::new(),
    });
    flow.over_time = Some(over_time(per_s * size));
    row
}

/// Twenty moments of 10 ms, of which the first five are warm-up.
pub fn over_time(bytes_per_s: f64) -> OverTime {
    let moment = |number: u32| {
        let bytes_per_s = bytes_per_s * if number < 3 { 0.3 + 0.2 * f64::from(number) } else { 1.0 };
        Moment {
            at_ns: u64::from(number + 1) * 10_000_000,
            goodput_bytes_per_s: Figure::new(bytes_per_s, bytes_per_s * 0.8, bytes_per_s * 1.1),
            client_cpu: (number >= 5).then_some(0.98),
            server_cpu: (number >= 5).then(|| 0.5 + 0.02 * f64::from(number)),
        }
    };
    OverTime { measured_from_ns: 50_000_000, moments: (0..20).map(moment).collect() }
}

/// Figures of a stream of `bytes_per_s`, in messages of 1 kB.
pub fn stream_figures(bytes_per_s: f64) -> OneWayFigures {
    let both = |client: f64, server: f64| BothEnds { client: near(client), server: near(server) };
    OneWayFigures {
        received_per_s: near(bytes_per_s / 1000.0),
        sent_per_s: near(bytes_per_s / 1000.0),
        goodput_bytes_per_s: near(bytes_per_s),
        warm_up_goodput_bytes_per_s: near(bytes_per_s * 0.6),
        system_calls_per_message: both(1.0, 0.149),
        context_switches_per_message: both(0.0002, 0.003),
        cpu_seconds_per_million: both(0.439, 0.26),
        cpu_seconds_per_gb: both(6.9, 4.1),
        peak_memory_bytes: both(21e6, 34e6),
        ..OneWayFigures::default()
    }
}
