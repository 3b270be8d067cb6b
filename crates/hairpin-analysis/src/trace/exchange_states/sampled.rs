//! What samples of the sender's socket show of the time until its bytes left.

use std::ops::Range;

use hairpin_model::SocketSample;
use hairpin_model::exchange_state::ExchangeState;
use hairpin_model::trace::Recovery;

use super::tiling::{Layer, Rank};
use super::{States, Way};
use crate::trace::direction::other;

impl States<'_> {
    /// Adds the states of the sender's socket. A sample holds until the next one.
    pub(super) fn sampled(&self, layers: &mut Vec<Layer>, place: usize, during: Range<u64>) {
        let way = &self.ways[place];
        for (sample, from_ns, until_ns) in way.sampled_within(&during) {
            let state = match sample.recovery {
                Some(Recovery::Fast) => ExchangeState::FastRecovery,
                Some(Recovery::Timeout) => ExchangeState::RetransmissionTimeout,
                None if sample.not_sent_bytes == 0 => continue,
                None if sample.cwnd_segments > 0 && sample.unacked_segments >= sample.cwnd_segments => {
                    ExchangeState::CongestionWindow
                }
                None if is_window_closed(sample) => {
                    let (state, at) = (way.closed_window(from_ns), other(way.direction.from));
                    layers.push(Layer { from_ns, until_ns, rank: Rank::Sampled, state, at });
                    continue;
                }
                None if self.reading.sending[place].corked_at(from_ns).is_some() => ExchangeState::Cork,
                None if self.reading.sending[place].nodelay == Some(false) && sample.unacked_bytes > 0 => {
                    ExchangeState::NagleOrDelayedAck
                }
                None => ExchangeState::Unexplained,
            };
            way.layer(layers, Rank::Sampled, from_ns, until_ns, state);
        }
    }
}

/// Whether the receiver's window has no room for the next segment.
fn is_window_closed(sample: &SocketSample) -> bool {
    let segment_bytes = (sample.unacked_bytes / sample.unacked_segments.max(1)).max(1);
    sample.send_window_bytes.saturating_sub(sample.unacked_bytes) < sample.not_sent_bytes.min(segment_bytes)
}

impl Way<'_> {
    /// Returns the samples of the sender's socket with the parts of the time for which they hold.
    fn sampled_within(&self, during: &Range<u64>) -> impl Iterator<Item = (&SocketSample, u64, u64)> {
        let samples = self.samples[0];
        let first = samples.partition_point(|one| one.at_ns <= during.start).saturating_sub(1);
        let (start, end) = (during.start, during.end);
        let held = samples[first..].iter().enumerate().take_while(move |(_, one)| one.at_ns < end);
        held.map(move |(place, one)| {
            let next_ns = samples.get(first + place + 1).map_or(end, |next| next.at_ns);
            (one, one.at_ns.max(start), next_ns.min(end))
        })
    }

    /// Whether samples show unsent bytes during the gap; `None` without samples in it.
    pub(super) fn is_unsent(&self, gap: &Range<u64>) -> Option<bool> {
        let samples = self.samples[0];
        let [first, end] = [gap.start, gap.end].map(|ns| samples.partition_point(|one| one.at_ns < ns));
        let inside = samples.get(first..end).filter(|inside| !inside.is_empty())?;
        Some(inside.iter().any(|one| one.not_sent_bytes > 0))
    }

    /// Why the receiver's window is closed at a time.
    fn closed_window(&self, at_ns: u64) -> ExchangeState {
        match &self.unread {
            None => ExchangeState::WindowOrReader,
            Some(unread) if unread.within(at_ns, at_ns.saturating_add(1)).next().is_some() => {
                ExchangeState::SlowReader
            }
            Some(_) => ExchangeState::ReceiveWindow,
        }
    }
}
