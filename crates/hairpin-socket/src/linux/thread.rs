//! The settings of the calling thread.

use std::io;
use std::sync::{Mutex, PoisonError};

use super::system;
use crate::profile::{BATCH, FIFO, Profile};
use crate::report::{Ended, Outcome, Setting, Status, Undo, Value, because};

/// How many guards lock the process's memory.
static LOCKS: Mutex<usize> = Mutex::new(0);

pub(crate) fn apply_to_thread(profile: &Profile) -> (Vec<Outcome>, Vec<Undo>) {
    let (mut outcomes, mut undo) = (Vec::new(), Vec::new());
    for (setting, wanted) in profile.requests(true) {
        let ended = match &wanted {
            Value::Cpus(cpus) => set_affinity(cpus, &mut undo),
            Value::Class(class, priority) => set_class(*class, *priority, &mut undo),
            Value::Number(ns) => set_timer_slack(*ns, &mut undo),
            Value::Switch(_) => lock_memory(&mut undo),
        };
        let ended = ended.unwrap_or_else(|error| (Status::Refused, Some(error.to_string())));
        outcomes.push(Outcome::new(setting, wanted, effective(setting), ended));
    }
    (outcomes, undo)
}

fn effective(setting: Setting) -> Option<Value> {
    match setting {
        Setting::Affinity => system::affinity().ok().map(Value::Cpus),
        Setting::Scheduling => {
            system::class().ok().map(|(class, priority)| Value::Class(class & !libc::SCHED_RESET_ON_FORK, priority))
        }
        Setting::TimerSlack => system::timer_slack_ns().ok().map(Value::Number),
        _ => system::status_bytes("VmLck:").map(|locked| Value::Switch(locked > 0)),
    }
}

fn set_affinity(cpus: &[usize], undo: &mut Vec<Undo>) -> io::Result<Ended> {
    let before = system::affinity()?;
    let set = system::set_affinity(cpus.iter().copied());
    on_drop(undo, || system::set_affinity(before));
    let now = system::affinity()?;
    if set.is_ok() && now == cpus {
        return Ok((Status::Applied, None));
    }
    // The kernel omits CPUs outside the cpuset. A request for all gives those of the cpuset.
    system::set_affinity(0..system::MAX_CPUS)?;
    let allowed = system::affinity().map(Value::Cpus);
    system::set_affinity(now)?;
    let status = if set.is_ok() { Status::Differs } else { Status::Refused };
    Ok((status, Some(format!("allowed are CPU {} (hint: cpuset of the cgroup)", allowed?))))
}

fn set_class(wanted: i32, wanted_priority: i32, undo: &mut Vec<Undo>) -> io::Result<Ended> {
    let (before, priority) = system::class()?;
    let class = before & !libc::SCHED_RESET_ON_FORK;
    let is_lowered = wanted == BATCH && matches!(class, libc::SCHED_FIFO | libc::SCHED_RR);
    // A later class, such as a deadline, could not be restored.
    if is_lowered || class > libc::SCHED_IDLE {
        return Ok((Status::NotRequested, because("this class is left as it is")));
    }
    // By the kernel, which is its default, or by the process.
    let is_limited = system::sysctl("kernel.sched_rt_runtime_us").is_some_and(|runtime| runtime >= 0)
        || system::soft_limit("Max realtime timeout").is_some_and(|limit| limit < u64::MAX);
    if wanted == FIFO && !is_limited {
        let reason = because("it could starve its CPU (hint: set kernel.sched_rt_runtime_us or RLIMIT_RTTIME)");
        return Ok((Status::NotRequested, reason));
    }
    let flag = if wanted == FIFO { libc::SCHED_RESET_ON_FORK } else { before & libc::SCHED_RESET_ON_FORK };
    if let Err(error) = system::set_class(wanted | flag, wanted_priority) {
        let needed = wanted_priority.unsigned_abs().into();
        return refused(error, ("RLIMIT_RTPRIO", "Max realtime priority"), needed, "CAP_SYS_NICE");
    }
    // Only CAP_SYS_NICE clears the flag.
    let kept = before | libc::SCHED_RESET_ON_FORK;
    on_drop(undo, move || system::set_class(before, priority).or_else(|_| system::set_class(kept, priority)));
    Ok((Status::Applied, None))
}

fn set_timer_slack(ns: u64, undo: &mut Vec<Undo>) -> io::Result<Ended> {
    let before = system::timer_slack_ns()?;
    system::set_timer_slack(ns)?;
    on_drop(undo, move || system::set_timer_slack(before));
    Ok(match system::timer_slack_ns()? {
        now if now == ns => (Status::Applied, None),
        0 => (Status::Applied, because("a real-time thread has none")),
        _ => (Status::Differs, None),
    })
}

fn lock_memory(undo: &mut Vec<Undo>) -> io::Result<Ended> {
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let was_locked = system::status_bytes("VmLck:").is_none_or(|locked| locked > 0);
    if let Err(error) = system::lock_memory(true) {
        let needed = system::status_bytes("VmSize:").unwrap_or(0);
        return refused(error, ("RLIMIT_MEMLOCK", "Max locked memory"), needed, "CAP_IPC_LOCK");
    }
    // Ending the program's own locks is not for a guard.
    if was_locked && *locks == 0 {
        return Ok((Status::Applied, because("memory was locked before, and stays locked")));
    }
    *locks += 1;
    on_drop(undo, || {
        let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        *locks -= 1;
        if *locks == 0 { system::lock_memory(false) } else { Ok(()) }
    });
    Ok((Status::Applied, None))
}

/// Notes how to restore a setting. If that fails, for instance as a CPU was removed, the setting stays.
fn on_drop(undo: &mut Vec<Undo>, restore: impl FnOnce() -> io::Result<()> + 'static) {
    undo.push(Box::new(|| drop(restore())));
}

/// Names the resource limit, unless the error has another cause. The limit has a second name in `/proc`.
fn refused(error: io::Error, (name, row): (&str, &str), needed: u64, capability: &str) -> io::Result<Ended> {
    match system::soft_limit(row) {
        Some(limit) if limit < needed && error.raw_os_error() != Some(libc::EINVAL) => {
            let reason = format!("{name} is {limit}, needed: {needed} (hint: raise it, or grant {capability})");
            Ok((Status::Refused, Some(reason)))
        }
        _ => Err(error),
    }
}
