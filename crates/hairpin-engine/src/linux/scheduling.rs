//! The scheduling policy, the timer slack and the locked memory of an end.
//!
//! Only settings of the calling thread and its process change, so nothing remains when the process ends, however it
//! ends. The kernel ends a process whose thread of `SCHED_FIFO` does not block (`RLIMIT_RTTIME`), and nothing that the
//! thread starts inherits its policy (`SCHED_RESET_ON_FORK`).

use std::io;

use hairpin_model::case::Scheduling;
use hairpin_model::trace::End;
use hairpin_model::{EndSettings, Fact, Failure, RoundOrder, WhyNot, fact_names};

use crate::system::cpu;

/// Priority of `SCHED_FIFO`: above threaded interrupt handlers, which have 50.
const FIFO_PRIORITY: i32 = 80;
/// CPU time that a thread of `SCHED_FIFO` may use without a call that blocks, in us.
const MAX_BUSY_US: u64 = 1_000_000;
/// Shortest reservation of `SCHED_DEADLINE` that the kernel accepts, in ns.
const MIN_RUNTIME_NS: u64 = 1_024;
/// Shortest and longest period of a reservation, in ns (`kernel.sched_deadline_period_min_us` and `_max_us`).
const PERIODS_NS: [u64; 2] = [100_000, 4_000_000_000];
/// Period of the reservation for a load without periods, in ns.
const USUAL_PERIOD_NS: u64 = 10_000_000;

/// Applies the settings of a case to the calling thread, which is already pinned.
pub(crate) fn apply(order: &RoundOrder, end: End) -> Result<(), Failure> {
    let ends = &order.case.ends;
    cpu::set_timer_slack(ends.timer_slack_ns.unwrap_or(1));
    if ends.lock_memory {
        cpu::lock_memory().map_err(|error| refused(&no_lock(&error), &error, end))?;
    }
    let period_ns = order.case.primary().load.periodic().map_or(USUAL_PERIOD_NS, |own| own.period_ns);
    set(ends.scheduling, period_ns).map_err(|error| refused(&no_policy(ends.scheduling, &error), &error, end))
}

/// Returns the calling thread to `SCHED_OTHER` after its load, so that its report may take long.
pub(crate) fn end(ends: &EndSettings) {
    if ends.scheduling != Scheduling::Other {
        // A thread may always give up its priority.
        drop(cpu::set_other());
    }
}

/// Whether this process may use a policy and lock its memory. Tries it in a thread that then ends.
///
/// # Errors
/// What the kernel refuses, and the limit to raise.
pub(crate) fn may_use(scheduling: Scheduling, lock_memory: bool) -> Result<(), WhyNot> {
    if lock_memory {
        cpu::may_lock_memory().map_err(|error| no_lock(&error))?;
    }
    let tried = std::thread::spawn(move || set(scheduling, USUAL_PERIOD_NS)).join();
    tried.unwrap_or(Ok(())).map_err(|error| no_policy(scheduling, &error))
}

fn set(scheduling: Scheduling, period_ns: u64) -> io::Result<()> {
    match scheduling {
        Scheduling::Other => Ok(()),
        Scheduling::Fifo => cpu::set_fifo(FIFO_PRIORITY).and_then(|()| cpu::limit_realtime_us(MAX_BUSY_US)),
        Scheduling::Deadline => {
            let period_ns = period_ns.clamp(PERIODS_NS[0], PERIODS_NS[1]);
            // The reservations of both ends fit one CPU.
            cpu::set_deadline((period_ns / 4).max(MIN_RUNTIME_NS), period_ns)
        }
    }
}

fn no_lock(error: &io::Error) -> WhyNot {
    WhyNot::new(format!("cannot lock memory: {error}"), "raise RLIMIT_MEMLOCK (ulimit -l), or run as root")
}

fn no_policy(scheduling: Scheduling, error: &io::Error) -> WhyNot {
    let hint = match scheduling {
        Scheduling::Deadline => "run as root, with access to all CPUs",
        _ => "raise RLIMIT_RTPRIO to 80 (ulimit -r), or run as root",
    };
    WhyNot::new(format!("cannot use SCHED_{}: {error}", scheduling.word().to_uppercase()), hint)
}

fn refused(why: &WhyNot, error: &io::Error, end: End) -> Failure {
    Failure::new(error, format!("{end}: {}", why.reason), why.hint.clone())
}

/// The settings of the calling thread as the kernel reports them; only those that the case asks for.
pub(crate) fn facts(ends: &EndSettings) -> Vec<Fact> {
    let slack = ends.timer_slack_ns.map(|_| Fact::number(fact_names::TIMER_SLACK_NS, cpu::timer_slack_ns() as f64));
    let policy = (ends.scheduling != Scheduling::Other).then(|| Fact::word(fact_names::SCHEDULING, cpu::policy()));
    let locked = ends.lock_memory.then(|| Fact::number(fact_names::LOCKED_BYTES, locked_bytes()));
    [slack, policy, locked].into_iter().flatten().collect()
}

/// Memory of this process that is locked, in bytes (`VmLck` of `/proc/self/status`).
fn locked_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kib: u64 = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0);
    (kib << 10) as f64
}

#[cfg(test)]
mod tests {
    use hairpin_model::Case;

    use super::*;

    fn applied(change: fn(&mut EndSettings)) -> Vec<Fact> {
        let case = Case::ping_pong("memory").with(|case| change(&mut case.ends));
        let order = RoundOrder::of(case, 1);
        let in_thread = move || {
            apply(&order, End::Client).unwrap();
            let facts = facts(&order.case.ends);
            end(&order.case.ends);
            (facts, cpu::policy())
        };
        let (facts, after) = std::thread::spawn(in_thread).join().unwrap();
        assert_eq!(after, "SCHED_OTHER");
        facts
    }

    #[test]
    fn the_kernel_reports_the_timer_slack_that_was_set() {
        assert_eq!(
            applied(|ends| ends.timer_slack_ns = Some(70_000)),
            [Fact::number("thread.timer_slack_ns", 70_000.0)]
        );
        assert_eq!(applied(|_| {}), []);
    }

    #[test]
    fn a_refused_policy_names_its_limit() {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(no_policy(Scheduling::Fifo, &error).reason, "cannot use SCHED_FIFO: permission denied");
        assert_eq!(no_lock(&error).hint, "raise RLIMIT_MEMLOCK (ulimit -l), or run as root");
    }
}
