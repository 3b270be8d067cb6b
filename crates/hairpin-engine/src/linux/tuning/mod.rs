//! Sets socket options of programs that Hairpin did not write, from outside: at connect(2) and listen(2), from which accepted
//! sockets inherit most of them. The program's own setsockopt(2) of these options is held back.
//!
//! The supervisor is one thread, which answers until the last process with the filter has ended. If this process is killed, the
//! kernel answers the program's next connect, listen, or setsockopt of these options with ENOSYS.

mod process;

use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use hairpin_model::options::OptionName;
use hairpin_model::{Failure, Options};
use hairpin_transports::foreign_options as foreign;
use hairpin_transports::options::is_met;
use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::{socket_protocol, socket_type};
use rustix::net::{SocketType, ipproto};

pub use self::process::Setting;
use crate::links::guest::{Group, Guest, NotStarted};
use crate::system::seccomp::{self, Answer, Notification};
use crate::wait::wait_with;

/// What the supervisor did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supervised {
    /// Number of connect and listen calls at which the options were set.
    pub changed: u64,
    /// Number of these at which the kernel had the requested values when the program continued.
    pub met: u64,
    /// Number of calls at which the kernel refused an option.
    pub refused: u64,
    /// How often the program set such an option itself, without effect.
    pub held_back: u64,
}

impl Supervised {
    /// The counts of two programs together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            changed: self.changed + other.changed,
            met: self.met + other.met,
            refused: self.refused + other.refused,
            held_back: self.held_back + other.held_back,
        }
    }
}

/// A program, with a supervisor if options are set.
pub struct Program {
    pub guest: Guest,
    supervision: Option<Supervision>,
}

/// What remains of a program's supervisor when the program has ended.
pub struct Supervision {
    thread: JoinHandle<io::Result<Supervised>>,
    /// A copy of what the program tells the supervisor by, in case that it never does.
    tell: PipeWriter,
}

impl Program {
    /// Starts a program with these settings, in a network namespace if there is one. Sets `options` on its TCP sockets if there are any; if they are
    /// empty, the supervisor only lets calls continue.
    pub fn start(
        command: &mut Command,
        options: Option<&Options>,
        settings: &[Setting],
        place: Option<(&Path, Group)>,
    ) -> Result<Self, NotStarted> {
        let failed = |error: io::Error| {
            let hint = "it needs Linux 5.6 or later, seccomp, pidfd_getfd(2), which some containers forbid, and that no other program watches its calls";
            NotStarted::Link(Failure::new(&error, format!("cannot set options of the program: {error}"), hint))
        };
        let supervision =
            options.map(|options| Supervision::install_in(command, options)).transpose().map_err(failed)?;
        let started = process::with(settings, || match place {
            Some((network, group)) => Guest::start(command, network, group),
            None => Guest::start_here(command).map_err(NotStarted::Program),
        });
        match (started.map_err(NotStarted::Program).flatten(), supervision) {
            (Ok(guest), supervision) => Ok(Self { guest, supervision }),
            (Err(NotStarted::Program(error)), Some(supervision)) => Err(match supervision.why_not() {
                // The supervisor had its filter, so the program itself could not be executed.
                None => NotStarted::Program(error),
                Some(why) if why.kind() == io::ErrorKind::InvalidData => failed(error),
                Some(why) => failed(why),
            }),
            (Err(why), _) => Err(why),
        }
    }

    pub fn end(self) -> Option<Supervision> {
        self.supervision
    }
}

impl Supervision {
    fn install_in(command: &mut Command, options: &Options) -> io::Result<Self> {
        let numbers: Vec<(i32, i32)> = options.iter().map(|(name, _)| foreign::number(name)).collect();
        let (told, tell) = io::pipe()?;
        let (go_reader, go) = io::pipe()?;
        let mut supervisor = Supervisor { options: options.clone(), done: Supervised::default() };
        let copy = tell.try_clone()?;
        seccomp::install_in(command, seccomp::filter(&numbers), tell, go_reader);
        // `spawn` returns when the program runs, and until then it waits for the supervisor.
        let run = move || {
            supervisor.run(&seccomp::listener(told, go)?);
            Ok(supervisor.done)
        };
        let thread = std::thread::Builder::new().name("supervisor".to_owned()).spawn(run)?;
        Ok(Self { thread, tell: copy })
    }

    /// Returns why a program that was not started could not be supervised; `None` if it could.
    fn why_not(mut self) -> Option<io::Error> {
        // Ends the wait of a supervisor that the program has told nothing, with `InvalidData`.
        drop(self.tell.write_all(&[0; seccomp::TOLD_BYTES]));
        self.thread.join().ok().and_then(Result::err)
    }

    /// Returns what the supervisor did, once all processes with the filter have ended.
    pub fn finish(self) -> Supervised {
        self.thread.join().ok().and_then(Result::ok).unwrap_or_default()
    }
}

struct Supervisor {
    options: Options,
    done: Supervised,
}

impl Supervisor {
    /// Answers until no process has the filter.
    fn run(&mut self, listener: &OwnedFd) {
        loop {
            let mut files = [PollFd::new(listener, PollFlags::IN)];
            if wait_with(&mut files, None).is_err() {
                return;
            }
            let events = files[0].revents();
            if events.contains(PollFlags::IN) {
                match seccomp::receive(listener.as_fd()) {
                    Ok(Some(notification)) => {
                        let answer = self.answer(listener, &notification);
                        seccomp::answer(listener.as_fd(), notification.id, answer);
                    }
                    Ok(None) => {}
                    Err(_) => return,
                }
            } else if !events.is_empty() {
                // The listener hangs up when the last process with the filter has ended.
                return;
            }
        }
    }

    fn answer(&mut self, listener: &OwnedFd, found: &Notification) -> Answer {
        let descriptor = i32::try_from(found.arguments[0]).unwrap_or(-1);
        // If the call no longer waits, the thread's id may belong to another program.
        let socket = seccomp::borrow(found.thread, descriptor).ok();
        let socket = socket.filter(|socket| seccomp::is_valid(listener.as_fd(), found.id) && is_tcp(socket));
        match socket {
            Some(_) if found.call == libc::SYS_setsockopt => {
                self.done.held_back += 1;
                return Answer::Done;
            }
            Some(socket) if !self.options.is_empty() => self.change(&socket),
            _ => {}
        }
        Answer::Continue
    }

    fn change(&mut self, socket: &OwnedFd) {
        match foreign::set(socket.as_fd(), &self.options) {
            Ok(()) => self.done.changed += 1,
            Err(_) => self.done.refused += 1,
        }
        let has = |(name, asked): (OptionName, &str)| {
            foreign::get(socket.as_fd(), name).is_ok_and(|value| is_met(name, asked, &value))
        };
        self.done.met += u64::from(self.options.iter().all(has));
    }
}

fn is_tcp(socket: &OwnedFd) -> bool {
    let is_stream = socket_type(socket).is_ok_and(|kind| kind == SocketType::STREAM);
    let protocol = socket_protocol(socket).ok().flatten();
    is_stream && protocol.is_some_and(|protocol| [ipproto::TCP, ipproto::MPTCP].contains(&protocol))
}

#[cfg(test)]
mod tests;
