//! Loads without answers: the counts of each end, and the figures from both.

use serde::{Deserialize, Serialize};

use crate::fields::is_default;
use crate::figure::Figure;
use crate::flow::{Observer, Pacing};
use crate::phases::SenderState;

/// Counts of a one-way load's receiver after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Measured bytes that arrived.
    pub bytes: u64,
    /// Bytes that arrived after the first measured arrival, including those of connections still in warm-up.
    /// `bytes_after_first / over_ns` is the rate.
    pub bytes_after_first: u64,
    /// Time from first to last measured arrival, in ns.
    pub over_ns: u64,
    /// Messages that arrived after a message sent later.
    pub reordered: u64,
    /// First arrival, in ns since all flows of the round were connected; null in runs of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began_ns: Option<u64>,
    /// Width of the intervals of the time line, in ns.
    pub interval_ns: u64,
    /// Bytes that arrived in each interval since the first arrival; with the warm-up if `warm_up_intervals` is not 0.
    pub interval_bytes: Vec<u64>,
    /// Number of leading intervals that began before the first measured arrival.
    #[serde(default, skip_serializing_if = "is_default")]
    pub warm_up_intervals: u64,
    /// Measured bytes that arrived, by connection; empty for one connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connection_bytes: Vec<u64>,
    /// The messages of each stream, of each connection in turn; empty for one stream, or more than [`MAX_STREAMS_SHOWN`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<StreamReceived>,
}

/// Maximum number of streams whose messages are counted separately.
pub const MAX_STREAMS_SHOWN: usize = 128;

/// The messages of one stream, as its receiver saw them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReceived {
    /// Measured messages that arrived.
    pub received: u64,
    /// One-way latencies in ns and their counts, of the messages whose times were kept.
    pub latency_counts: Vec<(u64, u64)>,
    /// Messages that waited for another stream's data, among those whose times were kept.
    pub blocked: u64,
    /// The sum of these waits and the longest one, in ns: latency above the lowest of the round.
    pub blocked_ns: u64,
    pub longest_blocked_ns: u64,
    /// Messages that were late for another reason: their own data were lost, or a queue delayed all streams.
    pub late: u64,
}

/// The messages of one stream over all rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StreamSummary {
    /// Number of the stream within its flow, from 0.
    pub stream: u32,
    pub latency_ns: StreamLatency,
    pub ledger: StreamLedger,
    pub blocked_by_others: BlockedByOthers,
    /// Messages that were late for another reason: their own data were lost, or a queue delayed all streams.
    pub late: u64,
}

/// One-way latency of a stream, in ns; null without messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StreamLatency {
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub max: Option<u64>,
}

/// Messages of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
pub struct StreamLedger {
    pub sent: u64,
    pub received: u64,
    pub missing: u64,
}

/// Messages that arrived late because another stream's data were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct BlockedByOthers {
    pub messages: u64,
    /// Their share of the messages whose times were kept, 0 to 1.
    pub share: f64,
    /// The longest such wait, in ns.
    pub longest_ns: u64,
}

impl Streamed {
    /// Makes clock times relative to `begin_ns`.
    pub fn since(mut self, begin_ns: u64) -> Self {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.began_ns = arrivals.began_ns.map(|ns| ns.saturating_sub(begin_ns));
        }
        self
    }
}

/// Counts of a one-way load's sender after the warm-up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Measured messages sent; on a byte stream, writes.
    pub messages: u64,
    /// Time from the start of the first measured call to the end of the last, in ns.
    pub over_ns: u64,
    /// Messages refused by the kernel because memory or a device's queue was full (`ENOBUFS`, send(2)); counted as
    /// sent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refused: u64,
    /// Calls that found the send buffer full.
    #[serde(default, skip_serializing_if = "is_default")]
    pub full: u64,
    /// Accuracy of the pacing; null if messages had no due times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pacing: Option<PacingError>,
    /// State of the first connection over time, warm-up included; empty if the kernel does not report states.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<SenderState>,
    /// Time without feedback from the receiver after which the sender stopped, in ns; null if it did not stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_feedback_ns: Option<u64>,
    /// Measured messages sent on each stream; empty if [`Received::streams`] is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stream_messages: Vec<u64>,
}

/// How well a sender met the times at which messages were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacingError {
    /// Number of gaps between messages due at different times.
    pub gaps: u64,
    /// Nominal mean gap, in ns.
    pub nominal_ns: f64,
    /// Actual gaps, in ns: between sends, or between arrivals if the kernel paced.
    pub gap_ns: GapPercentiles<f64>,
    /// Share of gaps shorter than half their nominal length, 0 to 1.
    pub share_below_half: f64,
}

/// Percentiles of the gaps between messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct GapPercentiles<T> {
    /// Median.
    pub p50: T,
    /// 99th percentile.
    pub p99: T,
    /// 99.9th percentile.
    pub p999: T,
}

impl Received {
    /// Bytes received per second after the first arrival; `None` with only one arrival.
    pub fn goodput_bytes_per_s(&self) -> Option<f64> {
        (self.over_ns > 0).then(|| self.bytes_after_first as f64 * 1e9 / self.over_ns as f64)
    }
}

/// CPU time of a thread over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuTimeLine {
    /// Ends of the intervals, in ns since the first measured message.
    pub at_ns: Vec<u64>,
    /// CPU time used in each interval, in ns.
    pub cpu_ns: Vec<u64>,
}

