//! Usage of the thread of one end: CPU time, context switches, migrations and CPUs.

use std::fs;

use hairpin_model::phases::PhaseUsage;
use hairpin_model::round::EndReport;

use crate::observer::{Context, Mark, Observations, Observer};
use crate::system::cpu;
use hairpin_loops::time;

/// The usage of an end between its marks.
struct OfEnd {
    pinned: Option<usize>,
    /// At the first measured message, or at the begin of the load before it.
    before: Usage,
    used: Option<EndReport>,
    /// CPU time used until a one-way load had last received something.
    until_latest_ns: Option<u64>,
}

pub(crate) fn observer(_: Context<'_>) -> Option<Box<dyn Observer + '_>> {
    Some(Box::new(OfEnd { pinned: None, before: Usage::now(), used: None, until_latest_ns: None }))
}

impl Observer for OfEnd {
    fn mark(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::Opening { pinned, .. } => self.pinned = pinned,
            Mark::Load(_) | Mark::First => self.before = Usage::now(),
            Mark::Running(_) => {}
            Mark::Latest => self.until_latest_ns = Some(self.before.cpu_ns()),
            Mark::Last => self.used = Some(self.before.since(self.pinned)),
        }
    }

    fn end(&mut self) {
        self.used.get_or_insert_with(|| self.before.since(self.pinned));
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        let Some(used) = self.used else { return };
        // A busy-polling receiver also uses its CPU after the last message.
        let cpu_ns = self.until_latest_ns.map_or(used.cpu_ns, |cpu_ns| used.cpu_ns.min(cpu_ns));
        to.report = EndReport {
            pinned_cpu: used.pinned_cpu,
            seen_cpus: used.seen_cpus,
            cpu_ns,
            voluntary_switches: used.voluntary_switches,
            involuntary_switches: used.involuntary_switches,
            migrations: used.migrations,
            used_in_all: used.used_in_all,
            ..std::mem::take(&mut to.report)
        };
    }
}

/// A reading of the calling thread's counters.
#[derive(Clone, Debug)]
struct Usage {
    cpu_ns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: Option<u64>,
    cpu: Option<usize>,
}

impl Usage {
    fn now() -> Self {
        let migrations = fs::read_to_string("/proc/thread-self/sched").ok().as_deref().and_then(migrations);
        let (voluntary, involuntary) = cpu::thread_switches();
        Self { cpu_ns: time::thread_cpu_ns(), voluntary, involuntary, migrations, cpu: cpu::current() }
    }

    /// CPU time of the thread since the reading, in ns.
    fn cpu_ns(&self) -> u64 {
        time::thread_cpu_ns().saturating_sub(self.cpu_ns)
    }

    /// Usage since the reading, as the start of an end's report. Must be called on the same thread.
    fn since(&self, pinned_cpu: Option<usize>) -> EndReport {
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
pub(crate) fn of_process(id: u32) -> Option<PhaseUsage> {
    read(&format!("/proc/{id}/schedstat"))
}

fn read(file: &str) -> Option<PhaseUsage> {
    schedstat(&fs::read_to_string(file).ok()?)
}

fn schedstat(line: &str) -> Option<PhaseUsage> {
    let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
    Some(PhaseUsage { cpu_ns: numbers.next()??, waited_for_cpu_ns: numbers.next()?? })
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
    fn work_shows_as_cpu_time() {
        let before = Usage::now();
        let sum = (0..2_000_000_u64).fold(0_u64, |sum, next| std::hint::black_box(sum ^ next.wrapping_mul(31)));
        std::hint::black_box(sum);
        assert!(before.since(None).cpu_ns > 0);
    }
}
