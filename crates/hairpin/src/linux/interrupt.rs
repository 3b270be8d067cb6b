//! Ctrl-C: the first one ends the round in flight and the run is saved and reported; the second one ends at once.
//!
//! While a program runs across a link, signals are its business: they are passed on to it.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};

/// The exit code of a run that the user ended.
pub const EXIT_CODE: u8 = 130;

/// Has Ctrl-C (and SIGTERM, SIGHUP) raise a sign that the engine looks at between two messages. Other signals do what they
/// do to any program.
///
/// # Errors
/// The system refuses the handler.
pub fn raised_by_user() -> io::Result<Arc<AtomicBool>> {
    let signals = heard(&[SIGINT, SIGTERM, SIGHUP]);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signals.iter().copied() {
        // In this order: the second signal finds the sign raised and ends the program; the server dies with it.
        flag::register_conditional_shutdown(signal, i32::from(EXIT_CODE), Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    hairpin_engine::engine::bound_the_end(&signals)?;
    Ok(stop)
}

/// These signals, without SIGHUP where this program was started to take no notice of it (nohup(1)).
fn heard(signals: &[i32]) -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let ignores_hangup = mask.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0);
    signals.iter().copied().filter(|signal| *signal != SIGHUP || !ignores_hangup).collect()
}

/// Has a write beyond the limit on the size of files (`ulimit -f`) fail as any other that finds no room. Without this
/// SIGXFSZ ends the program, and nobody says why. Programs that this one starts have the signal as it was: one that is
/// caught and not ignored is not passed on to them (execve(2)).
///
/// # Errors
/// The system refuses the handler.
pub fn have_large_files_refused() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Signals that have come, for whoever passes them on.
pub struct Signals {
    /// Has a byte for each that came.
    came: UnixStream,
    raised: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    /// Catches the signals that ask a program to end. None of them ends this one from now on.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub fn catch() -> io::Result<Self> {
        let (came, tell) = UnixStream::pair()?;
        came.set_nonblocking(true)?;
        let mut raised = Vec::new();
        for signal in heard(&[SIGINT, SIGQUIT, SIGTERM, SIGHUP]) {
            let flag = Arc::new(AtomicBool::new(false));
            // In this order: who reads the byte finds the flag raised.
            flag::register(signal, Arc::clone(&flag))?;
            low_level::pipe::register(signal, tell.try_clone()?)?;
            raised.push((signal, flag));
        }
        Ok(Self { came, raised })
    }

    /// Can be read when there are some.
    #[must_use]
    pub fn file(&self) -> BorrowedFd<'_> {
        self.came.as_fd()
    }

    /// Those that have come since the last call, each once.
    #[must_use]
    pub fn take(&self) -> Vec<i32> {
        // More bytes than these only wake once more.
        drop((&self.came).read(&mut [0; 64]));
        let came = self.raised.iter().filter(|(_, flag)| flag.swap(false, Ordering::SeqCst));
        came.map(|(signal, _)| *signal).collect()
    }

    /// Whether that signal comes from a key, so that the terminal gives it to the whole process group by itself.
    #[must_use]
    pub fn is_of_a_key(signal: i32) -> bool {
        matches!(signal, SIGINT | SIGQUIT)
    }
}
