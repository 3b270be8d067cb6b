//! Programs in a link's namespaces.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use hairpin_model::Failure;
use rustix::event::PollFlags;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::namespace;
use crate::system::guest as system;
pub use crate::system::guest::is_in_foreground;
use crate::system::namespace::NamespaceStep;
use crate::system::process::Process;
use crate::wait::wait_any;

/// A program at an end of a link. The program runs in the end's network namespace and in its own mount, UTS and IPC
/// namespaces, with a `/sys` that shows the link's devices. The program is killed when this handle is dropped, and
/// when the thread or the process that started the program ends.
pub struct Guest {
    child: Child,
    /// Readable once the program has ended.
    ended: Process,
    leads_group: bool,
    waited_for: bool,
    foreign_sys: Option<Failure>,
}

/// The processes that receive the terminal's signals (Ctrl-C) and the signals of [`Guest::signal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// The program stays in its parent's process group and can use the terminal. [`Guest::signal`] reaches only it.
    Shared,
    /// The program leads its own group. The terminal's signals do not reach this group, but [`Guest::signal`] does.
    Own,
}

/// Why a wait ended.
#[derive(Debug)]
pub enum GuestEvent {
    Ended(ExitStatus),
    /// The program still runs; for each of the other files, whether it is readable.
    Others(Vec<bool>),
}

/// Why a program was not started.
#[derive(Debug)]
pub enum NotStarted {
    Program(io::Error),
    /// The program cannot be run in the link.
    Link(Failure),
}

impl Guest {
    /// Starts `command` at the end of a link that has the network namespace `namespace`.
    pub fn start(command: &mut Command, namespace: &Path, group: Group) -> Result<Self, NotStarted> {
        let failed = |operation: &str, error: io::Error| {
            NotStarted::Link(Failure::new(
                &error,
                format!("cannot {operation} the network namespace {}: {error}", namespace.display()),
                "was the link ended from outside?",
            ))
        };
        let file = File::open(namespace).map_err(|error| failed("open", error))?;
        if group == Group::Own {
            command.process_group(0);
        }
        let (mut reader, tell) = io::pipe().map_err(|error| failed("make a pipe for a program in", error))?;
        system::run_in(command, file, tell);
        let spawned = command.spawn();
        let refusals = system::refusals(&mut reader).unwrap_or_default();
        let (of_sys, of_all): (Vec<_>, Vec<_>) =
            refusals.into_iter().partition(|refusal| refusal.step == NamespaceStep::Sysfs);
        let child = spawned.map_err(|error| match of_all.first() {
            Some(refusal) => NotStarted::Link(namespace::failure(refusal)),
            None => NotStarted::Program(error),
        })?;
        let mut guest = Self::of(child, group).map_err(|error| failed("watch a program in", error))?;
        guest.foreign_sys = of_sys.first().map(namespace::failure);
        Ok(guest)
    }

    /// Starts `command` where this process is, in its group. The program is killed when the thread that starts it ends.
    pub fn start_here(command: &mut Command) -> io::Result<Self> {
        system::die_with_this_thread(command);
        Self::of(command.spawn()?, Group::Shared)
    }

    fn of(mut child: Child, group: Group) -> io::Result<Self> {
        match Process::with_id(child.id()) {
            Ok(ended) => {
                Ok(Self { child, ended, leads_group: group == Group::Own, waited_for: false, foreign_sys: None })
            }
            Err(error) => {
                drop(child.kill().and_then(|()| child.wait()));
                Err(error)
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Why the program has the host's `/sys`, if the kernel refused to mount the link's `/sys`.
    pub fn foreign_sys(&self) -> Option<&Failure> {
        self.foreign_sys.as_ref()
    }

    /// The program's standard input and output, if they are pipes.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>) {
        (self.child.stdin.take(), self.child.stdout.take())
    }

    /// Waits until the program ends, one of `others` is readable, `timeout` has passed, or a signal arrives.
    pub fn wait(&mut self, others: &[BorrowedFd<'_>], timeout: Option<Duration>) -> io::Result<GuestEvent> {
        let files = [self.ended.as_fd()].into_iter().chain(others.iter().copied());
        let mut ready = wait_any(files.map(|file| (file, PollFlags::IN)), timeout)?;
        if !ready.remove(0) {
            return Ok(GuestEvent::Others(ready));
        }
        self.waited_for = true;
        self.child.wait().map(GuestEvent::Ended)
    }

    /// Sends a signal to the program. Has no effect after the program's end.
    pub fn signal(&self, signal: i32) {
        let (Some(signal), false) = (Signal::from_named_raw(signal), self.waited_for) else { return };
        let id = Pid::from_child(&self.child);
        let _ = if self.leads_group { kill_process_group(id, signal) } else { kill_process(id, signal) };
    }

    /// Asks the program to end (SIGTERM), and waits at most `timeout`. Dropping the handle kills the program, and the group that it
    /// leads.
    pub fn end(&self, timeout: Duration) {
        self.signal(libc::SIGTERM);
        let deadline = Instant::now() + timeout;
        let left = || deadline.saturating_duration_since(Instant::now());
        // This does not reap the program, so its id stays reserved.
        while !left().is_zero() && !self.ended.ends_within(left()).unwrap_or(false) {}
    }

    /// Whether a program in the guest's namespace accepts traffic, on a listening TCP socket or a UDP socket with a
    /// port (`/proc/PID/net`; proc_pid_net(5)).
    pub fn listens(&self) -> bool {
        const LISTENS: &str = "0A";
        const HAS_PORT: &str = "07";
        [("tcp", LISTENS), ("tcp6", LISTENS), ("udp", HAS_PORT), ("udp6", HAS_PORT)].iter().any(|(name, state)| {
            let text = std::fs::read_to_string(format!("/proc/{}/net/{name}", self.id())).unwrap_or_default();
            text.lines().skip(1).any(|line| line.split_whitespace().nth(3) == Some(state))
        })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.waited_for {
            return;
        }
        // The ids of the program and of its group cannot be reused until the program is reaped.
        if self.leads_group {
            self.signal(libc::SIGKILL);
        }
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}
