//! Counts of one direction by time interval, in a bounded number of equal intervals.

use hairpin_model::LinkTimeline;

use crate::stage::Held;

const MAX_INTERVALS: usize = 256;

/// Initial length of an interval: 1 ms.
const FIRST_INTERVAL_NS: u64 = 1_000_000;

/// Counts by interval. Pairs of intervals are merged when the maximum is reached.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    interval_ns: u64,
    begun: usize,
    entered: [u64; MAX_INTERVALS],
    out: [u64; MAX_INTERVALS],
    /// Drops by stage, in path order.
    dropped: Vec<[u64; MAX_INTERVALS]>,
    packets_max: [u64; MAX_INTERVALS],
    bytes_max: [u64; MAX_INTERVALS],
    out_bytes: [u64; MAX_INTERVALS],
    /// Integral of the queue's depth over time, in bytes times ns.
    byte_ns: [u128; MAX_INTERVALS],
    standing: Held,
    /// Time until which `byte_ns` includes the queue's depth, in ns.
    integrated_ns: u64,
    latest_ns: u64,
}

impl Timeline {
    pub(crate) fn new(stages: usize) -> Self {
        Self {
            interval_ns: FIRST_INTERVAL_NS,
            begun: 0,
            entered: [0; MAX_INTERVALS],
            out: [0; MAX_INTERVALS],
            dropped: vec![[0; MAX_INTERVALS]; stages],
            packets_max: [0; MAX_INTERVALS],
            bytes_max: [0; MAX_INTERVALS],
            out_bytes: [0; MAX_INTERVALS],
            byte_ns: [0; MAX_INTERVALS],
            standing: Held::default(),
            integrated_ns: 0,
            latest_ns: 0,
        }
    }

    pub(crate) fn entered(&mut self, now_ns: u64) {
        let at = self.at(now_ns);
        self.entered[at] += 1;
    }

    pub(crate) fn left(&mut self, now_ns: u64, bytes: u64) {
        let at = self.at(now_ns);
        self.out[at] += 1;
        self.out_bytes[at] += bytes;
    }

    pub(crate) fn dropped(&mut self, now_ns: u64, stage: usize) {
        let at = self.at(now_ns);
        self.dropped[stage][at] += 1;
    }

    pub(crate) fn queue(&mut self, now_ns: u64, depth: Held) {
        let at = self.at(now_ns);
        self.integrate(now_ns);
        self.standing = depth;
        self.packets_max[at] = self.packets_max[at].max(depth.packets);
        self.bytes_max[at] = self.bytes_max[at].max(depth.bytes);
    }

    /// Adds the queue's depth until `now_ns` to `byte_ns`.
    fn integrate(&mut self, now_ns: u64) {
        while self.integrated_ns < now_ns {
            let at = usize::try_from(self.integrated_ns / self.interval_ns).unwrap_or(MAX_INTERVALS - 1);
            let ends_ns = (at as u64 + 1).saturating_mul(self.interval_ns).min(now_ns);
            self.byte_ns[at] += u128::from(self.standing.bytes) * u128::from(ends_ns - self.integrated_ns);
            self.integrated_ns = ends_ns;
        }
    }

    /// Index of the interval that contains `now_ns`. New intervals start with the queue's current depth.
    fn at(&mut self, now_ns: u64) -> usize {
        while now_ns / self.interval_ns >= MAX_INTERVALS as u64 {
            self.halve();
        }
        self.latest_ns = self.latest_ns.max(now_ns);
        let at = usize::try_from(now_ns / self.interval_ns).expect("fewer than the intervals");
        while self.begun <= at {
            self.packets_max[self.begun] = self.standing.packets;
            self.bytes_max[self.begun] = self.standing.bytes;
            self.begun += 1;
        }
        at
    }

    /// Merges each pair of intervals.
    fn halve(&mut self) {
        let sum = |values: &mut [u64; MAX_INTERVALS]| join(values, |first, second| first + second);
        sum(&mut self.entered);
        sum(&mut self.out);
        self.dropped.iter_mut().for_each(sum);
        join(&mut self.packets_max, u64::max);
        join(&mut self.bytes_max, u64::max);
        sum(&mut self.out_bytes);
        join(&mut self.byte_ns, |first, second| first + second);
        self.begun = self.begun.div_ceil(2);
        self.interval_ns = self.interval_ns.saturating_mul(2);
    }

