//! Traffic of the rounds, which is announced, since a load without answers may fill a path.

use hairpin_model::flow::Direction;
use hairpin_model::{Extent, Flow, HostCapabilities, Load, PlannedTraffic};

use crate::links;
use crate::quantity::SECOND_NS;
use crate::sequence::Planned;

/// Traffic of the one-way loads of `blocks` blocks of these cases, with warm-up.
pub(crate) fn forecast(planned: &[Planned], blocks: u64, capabilities: &HostCapabilities) -> PlannedTraffic {
    let mut sends = PlannedTraffic::default();
    for one in planned {
        let mut at_full_speed_s: f64 = 0.0;
        let link = links::between(&one.case, capabilities);
        let extents = match &one.phases {
            Some(lengths) => [lengths.ramp, lengths.loaded].map(Extent::DurationNs),
            None => [one.warm_up, one.extent],
        };
        for flow in one.case.flows.iter().filter(|flow| flow.load.is_one_way()) {
            let way = usize::from(flow.direction == Direction::Down);
            let bits_per_s = link.as_ref().and_then(|link| link.bits_per_s[way]);
            let mut of_flow = PlannedTraffic::default();
            extents.into_iter().for_each(|extent| add(&mut of_flow, flow, extent, bits_per_s));
            sends.bytes = sends.bytes.saturating_add(of_flow.bytes);
            // Flows of a case run at once.
            at_full_speed_s = at_full_speed_s.max(of_flow.at_full_speed_s);
        }
        sends.at_full_speed_s += at_full_speed_s;
    }
    PlannedTraffic {
        bytes: sends.bytes.saturating_mul(blocks),
        at_full_speed_s: sends.at_full_speed_s * blocks as f64,
    }
}

/// Adds the traffic of a flow in a part of a round. A stream sends no more than the link carries; lost datagrams do not
/// count.
fn add(sends: &mut PlannedTraffic, flow: &Flow, extent: Extent, bits_per_s: Option<u64>) {
    let size_bytes = flow.load.size_bytes() as f64;
    let seconds = |duration_ns: u64| duration_ns as f64 / SECOND_NS as f64;
    let bytes = match (&flow.load, extent) {
        (Load::Offered { offered_per_s, .. }, Extent::DurationNs(duration_ns)) => {
            offered_per_s * seconds(duration_ns) * size_bytes
        }
        (_, Extent::Count(count)) => count as f64 * flow.wires() as f64 * size_bytes,
        (_, Extent::DurationNs(duration_ns)) => {
            let Some(bits_per_s) = bits_per_s else {
                sends.at_full_speed_s += seconds(duration_ns);
                return;
            };
            bits_per_s as f64 / 8.0 * seconds(duration_ns)
        }
    };
    // Saturates: such numbers need not be exact.
    sends.bytes = sends.bytes.saturating_add(bytes as u64);
}

#[cfg(test)]
mod tests {
    use hairpin_model::Arrivals;
    use hairpin_model::flow::Pacing;

    use super::*;

    fn sent(flow: Flow, extent: Extent, bits_per_s: Option<u64>) -> PlannedTraffic {
        let mut sends = PlannedTraffic::default();
        add(&mut sends, &flow, extent, bits_per_s);
        sends
    }

    #[test]
    fn bytes_follow_from_a_count_a_rate_or_a_link_else_only_the_time_is_known() {
        let stream = || Flow { connections: 3, ..Flow::stream("tcp", 1000, Direction::Up) };
        let second = Extent::DurationNs(SECOND_NS);
        assert_eq!(sent(stream(), Extent::Count(7), Some(1)), PlannedTraffic { bytes: 21_000, at_full_speed_s: 0.0 });
        assert_eq!(
            sent(stream(), second, Some(8_000_000)),
            PlannedTraffic { bytes: 1_000_000, at_full_speed_s: 0.0 }
        );
        assert_eq!(sent(stream(), second, None), PlannedTraffic { bytes: 0, at_full_speed_s: 1.0 });
        let load =
            Load::Offered { offered_per_s: 50.0, size_bytes: 10, arrivals: Arrivals::Fixed, pacing: Pacing::Spin };
        let offered = || Flow { load: load.clone(), ..stream() };
        assert_eq!(sent(offered(), Extent::DurationNs(3 * SECOND_NS), Some(1)).bytes, 1500);
        assert_eq!(sent(offered(), Extent::Count(7), None).bytes, 210);
    }
}
