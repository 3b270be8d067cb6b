//! Random profiles and packets for the tests of this folder.

use hairpin_link::Direction;
use hairpin_link::numbers::Numbers;
use hairpin_link::packet::Packet;
use hairpin_link::profile::{PathProfile, Profile};
use hairpin_link::quantity::Share;
use hairpin_link::simulate::Arrival;
use hairpin_link::stages::delay::{Delay, Order, Shape};
use hairpin_link::stages::loss::{GilbertElliott, Loss};
use hairpin_link::stages::outage::Outage;
use hairpin_link::stages::queue::codel::Codel;
use hairpin_link::stages::queue::{Bottleneck, Limit};
use hairpin_link::stages::reorder::Reorder;
use hairpin_link::trace::Trace;
use proptest::prelude::*;

/// Maximum MTU of these profiles; byte limits of queues are at least this.
const MTU: u32 = 1500;

fn share() -> impl Strategy<Value = Share> {
    let some = (0_u32..=1_000_000_000).prop_map(|part| Share::billionths(part).expect("at most one"));
    prop_oneof![Just(Share::NONE), some, (0_u32..50_000_000).prop_map(|part| Share::billionths(part).unwrap())]
}

/// Outages in order, which neither overlap nor touch.
fn outages() -> impl Strategy<Value = Vec<Outage>> {
    prop::collection::vec((1_u64..40_000_000, 1_u64..20_000_000), 0..3).prop_map(|steps| {
        let mut now_ns = 0;
        let outage = |(gap_ns, length_ns): (u64, u64)| {
            let from_ns = now_ns + gap_ns;
            now_ns = from_ns + length_ns;
            Outage { from_ns, until_ns: now_ns }
        };
        steps.into_iter().map(outage).collect()
    })
}

fn bottleneck() -> impl Strategy<Value = Bottleneck> {
    let limit = prop_oneof![
        (1_u64..50).prop_map(|packets| Limit { packets: Some(packets), bytes: None }),
        (u64::from(MTU)..80_000).prop_map(|bytes| Limit { packets: None, bytes: Some(bytes) }),
        (1_u64..50, u64::from(MTU)..80_000)
            .prop_map(|(packets, bytes)| Limit { packets: Some(packets), bytes: Some(bytes) }),
    ];
    let codel = (1_u64..10_000_000, 1_u64..90_000_000)
        .prop_map(|(target_ns, more_ns)| Codel { target_ns, interval_ns: target_ns + more_ns });
    let some = (100_000_u64..1_000_000_000, limit, prop::option::of(codel))
        .prop_map(|(rate, limit, codel)| Bottleneck { rate_bits_per_s: Some(rate), replay: None, limit, codel });
    let trace = prop::sample::select(vec!["even", "uneven"]);
    prop_oneof![
        Just(Bottleneck::default()),
        some.clone(),
        (some, trace).prop_map(|(bottleneck, trace)| Bottleneck {
            rate_bits_per_s: None,
            replay: Some(trace.to_owned()),
            ..bottleneck
        })
    ]
}

fn numbers(least: u64) -> impl Strategy<Value = Numbers> {
    prop::collection::vec((least..100, 0_u64..4), 0..4).prop_map(|ranges| {
        Numbers::from_ranges(ranges.into_iter().map(|(first, more)| (first, first + more)).collect())
    })
}

fn loss() -> impl Strategy<Value = Loss> {
    let good = (1_u32..=1_000_000_000).prop_map(|part| Share::billionths(part).unwrap());
    let burst =
        (share(), good, share(), share()).prop_map(|(turns_bad, turns_good, lost_when_bad, lost_when_good)| {
            GilbertElliott { turns_bad, turns_good, lost_when_bad, lost_when_good }
        });
    let medium =
        prop_oneof![share().prop_map(|share| (share, None)), burst.prop_map(|burst| (Share::NONE, Some(burst)))];
    (medium, numbers(0), numbers(1)).prop_map(|((random, burst), packets, data_packets)| Loss {
        random,
        burst,
        packets,
        data_packets,
    })
}

fn delay() -> impl Strategy<Value = Delay> {
    let shape = prop::sample::select(Shape::ALL);
    let order = prop::sample::select(Order::ALL);
    (0_u64..50_000_000, 0_u64..=100, shape, order).prop_map(|(base_ns, percent, shape, order)| {
        let spread_ns = base_ns * percent / 100;
        match spread_ns {
            0 => Delay { base_ns, ..Delay::default() },
            _ => Delay { base_ns, spread_ns, shape, order },
        }
    })
}

fn reorder() -> impl Strategy<Value = Option<Reorder>> {
    let some = (1_u32..=1_000_000_000, 1_u64..20_000_000)
        .prop_map(|(part, by_ns)| Reorder { share: Share::billionths(part).unwrap(), by_ns });
    prop::option::of(some)
}

fn path() -> impl Strategy<Value = PathProfile> {
    (outages(), bottleneck(), loss(), share(), share(), delay(), reorder()).prop_map(
        |(outages, bottleneck, loss, corrupt, duplicate, delay, reorder)| PathProfile {
            outages,
            bottleneck,
            loss,
            corrupt,
            duplicate,
            delay,
            reorder,
        },
    )
}

pub(crate) fn traces() -> Vec<(String, Trace)> {
    let trace = |name: &str, text| (name.to_owned(), Trace::parse(text).expect("a trace"));
    vec![trace("even", "1\n2\n"), trace("uneven", "0\n0\n7\n8\n20\n20\n")]
}

/// Any profile; half of them with identical directions.
pub(crate) fn profile() -> impl Strategy<Value = Profile> {
    (68_u32..=MTU, path(), path(), any::<bool>()).prop_map(|(mtu_bytes, up, down, alike)| Profile {
        mtu_bytes,
        down: if alike { up.clone() } else { down },
        up,
    })
}

/// Packets of both directions in order of time, some at the same time, some larger than the MTU.
pub(crate) fn arrivals() -> impl Strategy<Value = Vec<Arrival>> {
    let gap = prop_oneof![Just(0_u64), 0_u64..3000, 0_u64..5_000_000];
    prop::collection::vec((gap, any::<bool>(), 1_u32..1600, any::<bool>()), 0..120).prop_map(|packets| {
        let mut at_ns = 0;
        let mut numbers = [0; 2];
        let arrival = |(gap_ns, down, size_bytes, carries_data): (u64, bool, u32, bool)| {
            at_ns += gap_ns;
            let number = numbers[usize::from(down)];
            numbers[usize::from(down)] += 1;
            let direction = if down { Direction::Down } else { Direction::Up };
            Arrival { at_ns, direction, packet: Packet { number, size_bytes, carries_data } }
        };
        packets.into_iter().map(arrival).collect()
    })
}
