//! Profiles of the calling thread: read back from `/proc`, undone, refused. Each test has a thread of its own.

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use hairpin_socket::{Profile, Setting, Status, ThreadGuard, Value};

use crate::system::{
    CAP_IPC_LOCK, CAP_SYS_NICE, class, drop_capabilities, has_capability, status, timer_slack_ns, with_limit,
};

/// Limits and locks of memory are the process's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a test in a thread that it may change.
fn in_a_thread(test: impl FnOnce() + Send) {
    thread::scope(|scope| scope.spawn(test).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Status, effective value and reason of a setting.
fn ended(guard: &ThreadGuard, setting: Setting) -> (Status, Option<Value>, &str) {
    let found = guard.report().get(setting).unwrap_or_else(|| panic!("no {setting}: {}", guard.report()));
    (found.status, found.effective.clone(), found.reason.as_deref().unwrap_or_default())
}

/// The CPUs on which this thread may run.
fn allowed() -> Vec<usize> {
    let list = status("Cpus_allowed_list");
    let ranges = list.split(',').map(|range| range.split_once('-').unwrap_or((range, range)));
    let number = |text: &str| text.parse::<usize>().expect("a number");
    ranges.flat_map(|(first, last)| number(first)..=number(last)).collect()
}

#[test]
fn affinity_and_timer_slack_are_set_and_undone() {
    in_a_thread(|| {
        let (cpus, slack_ns) = (allowed(), timer_slack_ns());
        assert!(slack_ns > 1, "the test would see no change");
        let last = *cpus.last().expect("a CPU");
        let guard = Profile::low_latency().with_cpus(&[last, last]).apply_to_thread();
        assert_eq!((allowed(), timer_slack_ns()), (vec![last], 1), "{}", guard.report());
        assert_eq!(ended(&guard, Setting::Affinity), (Status::Applied, Some(Value::Cpus(vec![last])), ""));
        assert_eq!(ended(&guard, Setting::TimerSlack), (Status::Applied, Some(Value::Number(1)), ""));
        {
            let _inner = Profile::low_latency().with_cpus(&cpus).apply_to_thread();
            assert_eq!(allowed(), cpus);
        }
        assert_eq!((allowed(), timer_slack_ns()), (vec![last], 1), "an inner guard restores what it found");
        drop(guard);
        assert_eq!((allowed(), timer_slack_ns()), (cpus, slack_ns));
    });
}

#[test]
fn cpus_that_are_not_there_are_named_with_those_that_are() {
    in_a_thread(|| {
        let cpus = allowed();
        let list = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let expected = format!("allowed are CPU {list} (hint: cpuset of the cgroup)");
        for missing in [vec![8191], vec![usize::MAX], Vec::new()] {
            let guard = Profile::bulk().with_cpus(&missing).apply_to_thread();
            let told = ended(&guard, Setting::Affinity);
            assert_eq!(told, (Status::Refused, Some(Value::Cpus(cpus.clone())), expected.as_str()));
            drop(guard);
            assert_eq!(allowed(), cpus);
        }
        let guard = Profile::bulk().with_cpus(&[cpus[0], 8191]).apply_to_thread();
        let told = ended(&guard, Setting::Affinity);
        assert_eq!(told, (Status::Differs, Some(Value::Cpus(vec![cpus[0]])), expected.as_str()));
        assert_eq!(allowed(), [cpus[0]]);
        drop(guard);
        assert_eq!(allowed(), cpus);
    });
}

#[test]
fn bulk_is_a_batch_thread_until_the_guard_is_dropped() {
    in_a_thread(|| {
        let guard = Profile::bulk().apply_to_thread();
        assert_eq!(class(), (libc::SCHED_BATCH, 0));
        assert_eq!(
            ended(&guard, Setting::Scheduling),
            (Status::Applied, Some(Value::Class(libc::SCHED_BATCH, 0)), "")
        );
        drop(guard);
        assert_eq!(class(), (libc::SCHED_OTHER, 0));
    });
}

#[test]
fn a_real_time_thread_has_no_slack_and_starts_ordinary_threads() {
    if !has_capability(CAP_SYS_NICE) {
        skip!("needs CAP_SYS_NICE");
    }
    in_a_thread(|| {
        let slack_ns = timer_slack_ns();
        let guard = Profile::low_latency().with_fifo(1).apply_to_thread();
        assert_eq!(class(), (libc::SCHED_FIFO, 1), "{}", guard.report());
        assert_eq!(ended(&guard, Setting::Scheduling).0, Status::Applied);
        assert_eq!(ended(&guard, Setting::TimerSlack).0, Status::Applied);
        let of_child = thread::scope(|scope| scope.spawn(class).join()).expect("it ends");
        assert_eq!(of_child, (libc::SCHED_OTHER, 0), "SCHED_RESET_ON_FORK");
        {
            let inner = Profile::bulk().apply_to_thread();
            let left = Some(Value::Class(libc::SCHED_FIFO, 1));
            let told = (Status::NotRequested, left, "this class is left as it is");
            assert_eq!(ended(&inner, Setting::Scheduling), told);
        }
        assert_eq!(class(), (libc::SCHED_FIFO, 1));
        drop(guard);
        assert_eq!((class(), timer_slack_ns()), ((libc::SCHED_OTHER, 0), slack_ns));
        for priority in [0, 100] {
            let guard = Profile::low_latency().with_fifo(priority).apply_to_thread();
            let told = ended(&guard, Setting::Scheduling);
            assert_eq!((told.0, told.2), (Status::Refused, "Invalid argument (os error 22)"));
        }
    });
}

#[test]
fn a_refused_class_names_the_limit() {
    let _alone = alone();
    in_a_thread(|| {
        drop_capabilities();
        let guard = with_limit!(libc::RLIMIT_RTPRIO, 0, { Profile::low_latency().with_fifo(10).apply_to_thread() });
        let reason = "RLIMIT_RTPRIO is 0, needed: 10 (hint: raise it, or grant CAP_SYS_NICE)";
        let told = ended(&guard, Setting::Scheduling);
        assert_eq!(told, (Status::Refused, Some(Value::Class(libc::SCHED_OTHER, 0)), reason));
        assert_eq!(ended(&guard, Setting::TimerSlack).0, Status::Applied, "the other settings are made");
    });
}

/// Runs in a mount namespace in which the kernel's limit reads as none.
#[test]
fn nothing_is_requested_where_nothing_limits_a_real_time_thread() {
    or_skip!(hairpin_testing::works(&["unshare", "-rm", "true"]));
    let script = "file=$(mktemp) && echo -1 >\"$file\" && mount --bind \"$file\" /proc/sys/kernel/sched_rt_runtime_us && \
                  rm \"$file\" && exec \"$0\" \"$@\"";
    let child = ["--exact", "threads::child_without_a_limit", "--ignored", "--nocapture"];
    let own = std::env::current_exe().expect("this program is a file");
    let ran =
        Command::new("unshare").args(["-rm", "sh", "-c", script]).arg(own).args(child).output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&ran.stderr));
}

