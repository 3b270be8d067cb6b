//! A profile: the settings that it requests of a socket or of the calling thread.

use crate::platform::{self, Socket};
use crate::report::{Report, Setting, Undo, Value};

/// Numbers of `linux/sched.h`.
pub(crate) const FIFO: i32 = 1;
pub(crate) const BATCH: i32 = 3;

/// The settings to request. Start from [`Profile::low_latency`] or [`Profile::bulk`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Sorted by setting.
    requests: Vec<(Setting, Value)>,
    pub(crate) raises_buffers: bool,
}

impl Profile {
    /// Small messages that must arrive soon.
    ///
    /// - Socket: `TCP_NODELAY`, `TCP_QUICKACK`, `TCP_NOTSENT_LOWAT` of 16 KiB (so that poll(2) does not report the socket
    ///   as writable while more is unsent), `SO_BUSY_POLL` of 50 us if packets come from a device queue, and `SO_PRIORITY`
    ///   6, the highest without a privilege. Not `IP_TOS`, which marks packets for networks that may drop them for it.
    /// - Thread: a timer slack of 1 ns. What affects other threads and programs has a method: `with_...`.
    #[must_use]
    pub fn low_latency() -> Self {
        let profile = Self { requests: Vec::new(), raises_buffers: false };
        let profile =
            profile.with(Setting::NoDelay, Value::Switch(true)).with(Setting::QuickAck, Value::Switch(true));
        let profile = profile.with(Setting::NotSentLowat, Value::Number(16 << 10));
        let profile = profile.with(Setting::BusyPoll, Value::Number(50)).with(Setting::Priority, Value::Number(6));
        profile.with(Setting::TimerSlack, Value::Number(1))
    }

    /// Much data, whose messages may wait for each other.
    ///
    /// - Socket: Nagle's algorithm, and buffers of 4 MiB where that is more than the kernel gives by itself.
    /// - Thread: `SCHED_BATCH`, unless it has a class of higher priority.
    #[must_use]
    pub fn bulk() -> Self {
        let profile = Self { requests: Vec::new(), raises_buffers: true };
        let profile = profile.with(Setting::NoDelay, Value::Switch(false)).with_buffers(4 << 20);
        profile.with(Setting::Scheduling, Value::Class(BATCH, 0))
    }

    /// Requests `SO_SNDBUF` and `SO_RCVBUF`, in bytes of data. A bulk profile only raises buffers. A small receive buffer
    /// limits the window of a connection only if it is set before connecting.
    #[must_use]
    pub fn with_buffers(self, bytes: u32) -> Self {
        let bytes = Value::Number(bytes.into());
        self.with(Setting::SendBuffer, bytes.clone()).with(Setting::ReceiveBuffer, bytes)
    }

    /// Lets the thread run only on these CPUs.
    #[must_use]
    pub fn with_cpus(self, cpus: &[usize]) -> Self {
        let mut cpus = cpus.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        self.with(Setting::Affinity, Value::Cpus(cpus))
    }

    /// Requests `SCHED_FIFO` with a priority of 1 to 99, and with `SCHED_RESET_ON_FORK`: what the thread starts does not
    /// inherit the class. While such a thread runs, no other program runs on its CPU, so nothing is requested where neither
    /// `kernel.sched_rt_runtime_us` nor `RLIMIT_RTTIME` limits this.
    #[must_use]
    pub fn with_fifo(self, priority: u8) -> Self {
        self.with(Setting::Scheduling, Value::Class(FIFO, priority.into()))
    }

    /// Locks the memory of the **whole process**, present and future, against paging (mlockall(2)). Where
    /// `RLIMIT_MEMLOCK` applies, later allocations beyond it fail, stacks of threads included.
    #[must_use]
    pub fn with_memory_lock(self) -> Self {
        self.with(Setting::MemoryLock, Value::Switch(true))
    }

    /// Requests the profile's settings of a socket, and reads back what is in effect.
    ///
    /// Never fails: what is refused or has no effect is an outcome with its reason. An accepted socket inherits
    /// `TCP_NODELAY` and the buffers of its listener, but not `TCP_QUICKACK` and `SO_PRIORITY`.
    pub fn apply_to(&self, socket: &(impl Socket + ?Sized)) -> Report {
        Report { outcomes: platform::apply_to_socket(self, socket) }
    }

    /// Requests the profile's settings of the calling thread until the guard is dropped.
    ///
    /// Never fails, as [`Profile::apply_to`]. The memory lock is the process's: the last guard that has it ends it.
    pub fn apply_to_thread(&self) -> ThreadGuard {
        let (outcomes, undo) = platform::apply_to_thread(self);
        ThreadGuard { report: Report { outcomes }, undo }
    }

    fn with(mut self, setting: Setting, value: Value) -> Self {
        self.requests.retain(|(known, _)| *known != setting);
        self.requests.push((setting, value));
        self.requests.sort_by_key(|(setting, _)| *setting);
        self
    }

    /// The settings of a thread, or else of a socket.
    pub(crate) fn requests(&self, of_thread: bool) -> impl Iterator<Item = (Setting, Value)> {
        let is_wanted = move |(setting, _): &&(Setting, Value)| (*setting >= Setting::Affinity) == of_thread;
        self.requests.iter().filter(is_wanted).cloned()
    }
}

/// Undoes on drop what [`Profile::apply_to_thread`] changed. Drop the guards of a thread in reverse order.
///
/// The settings belong to the thread, so the guard cannot leave it:
/// ```compile_fail
/// fn move_to_another_thread(_: impl Send) {}
/// move_to_another_thread(hairpin_socket::Profile::low_latency().apply_to_thread());
/// ```
/// Without `CAP_SYS_NICE` the kernel keeps `SCHED_RESET_ON_FORK`.
#[must_use = "the settings of the thread are undone when the guard is dropped"]
pub struct ThreadGuard {
    report: Report,
    /// Closures that are not `Send`.
    undo: Vec<Undo>,
}

impl ThreadGuard {
    /// What became of each setting.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        self.undo.drain(..).for_each(|undo| undo());
    }
}
