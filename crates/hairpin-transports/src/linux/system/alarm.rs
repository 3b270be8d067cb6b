//! A time-out for blocking system calls, without a thread and without a cost per call.
//!
//! Pipes have no time-outs, and the time-out of a socket (`SO_RCVTIMEO`) sets a timer in every blocking call, which
//! takes 2 to 5 % of a round trip on one CPU. A watchdog thread would cost about the same: in a process with several
//! threads, every call on a descriptor counts references (`fdget`, fs/file.c). So a kernel timer (timer_create(2))
//! sends a signal to the calling thread a few times per time-out. The handler does nothing, but a blocked call returns
//! `EINTR`, and the wire then checks its deadline.

use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use super::descriptor::timespec;
use super::process::thread_id;

/// Interrupts the blocking calls of one thread periodically. Dropping the alarm stops the interrupts.
pub(crate) struct Alarm {
    timer: libc::timer_t,
    thread: i32,
    period: Duration,
}

// SAFETY: a timer belongs to the process, so any thread may delete it.
unsafe impl Send for Alarm {}

impl Alarm {
    /// Interrupts the calling thread a few times per `timeout`.
    pub(crate) fn start(timeout: Duration) -> io::Result<Self> {
        install_handler()?;
        let period = (timeout / 4).clamp(Duration::from_millis(1), Duration::from_millis(500));
        let thread = thread_id();
        Ok(Self { timer: start_timer(thread, period)?, thread, period })
    }

    /// Moves the alarm to the calling thread: the wire may have moved to another thread since the last call.
    #[inline]
    pub(crate) fn follow(&mut self) -> io::Result<()> {
        if self.thread == thread_id() { Ok(()) } else { self.move_here() }
    }

    #[inline]
    pub(crate) fn shorten(&mut self, period: Duration) -> io::Result<()> {
        if self.period <= period {
            return Ok(());
        }
        self.period = period;
        set_timer(self.timer, period)
    }

    #[cold]
    fn move_here(&mut self) -> io::Result<()> {
        let timer = start_timer(thread_id(), self.period)?;
        // SAFETY: the old timer is ours and is not used again.
        unsafe { libc::timer_delete(self.timer) };
        (self.timer, self.thread) = (timer, thread_id());
        Ok(())
    }
}

/// Interrupts the blocking calls of these threads of the process, if they are in one.
pub(crate) fn interrupt(threads: &[i32]) {
    if install_handler().is_err() {
        return;
    }
    for thread in threads {
        // SAFETY: a system call with three integers. The signal's handler does nothing, and the kernel delivers it to no other
        // process.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), *thread, signal_number()) };
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // SAFETY: the timer is ours and is not used again.
        unsafe { libc::timer_delete(self.timer) };
    }
}

fn start_timer(thread: i32, period: Duration) -> io::Result<libc::timer_t> {
    // SAFETY: an all-zero sigevent is valid; the pointers passed outlive the call, and a timer that could not be set is
    // deleted.
    unsafe {
        let mut event: libc::sigevent = mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal_number();
        event.sigev_notify_thread_id = thread;
        let mut timer: libc::timer_t = mem::zeroed();
        super::check(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer))?;
        if let Err(error) = set_timer(timer, period) {
            libc::timer_delete(timer);
            return Err(error);
        }
        Ok(timer)
    }
}

fn set_timer(timer: libc::timer_t, period: Duration) -> io::Result<()> {
    let interval = timespec(period);
    let times = libc::itimerspec { it_interval: interval, it_value: interval };
    // SAFETY: the timer exists, and the times live during the call.
    super::check(unsafe { libc::timer_settime(timer, 0, &raw const times, ptr::null_mut()) })
}

/// A real-time signal: these have no predefined meaning. The first few are used by debuggers and language runtimes.
fn signal_number() -> i32 {
    libc::SIGRTMIN() + 11
}

extern "C" fn do_nothing(_: i32) {}

/// Installs the handler once per process. Without a handler the signal would end the process.
fn install_handler() -> io::Result<()> {
    static INSTALLED: OnceLock<Option<i32>> = OnceLock::new();
    let failed = INSTALLED.get_or_init(|| {
        // SAFETY: an all-zero `sigaction` is valid (no flags, so no SA_RESTART; an empty mask), and the handler does
        // nothing, so it is safe at any time.
        let answer = unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            action.sa_sigaction = do_nothing as extern "C" fn(i32) as usize;
            libc::sigaction(signal_number(), &raw const action, ptr::null_mut())
        };
        super::check(answer).err().and_then(|error| error.raw_os_error())
    });
    failed.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval_ms(alarm: &Alarm) -> i64 {
        // SAFETY: an all-zero `itimerspec` is valid; the timer and the times live during the call.
        let times = unsafe {
            let mut times: libc::itimerspec = mem::zeroed();
            assert_eq!(libc::timer_gettime(alarm.timer, &raw mut times), 0);
            times
        };
        times.it_interval.tv_sec * 1000 + times.it_interval.tv_nsec / 1_000_000
    }

    #[test]
    fn a_period_is_only_ever_shortened() {
        let mut alarm = Alarm::start(Duration::from_secs(20)).unwrap();
        assert_eq!(interval_ms(&alarm), 500);
        alarm.shorten(Duration::from_millis(50)).unwrap();
        assert_eq!(interval_ms(&alarm), 50);
        alarm.shorten(Duration::from_secs(1)).unwrap();
        assert_eq!(interval_ms(&alarm), 50, "already shorter");
        std::thread::scope(|scope| {
            scope.spawn(|| alarm.follow().unwrap());
        });
        assert_eq!(interval_ms(&alarm), 50, "also on another thread");
    }
}
