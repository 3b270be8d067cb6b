//! CPU time of one end's thread during a one-way load, by interval.

use hairpin_model::CpuTimeLine;

use crate::observer::{Context, Mark, Observations, Observer};
use hairpin_loops::clock::{Clock, RealClock};
use hairpin_loops::time;

/// Maximum intervals of a time line. Pairs of intervals are merged when the maximum is reached.
const MAX_INTERVALS: usize = 512;

/// The CPU time of the calling thread by interval.
pub(crate) struct CpuOverTime {
    clock: RealClock,
    /// Start of the load in ns of the clock; `None` before the load.
    began_ns: Option<u64>,
    line: CpuTimeLine,
    /// The thread's CPU time at the end of the last interval.
    used_ns: u64,
    /// Number of [`Mark::Running`] marks per interval of the time line.
    looks_each: u32,
    looks: u32,
}

impl Observer for CpuOverTime {
    fn begin(context: Context<'_>) -> Option<Self> {
        context.order.case.primary().load.is_one_way().then(|| Self::new(context.clock))
    }

    fn mark(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::First => (self.used_ns, self.began_ns) = (time::thread_cpu_ns(), Some(self.clock.now_ns())),
            Mark::Running(now_ns) => self.on_running(now_ns),
            Mark::Last => self.note(self.clock.now_ns(), time::thread_cpu_ns()),
            _ => {}
        }
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        to.report.cpu_time_line = Some(self.line);
    }
}

impl CpuOverTime {
    fn new(clock: RealClock) -> Self {
        let line =
            CpuTimeLine { at_ns: Vec::with_capacity(MAX_INTERVALS), cpu_ns: Vec::with_capacity(MAX_INTERVALS) };
        Self { clock, began_ns: None, line, used_ns: 0, looks_each: 1, looks: 0 }
    }

    /// Handles a mark, which may end an interval. Call it on the measured thread.
    fn on_running(&mut self, now_ns: u64) {
        self.looks += 1;
        if self.looks < self.looks_each {
            return;
        }
        self.looks = 0;
        self.note(now_ns, time::thread_cpu_ns());
        if self.line.at_ns.len() >= MAX_INTERVALS {
            self.halve();
        }
    }

    fn note(&mut self, now_ns: u64, used_ns: u64) {
        let Some(began_ns) = self.began_ns else { return };
        let at_ns = now_ns.saturating_sub(began_ns);
        // Skip an empty interval.
        if self.line.at_ns.last().copied().unwrap_or(0) < at_ns {
            self.line.at_ns.push(at_ns);
            self.line.cpu_ns.push(used_ns.saturating_sub(self.used_ns));
            self.used_ns = used_ns;
        }
    }

    fn halve(&mut self) {
        let both = self.line.at_ns.chunks_exact(2).zip(self.line.cpu_ns.chunks_exact(2));
        let halved: Vec<(u64, u64)> = both.map(|(at, cpu)| (at[1], cpu[0] + cpu[1])).collect();
        (self.line.at_ns, self.line.cpu_ns) = halved.into_iter().unzip();
        self.looks_each *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_line_of_cpu_time_is_bounded_and_loses_nothing() {
        let mut line = CpuOverTime { began_ns: Some(1_000), ..CpuOverTime::new(RealClock::calibrated()) };
        for used in 1..=2 * MAX_INTERVALS as u64 {
            line.note(1_000 + 10 * used, line.used_ns + 3);
            if line.line.at_ns.len() >= MAX_INTERVALS {
                line.halve();
            }
        }
        let CpuTimeLine { at_ns, cpu_ns } = line.line;
        assert!(at_ns.len() < MAX_INTERVALS && at_ns.len() == cpu_ns.len());
        assert_eq!(
            (at_ns.last(), cpu_ns.iter().sum::<u64>()),
            (Some(&(20 * MAX_INTERVALS as u64)), 6 * MAX_INTERVALS as u64)
        );
    }

    #[test]
    fn no_interval_is_recorded_before_the_load() {
        let mut line = CpuOverTime::new(RealClock::calibrated());
        line.mark(Mark::Running(5));
        line.mark(Mark::Last);
        assert_eq!(line.line, CpuTimeLine::default());
    }
}
