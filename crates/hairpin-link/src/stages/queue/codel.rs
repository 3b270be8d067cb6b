//! CoDel, controlled delay (RFC 8289). When packets have waited longer than the target for a whole interval, the
//! queue drops a packet as it leaves, then drops packets ever more often until the wait is below the target.
//!
//! Names are those of the RFC's pseudocode (section 5). The control law, `t + interval / sqrt(count)`, is computed in
//! whole ns, rounded down. The RFC's maximum packet size is the link's MTU.

use hairpin_model::Refused;

use super::waiting::Waiting;
pub use crate::figures::Codel;

use crate::packet::InFlight;
use crate::quantity::{shown_time, time_ns};
use crate::stage::{Contradiction, Outbox};

/// Reads `5ms/100ms`.
pub(super) fn read(value: &str) -> Result<Codel, Refused> {
    let Some((target, interval)) = value.split_once('/') else {
        let problem = format!("`{value}` does not give both a target and an interval");
        return Err(Refused::new(problem, "for instance 5ms/100ms, as RFC 8289 recommends"));
    };
    Ok(Codel { target_ns: time_ns(target)?, interval_ns: time_ns(interval)? })
}

pub(super) fn shown(codel: Codel) -> String {
    format!("{}/{}", shown_time(codel.target_ns), shown_time(codel.interval_ns))
}

pub(super) fn check(codel: &Codel) -> Option<Contradiction> {
    (codel.target_ns == 0 || codel.target_ns >= codel.interval_ns).then(|| Contradiction {
        word: "codel",
        problem: format!(
            "a target of {} does not fit an interval of {}",
            shown_time(codel.target_ns),
            shown_time(codel.interval_ns)
        ),
        hint: "a target above 0 and well below the interval, for instance 5ms/100ms".to_owned(),
    })
}

/// The state of CoDel, as in section 5 of the RFC.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    codel: Codel,
    max_packet_bytes: u64,
    first_above_time_ns: Option<u64>,
    drop_next_ns: u64,
    count: u64,
    last_count: u64,
    dropping: bool,
}

