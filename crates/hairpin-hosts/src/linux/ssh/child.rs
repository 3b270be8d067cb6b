//! A child process whose output is read up to limits of size and time. The child is always ended and reaped.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hairpin_engine::wait::wait_any;
use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, kill_process};

/// Maximum bytes to keep of each output.
const MAX_BYTES: usize = 16 << 10;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time for the process to end after SIGTERM.
const TERM_TIMEOUT: Duration = Duration::from_secs(1);

/// Why waiting for a program was given up.
#[derive(Debug)]
pub(super) enum WaitError {
    TimedOut,
    Interrupted,
    /// Waiting failed.
    Io(io::Error),
}

/// A running program. Dropping this value ends the program.
pub(super) struct BoundedChild {
    child: Child,
    stdout: Output<ChildStdout>,
    stderr: Output<ChildStderr>,
}

/// Output read from a program so far.
struct Output<F> {
    /// `None` once the program has closed its output.
    from: Option<F>,
    text: Vec<u8>,
}

impl BoundedChild {
    /// Starts a program in its own process group, so that Ctrl-C interrupts only Hairpin, which then ends the program.
    pub(super) fn start(command: &mut Command, input: Stdio) -> io::Result<Self> {
        let command = command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn()?;
        let stdout = Output { from: child.stdout.take(), text: Vec::new() };
        let stderr = Output { from: child.stderr.take(), text: Vec::new() };
        Ok(Self { child, stdout, stderr })
    }

    /// Reads the output until `found` returns a value for it. Returns the value; `None` if the program ends before.
    pub(super) fn read<T>(
        &mut self,
        at_most: Duration,
        stop: &AtomicBool,
        found: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, WaitError> {
        let deadline = Instant::now() + at_most;
        loop {
            // If the program has ended, its remaining output is still read.
            let has_ended = self.child.try_wait().map_err(WaitError::Io)?.is_some();
            let was_ready =
                self.poll(if has_ended { Duration::ZERO } else { POLL_INTERVAL }).map_err(WaitError::Io)?;
            if let Some(what) = found(&self.stdout()) {
                return Ok(Some(what));
            }
            if has_ended && !was_ready {
                return Ok(None);
            }
            if stop.load(Ordering::Relaxed) {
                return Err(WaitError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(WaitError::TimedOut);
            }
        }
    }

    /// Standard output so far.
    pub(super) fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.text).into_owned()
    }

    /// Standard error so far.
    pub(super) fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.text).into_owned()
    }

    /// Closes the program's input and waits up to `at_most` for its end; then sends SIGTERM and, after 1 s, SIGKILL.
    pub(super) fn end(&mut self, at_most: Duration) -> io::Result<ExitStatus> {
        drop(self.child.stdin.take());
        if let Some(status) = self.wait_for_exit(at_most)? {
            return Ok(status);
        }
        // Fails if the program has just ended.
        kill_process(Pid::from_child(&self.child), Signal::TERM).ok();
        if let Some(status) = self.wait_for_exit(TERM_TIMEOUT)? {
            return Ok(status);
        }
        drop(self.child.kill());
        self.child.wait()
    }

    fn wait_for_exit(&mut self, at_most: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + at_most;
        loop {
            match self.child.try_wait()? {
                None if Instant::now() < deadline => {
                    // Reads the output: a program that fills a pipe would block and never end.
                    self.poll(POLL_INTERVAL / 5)?;
                }
                status => return Ok(status),
            }
        }
    }

    /// Waits for output and reads it. Returns whether there was any.
    fn poll(&mut self, at_most: Duration) -> io::Result<bool> {
        let files = [self.stdout.from.as_ref().map(AsFd::as_fd), self.stderr.from.as_ref().map(AsFd::as_fd)];
        let open = files.iter().flatten().map(|file| (*file, PollFlags::IN));
        let mut ready = wait_any(open, Some(at_most))?.into_iter();
        let [stdout_ready, stderr_ready] = files.map(|file| file.is_some() && ready.next() == Some(true));
        if stdout_ready {
            self.stdout.read_once()?;
        }
        if stderr_ready {
            self.stderr.read_once()?;
        }
        Ok(stdout_ready || stderr_ready)
    }
}

impl Drop for BoundedChild {
    fn drop(&mut self) {
        // There is no caller to report an error to.
        drop(self.end(Duration::ZERO));
    }
}

impl<F: Read> Output<F> {
    fn read_once(&mut self) -> io::Result<()> {
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

    fn shell(script: &str) -> BoundedChild {
        BoundedChild::start(Command::new("sh").args(["-c", script]), Stdio::piped()).unwrap()
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
        assert_eq!(program.end(LONG).unwrap().code(), Some(7), "`end` closes the program's input");
        assert_eq!(program.read(LONG, &go, nothing).unwrap(), None);
        assert_eq!((program.stdout(), program.stderr()), ("one\ntwo\nthree\n".to_owned(), "why\n".to_owned()));
    }

    #[test]
    fn only_the_start_of_long_output_is_kept_and_the_program_continues() {
        let mut program = shell("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2");
        assert_eq!(program.read(LONG, &AtomicBool::new(false), nothing).unwrap(), None);
        assert_eq!((program.stdout().len(), program.stderr().len()), (MAX_BYTES, MAX_BYTES));
        assert_eq!(program.end(LONG).unwrap().code(), Some(0));
    }

    #[test]
    fn a_program_that_takes_too_long_or_ignores_sigterm_is_ended() {
        let (go, stop) = (AtomicBool::new(false), AtomicBool::new(true));
        let mut program = shell("trap '' TERM; echo set; while :; do sleep 1; done");
        let is_set = |text: &str| (!text.is_empty()).then_some(());
        assert!(program.read(LONG, &go, is_set).unwrap().is_some());
        assert!(matches!(program.read(Duration::ZERO, &go, nothing), Err(WaitError::TimedOut)));
        assert!(matches!(program.read(LONG, &stop, nothing), Err(WaitError::Interrupted)));
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(program.end(Duration::ZERO).unwrap().signal(), Some(9));
    }

    #[test]
    fn a_program_has_ended_even_if_its_child_outlives_it() {
        let mut program = shell("sleep 1000 & echo $!; exec 1>&-; exit 3");
        assert_eq!(program.read(LONG, &AtomicBool::new(false), nothing).unwrap(), None);
        assert_eq!(program.end(LONG).unwrap().code(), Some(3));
        let sleeper = Pid::from_raw(program.stdout().trim().parse().unwrap()).unwrap();
        kill_process(sleeper, Signal::KILL).unwrap();
    }
}
