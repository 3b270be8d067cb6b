//! Usage of the thread of one end: CPU time, context switches, migrations and CPUs.

use std::fs;

use hairpin_model::one_way::CpuTimeLine;
use hairpin_model::phases::PhaseUsage;
use hairpin_model::round::EndReport;

use crate::system::cpu;
use hairpin_loops::time;

/// A reading of the calling thread's counters.
#[derive(Clone, Debug)]
pub struct Usage {
    cpu_ns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: Option<u64>,
    cpu: Option<usize>,
}

impl Usage {
    #[must_use]
    pub fn now() -> Self {
        let migrations = fs::read_to_string("/proc/thread-self/sched").ok().as_deref().and_then(migrations);
        let (voluntary, involuntary) = cpu::thread_switches();
        Self { cpu_ns: time::thread_cpu_ns(), voluntary, involuntary, migrations, cpu: cpu::current() }
    }

    /// CPU time of the thread since the reading, in ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        time::thread_cpu_ns().saturating_sub(self.cpu_ns)
    }

    /// Usage since the reading, as the start of an end's report. Must be called on the same thread.
    #[must_use]
    pub fn since(&self, pinned_cpu: Option<usize>) -> EndReport {
        // Read the CPU time first: reading the rest uses some itself.
        let cpu_ns = self.cpu_ns();
        let now = Self::now();
        let mut seen_cpus: Vec<usize> = [self.cpu, now.cpu].into_iter().flatten().collect();
        seen_cpus.dedup();
        EndReport {
            pinned_cpu,
            seen_cpus,
            cpu_ns,
            voluntary_switches: now.voluntary.saturating_sub(self.voluntary),
            involuntary_switches: now.involuntary.saturating_sub(self.involuntary),
            used_in_all: read("/proc/thread-self/schedstat"),
            migrations: now.migrations.zip(self.migrations).map(|(now, before)| now.saturating_sub(before)),
            ..EndReport::default()
        }
    }
}

/// Usage of the first thread of a process since it began; `None` if the process is gone or the kernel does not count it
/// (Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`).
#[must_use]
pub fn of_process(id: u32) -> Option<PhaseUsage> {
    read(&format!("/proc/{id}/schedstat"))
}

fn read(file: &str) -> Option<PhaseUsage> {
    schedstat(&fs::read_to_string(file).ok()?)
}

fn schedstat(line: &str) -> Option<PhaseUsage> {
    let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
    Some(PhaseUsage { cpu_ns: numbers.next()??, waited_for_cpu_ns: numbers.next()?? })
}

/// Maximum intervals of a time line of CPU time; beyond it, pairs of intervals are merged.
pub(crate) const MAX_INTERVALS: usize = 512;

/// CPU time of the calling thread over time.
#[derive(Debug, Default)]
pub struct CpuOverTime {
    /// When it began, in ns of the clock, and the thread's CPU time then; `None` before that.
    began: Option<(u64, u64)>,
    line: CpuTimeLine,
    /// The thread's CPU time at the end of the last interval.
    used_ns: u64,
    /// Number of the caller's intervals per interval of the line.
    looks_each: u32,
    looks: u32,
}

impl CpuOverTime {
    /// A time line that begins now.
    #[must_use]
    pub fn begun(now_ns: u64) -> Self {
        let used_ns = time::thread_cpu_ns();
        let line =
            CpuTimeLine { at_ns: Vec::with_capacity(MAX_INTERVALS), cpu_ns: Vec::with_capacity(MAX_INTERVALS) };
        Self { began: Some((now_ns, used_ns)), line, used_ns, looks_each: 1, looks: 0 }
    }

    /// Ends an interval. Must be called on the same thread.
    pub fn look(&mut self, now_ns: u64) {
        if self.began.is_none() {
            return;
        }
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

    /// Ends the time line, with the usage since the last interval.
    #[must_use]
    pub fn ended(mut self, now_ns: u64) -> CpuTimeLine {
        if self.began.is_some() {
            self.note(now_ns, time::thread_cpu_ns());
        }
        self.line
    }

    fn note(&mut self, now_ns: u64, used_ns: u64) {
        let began_ns = self.began.map_or(now_ns, |(began_ns, _)| began_ns);
        let at_ns = now_ns.saturating_sub(began_ns);
        // An empty interval has no usage.
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

/// `se.nr_migrations` of `/proc/PID/sched`, which kernels without scheduler statistics lack.
fn migrations(sched: &str) -> Option<u64> {
    let line = sched.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_read_if_the_kernel_counts_them() {
        assert_eq!(migrations("a : 1\nse.nr_migrations      :      12\n"), Some(12));
        assert_eq!(migrations("nothing"), None);
    }

    #[test]
    fn the_usage_of_a_process_is_read_from_its_schedstat() {
        assert_eq!(schedstat("290006 32485 2\n"), Some(PhaseUsage { cpu_ns: 290_006, waited_for_cpu_ns: 32_485 }));
        assert_eq!((schedstat(""), schedstat("5"), schedstat("a b c")), (None, None, None));
        assert!(of_process(std::process::id()).is_some_and(|used| used.cpu_ns > 0));
        assert_eq!(of_process(u32::MAX), None);
    }

    #[test]
    fn a_time_line_of_cpu_time_is_bounded_and_loses_nothing() {
        let mut line = CpuOverTime::begun(1_000);
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
    fn before_it_began_there_is_no_time_line() {
        let mut line = CpuOverTime::default();
        line.look(5);
        assert_eq!(line.ended(7), CpuTimeLine::default());
    }

    #[test]
    fn work_shows_as_cpu_time() {
        let before = Usage::now();
        let sum = (0..2_000_000_u64).fold(0_u64, |sum, next| std::hint::black_box(sum ^ next.wrapping_mul(31)));
        std::hint::black_box(sum);
        assert!(before.since(None).cpu_ns > 0);
    }
}