    /// Mean queue depth over the elapsed part of an interval, in bytes; the current depth if nothing has elapsed.
    fn mean_bytes(&self, at: usize) -> u64 {
        let begin_ns = at as u64 * self.interval_ns;
        let over_ns = self.integrated_ns.saturating_sub(begin_ns).min(self.interval_ns);
        let mean = self.byte_ns[at].checked_div(u128::from(over_ns));
        mean.map_or(self.standing.bytes, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
    }

    pub(crate) fn record(&self, stages: impl Iterator<Item = &'static str>) -> LinkTimeline {
        let begun = |values: &[u64; MAX_INTERVALS]| values[..self.begun].to_vec();
        let mut whole = self.clone();
        whole.integrate(self.latest_ns);
        let dropped = stages.zip(&self.dropped).filter(|(_, counts)| counts.iter().any(|count| *count > 0));
        LinkTimeline {
            interval_ns: self.interval_ns,
            entered: begun(&self.entered),
            out: begun(&self.out),
            dropped: dropped.map(|(stage, counts)| (stage.to_owned(), begun(counts))).collect(),
            queue_packets_max: begun(&self.packets_max),
            queue_bytes_max: begun(&self.bytes_max),
            queue_bytes_mean: (0..self.begun).map(|at| whole.mean_bytes(at)).collect(),
            out_bytes: begun(&self.out_bytes),
        }
    }
}

fn join<T: Copy + Default>(values: &mut [T; MAX_INTERVALS], both: impl Fn(T, T) -> T) {
    for at in 0..MAX_INTERVALS / 2 {
        values[at] = both(values[2 * at], values[2 * at + 1]);
    }
    values[MAX_INTERVALS / 2..].fill(T::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn intervals_without_events_show_the_current_queue_depth() {
        let mut timeline = Timeline::new(1);
        timeline.entered(0);
        timeline.queue(0, Held { packets: 5, bytes: 500 });
        timeline.queue(MS / 2, Held { packets: 2, bytes: 200 });
        timeline.dropped(3 * MS, 0);
        timeline.queue(3 * MS, Held { packets: 1, bytes: 100 });
        timeline.left(4 * MS, 1500);
        let record = timeline.record(["queue"].into_iter());
        assert_eq!(record.interval_ns, MS);
        assert_eq!(record.entered, [1, 0, 0, 0, 0]);
        assert_eq!(record.out, [0, 0, 0, 0, 1]);
        assert_eq!(record.dropped["queue"], [0, 0, 0, 1, 0]);
        assert_eq!(record.queue_packets_max, [5, 2, 2, 2, 1]);
        assert_eq!(record.queue_bytes_max, [500, 200, 200, 200, 100]);
        assert_eq!(record.out_bytes, [0, 0, 0, 0, 1500]);
        assert_eq!(record.queue_bytes_mean, [350, 200, 200, 100, 100]);
    }

    #[test]
    fn merging_intervals_loses_no_count() {
        let mut timeline = Timeline::new(0);
        for ms in 0..600 {
            timeline.entered(ms * MS);
            timeline.queue(ms * MS, Held { packets: ms, bytes: 40 });
        }
        let record = timeline.record([].into_iter());
        assert_eq!(record.interval_ns, 4 * MS);
        assert_eq!(record.entered, [4; 150]);
        assert_eq!(record.queue_packets_max[1], 7);
        assert!(record.queue_bytes_mean.iter().all(|mean| *mean == 40), "{:?}", record.queue_bytes_mean);
        timeline.entered(u64::MAX);
        assert_eq!(timeline.record([].into_iter()).entered.iter().sum::<u64>(), 601);
    }

    #[test]
    fn the_depth_of_the_last_interval_survives_a_merge_with_an_unused_interval() {
        let mut timeline = Timeline::new(0);
        timeline.queue(4 * MS, Held { packets: 9, bytes: 900 });
        timeline.queue(4 * MS, Held::default());
        timeline.entered(300 * MS);
        let record = timeline.record([].into_iter());
        assert_eq!((record.interval_ns, record.queue_packets_max[2], record.queue_bytes_max[2]), (2 * MS, 9, 900));
        assert_eq!(record.queue_packets_max.iter().sum::<u64>(), 9);
    }
}
