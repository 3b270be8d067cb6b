//! Reads the requested links, and scales defaults by the round-trip time of a link.
//!
//! Durations that suit the loopback, where a round trip takes microseconds, would measure nothing at 600 ms, and
//! counts would take hours. So this module scales every default duration and count by the round-trip time. Values
//! from the user are not scaled. The number of rounds is not scaled, because the width of intervals depends on it.
//!
//! A plan knows a link only as a [`KnownLink`], without jitter and losses. Only time-outs consider the queue.

use hairpin_model::case::{LOOPBACK, PathKind};
use hairpin_model::flow::Direction;
use hairpin_model::{Case, Fallback, FarHost, HostCapabilities, KnownLink, Placement, Refused, RemotePath};

use crate::knobs::Knobs;
use crate::quantity::{MAX_TIMEOUT_NS, SECOND_NS};
use crate::warm_up::WARM_UP_NS;

/// Default maximum measured time of a round over a link, in ns. [`MIN_MESSAGES`] may take longer.
pub const LASTS_NS: u64 = SECOND_NS;
/// Minimum messages of a round over a link.
pub const MIN_MESSAGES: u64 = 2;
/// Default measured time in round trips, up to [`LASTS_NS`].
const DURATION_ROUND_TRIPS: u64 = 20;
/// Time-out without a link and minimum time-out over a link, in ns.
pub const TIMEOUT_NS: u64 = 2 * SECOND_NS;
/// Round trips in the time-out of a link: a lost segment is retransmitted after one to three round trips, and each
/// further loss doubles that time (RFC 6298).
const TIMEOUT_ROUND_TRIPS: u64 = 10;
/// Part of the time-out that does not depend on the round trip: the first retransmission of a connection is sent
/// after 1 s (RFC 6298, section 2.1).
const FIRST_RETRANSMISSION_NS: u64 = SECOND_NS;

/// Allowance for creating and removing a link in a round, in ns; used for estimates only.
pub const START_NS: u64 = 150_000_000;

/// Sets the link of the case, and the server's host `far` unless the server runs on this host.
pub fn set(case: &mut Case, link: KnownLink, far: Option<&FarHost>) {
    case.path.name = link.name.filter(|_| link.line != LOOPBACK);
    case.path.link = link.line;
    let kind = |far: &FarHost| if far.is_foreign { PathKind::ForeignServer } else { PathKind::Hosts };
    case.path.across = far.map(|far| RemotePath { kind: kind(far), host: far.name.clone(), fallback: None });
    if far.is_some() && case.ends.placement != Placement::Unpinned {
        case.ends.placement = Placement::Pinned;
    }
}

/// Replaces unreliable transports if datagrams do not get through and the user allows a fallback. Returns `None` if
/// nothing was replaced.
pub fn fall_back(case: &mut Case, capabilities: &HostCapabilities) -> Option<()> {
    let (to, evidence) = capabilities.far.as_ref()?.fallback.as_ref()?;
    let is_lost = |name: &str| capabilities.candidate(name).is_some_and(|candidate| !candidate.card.reliable);
    let from = case.flows.iter().map(|flow| flow.transport.clone()).find(|name| is_lost(name))?;
    for flow in case.flows.iter_mut().filter(|flow| is_lost(&flow.transport)) {
        flow.transport.clone_from(to);
    }
    case.path.across.as_mut()?.fallback = Some(Fallback { from, to: to.clone(), evidence: evidence.clone() });
    Some(())
}

