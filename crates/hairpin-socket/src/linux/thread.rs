//! The settings of the calling thread.

use std::io;
use std::sync::{Mutex, PoisonError};

use super::{kernel, system};
use crate::profile::{BATCH, FIFO, Profile};
use crate::report::{Ended, Outcome, Setting, Status, Undo, Value};

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
        _ => kernel::status_bytes("VmLck:").map(|locked| Value::Switch(locked > 0)),
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
    let is_left = match before & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE => false,
        libc::SCHED_FIFO | libc::SCHED_RR => wanted == BATCH,
        // It could not be restored.
        _ => true,
    };
    if is_left {
        return Ok((Status::NotRequested, Some("this class is left as it is".to_owned())));
    }
    if wanted == FIFO && !is_real_time_limited() {
        let reason = "it could starve its CPU (hint: set kernel.sched_rt_runtime_us or RLIMIT_RTTIME)";
        return Ok((Status::NotRequested, Some(reason.to_owned())));
    }
    let flag = if wanted == FIFO { libc::SCHED_RESET_ON_FORK } else { before & libc::SCHED_RESET_ON_FORK };
    if let Err(error) = system::set_class(wanted | flag, wanted_priority) {
        let limit = kernel::soft_limit("Max realtime priority").unwrap_or(u64::MAX);
        return refused(error, "RLIMIT_RTPRIO", limit, wanted_priority.unsigned_abs().into(), "CAP_SYS_NICE");
    }
    // Only CAP_SYS_NICE clears the flag.
    let kept = before | libc::SCHED_RESET_ON_FORK;
    on_drop(undo, move || system::set_class(before, priority).or_else(|_| system::set_class(kept, priority)));
    Ok((Status::Applied, None))
}

/// Whether a real-time thread that never waits leaves its CPU to others: by the kernel's limit, which is on by default, or
/// by that of the process.
fn is_real_time_limited() -> bool {
    kernel::sysctl("kernel.sched_rt_runtime_us").is_some_and(|runtime| runtime >= 0)
        || kernel::soft_limit("Max realtime timeout").is_some_and(|limit| limit < u64::MAX)
}

fn set_timer_slack(ns: u64, undo: &mut Vec<Undo>) -> io::Result<Ended> {
    let before = system::timer_slack_ns()?;
    system::set_timer_slack(ns)?;
    on_drop(undo, move || system::set_timer_slack(before));
    Ok(match system::timer_slack_ns()? {
        now if now == ns => (Status::Applied, None),
        0 => (Status::Applied, Some("a real-time thread has none".to_owned())),
        _ => (Status::Differs, None),
    })
}

fn lock_memory(undo: &mut Vec<Undo>) -> io::Result<Ended> {
    let mut locks = LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let was_locked = kernel::status_bytes("VmLck:").is_none_or(|locked| locked > 0);
    if let Err(error) = system::lock_memory(true) {
        let limit = kernel::soft_limit("Max locked memory").unwrap_or(u64::MAX);
        let needed = kernel::status_bytes("VmSize:").unwrap_or(0);
        return refused(error, "RLIMIT_MEMLOCK", limit, needed, "CAP_IPC_LOCK");
    }
    // Ending the program's own locks is not for a guard.
    if was_locked && *locks == 0 {
        return Ok((Status::Applied, Some("memory was locked before, and stays locked".to_owned())));
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

/// Names the resource limit, unless the error has another cause.
fn refused(error: io::Error, name: &str, limit: u64, needed: u64, capability: &str) -> io::Result<Ended> {
    if limit >= needed || error.raw_os_error() == Some(libc::EINVAL) {
        return Err(error);
    }
    let reason = format!("{name} is {limit}, needed: {needed} (hint: raise it, or grant {capability})");
    Ok((Status::Refused, Some(reason)))
}
