//! A fixture run of small writes: 100 writes of 2 bytes with each remedy over TCP, controls, and time sequences.

use hairpin_model::exchange_state::{ExchangeState, StateSpan, TimeInState};
use hairpin_model::finding::{About, Severity};
use hairpin_model::options::OptionName;
use hairpin_model::time_sequence::{Event, EventKind, Source};
use hairpin_model::trace::End;
use hairpin_model::{
    Answer, BestRemedy, Capture, Case, CaseSummary, CounterExperiment, Exchange, ExchangeFigures, Figure, Finding,
    Options, Plan, Proved, Remedy, Run, Statement, TimeSequence, TraceSummary, Wait,
};
use hairpin_report::words::write_answer;

use super::findings::evidence;
use super::{Generator, around, summary};

/// Remedy, p50 and first exchange in ns, bytes/ms, segments, pure ACKs and system calls over TCP.
const REMEDIES: &[(&str, [f64; 6])] = &[
    ("default", [44_012_000.0, 612_000.0, 4.54, 4.0, 3.0, 101.0]),
    ("nodelay", [552_000.0, 641_000.0, 344.0, 101.0, 12.0, 101.0]),
    ("cork", [108_000.0, 148_000.0, 1705.0, 2.0, 1.0, 103.0]),
    ("cork-forgotten", [208_040_000.0, 208_030_000.0, 0.961, 2.0, 1.0, 101.0]),
    ("more", [97_000.0, 131_000.0, 1900.0, 2.0, 1.0, 101.0]),
    ("one-write", [24_100.0, 61_000.0, 3775.0, 2.0, 1.0, 2.0]),
    ("writev", [24_300.0, 61_600.0, 3749.0, 2.0, 1.0, 2.0]),
    ("quickack", [604_000.0, 655_000.0, 318.0, 3.98, 4.0, 101.0]),
    ("batch=10", [44_008_000.0, 470_000.0, 4.53, 4.0, 3.0, 11.0]),
];

/// Transport, remedy, p50 and first exchange in ns, and bytes/ms of the controls.
const CONTROLS: &[(&str, &str, [f64; 3])] = &[
    ("unix-stream", "default", [101_000.0, 131_000.0, 1890.0]),
    ("unix-stream", "one-write", [11_900.0, 32_000.0, 8100.0]),
    ("unix-stream", "writev", [12_100.0, 33_100.0, 8020.0]),
    ("pipe", "default", [88_000.0, 117_000.0, 2190.0]),
    ("pipe", "one-write", [7200.0, 21_000.0, 14_900.0]),
];

/// Sets the pause between the writes of every exchange.
pub fn pause(run: &mut Run, gap_ns: u64) {
    for exchange in run.cases.iter_mut().filter_map(|row| row.case.primary_mut().load.exchange_mut()) {
        exchange.gap_ns = gap_ns;
    }
}

/// The run. Its time sequences are drawn from a capture or from kernel time stamps.
pub fn run(captured: bool) -> Run {
    let mut generator = Generator(3);
    let mut cases: Vec<CaseSummary> = Vec::new();
    for (word, [p50, first, bytes, segments, acks, calls]) in REMEDIES {
        let mut row = exchanges("tcp", word, [*p50, *first, *bytes], &mut generator);
        let figures = row.primary_mut().exchanges.as_mut().expect("a case with exchanges");
        figures.segments_per_exchange = Some(Figure::bare(*segments));
        figures.pure_acks_per_exchange = Some(Figure::bare(*acks));
        figures.system_calls_per_exchange = Some(Figure::bare(*calls));
        row.trace = Some(trace(word, captured));
        cases.push(row);
    }
    for (transport, word, figures) in CONTROLS {
        cases.push(exchanges(transport, word, *figures, &mut generator));
    }
    let mut run = super::survey(1);
    run.plan = Plan {
        experiment: "small-writes".to_owned(),
        question: "What do small writes cost, and which remedy helps?".to_owned(),
        knobs: vec![("writes".to_owned(), vec!["100x2".to_owned()])],
        rounds_ordered: 140,
        ..Plan::default()
    };
    run.command_line = ["hairpin", "small-writes"].map(str::to_owned).to_vec();
    let over_tcp = cases.iter().filter(|row| row.case.primary().transport == "tcp");
    run.comparisons = super::neighbours(over_tcp, 1.02, 0.02);
    run.findings = findings(&cases);
    run.skipped.clear();
    run.answer = Answer { pairs: super::pairs(&run.comparisons), ..answer_of(&cases) };
    run.cases = cases;
    write_answer(&mut run);
    run
}

