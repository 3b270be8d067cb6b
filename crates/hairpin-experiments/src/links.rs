//! Links in a plan: which are requested, and how their round trip changes the defaults.
//!
//! What suits the loopback, where a round trip takes microseconds, measures nothing or takes forever at 600 ms. So
//! every default about time is scaled here by the round trip; values from the user are not. The number of rounds stays:
//! intervals depend on it.
//!
//! Only what [`KnownLink`] has is known of a link: no jitter, no losses, and its queue only in time-outs.

use hairpin_model::case::{LOOPBACK, PathKind};
use hairpin_model::flow::Direction;
use hairpin_model::{Card, Case, Fallback, FarHost, HostCapabilities, KnownLink, Placement, Refused, RemotePath};

use crate::knobs::Knobs;
use crate::quantity::{MAX_TIMEOUT_NS, SECOND_NS};
use crate::warm_up::WARM_UP_NS;

/// Maximum measured time of a round over a link by default, in ns, unless [`MIN_MESSAGES`] take longer.
pub const LASTS_NS: u64 = SECOND_NS;
/// Minimum messages of such a round.
pub const MIN_MESSAGES: u64 = 2;
/// Round trips for which exchanges are measured, up to [`LASTS_NS`].
const TRAVELS: u64 = 20;
/// Time-out without a link, and minimum with one, in ns.
pub const TIMEOUT_NS: u64 = 2 * SECOND_NS;
/// Round trips in the time-out of a link: a lost segment is retransmitted after one to three, and a second loss doubles
/// that (RFC 6298).
const TIMEOUT_ROUND_TRIPS: u64 = 10;
/// The time-out also covers a wait that does not depend on the round trip: the first retransmission of a connection
/// comes after 1 s (RFC 6298, section 2.1).
const FIRST_RETRANSMISSION_NS: u64 = SECOND_NS;

/// Allowance for creating and removing a link in a round, in ns; used for estimates only.
pub const START_NS: u64 = 150_000_000;

/// Sets the link of the case, and the other host if its server is there.
pub fn set(case: &mut Case, link: KnownLink, far: Option<&FarHost>) {
    case.path.name = link.name.filter(|_| link.line != LOOPBACK);
    case.path.link = link.line;
    case.path.across = far.map(|far| RemotePath { kind: PathKind::Hosts, host: far.name.clone(), fallback: None });
    if far.is_some() && case.ends.placement != Placement::Unpinned {
        case.ends.placement = Placement::Pinned;
    }
}

/// If datagrams do not get through and the user allows a fallback, replaces unreliable transports. Returns the card of
/// the one that then carries the case's first flow.
pub fn fall_back<'c>(case: &mut Case, capabilities: &'c HostCapabilities) -> Option<&'c Card> {
    let (to, evidence) = capabilities.far.as_ref()?.fallback.as_ref()?;
    let is_lost = |name: &str| capabilities.candidate(name).is_some_and(|candidate| !candidate.card.reliable);
    let from = case.flows.iter().map(|flow| flow.transport.clone()).find(|name| is_lost(name))?;
    for flow in case.flows.iter_mut().filter(|flow| is_lost(&flow.transport)) {
        flow.transport.clone_from(to);
    }
    let fallback = Fallback { from, to: to.clone(), evidence: evidence.clone() };
    case.path.across.as_mut()?.fallback = Some(fallback);
    Some(&capabilities.candidate(&case.primary().transport)?.card)
}

/// Every link of the knob `link`, in the order given, without duplicates.
///
/// # Errors
/// [`Refused`] for a link that cannot be parsed, with the reason.
pub fn asked(knobs: &Knobs, capabilities: &HostCapabilities) -> Result<Vec<KnownLink>, Refused> {
    let mut links: Vec<KnownLink> = Vec::new();
    let every: Vec<String> = capabilities.links.names.iter().map(|name| (*name).to_owned()).collect();
    for text in knobs.choices("link", &every) {
        let read = (capabilities.links.read)(&text)?;
        match links.iter_mut().find(|link| link.line == read.line) {
            Some(same) => same.name = same.name.take().or(read.name),
            None => links.push(read),
        }
    }
    Ok(links)
}

/// The link between the ends of the case; `None` on the loopback.
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

/// Travel time of a message of the case and its answer, in ns: the round-trip delay plus the bytes at the link's rates,
/// without headers. 0 on the loopback.
pub fn travel_ns(case: &Case, capabilities: &HostCapabilities) -> u64 {
    between(case, capabilities).map_or(0, |link| on_the_way_ns(case, &link))
}

/// What the kernel buffers for one connection of a stream, in bytes; used for estimates only.
const SEND_BUFFER_BYTES: u64 = 128 << 10;

/// How long a link takes to drain a stream's send buffers at the end, in ns. 0 on the loopback.
pub fn drain_ns(case: &Case, capabilities: &HostCapabilities) -> u64 {
    let flow = case.primary();
    let way = usize::from(flow.direction == Direction::Down);
    let rate = between(case, capabilities).and_then(|link| link.bits_per_s[way]);
    rate.map_or(0, |bits_per_s| {
        let bytes = u128::from(flow.wires()) * u128::from(SEND_BUFFER_BYTES.max(flow.load.size_bytes()));
        saturated(bytes * 8 * u128::from(SECOND_NS) / u128::from(bits_per_s.max(1)))
    })
}

fn on_the_way_ns(case: &Case, link: &KnownLink) -> u64 {
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

/// Messages that a round of a closed loop measures: `most`, or what fits [`LASTS_NS`], but at least [`MIN_MESSAGES`].
pub fn count(most: u64, travel_ns: u64) -> u64 {
    fitting(LASTS_NS, travel_ns).clamp(MIN_MESSAGES.min(most), most)
}

/// Their warm-up messages: `most`, or what fits the time in which CPUs settle, but at least one.
pub fn warm_up_count(most: u64, travel_ns: u64) -> u64 {
    fitting(WARM_UP_NS, travel_ns).clamp(1.min(most), most)
}

fn fitting(time_ns: u64, travel_ns: u64) -> u64 {
    time_ns.checked_div(travel_ns).unwrap_or(u64::MAX)
}

/// How long a round measures exchanges, in ns: some round trips, at least `least_ns`, up to [`LASTS_NS`].
pub fn duration_ns(least_ns: u64, travel_ns: u64) -> u64 {
    travel_ns.saturating_mul(TRAVELS).clamp(least_ns, LASTS_NS.max(least_ns))
}

/// Default time-out of an answer, in ns: ten round trips, full queues and a first retransmission, at least
/// [`TIMEOUT_NS`].
pub fn timeout_ns(case: &Case, capabilities: &HostCapabilities) -> u64 {
    let Some(link) = between(case, capabilities) else { return TIMEOUT_NS };
    let travels_ns = on_the_way_ns(case, &link).saturating_mul(TIMEOUT_ROUND_TRIPS);
    let needed_ns = travels_ns.saturating_add(link.queue_ns).saturating_add(FIRST_RETRANSMISSION_NS);
    needed_ns.clamp(TIMEOUT_NS, MAX_TIMEOUT_NS)
}
