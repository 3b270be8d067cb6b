//! What samples of the sender's socket show of the time until its bytes left.

use std::ops::Range;

use hairpin_model::SocketSample;
use hairpin_model::exchange_state::ExchangeState;

use super::tiling::Rank;
use super::{Layers, Way};

impl Layers<'_> {
    /// Adds why the sender's socket had unsent bytes. A sample holds until the next one.
    pub(super) fn sampled(&mut self, place: usize, during: &Range<u64>) {
        let (way, sending) = (self.way(place), &self.states.reading.sending[place]);
        let samples = way.samples[0];
        let first = samples.partition_point(|sample| sample.at_ns <= during.start).saturating_sub(1);
        let within = samples.iter().enumerate().skip(first).take_while(|(_, sample)| sample.at_ns < during.end);
        for (number, sample) in within.filter(|(_, sample)| sample.not_sent_bytes > 0) {
            let next_ns = samples.get(number + 1).map_or(during.end, |next| next.at_ns);
            let held = sample.at_ns.max(during.start)..next_ns.min(during.end);
            if held.is_empty() {
                continue;
            }
            let is_cwnd_full = sample.cwnd_segments > 0 && sample.unacked_segments >= sample.cwnd_segments;
            if !is_cwnd_full && is_window_closed(sample) {
                self.window(place, Rank::Sampled, &held);
                continue;
            }
            let state = match sending.nodelay {
                _ if is_cwnd_full => ExchangeState::CongestionWindow,
                _ if sending.corked_at(held.start).is_some() => ExchangeState::Cork,
                Some(false) if sample.unacked_bytes > 0 => ExchangeState::NagleOrDelayedAck,
                // Unless the program has set TCP_NODELAY, and then no other rule is known.
                None if self.states.reading.is_foreign && sample.unacked_bytes > 0 => {
                    ExchangeState::NagleOrDelayedAck
                }
                _ => ExchangeState::Unexplained,
            };
            self.tiling.add(Rank::Sampled, held, state, way.direction.from);
        }
    }
}

fn is_window_closed(sample: &SocketSample) -> bool {
    let segment_bytes = (sample.unacked_bytes / sample.unacked_segments.max(1)).max(1);
    sample.send_window_bytes.saturating_sub(sample.unacked_bytes) < sample.not_sent_bytes.min(segment_bytes)
}

impl Way<'_> {
    /// The most unsent bytes that samples show during the gap; `None` without samples in it.
    pub(super) fn max_unsent_bytes(&self, gap: &Range<u64>) -> Option<u64> {
        let [first, end] = [gap.start, gap.end].map(|ns| self.samples[0].partition_point(|one| one.at_ns < ns));
        let inside = self.samples[0].get(first..end).filter(|inside| !inside.is_empty())?;
        inside.iter().map(|one| one.not_sent_bytes).max()
    }
}
