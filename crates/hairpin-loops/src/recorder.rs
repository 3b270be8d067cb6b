//! The recorder of timestamps: all rows of samples are written here.
//!
//! It writes one row per message into memory that was reserved and touched before the round, so the loop allocates
//! nothing and causes no page faults. When the rows are full only the histograms continue, so memory is bounded for any
//! duration.

use hairpin_model::samples::{Fate, MAX_LATENCY_NS};
use hairpin_model::{ByPhase, PhaseHistograms, Samples, Span, Turnaround};

use crate::clock::{Clock, RealClock};
use crate::phases::PhaseRecorder;
pub use hairpin_model::samples::Stamps;

/// Collects the timestamps of one round.
#[derive(Debug)]
pub struct Recorder {
    rows: Vec<Stamps>,
    capacity: usize,
    warm_up_capacity: usize,
    warm_up: usize,
    measuring: bool,
    measured: u64,
    first_ns: Option<u64>,
    /// In a round with phases, the histograms of the loaded phase.
    histograms: PhaseHistograms,
    phases: Option<Box<PhaseRecorder>>,
}

impl Recorder {
    /// Creates a recorder for `capacity` rows, at most `warm_up_capacity` of them from the warm-up. In an `open_loop`
    /// due and sent times differ.
    pub fn new(capacity: usize, warm_up_capacity: usize, open_loop: bool) -> Self {
        let nothing = Stamps { sequence: 0, due_ns: 0, sent_ns: 0, received_ns: 0, fate: Fate::Lost };
        // Filled and cleared, so that the pages exist before the first message.
        let mut rows = vec![nothing; capacity];
        rows.clear();
        Self {
            rows,
            capacity,
            warm_up_capacity: warm_up_capacity.min(capacity),
            warm_up: 0,
            measuring: false,
            measured: 0,
            first_ns: None,
            histograms: PhaseHistograms::new(open_loop),
            phases: None,
        }
    }

    /// Adds the phases of the round, if any.
    pub fn in_phases(self, spans: Option<ByPhase<Span>>) -> Self {
        let phases = spans.map(|spans| Box::new(PhaseRecorder::new(spans, self.histograms.service.is_some())));
        Self { phases, ..self }
    }

    /// Ends the warm-up: the messages recorded from now on are measured.
    pub fn begin_measuring(&mut self) {
        self.measuring = true;
        self.warm_up = self.rows.len();
    }

    /// Records a message of the warm-up or, after [`Recorder::begin_measuring`], of the measurement.
    #[inline]
    pub fn record(&mut self, stamps: Stamps) {
        self.record_as(stamps, self.measuring);
    }

    /// Records a message of the warm-up or, if `measured`, of the measurement. Skips a warm-up message that is
    /// answered after the warm-up, because all rows of the warm-up must precede the measured rows.
    #[inline]
    pub fn record_as(&mut self, stamps: Stamps, measured: bool) {
        if self.first_ns.is_none() && stamps.fate != Fate::Lost {
            self.first_ns = Some(stamps.received_ns.saturating_sub(stamps.sent_ns));
        }
        if self.measuring && !measured {
            return;
        }
        self.measured += u64::from(measured);
        // A long warm-up of a fast transport must not displace measured messages.
        let room = if measured { self.capacity } else { self.warm_up_capacity };
        if self.rows.len() < room {
            self.rows.push(stamps);
        } else if measured {
            self.count(&stamps, false);
        }
    }

    /// Changes a message that was recorded as lost into one that arrived late.
    pub fn arrived_late(&mut self, stamps: Stamps, measured: bool) {
        match self.rows.iter_mut().rev().find(|row| row.sequence == stamps.sequence) {
            Some(row) => *row = stamps,
            None if measured => self.count(&stamps, true),
            None => {}
        }
    }

    /// Number of measured messages so far.
    pub fn measured(&self) -> u64 {
        self.measured
    }

    /// Service time of the first message of the warm-up, in ns; 0 if none was answered.
    pub fn first_message_ns(&self) -> u64 {
        self.first_ns.unwrap_or(0)
    }

    /// Counts a message. `was_counted` is true if the message was already counted as lost and has now arrived.
    fn count(&mut self, stamps: &Stamps, was_counted: bool) {
        let own = self.phases.as_mut().and_then(|phases| phases.count(stamps, was_counted));
        let PhaseHistograms { latency, service, lateness } = own.unwrap_or(&mut self.histograms);
        let between = |from_ns: u64, to_ns: u64| to_ns.saturating_sub(from_ns).clamp(1, MAX_LATENCY_NS);
        if let Some(lateness) = lateness {
            lateness.saturating_record(between(stamps.due_ns, stamps.sent_ns));
        }
        if stamps.fate == Fate::Lost {
            return;
        }
        latency.saturating_record(between(stamps.due_ns, stamps.received_ns));
        if let Some(service) = service {
            service.saturating_record(between(stamps.sent_ns, stamps.received_ns));
        }
    }

