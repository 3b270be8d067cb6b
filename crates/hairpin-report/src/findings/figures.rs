//! What a piece of evidence is, in words.

use hairpin_model::finding::{Evidence, Key};
use hairpin_model::finding_keys as keys;

use super::told::Told;

/// `bytes in the queue, by the link's log, up, LABEL`.
pub(super) fn what(told: &Told<'_>, piece: &Evidence) -> String {
    let words = |list: &[(&str, &'static str)], of: &str| {
        list.iter().find(|(word, _)| *word == of).map(|(_, words)| (*words).to_owned())
    };
    let phrase = PHRASES.iter().find(|(key, _)| key.name == piece.key).map(|(_, phrase)| (*phrase).to_owned());
    let phrase = phrase.unwrap_or_else(|| piece.key.replace('-', " "));
    let of = words(OF, &piece.of).unwrap_or_else(|| piece.of.clone());
    let what = match phrase {
        place if place.contains("{}") => place.replace("{}", &of),
        phrase if of.is_empty() => phrase,
        phrase => format!("{phrase}, {of}"),
    };
    match &piece.case {
        Some(id) => format!("{what}, {}", told.label_of(id)),
        None => what,
    }
}

/// Words of `of` that are no words of a sentence.
const OF: &[(&str, &str)] = &[
    ("awake", "with the CPUs kept awake"),
    ("busy-polling", "with both ends busy-polling"),
    ("one-cpu", "with both ends on one CPU"),
    ("seen-on-one-cpu", "on one CPU"),
    ("seen-on-two-cpus", "on two CPUs"),
    ("seen-on-one-and-then-two-cpus", "on one and then on two"),
];

/// Figures whose key is not what they are called. `{}` is which of several.
const PHRASES: &[(Key, &str)] = &[
    (keys::AA_CHANCE, "chance of so many pairs if nothing differs"),
    (keys::AA_RATIO, "second measurement over the first, p50"),
    (keys::ACK_DELAY, "delay of ACKs, traced"),
    (keys::ADDED_MEAN, "latency that the load adds, mean"),
    (keys::ADDED_P50, "latency that the load adds, p50"),
    (keys::ADDED_SHARE, "additional time of these, of the time of all messages"),
    (keys::ASKED, "messages/s requested"),
    (keys::AUTOCORKED, "TCPAutoCorking per traced round"),
    (keys::BEFORE_FIRST_BYTE, "wait before the kernel takes the first byte, p50"),
    (keys::CHANGE_OVER_RUN, "change over the run (Theil-Sen)"),
    (keys::CHANGE_WITHIN, "change from the second tenth of a round to its end"),
    (keys::CORK_ON, "TCP_CORK in force at the {} (1 is on)"),
    (keys::COUNTED_SEGMENTS, "segments with payload per exchange, counted"),
    (keys::CPUS_USED, "CPUs that all ends keep busy beside the load"),
    (keys::ELSEWHERE, "change of the mean with the load on another CPU"),
    (keys::GOODPUT_WITH, "goodput with {}"),
    (keys::HELD, "time that written bytes were held, traced"),
    (keys::HELD_AT, "time that bytes written by the {} were held, traced"),
    (keys::IDLE_SAVED, "saved with the CPUs kept awake"),
    (keys::IN_FLIGHT_BYTES, "bytes in flight beyond the path's own, of a connection of the load"),
    (keys::LATE_ACK_EXCHANGES, "traced exchanges with a delayed ACK"),
    (keys::LATENCY_MEAN, "latency, mean"),
    (keys::LATENCY_P99, "latency, p99"),
    (keys::LATENESS_MEAN, "lateness, mean"),
    (keys::LATENESS_P99, "lateness, p99"),
    (keys::LOAD_ASKED, "bytes/s requested of the load"),
    (keys::LOAD_AVERAGE, "load average over one minute when the run began"),
    (keys::LOAD_SENT, "bytes/s that it sent"),
    (keys::LONGER, "longer than on a connection of its own, p50"),
    (keys::LOST_AT_SENDER, "messages that the sender's kernel dropped or refused"),
    (keys::LOST_WITH_LARGE, "share lost with 4 MiB"),
    (keys::MIN_RTT, "minimum round trip by TCP_INFO"),
    (keys::NODELAY_OFF, "TCP_NODELAY in force at the {} (0 is off)"),
    (keys::NODELAY_ON, "TCP_NODELAY in force at the {} (1 is on)"),
    (keys::P50_OVER, "p50"),
    (keys::P50_SEEN, "p50 of rounds seen {}"),
    (keys::P50_WITH, "p50 with {}"),
    (keys::PROBE, "probe in the {} state"),
    (keys::PURE_ACKS, "pure ACKs per exchange, counted"),
    (keys::QUEUE_BYTES, "bytes in the queue, by the link's log"),
    (keys::REACHED, "messages/s reached"),
    (keys::RELAY_CPU, "CPU time of the relay per packet"),
    (keys::RELAY_P50, "lateness of the relay, median packet"),
    (keys::RELAY_P99, "lateness of the relay, p99"),
    (keys::RELAY_SHARE, "{} the median lateness over the p50"),
    (keys::RELEASING_ACK, "delay of the ACK that released bytes of the {}, traced"),
    (keys::RESENT, "segments sent again, TCP_INFO of both ends"),
    (keys::SAVED, "saved {}"),
    (keys::SAVED_SHARE, "share saved {}"),
    (keys::SEGMENTS, "segments per request, traced"),
    (keys::RTO, "retransmission time-out in force"),
    (keys::SHARE_OF_ROUND_TRIPS, "share of the round-trip time"),
    (keys::SHARE_OF_TAIL, "these among the slowest 1 %"),
    (keys::STAGE_DROPS, "packets dropped by the stage {}"),
    (keys::STALLED_EXCHANGES, "traced exchanges with this stall"),
    (keys::STEAL, "CPU time given to others (steal)"),
    (keys::TIME_OUTS, "retransmission time-outs"),
    (keys::TO_RECOVER, "of them to recover from a time-out"),
    (keys::TREND_CHANCE, "chance of such a trend where there is none (Mann-Kendall)"),
    (keys::WAITING_EXCHANGES, "traced exchanges with this wait"),
    (keys::WAITS_IDLE, "waits of both ends for a CPU for each message, without the load"),
    (keys::WAITS_LOADED, "the same beside the load"),
    (keys::WRITES, "write calls per request, traced"),
];
