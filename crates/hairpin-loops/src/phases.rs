//! Counts per phase of a round. A message belongs to the phase in which it was due.

use hairpin_model::phases::Phase;
use hairpin_model::samples::{Fate, MAX_LATENCY_NS};
use hairpin_model::{ByPhase, PhaseCounts, PhaseHistograms, PhaseSamples, ProbeTimeLine, Span, Stamps};

/// Maximum intervals of a probe's time line.
const MAX_INTERVALS: u64 = 400;

/// Counts the messages of a round by phase. Latencies of the loaded phase are in the recorder itself.
#[derive(Debug)]
pub(crate) struct PhaseRecorder {
    spans: ByPhase<Span>,
    others: ByPhase<Option<PhaseHistograms>>,
    counts: ByPhase<PhaseCounts>,
    interval_ns: u64,
    answered: Vec<u64>,
    sum_ns: Vec<u64>,
}

impl PhaseRecorder {
    pub(crate) fn new(spans: ByPhase<Span>, open_loop: bool) -> Self {
        let total_ns = spans.recovering.until_ns.saturating_sub(spans.idle.from_ns);
        let intervals = usize::try_from(MAX_INTERVALS).unwrap_or(usize::MAX);
        Self {
            spans,
            others: ByPhase::of(|phase| (phase != Phase::Loaded).then(|| PhaseHistograms::new(open_loop))),
            counts: ByPhase::default(),
            interval_ns: total_ns.div_ceil(MAX_INTERVALS).max(1),
            answered: vec![0; intervals],
            sum_ns: vec![0; intervals],
        }
    }

    /// Counts a message. Returns the histograms of its phase; `None` in the loaded phase: the recorder has these.
    pub(crate) fn count(&mut self, stamps: &Stamps, was_counted: bool) -> Option<&mut PhaseHistograms> {
        let phase = self.spans.at(stamps.due_ns);
        let counts = self.counts.get_mut(phase);
        if !was_counted {
            let first = if counts.sent == 0 { stamps.sequence } else { counts.first_sequence };
            counts.first_sequence = first.min(stamps.sequence);
            counts.sent += 1;
        }
        match stamps.fate {
            Fate::Received => counts.received += 1,
            Fate::Late => counts.late += 1,
            Fate::Lost => {}
        }
        if stamps.fate != Fate::Lost {
            self.answered_at(stamps);
        }
        self.others.get_mut(phase).as_mut()
    }

    fn answered_at(&mut self, stamps: &Stamps) {
        let since_ns = stamps.due_ns.saturating_sub(self.spans.idle.from_ns);
        let place = usize::try_from(since_ns / self.interval_ns).unwrap_or(usize::MAX).min(self.answered.len() - 1);
        let latency_ns = stamps.received_ns.saturating_sub(stamps.due_ns).min(MAX_LATENCY_NS);
        self.answered[place] += 1;
        self.sum_ns[place] = self.sum_ns[place].saturating_add(latency_ns);
    }

    pub(crate) fn finish(self) -> PhaseSamples {
        let mean = |(sum_ns, count): (&u64, &u64)| if *count == 0 { 0.0 } else { *sum_ns as f64 / *count as f64 };
        PhaseSamples {
            over_time: ProbeTimeLine {
                interval_ns: self.interval_ns,
                mean_ns: self.sum_ns.iter().zip(&self.answered).map(mean).collect(),
                answered: self.answered,
            },
            others: self.others,
            counts: self.counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use hairpin_model::PhaseLengths;

    use super::*;

    fn none() -> PhaseCounts {
        PhaseCounts::default()
    }

    #[test]
    fn each_phase_has_its_counts_and_latencies_and_the_time_line_has_all() {
        let spans = PhaseLengths { idle: 100, ramp: 200, loaded: 300, recovering: 400 }.spans(1_000);
        let mut recorder = PhaseRecorder::new(spans, false);
        let message =
            |sequence, due_ns, fate| Stamps { sequence, due_ns, sent_ns: due_ns, received_ns: due_ns + 50, fate };
        let count = |recorder: &mut PhaseRecorder, stamps: &Stamps| {
            if let Some(own) = recorder.count(stamps, false) {
                own.latency.record(50).unwrap();
            }
        };
        for (sequence, due_ns, fate) in
            [(7, 1_000, Fate::Received), (8, 1_001, Fate::Lost), (9, 1_300, Fate::Received), (10, 1_700, Fate::Late)]
        {
            count(&mut recorder, &message(sequence, due_ns, fate));
        }
        assert!(recorder.count(&message(8, 1_001, Fate::Late), true).is_some(), "the lost message arrived late");
        let samples = recorder.finish();
        assert_eq!(samples.counts.idle, PhaseCounts { first_sequence: 7, sent: 2, received: 1, late: 1, ..none() });
        assert_eq!(samples.counts.loaded, PhaseCounts { first_sequence: 9, sent: 1, received: 1, ..none() });
        assert!(samples.others.loaded.is_none());
        assert_eq!(samples.others.recovering.unwrap().latency.len(), 1);
        assert_eq!(samples.over_time.interval_ns, 3, "400 intervals of a round of 1 000 ns");
        assert_eq!(samples.over_time.answered.iter().sum::<u64>(), 4);
        assert_eq!(samples.over_time.mean_ns[0], 50.0);
    }
}
