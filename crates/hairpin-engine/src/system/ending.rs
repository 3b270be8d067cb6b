//! An end that the user asks for, and how long it may take.

use std::ffi::c_int;
use std::io;

use hairpin_transports::giving_up::give_up;
use signal_hook::consts::SIGALRM;
use signal_hook::low_level;

/// How long a round in flight has for an end in order, in s: the longest round trip of a built-in link is 0.6 s.
const GRACE_S: u32 = 2;

/// Has each of these signals start the time after which nothing is waited for any longer ([`give_up`]).
pub(crate) fn bound(signals: &[c_int]) -> io::Result<()> {
    // SAFETY: the handler stores to an atomic. Calls that its coming does not interrupt are restarted; the alarm of a
    // blocking wire, or the end of a wait's slice, has them look.
    unsafe { low_level::register(SIGALRM, give_up) }?;
    for signal in signals {
        let start = || {
            // SAFETY: alarm(2) takes a number; a handler of signals may call it (signal-safety(7)).
            unsafe { libc::alarm(GRACE_S) };
        };
        // SAFETY: the handler makes one system call that a handler may make.
        unsafe { low_level::register(*signal, start) }?;
    }
    Ok(())
}