fn answer_of(cases: &[CaseSummary]) -> Answer {
    let id = |place: usize| cases[place].id.clone();
    let statements = vec![
        Statement::Remedy { default: id(0), best: id(5) },
        Statement::EqualRemedies { cases: vec![id(5), id(6)] },
        Statement::Finding { code: "nagle-meets-delayed-ack".to_owned(), case: id(0) },
        Statement::SlowerRemedies { cases: vec![id(3)] },
        Statement::OtherTransports { cases: vec![id(9), id(12)] },
    ];
    let best = BestRemedy { case: id(5), no_difference: vec![id(6)], speed_up: cases[5].speed_up() };
    Answer { best_remedy: Some(best), ..statements.into() }
}

/// The run with a change in every case. Updates ids and labels.
pub fn run_with(captured: bool, change: impl Fn(&mut Case)) -> Run {
    let mut run = run(captured);
    for row in &mut run.cases {
        let before = row.id.clone();
        change(&mut row.case);
        (row.id, row.label) = (row.case.id(), row.case.label());
        let named = run.comparisons.iter_mut().flat_map(|found| [&mut found.baseline, &mut found.candidate]);
        let named = named.chain(run.findings.iter_mut().flat_map(|finding| &mut finding.cases));
        let named = named.chain(run.answer.pairs.iter_mut().flat_map(|pair| [&mut pair.a, &mut pair.b]));
        named.filter(|id| **id == before).for_each(|id| id.clone_from(&row.id));
    }
    run.answer = Answer { pairs: std::mem::take(&mut run.answer.pairs), ..answer_of(&run.cases) };
    write_answer(&mut run);
    run
}

/// The run with four requests in flight. With most remedies some exchanges stall, which their p50 does not show, so
/// `more` and `cork` move the most bytes per second.
pub fn pipelined() -> Run {
    let mut run = run_with(true, |case| {
        case.primary_mut().load.exchange_mut().into_iter().for_each(|exchange| exchange.pipeline = 4)
    });
    for row in run.cases.iter_mut().filter(|row| row.case.primary().transport == "tcp") {
        let remedy = row.case.primary().load.exchange().map(|exchange| exchange.remedy);
        let bytes = match remedy {
            Some(Remedy::Default | Remedy::Batch(_)) => 8.9,
            Some(Remedy::CorkForgotten) => 3.85,
            Some(Remedy::More) => 1301.0,
            Some(Remedy::Cork) => 1290.0,
            _ => 18.2,
        };
        let figures = row.primary_mut().exchanges.as_mut().expect("a case with exchanges");
        figures.bytes_per_ms = Some(around(bytes, 0.015));
        figures.speed_up_against_default = figures.speed_up_against_default.map(|_| around(bytes / 8.9, 0.02));
    }
    run
}

pub fn exchange(remedy: &str) -> Exchange {
    Exchange {
        writes: "100x2".parse().expect("valid writes"),
        gap_ns: 0,
        pipeline: 1,
        reply_writes: None,
        remedy: remedy.parse().expect("a valid remedy"),
    }
}

