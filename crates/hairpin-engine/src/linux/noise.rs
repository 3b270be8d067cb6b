//! Noise of the machine while a round runs: load, stolen time, busy time.

use std::fs;

use hairpin_model::trace::End;
use hairpin_model::{CpuNoise, Noise};

use crate::observer::{Context, Observations, Observer};
use hairpin_loops::clock::{Clock, RealClock};

/// Length of one tick of `/proc/stat` in ns: USER_HZ is 100 on every Linux.
const TICK_NS: u64 = 10_000_000;

/// Observes the noise of the machine while a client runs its round.
pub(crate) struct MachineNoise {
    clock: RealClock,
    before: Reading,
    began_ns: u64,
    noise: Noise,
}

impl Observer for MachineNoise {
    fn begin(Context { clock, end, .. }: Context<'_>) -> Option<Self> {
        let (before, began_ns) = (Reading::now(), clock.now_ns());
        (end == End::Client).then(|| Self { clock, before, began_ns, noise: Noise::default() })
    }

    fn end(&mut self) {
        self.noise = self.before.until(&Reading::now(), self.clock.now_ns() - self.began_ns);
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        to.noise = self.noise;
    }
}

/// A reading of the machine's counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    load: f64,
    pub(crate) runnable: u64,
    steal_ns: u64,
    busy_ns: u64,
    cpus: Vec<CpuNoise>,
}

impl Reading {
    /// Reads `/proc/loadavg` and `/proc/stat`; unreadable values count as 0.
    pub(crate) fn now() -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::parse(&load, &stat)
    }

    fn parse(load: &str, stat: &str) -> Self {
        let mut fields = load.split_whitespace();
        let average = fields.next().and_then(|field| field.parse().ok()).unwrap_or(0.0);
        let runnable = fields.nth(2).and_then(|field| field.split('/').next()?.parse().ok()).unwrap_or(0);
        let [steal_ns, busy_ns] = stat.lines().next().map(cpu_times_ns).unwrap_or_default();
        let cpus = stat.lines().filter_map(|line| {
            let cpu = line.strip_prefix("cpu")?.split(' ').next()?.parse().ok()?;
            let [steal_ns, busy_ns] = cpu_times_ns(line);
            Some(CpuNoise { cpu, steal_ns, busy_ns })
        });
        Self { load: average, runnable, steal_ns, busy_ns, cpus: cpus.collect() }
    }

    /// The noise between two readings.
    pub(crate) fn until(&self, after: &Self, wall_ns: u64) -> Noise {
        Noise {
            load_before: self.load,
            load_after: after.load,
            steal_ns: after.steal_ns.saturating_sub(self.steal_ns),
            busy_ns: after.busy_ns.saturating_sub(self.busy_ns),
            wall_ns,
            runnable_before: self.runnable,
            cpus: self.cpus.iter().filter_map(|before| since(before, &after.cpus)).collect(),
        }
    }
}

fn since(before: &CpuNoise, after: &[CpuNoise]) -> Option<CpuNoise> {
    let after = after.iter().find(|after| after.cpu == before.cpu)?;
    Some(CpuNoise {
        cpu: before.cpu,
        steal_ns: after.steal_ns.saturating_sub(before.steal_ns),
        busy_ns: after.busy_ns.saturating_sub(before.busy_ns),
    })
}

/// Steal time and the time of all processes of a line of `/proc/stat`.
fn cpu_times_ns(line: &str) -> [u64; 2] {
    // proc_stat(5): user nice system idle iowait irq softirq steal ...
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let at = |index: usize| fields.get(index).copied().unwrap_or(0) * TICK_NS;
    [at(7), at(0) + at(1) + at(2) + at(5) + at(6)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_parsed() {
        let before = Reading::parse(
            "0.50 0.40 0.30 2/120 4711\n",
            "cpu  10 0 5 100 0 1 1 2 0 0\ncpu0 1 2\ncpu1 9 0 5 50 0 1 1 2\n",
        );
        let after = Reading::parse(
            "0.75 0.40 0.30 3/120 4712\n",
            "cpu  14 0 6 110 0 1 2 5 0 0\ncpu1 10 0 5 50 0 1 1 4\nintr 5\n",
        );
        let noise = before.until(&after, 7);
        assert_eq!((noise.steal_ns, noise.busy_ns, noise.runnable_before), (30_000_000, 60_000_000, 2));
        assert_eq!(
            noise.cpus,
            [CpuNoise { cpu: 1, steal_ns: 20_000_000, busy_ns: 10_000_000 }],
            "CPU 0 went offline"
        );
        assert!((noise.load_after - 0.75).abs() < f64::EPSILON);
    }

    #[test]
    fn unreadable_texts_count_as_zero() {
        assert_eq!(Reading::parse("", "garbage"), Reading::default());
    }
}