    /// Returns the samples, with times since `origin_ns`. Adds the kept rows to the histograms here, outside the loop.
    pub fn finish(mut self, origin_ns: u64) -> Samples {
        let rows = std::mem::take(&mut self.rows);
        for stamps in rows.iter().skip(self.warm_up) {
            self.count(stamps, false);
        }
        let PhaseHistograms { latency, service, lateness } = self.histograms;
        let phases = self.phases.map(|phases| Box::new(phases.finish()));
        let rows = Samples::of(&rows, self.warm_up, origin_ns);
        Samples { latency, service, lateness, measured: self.measured, phases, ..rows }
    }
}

/// Measures the cost of a sample (two clock reads and a row), in ns: the median of 200 batches of 1 000 samples, recorded
/// as in the closed loop.
pub fn cost_ns(clock: &RealClock) -> f64 {
    const BATCH: u32 = 1_000;
    let mut batches_ns: Vec<u64> = (0..200)
        .map(|_| {
            let mut recorder = Recorder::new(BATCH as usize, 0, false);
            recorder.begin_measuring();
            let begin_ns = clock.now_ns();
            for sequence in 0..u64::from(BATCH) {
                let sent_ns = clock.now_ns();
                let received_ns = clock.now_ns();
                let stamps = Stamps { sequence, due_ns: sent_ns, sent_ns, received_ns, fate: Fate::Received };
                std::hint::black_box(&mut recorder).record(stamps);
            }
            clock.now_ns() - begin_ns
        })
        .collect();
    batches_ns.sort_unstable();
    batches_ns[batches_ns.len() / 2] as f64 / f64::from(BATCH)
}

/// Counts how long the server held each message.
#[derive(Clone, Debug)]
pub struct TurnaroundCounter {
    counts: [u64; 64],
    total_ns: u64,
    max_ns: u64,
}

impl Default for TurnaroundCounter {
    fn default() -> Self {
        Self { counts: [0; 64], total_ns: 0, max_ns: 0 }
    }
}

impl TurnaroundCounter {
    #[inline]
    pub fn record(&mut self, held_ns: u64) {
        self.counts[held_ns.max(1).ilog2() as usize] += 1;
        self.total_ns += held_ns;
        self.max_ns = self.max_ns.max(held_ns);
    }

    /// Returns the counts, without trailing empty powers of two.
    pub fn finish(self) -> Turnaround {
        let used = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        Turnaround { counts: self.counts[..used].to_vec(), total_ns: self.total_ns, max_ns: self.max_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(sequence: u64, due_ns: u64, sent_ns: u64, received_ns: u64) -> Stamps {
        Stamps { sequence, due_ns, sent_ns, received_ns, fate: Fate::Received }
    }

    #[test]
    fn warm_up_is_kept_but_not_counted() {
        let mut recorder = Recorder::new(10, 10, false);
        recorder.record(stamps(0, 100, 100, 900));
        recorder.begin_measuring();
        recorder.record(stamps(1, 1000, 1000, 1050));
        assert_eq!((recorder.measured(), recorder.first_message_ns()), (1, 800));
        let samples = recorder.finish(100);
        assert_eq!((samples.warm_up, samples.kept(), samples.latency.len()), (1, 2, 1));
        assert_eq!(samples.latency.max(), 50);
        assert_eq!(samples.sent_ns, [0, 900]);
        assert_eq!(samples.latencies_ns().collect::<Vec<_>>(), [50]);
    }

    #[test]
    fn the_histogram_continues_beyond_the_capacity() {
        let mut recorder = Recorder::new(3, 1, false);
        recorder.begin_measuring();
        for number in 0..100 {
            recorder.record(stamps(number, number, number, number + 7));
        }
        let samples = recorder.finish(0);
        assert_eq!((samples.kept(), samples.latency.len(), samples.measured), (3, 100, 100));
    }

    #[test]
    fn an_open_loop_records_latency_service_time_and_lateness_separately() {
        let mut recorder = Recorder::new(4, 1, true);
        recorder.begin_measuring();
        recorder.record(stamps(0, 100, 130, 180));
        recorder.record(Stamps { fate: Fate::Lost, ..stamps(1, 200, 210, 0) });
        let samples = recorder.finish(0);
        assert_eq!(samples.latency.max(), 80);
        assert_eq!(samples.service.unwrap().max(), 50);
        let lateness = samples.lateness.unwrap();
        assert_eq!((lateness.len(), lateness.max()), (2, 30));
        assert_eq!(samples.received_ns, [180, 0]);
    }

    #[test]
    fn turnarounds_are_counted_by_power_of_two() {
        let mut counter = TurnaroundCounter::default();
        [0, 1, 5, 7, 1024].into_iter().for_each(|held| counter.record(held));
        let turnaround = counter.finish();
        assert_eq!((turnaround.total_ns, turnaround.max_ns), (1037, 1024));
        assert_eq!(turnaround.counts, [2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
