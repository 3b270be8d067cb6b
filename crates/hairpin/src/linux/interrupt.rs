//! Ctrl-C: the first one ends the current round, and the run is saved and reported; the second one exits at once.
//!
//! While a program runs over a link, signals are forwarded to the program.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};

pub const EXIT_CODE: u8 = 130;

/// Makes Ctrl-C (and SIGTERM, SIGHUP) set a flag that the engine checks between two messages. Other signals keep their
/// default action.
pub fn raised_by_user() -> io::Result<Arc<AtomicBool>> {
    raised_by(&[SIGINT, SIGTERM, SIGHUP])
}

/// Like [`raised_by_user`], without SIGHUP.
pub fn raised_by_termination() -> io::Result<Arc<AtomicBool>> {
    raised_by(&[SIGINT, SIGTERM])
}

fn raised_by(signals: &[i32]) -> io::Result<Arc<AtomicBool>> {
    let signals = caught_signals(signals);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signals.iter().copied() {
        // In this order, only the second signal finds the flag set: it ends the program, and the server ends too.
        flag::register_conditional_shutdown(signal, i32::from(EXIT_CODE), Arc::clone(&stop))?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    hairpin_engine::engine::bound_the_end(&signals)?;
    Ok(stop)
}

pub fn raised_by_hangup() -> io::Result<Arc<AtomicBool>> {
    let raised = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, Arc::clone(&raised))?;
    Ok(raised)
}

/// Returns the signals, without SIGHUP if SIGHUP was ignored when this program started (nohup(1)).
fn caught_signals(signals: &[i32]) -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let ignores_hangup = mask.is_some_and(|mask| mask & (1 << (SIGHUP - 1)) != 0);
    signals.iter().copied().filter(|signal| *signal != SIGHUP || !ignores_hangup).collect()
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with an error. Without this, SIGXFSZ ends the program
/// without a message. Child processes keep the default action: a handler, unlike an ignored signal, is not inherited
/// (execve(2)).
pub fn have_large_files_refused() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

pub struct Signals {
    wake_reader: UnixStream,
    raised: Vec<(i32, Arc<AtomicBool>)>,
}

impl Signals {
    /// Catches the termination signals, so that they no longer end this program.
    pub fn catch() -> io::Result<Self> {
        let (wake_reader, wake_writer) = UnixStream::pair()?;
        wake_reader.set_nonblocking(true)?;
        let mut raised = Vec::new();
        for signal in caught_signals(&[SIGINT, SIGQUIT, SIGTERM, SIGHUP]) {
            let flag = Arc::new(AtomicBool::new(false));
            // In this order, the flag is set before the byte can be read.
            flag::register(signal, Arc::clone(&flag))?;
            low_level::pipe::register(signal, wake_writer.try_clone()?)?;
            raised.push((signal, flag));
        }
        Ok(Self { wake_reader, raised })
    }

    pub fn file(&self) -> BorrowedFd<'_> {
        self.wake_reader.as_fd()
    }

    /// Signals received since the last call, each once.
    pub fn take(&self) -> Vec<i32> {
        // Remaining bytes only cause another wake-up.
        drop((&self.wake_reader).read(&mut [0; 64]));
        let received = self.raised.iter().filter(|(_, flag)| flag.swap(false, Ordering::SeqCst));
        received.map(|(signal, _)| *signal).collect()
    }

    /// Whether a key causes the signal. The terminal sends such a signal to the whole process group.
    pub fn is_of_a_key(signal: i32) -> bool {
        matches!(signal, SIGINT | SIGQUIT)
    }
}