fn exchanges(transport: &str, word: &str, [p50, first, bytes]: [f64; 3], generator: &mut Generator) -> CaseSummary {
    let mut exchange = exchange(word);
    let options = match exchange.remedy {
        Remedy::Nodelay => Options::default().with(OptionName::Nodelay, "on"),
        _ => Options::default(),
    };
    let nagle = transport == "tcp" && p50 > 40e6 && first < 1e6;
    exchange.pipeline = 1;
    let case = Case::small_writes(transport, exchange);
    let mut row =
        summary(case.clone().with(|changed| changed.primary_mut().options = options.clone()), p50, generator);
    (row.id, row.label, row.case) = (case.id(), case.label(), case);
    row.primary_mut().samples = if p50 > 1e6 { 120 } else { 8000 };
    row.primary_mut().latency_ns.p99 = row.primary().latency_ns.p99.filter(|_| row.primary().samples >= 1000);
    row.primary_mut().latency_ns.p999 = None;
    let early = |number: u32| match number {
        1 => first,
        2..=4 if nagle => p50 * 0.014,
        5 if nagle => p50 * 0.4,
        _ => p50 * 1.02,
    };
    let against = REMEDIES.iter().find(|(remedy, _)| *remedy == "default").expect("a known remedy").1[2];
    let none = if transport == "tcp" { against } else { CONTROLS[if transport == "pipe" { 3 } else { 0 }].2[2] };
    row.primary_mut().exchanges = Some(ExchangeFigures {
        exchange_ns: row.primary().latency_ns,
        first_exchange_ns: Some(around(first, 0.04)),
        early_exchanges_ns: (1..=8).map(|number| around(early(number), 0.03)).collect(),
        bytes_per_ms: Some(around(bytes, 0.015)),
        speed_up_against_default: (word != "default").then(|| around(bytes / none, 0.02)),
        ..ExchangeFigures::default()
    });
    row
}

fn trace(word: &str, captured: bool) -> TraceSummary {
    let file = format!("captures/tcp-{word}.pcapng");
    let sequence = match word {
        "default" => Some(none()),
        "nodelay" => Some(nodelay()),
        "cork-forgotten" => Some(cork_forgotten()),
        "one-write" => Some(one_write()),
        _ => None,
    };
    let source = if captured { Source::Capture } else { Source::KernelTimestamps };
    TraceSummary {
        exchanges: if sequence.is_some() { 36 } else { 0 },
        states: sequence.as_ref().map(times).unwrap_or_default(),
        unions: Vec::new(),
        sequence: sequence.map(|sequence| TimeSequence { source, ..sequence }),
        capture: if captured {
            Capture::Saved { file, packets: 61, dropped: u64::from(word == "nodelay") * 2 }
        } else {
            Capture::Skipped {
                reason: "CAP_NET_RAW is missing (hint: run as root, or setcap cap_net_raw)".to_owned(),
            }
        },
        cost_ns: Some(Figure::new(11_200.0, 9800.0, 12_900.0)),
        cost_ratio: Some(Figure::new(1.02, 1.01, 1.03)),
    }
}

fn findings(cases: &[CaseSummary]) -> Vec<Finding> {
    vec![Finding {
        code: "nagle-meets-delayed-ack".to_owned(),
        about: About::Cause,
        severity: Severity::Warning,
        cases: vec![cases[0].id.clone(), cases[8].id.clone()],
        summary: "99 of 100 writes waited 44.0 ms for the delayed ACK of the first write.".to_owned(),
        evidence: vec![
            evidence("bytes held by Nagle's algorithm", Figure::new(198.0, 198.0, 198.0), "bytes"),
            evidence("delay of the ACK", Figure::new(43_957_000.0, 43_900_000.0, 44_010_000.0), "ns"),
        ],
        advice: "Send the request in one write, or cork the socket until the last write.".to_owned(),
        counter_experiment: Some(CounterExperiment {
            change: "set TCP_NODELAY at the client: the exchange must fall by about 40 ms".to_owned(),
            command: "hairpin small-writes --writes 100x2 --remedy default,nodelay".to_owned(),
            ..CounterExperiment::default()
        }),
        proved: Some(Proved {
            check: "set TCP_NODELAY".to_owned(),
            verdict: "confirmed".to_owned(),
            effect: Figure::new(-43_460_000.0, -43_510_000.0, -43_400_000.0),
            unit: "ns".to_owned(),
            ..Proved::default()
        }),
        share: 0.987,
        ..Finding::default()
    }]
}

