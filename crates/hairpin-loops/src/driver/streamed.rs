//! Converts the outcome of an end of a one-way load to its report.

use hairpin_model::{Received, Sent, Streamed};

use super::{Outcome, streams};

impl Outcome {
    /// Converts to the report of a sender or a receiver.
    pub fn streamed(self, sends: bool) -> Streamed {
        let Self { wires, total, time_line, times, pacing, states, .. } = self;
        let over_ns = total.first_ns.zip(total.last_ns).map_or(0, |(first, last)| last.saturating_sub(first));
        let warm_up_ns =
            total.first_ns.zip(time_line.begin_ns).map_or(0, |(first, begin)| first.saturating_sub(begin));
        let of_connections = wires.iter().filter(|_| wires.len() > 1).map(|wire| wire.measured.bytes_received);
        let streams = if sends { Vec::new() } else { streams::received(&wires, &times) };
        let stream_messages = if streams::are_shown(&wires) { wires.iter() } else { [].iter() };
        let stream_messages = stream_messages.map(|wire| wire.measured.messages_sent);
        Streamed {
            sent: total.measured.messages_sent,
            received: total.measured.messages_received,
            duplicated: total.measured.duplicated,
            warm_up_sent: total.warm_up.messages_sent,
            warm_up_received: total.warm_up.messages_received,
            unreadable: total.measured.unreadable,
            arrivals: (!sends).then(|| Received {
                bytes: total.measured.bytes_received,
                bytes_after_first: total.bytes_after_first,
                over_ns,
                reordered: total.measured.reordered,
                // In ns of this end's clock. The client converts this time to a time since all flows were connected.
                began_ns: time_line.begin_ns,
                interval_ns: time_line.width_ns,
                interval_bytes: time_line.bytes.to_vec(),
                warm_up_intervals: warm_up_ns / time_line.width_ns,
                connection_bytes: of_connections.collect(),
                streams,
            }),
            departures: sends.then_some(Sent {
                messages: total.measured.messages_sent,
                over_ns,
                refused: total.all().refused,
                full: total.measured.full,
                pacing,
                states,
                no_feedback_ns: None,
                stream_messages: stream_messages.collect(),
            }),
            arrivals_apart: pacing.filter(|_| !sends),
            times: times.reported(),
        }
    }
}