/// Returns the values of the knob `link`, in the order given, without duplicates.
pub fn asked(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Vec<KnownLink>, Refused> {
    let mut links: Vec<KnownLink> = Vec::new();
    let every: Vec<String> = capabilities.links.names.iter().map(|name| (*name).to_owned()).collect();
    // The network between two hosts is real, whatever link an experiment has by default.
    let is_default = capabilities.far.is_some() && !knobs.is_given("link");
    let chosen = if is_default { vec![LOOPBACK.to_owned()] } else { knobs.choices("link", &every) };
    for text in chosen {
        let read = (capabilities.links.read)(&text)?;
        match links.iter_mut().find(|link| link.line == read.line) {
            Some(same) => same.name = same.name.take().or(read.name),
            None => links.push(read),
        }
    }
    Ok(links)
}

/// Returns the link between the ends of the case; `None` on the loopback.
pub fn between(case: &Case, capabilities: &HostCapabilities) -> Option<KnownLink> {
    if case.is_emulated() {
        return (capabilities.links.read)(&case.path.link).ok();
    }
    let far = capabilities.far.as_ref().filter(|_| case.path.across.is_some())?;
    Some(KnownLink {
        name: None,
        line: LOOPBACK.to_owned(),
        round_trip_ns: far.round_trip_ns,
        bits_per_s: [None, None],
        mtu_bytes: u32::MAX,
        queue_ns: 0,
        may_lose: true,
    })
}

/// Travel time of a message and its answer, in ns: the round-trip delay plus the serialization time at the link's
/// rates, without headers. 0 on the loopback.
pub fn travel_ns(case: &Case, capabilities: &HostCapabilities) -> u64 {
    between(case, capabilities).map_or(0, |link| link_travel_ns(case, &link))
}

/// Kernel send buffer of one connection of a stream, in bytes; used for estimates only.
const SEND_BUFFER_BYTES: u64 = 128 << 10;

/// Time that a link takes to drain a stream's send buffers at the end, in ns. 0 on the loopback.
pub fn drain_ns(case: &Case, capabilities: &HostCapabilities) -> u64 {
    let flow = case.primary();
    let way = usize::from(flow.direction == Direction::Down);
    let rate = between(case, capabilities).and_then(|link| link.bits_per_s[way]);
    rate.map_or(0, |bits_per_s| {
        let bytes = u128::from(flow.wires()) * u128::from(SEND_BUFFER_BYTES.max(flow.load.size_bytes()));
        saturated(bytes * 8 * u128::from(SECOND_NS) / u128::from(bits_per_s.max(1)))
    })
}

fn link_travel_ns(case: &Case, link: &KnownLink) -> u64 {
    let sizes = [case.primary().load.size_bytes(), case.primary().load.reply_size_bytes()];
    let sent_ns = sizes.into_iter().zip(link.bits_per_s).map(|(bytes, rate)| match rate {
        Some(bits_per_s) => saturated(u128::from(bytes) * 8 * u128::from(SECOND_NS) / u128::from(bits_per_s.max(1))),
        None => 0,
    });
    sent_ns.fold(link.round_trip_ns, u64::saturating_add)
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Messages per round of a closed loop: `max`, or the number that fits [`LASTS_NS`], but at least [`MIN_MESSAGES`].
pub fn count(max: u64, travel_ns: u64) -> u64 {
    round_trips_within(LASTS_NS, travel_ns).clamp(MIN_MESSAGES.min(max), max)
}

/// Warm-up messages per round of a closed loop: `max`, or the number that fits [`WARM_UP_NS`], but at least one.
pub fn warm_up_count(max: u64, travel_ns: u64) -> u64 {
    round_trips_within(WARM_UP_NS, travel_ns).clamp(1.min(max), max)
}

fn round_trips_within(time_ns: u64, travel_ns: u64) -> u64 {
    time_ns.checked_div(travel_ns).unwrap_or(u64::MAX)
}

/// Duration of a round or a warm-up, in ns: `DURATION_ROUND_TRIPS`, at least `min_ns`, up to [`LASTS_NS`].
pub fn duration_ns(min_ns: u64, travel_ns: u64) -> u64 {
    travel_ns.saturating_mul(DURATION_ROUND_TRIPS).clamp(min_ns, LASTS_NS.max(min_ns))
}

/// Default time-out of an answer, in ns: ten round trips plus the delay of a full queue plus the time-out of a first
/// retransmission, at least [`TIMEOUT_NS`].
pub fn timeout_ns(case: &Case, capabilities: &HostCapabilities) -> u64 {
    let Some(link) = between(case, capabilities) else { return TIMEOUT_NS };
    let travels_ns = link_travel_ns(case, &link).saturating_mul(TIMEOUT_ROUND_TRIPS);
    let needed_ns = travels_ns.saturating_add(link.queue_ns).saturating_add(FIRST_RETRANSMISSION_NS);
    needed_ns.clamp(TIMEOUT_NS, MAX_TIMEOUT_NS)
}