#[test]
#[ignore = "child of nothing_is_requested_where_nothing_limits_a_real_time_thread"]
fn child_without_a_limit() {
    in_a_thread(|| {
        let profile = Profile::low_latency().with_fifo(1);
        let guard = profile.apply_to_thread();
        let reason = "it could starve its CPU (hint: set kernel.sched_rt_runtime_us or RLIMIT_RTTIME)";
        let left = Some(Value::Class(libc::SCHED_OTHER, 0));
        assert_eq!(ended(&guard, Setting::Scheduling), (Status::NotRequested, left, reason));
        drop(guard);
        let guard = with_limit!(libc::RLIMIT_RTTIME, 1_000_000, { profile.apply_to_thread() });
        assert_ne!(ended(&guard, Setting::Scheduling).0, Status::NotRequested, "{}", guard.report());
    });
}

#[test]
fn without_the_capability_the_class_is_restored_too() {
    let _alone = alone();
    if !has_capability(CAP_SYS_NICE) {
        skip!("needs CAP_SYS_NICE");
    }
    in_a_thread(|| {
        let guard = Profile::low_latency().with_fifo(1).apply_to_thread();
        drop_capabilities();
        drop(guard);
        assert_eq!(class(), (libc::SCHED_OTHER, 0), "with SCHED_RESET_ON_FORK, which only the capability clears");
    });
}

#[test]
fn memory_is_locked_until_the_last_guard_is_dropped() {
    let _alone = alone();
    if !has_capability(CAP_IPC_LOCK) {
        skip!("needs CAP_IPC_LOCK");
    }
    in_a_thread(|| {
        assert_eq!(status("VmLck"), "0 kB");
        let profile = Profile::low_latency().with_memory_lock();
        let (first, second) = (profile.apply_to_thread(), profile.apply_to_thread());
        assert_eq!(ended(&first, Setting::MemoryLock), (Status::Applied, Some(Value::Switch(true)), ""));
        drop(first);
        assert_ne!(status("VmLck"), "0 kB", "the second guard keeps it");
        drop(second);
        assert_eq!(status("VmLck"), "0 kB");

        let page = [0_u8; 4096];
        // SAFETY: the page is mapped; locking and unlocking it changes no data.
        assert_eq!(unsafe { libc::mlock(page.as_ptr().cast(), page.len()) }, 0);
        let guard = profile.apply_to_thread();
        let reason = "memory was locked before, and stays locked";
        assert_eq!(ended(&guard, Setting::MemoryLock), (Status::Applied, Some(Value::Switch(true)), reason));
        drop(guard);
        assert_ne!(status("VmLck"), "0 kB", "the program's own lock is left");
        // SAFETY: no memory is passed.
        assert_eq!(unsafe { libc::munlockall() }, 0);
    });
}

#[test]
fn a_refused_memory_lock_names_the_limit() {
    let _alone = alone();
    in_a_thread(|| {
        drop_capabilities();
        let profile = Profile::low_latency().with_memory_lock();
        let guard = with_limit!(libc::RLIMIT_MEMLOCK, 65536, { profile.apply_to_thread() });
        let (status_, effective, reason) = ended(&guard, Setting::MemoryLock);
        assert_eq!((status_, effective), (Status::Refused, Some(Value::Switch(false))));
        let end = "(hint: raise it, or grant CAP_IPC_LOCK)";
        assert!(reason.starts_with("RLIMIT_MEMLOCK is 65536, needed: ") && reason.ends_with(end), "{reason}");
        drop(guard);
        assert_eq!(status("VmLck"), "0 kB");
    });
}
