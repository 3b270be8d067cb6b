//! Usage of the thread of one end: CPU time, context switches, migrations and CPUs.

use std::fs;
use std::os::unix::fs::FileExt;

use hairpin_model::{Fact, PhaseUsage, Waiting, fact_names};

use crate::observer::{Context, Mark, Observations, Observer};
use crate::system::cpu;
use hairpin_loops::time;

/// Observes the usage of an end while it handles its measured messages.
pub(crate) struct Usage {
    whose: Whose,
    pinned_cpu: Option<usize>,
    /// The reading at the first measured message, or at the beginning of the load.
    before: Reading,
    /// The reading at the last measured message, or at the end of the load.
    after: Option<Reading>,
    /// The total usage of the thread at the end of the load.
    in_all: Option<PhaseUsage>,
    peak_memory_bytes: Option<u64>,
    /// What the process needs, if the end reports it: at most its threads until the load is over.
    needs: Option<Vec<Fact>>,
    /// Thread CPU time when a one-way load last received data.
    latest_cpu_ns: Option<u64>,
}

impl Observer for Usage {
    fn begin(context: Context<'_>) -> Option<Self> {
        let case = &context.order.case;
        let whose = match case.ends.waiting {
            Waiting::ThreadPerConnection => Whose::Any,
            waiting if waiting.more_threads(1) > 0 => Whose::All,
            _ => Whose::Own,
        };
        Some(Self {
            whose,
            pinned_cpu: None,
            before: Reading::now(whose),
            after: None,
            latest_cpu_ns: None,
            in_all: None,
            peak_memory_bytes: None,
            needs: (whose != Whose::Own || case.primary().connections > 1).then(Vec::new),
        })
    }

    fn mark(&mut self, mark: Mark<'_>) {
        match mark {
            Mark::Opening { pinned, .. } => self.pinned_cpu = pinned,
            Mark::Load(_) | Mark::First => {
                if let Some(needs) = &mut self.needs {
                    let threads = status().as_deref().and_then(|status| field(status, "Threads:")?.parse().ok());
                    *needs = threads.map(|threads| Fact::number(fact_names::THREADS, threads)).into_iter().collect();
                }
                self.before = Reading::now(self.whose);
            }
            Mark::Running(_) | Mark::Connected(_) | Mark::Phase => {}
            Mark::Latest => self.latest_cpu_ns = Some(self.whose.cpu_ns()),
            Mark::Last => self.end(),
        }
    }

    fn end(&mut self) {
        if self.after.is_none() {
            self.after = Some(Reading::last(self.whose));
            self.in_all = self.whose.file("schedstat").as_deref().and_then(schedstat);
            self.peak_memory_bytes = status().as_deref().and_then(peak_memory_bytes);
            if let Some(needs) = &mut self.needs {
                // Without the descriptor of the folder itself.
                let descriptors =
                    fs::read_dir("/proc/self/fd").ok().map(|open| open.count().saturating_sub(1) as u64);
                let known =
                    [(fact_names::DESCRIPTORS, descriptors), (fact_names::PEAK_MEMORY_BYTES, self.peak_memory_bytes)];
                needs.extend(known.into_iter().filter_map(|(name, count)| Some(Fact::number(name, count? as f64))));
            }
        }
    }

    fn report(self: Box<Self>, Observations { report, .. }: &mut Observations) {
        let Self { pinned_cpu, before, after, latest_cpu_ns, in_all, peak_memory_bytes, needs, .. } = *self;
        let Some(after) = after else { return };
        // A busy-polling receiver uses more CPU time after the last message; exclude that time.
        let cpu_ns = latest_cpu_ns.map_or(after.cpu_ns, |latest_cpu_ns| latest_cpu_ns.min(after.cpu_ns));
        report.cpu_ns = cpu_ns.saturating_sub(before.cpu_ns);
        report.pinned_cpu = pinned_cpu;
        report.seen_cpus = [before.cpu, after.cpu].into_iter().collect();
        report.seen_cpus.dedup();
        report.voluntary_switches = after.voluntary.saturating_sub(before.voluntary);
        report.involuntary_switches = after.involuntary.saturating_sub(before.involuntary);
        report.waited_for_cpu_ns =
            after.waited_for_cpu_ns.zip(before.waited_for_cpu_ns).map(|(now, before)| now - before);
        report.migrations = after.migrations.zip(before.migrations).map(|(now, before)| now.saturating_sub(before));
        report.used_in_all = in_all;
        report.peak_memory_bytes = peak_memory_bytes;
        report.facts.extend(needs.into_iter().flatten());
    }
}

/// Which threads of a process are an end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The calling thread.
    Own,
    /// All threads; the calling one runs the loop.
    All,
    /// All threads; any of them may run the loop. What the kernel reports of a single thread is then unknown.
    Any,
}

