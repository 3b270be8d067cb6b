//! Forecast of the traffic of one-way loads, shown before a run because such a load may fill a path.

use hairpin_model::flow::Direction;
use hairpin_model::{Extent, Flow, HostCapabilities, Load, PlannedTraffic, RoundOrder};

use crate::links;
use crate::quantity::SECOND_NS;

/// Returns the traffic of the one-way loads in `blocks` blocks of these rounds, including warm-up.
pub(crate) fn forecast(planned: &[RoundOrder], blocks: u64, capabilities: &HostCapabilities) -> PlannedTraffic {
    let mut sends = PlannedTraffic::default();
    for planned in planned {
        let mut at_full_speed_s: f64 = 0.0;
        let link = links::between(&planned.case, capabilities);
        let extents = match &planned.phases {
            Some(lengths) => [lengths.ramp, lengths.loaded].map(Extent::DurationNs),
            None => [planned.warm_up, planned.extent],
        };
        for flow in planned.case.flows.iter().filter(|flow| flow.load.is_one_way()) {
            let way = usize::from(flow.direction == Direction::Down);
            let bits_per_s = link.as_ref().and_then(|link| link.bits_per_s[way]);
            let mut of_flow = PlannedTraffic::default();
            extents.into_iter().for_each(|extent| add_traffic(&mut of_flow, flow, extent, bits_per_s));
            sends.bytes = sends.bytes.saturating_add(of_flow.bytes);
            // The flows of a case run at the same time.
            at_full_speed_s = at_full_speed_s.max(of_flow.at_full_speed_s);
        }
        sends.at_full_speed_s += at_full_speed_s;
    }
    PlannedTraffic {
        bytes: sends.bytes.saturating_mul(blocks),
        at_full_speed_s: sends.at_full_speed_s * blocks as f64,
    }
}

/// Adds the traffic of a flow in one part of a round. A stream is limited by the link; retransmissions are omitted.
fn add_traffic(sends: &mut PlannedTraffic, flow: &Flow, extent: Extent, bits_per_s: Option<u64>) {
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
    // The cast saturates, which is enough for a forecast.
    sends.bytes = sends.bytes.saturating_add(bytes as u64);
}

#[cfg(test)]
mod tests {
    use hairpin_model::Arrivals;
    use hairpin_model::flow::Pacing;

    use super::*;

    fn sent(flow: Flow, extent: Extent, bits_per_s: Option<u64>) -> PlannedTraffic {
        let mut sends = PlannedTraffic::default();
        add_traffic(&mut sends, &flow, extent, bits_per_s);
        sends
    }

    #[test]
    fn bytes_are_known_from_a_count_a_rate_or_a_link_otherwise_only_the_time_is_known() {
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
