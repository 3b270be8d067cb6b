//! What the thread of one end used: CPU time, context switches, migrations, and where it ran.

use std::fs;

use hairpin_model::round::EndReport;

use crate::system::{cpu, time};

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
    /// Reads the counters of the calling thread.
    #[must_use]
    pub fn now() -> Self {
        let migrations = fs::read_to_string("/proc/thread-self/sched").ok().as_deref().and_then(migrations);
        let (voluntary, involuntary) = cpu::thread_switches();
        Self { cpu_ns: time::thread_cpu_ns(), voluntary, involuntary, migrations, cpu: cpu::current() }
    }

    /// What was used since, as the start of an end's report. Must be called on the same thread.
    #[must_use]
    pub fn since(&self, pinned_cpu: Option<usize>) -> EndReport {
        // The thread's CPU time is read first: reading the rest costs some itself.
        let cpu_ns = time::thread_cpu_ns().saturating_sub(self.cpu_ns);
        let now = Self::now();
        let mut seen_cpus: Vec<usize> = [self.cpu, now.cpu].into_iter().flatten().collect();
        seen_cpus.dedup();
        EndReport {
            pinned_cpu,
            seen_cpus,
            cpu_ns,
            voluntary_switches: now.voluntary.saturating_sub(self.voluntary),
            involuntary_switches: now.involuntary.saturating_sub(self.involuntary),
            migrations: now.migrations.zip(self.migrations).map(|(now, before)| now.saturating_sub(before)),
            ..EndReport::default()
        }
    }
}

/// `se.nr_migrations` of `/proc/PID/sched`, which a kernel without scheduler statistics does not have.
fn migrations(sched: &str) -> Option<u64> {
    let line = sched.lines().find(|line| line.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_read_where_the_kernel_tells() {
        assert_eq!(migrations("a : 1\nse.nr_migrations      :      12\n"), Some(12));
        assert_eq!(migrations("nothing"), None);
    }

    #[test]
    fn work_shows_as_cpu_time() {
        let before = Usage::now();
        let sum = (0..2_000_000_u64).fold(0_u64, |sum, next| std::hint::black_box(sum ^ next.wrapping_mul(31)));
        std::hint::black_box(sum);
        assert!(before.since(None).cpu_ns > 0);
    }
}
