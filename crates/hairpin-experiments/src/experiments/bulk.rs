//! `bulk`: how many bytes per second get through, one way or both ways?
//!
//! One end writes as fast as the other end reads. Loss is the difference between the sender's and the receiver's
//! counters. Goodput is measured at the receiver: the bytes after the first arrival divided by the time from the
//! first to the last arrival. Data flows up (client to server), down, or both ways at once on separate connections.
//!
//! Defaults and why:
//! - writes of 64 KiB, the size that file-copying programs use; 1400 B if each write is a message, to fit a packet.
//! - one connection with one stream, whose ends block in system calls; the ends of several connections use epoll.
//! - 200 ms per round after a warm-up of 100 ms, in which TCP opens its window. Over a link each extends to 20 round
//!   trips, at most 1 s. Both ways over a link, the round is twice and the warm-up four times as long, because both
//!   directions take longer to become steady.

use hairpin_model::flow::{Direction, LoadWays, Source};
use hairpin_model::{Card, Case, Extent, Flow, HostCapabilities, Load, Refused};

use crate::budget;
use crate::combinations::Combinations;
use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::one_way::{self, Lengths, MESSAGE_BYTES, WRITE_BYTES, in_direction};
use crate::selection;
use crate::shared::{self, AUTO};

pub const BULK: Experiment = Experiment {
    name: "bulk",
    question: "How many bytes per second get through, one way or both ways?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| matches!(case.primary().load, Load::Stream { .. }),
    refine: None,
    search: None,
};

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT,
        one_way::WAYS,
        Knob::new("write-size", "BYTES", one_way::SIZE.kind)
            .help("Size of each write, 1 B to 16 MiB [default: 64KiB; 1400B where a write is a message]")
            .many()
            .print(one_way::print_size),
        one_way::CONNECTIONS,
        one_way::THREADS,
        Knob::new("streams", "NUMBER", one_way::CONNECTIONS.kind)
            .help("Streams of each connection, up to 1000, if the transport carries several")
            .many()
            .or(&["1"])
            .print(|repeat| repeat.values("1", |case| Some(case.primary().streams.to_string()))),
        Knob::new("source", "WHAT", KnobKind::Words(Source::WORDS))
            .help("Where the bytes come from: buffer, file (by sendfile), or all; --option zerocopy=on for MSG_ZEROCOPY")
            .many()
            .or(&["buffer"])
            .print(|repeat| repeat.values("buffer", |case| Some(case.primary().load.source()?.to_string()))),
        one_way::WAITING,
        shared::PLACEMENT,
        shared::ENDS,
    ],
    shared::CIRCUMSTANCES,
    &[
        Knob::new("count", "WRITES", one_way::COUNT.kind)
            .help("Writes measured on each stream in each round, instead of --duration"),
        Knob::new("bytes", "BYTES", KnobKind::Bytes { min: 1, max: MAX_BYTES })
            .help("Bytes measured on each stream in each round, instead of --duration"),
        one_way::DURATION,
    ],
    budget::BLOCKS,
    &[Knob::new("omit", "TIME", KnobKind::ExtentOr(AUTO))
        .help("Warm-up to omit from each round: a time or writes; auto: 100ms, over a link up to 1s, up to 4s both ways")
        .or(&[AUTO])],
    one_way::RUN,
];

/// Maximum number of bytes that a stream carries in a round.
const MAX_BYTES: u64 = 1 << 50;

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let (lengths, bytes) = (Lengths::read(knobs, "omit")?, knobs.value::<u64>("bytes"));
    if bytes.is_some() && lengths.extent.is_some() {
        let what = "--bytes, --count and --duration each set the length of a round";
        return Err(Refused::new(what, "give one of them"));
    }
    let candidates = selection::candidates(knobs, "transport", capabilities)?;
    let first = |card: &Card| {
        let write_size_bytes = if card.boundaries { MESSAGE_BYTES } else { WRITE_BYTES };
        Case::of(Flow::stream(card.name, write_size_bytes, Direction::Up))
    };
    Combinations::default()
        .each(knobs.values("write-size"), |case, size: u64| case.primary_mut().load.set_sizes(size, 0))
        .each(knobs.choices("source", Source::ALL), |case, from| {
            if let Load::Stream { source, .. } = &mut case.primary_mut().load {
                *source = from;
            }
        })
        .each(one_way::counts(knobs, "connections"), |case, count| case.primary_mut().connections = count)
        .each(one_way::counts(knobs, "threads"), |case, count| case.primary_mut().threads = count)
        .each(one_way::counts(knobs, "streams"), |case, count| case.primary_mut().streams = count)
        .in_circumstances(knobs, capabilities, |_| true)?
        // The flow back copies all settings of the first flow, so it is added last.
        .each(knobs.choices("direction", LoadWays::SOME), |case, ways| *case = in_direction(case, ways))
        .with_replicates(knobs)
        .plan(&candidates, capabilities, first, |case, _| {
            let writes = bytes.map(|bytes| Extent::Count(bytes.div_ceil(case.primary().load.size_bytes())));
            let lengths = Lengths { extent: writes.or(lengths.extent), ..lengths };
            lengths.planned(case, knobs, capabilities)
        })
}
