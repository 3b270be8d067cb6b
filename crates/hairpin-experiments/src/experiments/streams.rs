//! `streams`: what does one lost packet delay, if several streams share a connection, and if they do not?
//!
//! An open loop of messages from client to server, on several streams in turn, over a link that loses packets. One-way latency
//! counts from the due time, by stream. A message waited for another stream's data if it arrived late together with an earlier one
//! of another stream (`by_stream` in the saved run, finding `head-of-line-blocking`).
//!
//! Defaults and why:
//! - several streams on one connection where the transport has streams (TCP in frames of Hairpin, HTTP/2, QUIC), and as many
//!   connections of TCP and flows of UDP.
//! - 4 streams, 150 messages/s of 200 B: each message has a packet of its own (`nodelay`), each stream has several messages due
//!   while a lost packet is sent again, and the bytes in flight fit the smallest congestion window.
//! - a link of 20 ms each way that loses 1 % of the packets towards the server.
//! - rounds of at most 1 s after the warm-up, as in `offered-load`.

use hairpin_model::flow::Channels;
use hairpin_model::{HostCapabilities, Load, Refused};

use crate::experiment::{Experiment, Planning};
use crate::knob::{Knob, KnobKind, count, joined};
use crate::knobs::Knobs;
use crate::one_way::{self, Lengths};
use crate::selection;
use crate::shared;

pub const STREAMS: Experiment = Experiment {
    name: "streams",
    question: "What does one lost packet delay, if several streams share a connection, and if they do not?",
    knobs: &joined::<{ count(KNOBS) }>(KNOBS),
    plan,
    repeats: |case| matches!(case.primary().load, Load::Offered { .. }) && case.primary().wires() > 1,
    refine: None,
    search: None,
};

/// The transports that are compared by default, as far as they are built in.
const TRANSPORTS: &[&str] = &["tcp-streams", "http2", "quic", "tcp", "udp"];

const KNOBS: &[&[Knob]] = &[
    &[
        shared::TRANSPORT
            .help("Transports, separated by commas, or all [default: tcp-streams, http2, quic, tcp and udp]"),
        Knob::new("streams", "NUMBER", KnobKind::Whole { min: 2, max: one_way::MAX_CONNECTIONS })
            .help("Streams that share the load, up to 1000")
            .many()
            .or(&["4"])
            .print(|repeat| repeat.values("", |case| Some(case.primary().wires().to_string()))),
        Knob::new("channels", "WHICH", KnobKind::Words(Channels::WORDS))
            .help("What carries the streams: shared (one connection), separate, or all [default: shared if possible]")
            .many()
            .print(|repeat| repeat.values("", |case| Some(case.primary().channels().to_string()))),
        one_way::DIRECTION,
        one_way::SIZE.or(&["200B"]),
        Knob::new("rate", "MESSAGES", KnobKind::Rate { max_per_s: one_way::MAX_OFFERED_PER_S })
            .help("Messages offered per second, over all streams in turn")
            .many()
            .or(&["150"])
            .print(shared::print_rate),
        one_way::ARRIVALS,
        one_way::PACING,
        one_way::WAITING,
        shared::PLACEMENT,
        shared::ENDS,
        shared::ALIKE_OPTION,
        shared::LINK.or(&["up.loss=1% delay=20ms"]).print(shared::print_link),
        shared::SYSCTL,
        shared::CPU_IDLE,
    ],
    one_way::ROUNDS,
    one_way::RUN,
];

fn plan(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Planning, Refused> {
    let lengths = Lengths::read(knobs, "warmup")?;
    let candidates = selection::candidates_or(TRANSPORTS, knobs, capabilities)?;
    let channels: Vec<Channels> = knobs.choices("channels", Channels::ALL);
    let rates: Vec<f64> = knobs.values("rate");
    one_way::offered_loads(knobs)
        .each(one_way::counts(knobs, "streams"), |case, count| case.primary_mut().connections = count)
        .vary(channels.len().max(1), move |case, card| {
            let default = if card.many_streams { Channels::Shared } else { Channels::Separate };
            let chosen = if channels.is_empty() { vec![default] } else { channels.clone() };
            chosen
                .into_iter()
                .map(|channels| case.clone().with(|case| case.primary_mut().set_channels(channels)))
                .collect()
        })
        .in_circumstances(knobs, capabilities, |_| true)?
        .with_alike_options(knobs)
        .each(rates, |case, rate: f64| *case = case.at_rate(rate))
        .with_replicates(knobs)
        .plan(&candidates, capabilities, one_way::offered, |case, _| lengths.planned(case, knobs, capabilities))
}