fn event(end: End, kind: EventKind, times: (i64, i64), bytes: (i64, i64)) -> Event {
    Event { at_ns: times.0, until_ns: Some(times.1), end, kind, first_byte: bytes.0, end_byte: bytes.1 }
}

fn handshake(at_ns: i64) -> Vec<Event> {
    vec![
        event(End::Client, EventKind::Syn, (at_ns, at_ns + 6000), (0, 0)),
        event(End::Server, EventKind::SynAck, (at_ns + 9000, at_ns + 14_000), (0, 0)),
        event(End::Client, EventKind::PureAck, (at_ns + 16_000, at_ns + 19_000), (0, 0)),
    ]
}

/// The server reads the rest of the request, at `at_ns`, and answers.
fn answer(at_ns: i64, first_byte: i64) -> Vec<Event> {
    vec![
        event(End::Server, EventKind::Read, (at_ns, at_ns + 900), (first_byte, 200)),
        event(End::Server, EventKind::Write, (at_ns + 1800, at_ns + 7000), (0, 4)),
        event(End::Server, EventKind::Segment, (at_ns + 4000, at_ns + 5200), (0, 4)),
        event(End::Client, EventKind::Read, (at_ns + 9000, at_ns + 9800), (0, 4)),
    ]
}

fn sequence(exchange: u64, mut events: Vec<Event>, waits: Vec<Wait>) -> TimeSequence {
    events.sort_by_key(|event| event.at_ns);
    let duration_ns = events.iter().filter_map(|event| event.until_ns).max().unwrap_or(0);
    TimeSequence {
        exchange,
        source: Source::Capture,
        clock_error_ns: 84,
        of_client_alone: false,
        duration_ns,
        events,
        states: states(duration_ns, &waits),
        waits,
    }
}

/// Calls, then the wait of held bytes, a delayed ACK before the rest of it, then the answer.
fn states(duration_ns: i64, waits: &[Wait]) -> Vec<StateSpan> {
    let late = waits.iter().find(|wait| wait.cause == ExchangeState::DelayedAck);
    let held = waits.iter().find(|wait| wait.cause != ExchangeState::DelayedAck);
    let [from_ns, until_ns] = held.map_or([duration_ns / 2; 2], |held| [held.from_ns, held.until_ns]);
    let late_ns = late.map_or(from_ns, |late| late.until_ns);
    let (rule, at) = held.map_or((ExchangeState::Nagle, End::Client), |held| (held.cause, held.end));
    let spans = [
        (ExchangeState::SendCall, End::Client, 0, from_ns),
        (ExchangeState::DelayedAck, End::Server, from_ns, late_ns),
        (rule, at, late_ns, until_ns),
        (ExchangeState::WakeUp, End::Client, until_ns, duration_ns),
    ];
    let span = |(state, end, from_ns, until_ns): (ExchangeState, End, i64, i64)| StateSpan {
        state,
        who: state.who(end),
        from_ns: u64::try_from(from_ns).unwrap(),
        until_ns: u64::try_from(until_ns).unwrap(),
    };
    spans.into_iter().map(span).filter(|span| span.until_ns > span.from_ns).collect()
}