impl State {
    pub(super) fn new(codel: Codel, mtu_bytes: u32) -> Self {
        Self {
            codel,
            max_packet_bytes: u64::from(mtu_bytes),
            first_above_time_ns: None,
            drop_next_ns: 0,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// Removes and returns the next packet to send. Packets that CoDel drops go to `out`.
    pub(super) fn dequeue(&mut self, waiting: &mut Waiting, now_ns: u64, out: &mut Outbox) -> Option<InFlight> {
        let (mut packet, mut ok_to_drop) = self.take(waiting, now_ns);
        if self.dropping {
            self.dropping = ok_to_drop;
            while self.dropping && now_ns >= self.drop_next_ns {
                packet.into_iter().for_each(|packet| out.drop(packet, "codel"));
                self.count += 1;
                (packet, ok_to_drop) = self.take(waiting, now_ns);
                self.dropping = ok_to_drop;
                if ok_to_drop {
                    self.drop_next_ns = self.control_law(self.drop_next_ns);
                }
            }
        } else if ok_to_drop {
            packet.into_iter().for_each(|packet| out.drop(packet, "codel"));
            (packet, _) = self.take(waiting, now_ns);
            self.dropping = true;
            let delta = self.count.saturating_sub(self.last_count);
            let recent = now_ns.saturating_sub(self.drop_next_ns) < self.codel.interval_ns.saturating_mul(16);
            self.count = if delta > 1 && recent { delta } else { 1 };
            self.drop_next_ns = self.control_law(now_ns);
            self.last_count = self.count;
        }
        packet
    }

    /// The first waiting packet, and whether it may be dropped: the RFC's `dodequeue`.
    fn take(&mut self, waiting: &mut Waiting, now_ns: u64) -> (Option<InFlight>, bool) {
        let Some((packet, came_ns)) = waiting.pop() else {
            self.first_above_time_ns = None;
            return (None, false);
        };
        let below =
            now_ns.saturating_sub(came_ns) < self.codel.target_ns || waiting.holds().bytes <= self.max_packet_bytes;
        let ok_to_drop = match self.first_above_time_ns {
            _ if below => {
                self.first_above_time_ns = None;
                false
            }
            None => {
                self.first_above_time_ns = Some(now_ns.saturating_add(self.codel.interval_ns));
                false
            }
            Some(first_above_time_ns) => now_ns >= first_above_time_ns,
        };
        (Some(packet), ok_to_drop)
    }

    /// `t + interval / sqrt(count)`, rounded down.
    fn control_law(&self, t_ns: u64) -> u64 {
        let square = u128::from(self.codel.interval_ns).pow(2) / u128::from(self.count.max(1));
        t_ns.saturating_add(u64::try_from(square.isqrt()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::fixture::{departures, drops, fates, packets, stream};

    const MS: u64 = 1_000_000;

    /// Sends a packet of 1500 B every ms.
    const LINE: &str = "rate=12mbit queue=100000packets";

    /// The closed form for a queue that only grows. Packet k arrives at k / 2 ms and would leave the queue at k ms, so
    /// it has waited k / 2 ms. Packet 10 is the first that waited 5 ms; the first drop is 100 ms later, at 110 ms. Each
    /// later drop is due 100 ms / sqrt(count) after the previous due time, and happens when the next packet leaves the
    /// queue, at a whole ms.
    #[test]
    fn under_a_lasting_overload_packets_are_dropped_at_the_times_of_the_control_law() {
        let outcomes = fates(&format!("{LINE} codel=5ms/100ms"), &stream(4000, MS / 2));
        let dropped: Vec<u64> = drops(&outcomes).iter().map(|(_, at_ns, _)| *at_ns).collect();

        let mut expected_ns = vec![110 * MS];
        let mut law_ns: f64 = 110.0e6 + 100.0e6;
        for count in 2..=40_u32 {
            // The cast is exact: the time is a few seconds.
            expected_ns.push((law_ns / 1e6).ceil() as u64 * MS);
            law_ns += 100.0e6 / f64::from(count).sqrt();
        }
        assert_eq!(dropped[..40], expected_ns);
        assert!(drops(&outcomes).iter().all(|(.., reason)| *reason == "codel"));
    }

    #[test]
    fn a_queue_that_drains_within_the_interval_loses_nothing() {
        // 99 packets that arrive together have drained after 99 ms.
        let outcomes = fates(&format!("{LINE} codel=5ms/100ms"), &stream(99, 0));
        assert_eq!(departures(&outcomes).len(), 99);
    }

    /// At 12 kbit/s a packet takes 1 s. Each packet that leaves the queue has waited at least a second, but at most
    /// one MTU of bytes waits behind it, so the RFC does not allow a drop.
    #[test]
    fn a_packet_with_at_most_one_mtu_behind_it_is_never_dropped() {
        let half_seconds = (0..40).map(|number| (number * 2 + 1) * 500 * MS);
        let arrivals = packets([0, 0].into_iter().chain(half_seconds).map(|at_ns| (at_ns, 1500)));
        let outcomes = fates("rate=12kbit queue=10packets codel=5ms/100ms", &arrivals);
        assert_eq!(departures(&outcomes).len(), 42);
    }

    /// After the overload the queue drains, and packets that waited less than the target are not dropped.
    #[test]
    fn a_queue_below_the_target_ends_the_dropping() {
        let gap_ns = 2 * MS / 3;
        let dropped = drops(&fates(&format!("{LINE} codel=5ms/100ms"), &stream(450, gap_ns)));
        let least_wait_ns = dropped.iter().map(|(number, at_ns, _)| at_ns - number * gap_ns).min().unwrap();
        assert!(least_wait_ns >= 5 * MS, "{least_wait_ns}");
    }

    /// A second overload soon after the first resumes near the drop rate of the first: the first two drops of the
    /// second are interval / sqrt(n - 1) apart, where n is the number of drops in the first.
    #[test]
    fn a_second_overload_soon_after_resumes_the_drop_rate_of_the_first() {
        let second_ns = 4000 * MS;
        let overloads =
            (0..4000).map(|number| number * MS / 2).chain((0..2000).map(|number| second_ns + number * MS / 2));
        let dropped =
            drops(&fates(&format!("{LINE} codel=5ms/100ms"), &packets(overloads.map(|at_ns| (at_ns, 1500)))));
        let first = dropped.iter().filter(|(_, at_ns, _)| *at_ns < second_ns).count();
        let [begins_ns, next_ns] = [dropped[first].1, dropped[first + 1].1];
        assert!(first > 100, "{first}");
        let gap_ns = 100e6 / f64::from(u32::try_from(first).unwrap() - 1).sqrt();
        // The cast is exact: the gap is less than 100 ms.
        let whole_ms = (gap_ns / 1e6).ceil() as u64;
        assert_eq!(next_ns, begins_ns + whole_ms * MS);
    }
}
