//! A time-out for blocking system calls, without a thread and without a cost in the call.
//!
//! Pipes have no time-out of their own, and a socket's (`SO_RCVTIMEO`) costs a timer in every call that sleeps: 2 to 5
//! % of a round trip on one CPU. A watchdog thread would make the process multi-threaded, and every call on a
//! descriptor would then count references (`fdget`, fs/file.c): about the same cost. So a kernel timer
//! (timer_create(2)) sends the calling thread a signal a few times per time-out. Its handler does nothing, but a
//! sleeping call returns `EINTR`, and the wire checks whether its time is over.

use std::io;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use super::process::thread_id;

/// Interrupts the blocking calls of one thread periodically until it is dropped.
pub(crate) struct Alarm {
    timer: libc::timer_t,
    thread: i32,
    period: Duration,
}

// SAFETY: a timer belongs to the process: any thread may delete it.
unsafe impl Send for Alarm {}

impl Alarm {
    /// Interrupts the calling thread a few times per `timeout`.
    pub(crate) fn start(timeout: Duration) -> io::Result<Self> {
        install_handler()?;
        let period = (timeout / 4).clamp(Duration::from_millis(1), Duration::from_millis(500));
        let thread = thread_id();
        Ok(Self { timer: start_timer(thread, period)?, thread, period })
    }

    /// Makes the calling thread the interrupted one: a wire may have moved since the last call.
    #[inline]
    pub(crate) fn follow(&mut self) -> io::Result<()> {
        if self.thread == thread_id() { Ok(()) } else { self.move_here() }
    }

    /// Reduces the period to at most `period`.
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
        super::done(libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer))?;
        if let Err(error) = set_timer(timer, period) {
            libc::timer_delete(timer);
            return Err(error);
        }
        Ok(timer)
    }
}

fn set_timer(timer: libc::timer_t, period: Duration) -> io::Result<()> {
    let interval =
        libc::timespec { tv_sec: period.as_secs().cast_signed(), tv_nsec: i64::from(period.subsec_nanos()) };
    let times = libc::itimerspec { it_interval: interval, it_value: interval };
    // SAFETY: the timer lives, and so do the times during the call.
    super::done(unsafe { libc::timer_settime(timer, 0, &raw const times, ptr::null_mut()) })
}

/// A real-time signal, because programs attach no meaning to it; not one of the first few, which debuggers and language
/// runtimes use.
fn signal_number() -> i32 {
    libc::SIGRTMIN() + 11
}

extern "C" fn do_nothing(_: i32) {}

/// Installs the handler once per process: without it the signal would end the process.
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
        super::done(answer).err().and_then(|error| error.raw_os_error())
    });
    failed.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's interval, in ms.
    fn interval_ms(alarm: &Alarm) -> i64 {
        // SAFETY: an all-zero `itimerspec` is valid; the timer and the place live during the call.
        let times = unsafe {
            let mut times: libc::itimerspec = mem::zeroed();
            assert_eq!(libc::timer_gettime(alarm.timer, &raw mut times), 0);
            times
        };
        times.it_interval.tv_sec * 1000 + times.it_interval.tv_nsec / 1_000_000
    }

    #[test]
    fn a_long_period_becomes_shorter_and_a_short_one_stays() {
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