/// The times in the states of a sequence.
fn times(sequence: &TimeSequence) -> Vec<TimeInState> {
    let time = |span: &StateSpan| {
        let ns = (span.until_ns - span.from_ns) as f64;
        TimeInState { state: span.state, who: span.who, share: ns / sequence.duration_ns as f64, ns }
    };
    let mut all: Vec<TimeInState> = sequence.states.iter().map(time).collect();
    all.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    all
}

/// Default options: the first write leaves at once, and all other writes wait for a delayed ACK.
fn none() -> TimeSequence {
    let late = 43_961_000;
    let mut events = handshake(-482_113_000);
    events.push(event(End::Client, EventKind::Write, (0, 4100), (0, 2)));
    events.push(event(End::Client, EventKind::Segment, (2900, 3800), (0, 2)));
    events.push(event(End::Server, EventKind::Read, (8400, 9100), (0, 2)));
    for number in 1..100 {
        let at_ns = 12_000 + 700 * number;
        events.push(event(End::Client, EventKind::Write, (at_ns, at_ns + 600), (2 * number, 2 * number + 2)));
    }
    events.push(event(End::Server, EventKind::PureAck, (late, late + 1500), (2, 2)));
    events.push(event(End::Client, EventKind::Segment, (late + 2200, late + 3100), (2, 200)));
    events.extend(answer(late + 8000, 2));
    let wait = |cause, end, from_ns, until_ns, bytes: (i64, i64)| Wait {
        came_ns: None,
        cause,
        end,
        from_ns,
        until_ns,
        first_byte: bytes.0,
        end_byte: bytes.1,
    };
    let waits = vec![
        wait(ExchangeState::DelayedAck, End::Server, 3800, late, (0, 2)),
        wait(ExchangeState::Nagle, End::Client, 12_700, late + 2200, (2, 200)),
    ];
    sequence(12, events, waits)
}

/// `nodelay`: every write leaves at once.
fn nodelay() -> TimeSequence {
    let mut events = handshake(-91_000);
    for number in 0..100 {
        let at_ns = 4600 * number;
        let bytes = (2 * number, 2 * number + 2);
        events.push(event(End::Client, EventKind::Write, (at_ns, at_ns + 4200), bytes));
        events.push(event(End::Client, EventKind::Segment, (at_ns + 2100, at_ns + 2900), bytes));
        if number % 16 == 15 {
            events.push(event(
                End::Server,
                EventKind::PureAck,
                (at_ns + 3000, at_ns + 3900),
                (2 * number + 2, 2 * number + 2),
            ));
        }
    }
    events.push(event(End::Server, EventKind::Read, (21_000, 22_000), (0, 8)));
    events.extend(answer(468_000, 8));
    sequence(1, events, Vec::new())
}

/// `cork-forgotten`: no write leaves until the kernel releases the cork.
fn cork_forgotten() -> TimeSequence {
    let late = 207_996_000;
    let mut events = handshake(-1_250_300_000);
    for number in 0..100 {
        let at_ns = 700 * number;
        events.push(event(End::Client, EventKind::Write, (at_ns, at_ns + 600), (2 * number, 2 * number + 2)));
    }
    events.push(event(End::Client, EventKind::Segment, (late, late + 900), (0, 200)));
    events.extend(answer(late + 8000, 0));
    let cork = Wait {
        came_ns: None,
        cause: ExchangeState::Cork,
        end: End::Client,
        from_ns: 600,
        until_ns: late,
        first_byte: 0,
        end_byte: 200,
    };
    sequence(7, events, vec![cork])
}

/// `one-write`: one segment in each direction.
fn one_write() -> TimeSequence {
    let mut events = handshake(-3_100_000);
    events.push(event(End::Client, EventKind::Write, (0, 6100), (0, 200)));
    events.push(event(End::Client, EventKind::Segment, (3900, 4700), (0, 200)));
    events.extend(answer(9000, 0));
    events.push(event(End::Client, EventKind::PureAck, (18_000, 18_800), (4, 4)));
    sequence(160, events, Vec::new())
}