impl Whose {
    fn cpu_ns(self) -> u64 {
        if self == Self::Own { time::thread_cpu_ns() } else { time::process_cpu_ns() }
    }

    /// A file of the thread that runs the loop.
    fn file(self, name: &str) -> Option<String> {
        if self == Self::Any { None } else { fs::read_to_string(format!("/proc/thread-self/{name}")).ok() }
    }
}

/// A reading of an end's counters.
struct Reading {
    cpu_ns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: Option<u64>,
    waited_for_cpu_ns: Option<u64>,
    cpu: usize,
}

impl Reading {
    /// Reads the counters. CPU time is read last, because reading the other counters uses CPU time.
    fn now(whose: Whose) -> Self {
        let migrations = whose.file("sched").as_deref().and_then(migrations);
        let (voluntary, involuntary) = cpu::switches(whose != Whose::Own);
        let usage = whose.file("schedstat").as_deref().and_then(schedstat);
        let waited_for_cpu_ns = usage.map(|usage| usage.waited_for_cpu_ns);
        let cpu = rustix::thread::sched_getcpu();
        Self { cpu_ns: whose.cpu_ns(), voluntary, involuntary, migrations, waited_for_cpu_ns, cpu }
    }

    fn last(whose: Whose) -> Self {
        let used_ns = whose.cpu_ns();
        Self { cpu_ns: used_ns, ..Self::now(whose) }
    }
}

/// Usage of the first thread of a process since its start; `None` if the process has exited or the kernel has no
/// statistics (Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`).
pub(crate) fn of_process(id: u32) -> Option<PhaseUsage> {
    schedstat(&fs::read_to_string(format!("/proc/{id}/schedstat")).ok()?)
}

fn schedstat(line: &str) -> Option<PhaseUsage> {
    let mut numbers = line.split_whitespace().map(|number| number.parse().ok());
    Some(PhaseUsage { cpu_ns: numbers.next()??, waited_for_cpu_ns: numbers.next()?? })
}

/// The status of this process (proc_pid_status(5)).
fn status() -> Option<String> {
    fs::read_to_string("/proc/self/status").ok()
}

/// The peak of the resident memory in a `/proc/PID/status` (proc_pid_status(5)).
fn peak_memory_bytes(status: &str) -> Option<u64> {
    field(status, "VmHWM:")?.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The waits of the calling thread for a CPU: an open `/proc/thread-self/schedstat`.
pub(crate) struct CpuWaits(fs::File);

impl CpuWaits {
    /// `None` if the kernel has no statistics.
    pub(crate) fn open() -> Option<Self> {
        fs::File::open("/proc/thread-self/schedstat").ok().map(Self).filter(|waits| waits.read().is_some())
    }

    /// How long the thread has waited in ns, and how often it got a CPU. One system call.
    pub(crate) fn read(&self) -> Option<[i64; 2]> {
        let mut text = [0; 80];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let mut numbers = str::from_utf8(&text[..length]).ok()?.split_whitespace().skip(1);
        let mut next = || numbers.next()?.parse().ok();
        Some([next()?, next()?])
    }
}

/// Parses `se.nr_migrations` of `/proc/PID/sched`; `None` on kernels without scheduler statistics.
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
    fn the_peak_of_the_memory_is_read_from_the_status_of_a_process() {
        assert_eq!(peak_memory_bytes("Name:\thairpin\nVmHWM:\t   22012 kB\nVmRSS:\t 10 kB\n"), Some(22_012 * 1024));
        assert_eq!((peak_memory_bytes(""), peak_memory_bytes("VmHWM:\t many kB\n")), (None, None));
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(peak_memory_bytes(&own) > Some(0));
    }

    #[test]
    fn work_between_the_marks_shows_as_cpu_time() {
        let mut usage = Usage {
            whose: Whose::Own,
            pinned_cpu: Some(7),
            before: Reading::now(Whose::Own),
            after: None,
            latest_cpu_ns: None,
            in_all: None,
            peak_memory_bytes: None,
            needs: None,
        };
        let work = || {
            let sum = (0..2_000_000_u64).fold(0_u64, |sum, next| std::hint::black_box(sum ^ next.wrapping_mul(31)));
            std::hint::black_box(sum);
        };
        usage.mark(Mark::First);
        work();
        usage.mark(Mark::Last);
        let measured_ns = usage.after.as_ref().unwrap().cpu_ns - usage.before.cpu_ns;
        work();
        usage.end();
        let mut seen = Observations::default();
        Box::new(usage).report(&mut seen);
        assert!(measured_ns > 0);
        assert_eq!((seen.report.cpu_ns, seen.report.pinned_cpu), (measured_ns, Some(7)), "until the mark");
        assert!(seen.report.used_in_all.is_some_and(|all| all.cpu_ns > measured_ns));
    }
}
