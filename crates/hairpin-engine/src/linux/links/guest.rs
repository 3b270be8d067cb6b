//! Programs in a link's namespaces.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use hairpin_model::Failure;

use super::namespace;
use crate::system::guest::{self as system, Interest};
use crate::system::namespace::NamespaceStep;

/// A program at an end of a link: in its network namespace, and in its own mount, host name and IPC namespaces, with a
/// `/sys` that shows the link's devices. It is killed when this is dropped, when the thread that started it ends, and
/// when that thread's process is killed.
pub struct Guest {
    child: Child,
    /// Readable once the program has ended.
    ended: OwnedFd,
    leads_group: bool,
    waited_for: bool,
    foreign_sys: Option<Failure>,
}

/// The processes that the terminal's keys and [`Guest::signal`] reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// It stays in the group of its parent, so that it can use the terminal. Signals go only to it.
    Shared,
    /// It leads its own group: the terminal's keys do not reach it, and signals go to the whole group.
    Own,
}

/// The reason for the end of a wait.
#[derive(Debug)]
pub enum GuestEvent {
    Ended(ExitStatus),
    /// It still runs; for each other file, whether it is readable.
    Others(Vec<bool>),
}

/// Why a program was not started.
#[derive(Debug)]
pub enum NotStarted {
    Program(io::Error),
    /// It cannot be run in the link.
    Link(Failure),
}

/// Whether the terminal's keys (Ctrl-C) reach this process, and so its whole group.
pub fn is_in_foreground() -> bool {
    system::is_in_foreground()
}

impl Guest {
    /// Starts the command at the end of a link with that network namespace.
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
        let (mut told, tell) = io::pipe().map_err(|error| failed("make a pipe for a program in", error))?;
        system::run_in(command, file, tell);
        let spawned = command.spawn();
        let refusals = system::refusals(&mut told).unwrap_or_default();
        let (of_sys, of_all): (Vec<_>, Vec<_>) =
            refusals.into_iter().partition(|refusal| refusal.step == NamespaceStep::Sysfs);
        let mut child = spawned.map_err(|error| match of_all.first() {
            Some(refusal) => NotStarted::Link(namespace::failure(refusal)),
            None => NotStarted::Program(error),
        })?;
        let foreign_sys = of_sys.first().map(namespace::failure);
        match system::ended(child.id()) {
            Ok(ended) => Ok(Self { child, ended, leads_group: group == Group::Own, waited_for: false, foreign_sys }),
            Err(error) => {
                drop(child.kill().and_then(|()| child.wait()));
                Err(failed("watch a program in", error))
            }
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Why it has the host's `/sys`, if the kernel refused another one.
    pub fn foreign_sys(&self) -> Option<&Failure> {
        self.foreign_sys.as_ref()
    }

    /// Its standard input and output, if they are pipes.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>) {
        (self.child.stdin.take(), self.child.stdout.take())
    }

    /// Waits until it ends, one of `others` is readable, `patience` is over, or a signal arrives.
    pub fn wait(&mut self, others: &[BorrowedFd<'_>], patience: Option<Duration>) -> io::Result<GuestEvent> {
        let files: Vec<_> = [self.ended.as_fd()].iter().chain(others).map(|file| (*file, Interest::Read)).collect();
        let mut ready = system::wait_for(&files, patience)?;
        if !ready.remove(0) {
            return Ok(GuestEvent::Others(ready));
        }
        self.waited_for = true;
        self.child.wait().map(GuestEvent::Ended)
    }

    /// Sends it a signal. Has no effect after its end.
    pub fn signal(&self, signal: i32) {
        if self.waited_for {
            return;
        }
        drop(system::signal(self.child.id(), self.leads_group, signal));
    }

    /// Asks it to end (SIGTERM). After `patience`, kills it, and its group if it leads one.
    pub fn end(self, patience: Duration) {
        self.signal(libc::SIGTERM);
        let deadline = Instant::now() + patience;
        let left = || deadline.saturating_duration_since(Instant::now());
        while !left().is_zero() && !self.has_ended(left()) {}
    }

    /// Whether it ends within `patience`. Its id remains reserved.
    fn has_ended(&self, patience: Duration) -> bool {
        let files = [(self.ended.as_fd(), Interest::Read)];
        system::wait_for(&files, Some(patience)).is_ok_and(|ready| ready[0])
    }

    /// Whether a program in its namespace accepts traffic: on a listening TCP socket, or a UDP socket with a port
    /// (`/proc/PID/net`; proc_pid_net(5)).
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
        // Until it is waited for, its id and that of its group cannot be reused.
        if self.leads_group {
            self.signal(libc::SIGKILL);
        }
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}