/// One end's counts of a one-way load, in messages; on a byte stream, in writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Streamed {
    /// Messages sent after the warm-up.
    pub sent: u64,
    /// Distinct messages received after the warm-up.
    pub received: u64,
    /// Further arrivals of received messages, after the warm-up.
    pub duplicated: u64,
    /// Messages sent in the warm-up.
    pub warm_up_sent: u64,
    /// Messages received in the warm-up.
    pub warm_up_received: u64,
    /// Received messages that are damaged or not part of this load.
    #[serde(default)]
    pub unreadable: u64,
    /// Further counts of a receiver; null at a sender.
    pub arrivals: Option<Received>,
    /// Further counts of a sender; null at a receiver.
    pub departures: Option<Sent>,
    /// Evenness of arrivals at a receiver if the kernel paced; null elsewhere.
    pub arrivals_apart: Option<PacingError>,
    /// At a receiver, one-way latency (due to received); at the sender of an open loop, lateness (due to sent).
    #[serde(default)]
    pub times: Times,
}

/// Times of messages as an end reports them: a histogram of all, and the first ones individually.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Values in ns and their counts, from a histogram with three significant digits.
    pub counts: Vec<(u64, u64)>,
    /// Per message: number on its connection, when due, and when received, in ns of the sender's clock.
    pub rows: Vec<[u64; 3]>,
}

/// A figure of each end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct BothEnds {
    pub client: Option<Figure>,
    pub server: Option<Figure>,
}

/// How well a sender kept to the times at which messages were due, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct PacingFigures {
    /// How the sender kept to these times.
    pub method: Pacing,
    /// Nominal mean gap, in ns.
    pub nominal_ns: f64,
    /// Actual gaps between messages due at different times, in ns.
    pub gap_ns: GapPercentiles<Option<Figure>>,
    /// Share of gaps shorter than half their nominal length, 0 to 1.
    pub share_below_half: Option<Figure>,
}

/// A moment of a one-way load: medians over the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Moment {
    /// The end of an interval, in ns since the first arrival of a round.
    pub at_ns: u64,
    /// Bytes received per second in the interval: median, minimum and maximum over the rounds.
    pub goodput_bytes_per_s: Figure,
    /// CPU time of the client per second, 0 to 1; null if unknown.
    pub client_cpu: Option<f64>,
    /// CPU time of the server per second, 0 to 1; null if unknown.
    pub server_cpu: Option<f64>,
}

/// Figures that only a one-way load has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct OneWayFigures {
    /// Messages received per second, from the first arrival to the last.
    pub received_per_s: Option<Figure>,
    /// Messages sent per second, from the first send to the last.
    pub sent_per_s: Option<Figure>,
    /// Message bytes received per second.
    pub goodput_bytes_per_s: Option<Figure>,
    /// Message bytes received per second in the warm-up; null if too little data arrived during it.
    pub warm_up_goodput_bytes_per_s: Option<Figure>,
    /// System calls per message sent or received, including the warm-up and calls that wait for messages or buffer
    /// space.
    pub system_calls_per_message: BothEnds,
    /// Context switches per message, voluntary and involuntary.
    pub context_switches_per_message: BothEnds,
    /// CPU time per million messages, in seconds.
    pub cpu_seconds_per_million: BothEnds,
    /// CPU time per 10^9 bytes, in seconds.
    pub cpu_seconds_per_gb: BothEnds,
    /// Largest resident memory of the end's process, in bytes, with all its connections and Hairpin's recorder.
    #[serde(default)]
    pub peak_memory_bytes: BothEnds,
    /// Jain's fairness index of the connections' bytes, 1/n to 1 (Jain, Chiu and Hawe, DEC-TR-301, 1984); null for one
    /// connection.
    pub fairness: Option<Figure>,
    /// Messages offered per second in an open loop; null for other loads.
    pub offered_per_s: Option<f64>,
    /// Messages received per second in an open loop; null for other loads.
    pub delivered_per_s: Option<Figure>,
    /// The delivered share of an offered load, 0 to 1 ([`crate::knee::delivered_share`]); null for other loads.
    pub delivered_share: Option<Figure>,
    /// Accuracy of the pacing of an open loop; null for other loads.
    pub pacing: Option<PacingFigures>,
    /// The cost of the flow's observer; empty if the same case without an observer was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observer: Vec<ObserverCost>,
}

/// What an observer costs: the case against the same case with the observer `none`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct ObserverCost {
    /// `none` for the second case of an A/A pair.
    pub observer: Observer,
    /// Messages received per second / those of `none`.
    pub rate_against_none: Figure,
    /// Time per message - that of `none`, in ns: the inverse of the rates.
    pub time_per_message_against_none: Figure,
}

/// Minimum share of an offered load to count as delivered.
pub const WHOLE: f64 = 0.99;

impl OneWayFigures {
    /// Whether the offered load counts as delivered; `None` if nothing was offered or measured.
    pub fn arrived_whole(&self) -> Option<bool> {
        self.delivered_share.and_then(Figure::finite).map(|share| share >= WHOLE)
    }
}

/// Goodput and CPU use of a case over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct OverTime {
    /// When the warm-up ended, in ns since the first arrival.
    pub measured_from_ns: u64,
    /// Moments in order of time.
    pub moments: Vec<Moment>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offered_load_is_delivered_from_a_share_of_99_percent() {
        let whole = |share: Option<f64>| {
            let delivered_share = share.map(Figure::bare);
            OneWayFigures { delivered_share, ..OneWayFigures::default() }.arrived_whole()
        };
        let whole = [Some(0.99), Some(0.989), Some(f64::NAN), None].map(whole);
        assert_eq!(whole, [Some(true), Some(false), None, None]);
    }
}
