//! A run, its rounds and their samples; shared with the integration tests.

use hairpin_model::run::{FORMAT, State};
use hairpin_model::samples::{Fate, latency_histogram};
use hairpin_model::{
    Capture, Case, EndReport, Extent, FlowId, FlowRecord, FlowSamples, Host, Ledger, Measured, Outcome, RoundOrder,
    RoundRecord, RoundTrace, Run, Samples, Stamps, TraceFigures,
};

pub(crate) fn run(state: State) -> Run {
    Run { format: FORMAT, started_unix_s: 1, state, seed: 7, hosts: vec![Host::default()], ..Run::default() }
}

pub(crate) fn record(number: u32, samples: &Samples) -> RoundRecord {
    let case = Case::ping_pong("udp");
    let order = RoundOrder { warm_up: Extent::Count(1), keep_samples: 3, ..RoundOrder::of(case.clone(), 3) };
    let flow = FlowRecord {
        ledger: Ledger { sent: samples.measured, received: samples.latency.len(), ..Ledger::default() }.closed(),
        samples_kept: samples.kept() as u64,
        ..FlowRecord::default()
    };
    let (flows, ends) = (vec![flow], vec![EndReport::default()]);
    let measured = Measured { flows, ends, duration_ns: 3, ..Measured::default() };
    RoundRecord { number, started_ns: 5, case_id: case.id(), order, outcome: Outcome::Measured(Box::new(measured)) }
}

/// The samples of the only flow of a case.
pub(crate) fn by_flow(samples: &Samples) -> FlowSamples {
    [(FlowId::default(), samples.clone())].into()
}

/// Samples of one warm-up message and four measured ones, of which one is lost and one exceeds the capacity.
pub(crate) fn samples(open_loop: bool) -> Samples {
    let stamps = |(sequence, fate): (u64, Fate)| Stamps {
        sequence,
        due_ns: sequence * 1000,
        sent_ns: sequence * 1000 + 10,
        received_ns: sequence * 1000 + 110,
        fate,
    };
    let rows = [(0, Fate::Received), (1, Fate::Received), (2, Fate::Lost), (3, Fate::Late)].map(stamps);
    let histogram = |value: u64, count: u64| {
        let mut histogram = latency_histogram();
        histogram.record_n(value, count).unwrap();
        histogram
    };
    Samples {
        latency: histogram(110, 3),
        service: open_loop.then(|| histogram(100, 3)),
        lateness: open_loop.then(|| histogram(10, 4)),
        measured: 4,
        ..Samples::of(&rows, 1, 0)
    }
}

/// A record of a traced round, before it is saved.
pub(crate) fn traced(number: u32, samples: &Samples) -> RoundRecord {
    let mut record = record(number, samples);
    measured(&mut record).traced = Some(TraceFigures { capture: captured("", 9), ..TraceFigures::default() });
    record
}

pub(crate) fn measured(record: &mut RoundRecord) -> &mut Measured {
    let Outcome::Measured(measured) = &mut record.outcome else { panic!("it is measured") };
    measured
}

pub(crate) fn captured(file: &str, packets: u64) -> Capture {
    Capture::Saved { file: file.to_owned(), packets, dropped: 1 }
}

/// A trace whose capture is not saved yet.
pub(crate) fn trace() -> RoundTrace {
    RoundTrace {
        exchange_began_ns: vec![1, 2],
        request_bytes: 200,
        capture: captured("", 9),
        ..RoundTrace::default()
    }
}

/// Returns the name of the record's trace file, and the outcome of the record's capture.
pub(crate) fn trace_and_capture(record: &RoundRecord) -> (Option<&str>, &Capture) {
    let Outcome::Measured(measured) = &record.outcome else { panic!("it is measured") };
    (measured.trace_file.as_deref(), &measured.traced.as_ref().expect("it was traced").capture)
}
