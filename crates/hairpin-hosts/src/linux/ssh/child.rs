//! A child process whose output is read within limits of size and time; it is always ended and reaped.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::linux::wait::{WaitFor, wait_any};

/// Maximum bytes to keep of each output.
const MAX_BYTES: usize = 16 << 10;
/// Interval between checks whether it has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Time to end after SIGTERM.
const ENDING: Duration = Duration::from_secs(1);

/// Why waiting for a program was given up.
#[derive(Debug)]
pub(super) enum GivenUp {
    TimedOut,
    /// The user interrupted Hairpin.
    Interrupted,
    /// Waiting failed.
    Io(io::Error),
}

/// A running program. Dropping this ends it.
pub(super) struct Bounded {
    child: Child,
    stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
}

/// Output of a program so far, and its source until that is closed.
struct Output<F> {
    from: Option<F>,
    text: Vec<u8>,
}

impl Bounded {
    /// Starts it in its own process group: Ctrl-C at the terminal is for Hairpin, which then ends it in order.
    pub(super) fn start(command: &mut Command, input: Stdio) -> io::Result<Self> {
        let command = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn()?;
        let stdout = Output { from: child.stdout.take(), text: Vec::new() };
        let stderr = Output { from: child.stderr.take(), text: Vec::new() };
        Ok(Self { child, stdout, stderr })
    }

    /// Reads its output until `found` returns something; `None` if the program ends before.
    pub(super) fn read<T>(
        &mut self,
        at_most: Duration,
        stop: &AtomicBool,
        found: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, GivenUp> {
        let deadline = Instant::now() + at_most;
        loop {
            // Output from before its end is still to be read.
            let has_ended = self.child.try_wait().map_err(GivenUp::Io)?.is_some();
            let was_ready = self.take(if has_ended { Duration::ZERO } else { LOOK }).map_err(GivenUp::Io)?;
            if let Some(what) = found(&self.stdout()) {
                return Ok(Some(what));
            }
            if has_ended && !was_ready {
                return Ok(None);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(GivenUp::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(GivenUp::TimedOut);
            }
        }
    }

    /// Its standard output so far.
    pub(super) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.text).into_owned()
    }

    /// Its standard error so far.
    pub(super) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.text).into_owned()
    }

    /// Closes its input, waits up to `at_most` for its end, then sends signals. Returns its exit status.
    pub(super) fn end(&mut self, at_most: Duration) -> io::Result<ExitStatus> {
        drop(self.child.stdin.take());
        if let Some(status) = self.ended_within(at_most)? {
            return Ok(status);
        }
        // It fails if the program has just ended.
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        if let Some(status) = self.ended_within(ENDING)? {
            return Ok(status);
        }
        drop(self.child.kill());
        self.child.wait()
    }

    fn ended_within(&mut self, at_most: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + at_most;
        loop {
            match self.child.try_wait()? {
                None if Instant::now() < deadline => {
                    // If its output were not read, a program that prints much would block and not end.
                    self.take(LOOK / 5)?;
                }
                status => return Ok(status),
            }
        }
    }

    /// Waits for output and reads it. Returns whether there was any.
    fn take(&mut self, at_most: Duration) -> io::Result<bool> {
        let files = [self.stdout.from.as_ref().map(AsFd::as_fd), self.stderr.from.as_ref().map(AsFd::as_fd)];
        let open = files.iter().flatten().map(|file| (*file, WaitFor::Input));
        let mut ready = wait_any(open, at_most)?.into_iter();
        let [of_stdout, of_stderr] = files.map(|file| file.is_some() && ready.next() == Some(true));
        if of_stdout {
            self.stdout.take()?;
        }
        if of_stderr {
            self.stderr.take()?;
        }
        Ok(of_stdout || of_stderr)
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        // There is no caller to report an error to.
        drop(self.end(Duration::ZERO));
    }
}

impl<F: Read> Output<F> {
    fn take(&mut self) -> io::Result<()> {
        let mut bytes = [0; 4096];
        let Some(from) = &mut self.from else { return Ok(()) };
        match from.read(&mut bytes) {
            Ok(0) => self.from = None,
            Ok(length) => {
                let room = MAX_BYTES.saturating_sub(self.text.len());
                self.text.extend_from_slice(&bytes[..length.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Bounded {
        Bounded::start(Command::new("sh").args(["-c", script]), Stdio::piped()).unwrap()
    }

    fn nothing(_: &str) -> Option<()> {
        None
    }

    #[test]
    fn output_is_read_until_something_is_found_or_the_program_has_ended() {
        let go = AtomicBool::new(false);
        let mut program = shell("echo one; echo two; read line; echo three; echo why >&2; exit 7");
        let found = program.read(LONG, &go, |text| text.contains("two").then(|| text.to_owned())).unwrap();
        assert_eq!(found.as_deref(), Some("one\ntwo\n"));
        assert_eq!(program.end(LONG).unwrap().code(), Some(7), "its input is closed");
        assert_eq!(program.read(LONG, &go, nothing).unwrap(), None);
        assert_eq!((program.stdout(), program.stderr()), ("one\ntwo\nthree\n".to_owned(), "why\n".to_owned()));
    }

    #[test]
    fn of_much_output_the_begin_is_kept_and_the_program_goes_on() {
        let mut program = shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2");
        assert_eq!(program.read(LONG, &AtomicBool::new(false), nothing).unwrap(), None);
        assert_eq!((program.stdout().len(), program.stderr().len()), (MAX_BYTES, MAX_BYTES));
        assert_eq!(program.end(LONG).unwrap().code(), Some(0));
    }

    #[test]
    fn one_that_takes_too_long_or_heeds_no_signal_is_ended() {
        let (go, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        let mut program = shell("trap '' TERM; echo set; while :; do sleep 1; done");
        let is_set = |text: &str| (!text.is_empty()).then_some(());
        assert!(program.read(LONG, &go, is_set).unwrap().is_some());
        assert!(matches!(program.read(Duration::ZERO, &go, nothing), Err(GivenUp::TimedOut)));
        assert!(matches!(program.read(LONG, &stop, nothing), Err(GivenUp::Interrupted)));
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(program.end(Duration::ZERO).unwrap().signal(), Some(9));
    }

    #[test]
    fn a_program_that_a_child_of_it_outlives_has_ended_all_the_same() {
        let mut program = shell("sleep 1000 & echo $!; exec 1>&-; exit 3");
        assert_eq!(program.read(LONG, &AtomicBool::new(false), nothing).unwrap(), None);
        assert_eq!(program.end(LONG).unwrap().code(), Some(3));
        let sleeper = Pid::from_raw(program.stdout().trim().parse().unwrap()).unwrap();
        kill_process(sleeper, Signal::KILL).unwrap();
    }
}
