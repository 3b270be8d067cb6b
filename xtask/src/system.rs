//! Runs a process and waits for it with `wait4`, which, unlike `std`, reports the resource usage. Sends signals to groups of
//! processes.
#![expect(
    unsafe_code,
    reason = "std's wait does not report the child's resource usage, and std sends no signals to groups"
)]

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub(crate) struct Used {
    pub(crate) wall: Duration,
    /// Largest resident set of the process or one of its children, in bytes.
    pub(crate) peak_resident_bytes: u64,
}

/// Runs a program to its end, without a time limit. The program's output must not be piped.
pub(crate) fn run(command: &mut Command) -> Result<Used> {
    let name = command.get_program().to_string_lossy().into_owned();
    let started = Instant::now();
    let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let id = libc::pid_t::try_from(child.id()).context("the pid is out of range")?;
    let mut status = 0;
    // SAFETY: all zeroes is a valid rusage; both pointers are to live variables; nothing else waits for the child.
    let (answer, used) = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        (libc::wait4(id, &raw mut status, 0, &raw mut used), used)
    };
    let wall = started.elapsed();
    if answer != id {
        return Err(std::io::Error::last_os_error()).with_context(|| format!("cannot wait for {name}"));
    }
    if !libc::WIFEXITED(status) || libc::WEXITSTATUS(status) != 0 {
        bail!("{name} ended with status {status:#06x}");
    }
    Ok(Used { wall, peak_resident_bytes: used.ru_maxrss.unsigned_abs() * 1024 })
}

/// Sends a signal to the process group of a leader that was started as such and not waited for.
pub(crate) fn signal_group(leader: &Child, signal: i32) -> Result<()> {
    let id = libc::pid_t::try_from(leader.id()).context("the pid is out of range")?;
    // SAFETY: plain integers; the id is not reused before the leader is waited for.
    let answer = unsafe { libc::kill(-id, signal) };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()).context("cannot signal a process group") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_process_is_reported() {
        let mut command = Command::new("sh");
        let small = run(command.args(["-c", "exit 0"])).unwrap();
        let mut command = Command::new("sh");
        // dd holds one block of 256 MiB, which it fills.
        command.args(["-c", "dd if=/dev/zero of=/dev/null bs=256M count=1 2>/dev/null"]);
        let large = run(&mut command).unwrap();
        assert!(small.peak_resident_bytes > 0 && large.peak_resident_bytes > 256 << 20);
        assert!(large.peak_resident_bytes > small.peak_resident_bytes);
    }

    #[test]
    fn a_failure_is_reported() {
        let mut command = Command::new("sh");
        assert!(run(command.args(["-c", "exit 2"])).is_err());
    }
}
