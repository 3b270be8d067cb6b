//! The link's process and its handle.
//!
//! The link's process ends when a message arrives on its standard input or its standard input closes, however its
//! parent ended. It must then end the processes in its namespaces. So the kernel does not kill it together with its
//! parent, but continues it if it is stopped. The link's process has its own session, so killing the parent's process
//! group does not kill it. If only the link's process is killed, the handle ends the processes in the namespaces.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::parent_id;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use hairpin_link::profile::Profile;
use hairpin_model::{Failure, FailureKind, LinkEnds};

use super::namespace;
use super::sweep::sweep;
use super::wiring::{self, Ends, RELAY_INTERFACES};
use super::{LinkEnd, LinkOrder, LinkWord, LogTo, Namespaces, forward};
use crate::child::{failure, leave, spawn};
use crate::control::channel::Channel;
use crate::system::{process, stream};
use hairpin_loops::clock::Clock;

/// The hidden command that runs the program as a link.
pub const COMMAND: &str = "__link";

/// Time-out for a message. It expires only if the process hangs: messages normally take a small part of this time.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

const NAME: &str = "the link";

/// Maximum bytes of a message.
const MAX_BYTES: usize = 64 << 20;

const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A running link. Dropping the handle ends the link and all processes in its namespaces.
pub struct RunningLink {
    // Dropped in this order: the process ends the other processes in the namespaces, unless it was killed.
    process: LinkProcess,
    ends: OpenEnds,
    namespaces: Namespaces,
    ends_use: LinkEnds,
}

/// The link's process. Dropping it ends the process.
struct LinkProcess {
    child: Child,
    channel: Channel,
}

impl LinkProcess {
    fn receive(&mut self) -> Result<LinkWord, Failure> {
        self.channel.receive_any(MESSAGE_TIMEOUT).map_err(|error| failure(&error, NAME, &mut self.child))
    }

    /// Asks the process to exit. It may have exited already.
    fn release(&mut self) {
        drop(self.channel.send_any(&()));
    }
}

impl Drop for LinkProcess {
    fn drop(&mut self) {
        self.release();
        leave(&mut self.child, EXIT_TIMEOUT);
    }
}

/// The namespaces of a running link, held open so that they keep their identities until all processes in them have
/// ended. Dropping them ends these processes.
struct OpenEnds {
    ends: Ends,
    is_swept: bool,
}

impl Drop for OpenEnds {
    fn drop(&mut self) {
        if !self.is_swept {
            // Errors can no longer be reported.
            drop(sweep([&self.ends.near, &self.ends.far], &[]));
        }
    }
}

impl RunningLink {
    /// Starts `program` as the link's process and waits until the link carries packets.
    pub fn start(program: &Path, order: &LinkOrder) -> Result<Self, Failure> {
        let (order, passed_on) = order_with_log_stream(order)?;
        let (child, input, output) = spawn(NAME, program, COMMAND, None)?;
        drop(passed_on);
        let mut process = LinkProcess { child, channel: Channel::new(output.into(), input.into(), MAX_BYTES) };
        let sent = process.channel.send_any(&order);
        sent.map_err(|error| failure(&error, NAME, &mut process.child))?;
        let (namespaces, ends_use) = match process.receive()? {
            LinkWord::Ready(namespaces, ends_use) => (namespaces, ends_use),
            LinkWord::Failed(failure) => return Err(failure),
            word @ LinkWord::Done(_) => return Err(unexpected_message(&word)),
        };
        let open = |path: &Path| {
            File::open(path).map_err(|error| {
                Failure::new(
                    &error,
                    format!("cannot open the link's namespace {}: {error}", path.display()),
                    "was the link ended from outside?",
                )
            })
        };
        let ends = Ends { near: open(&namespaces.near)?, far: open(&namespaces.far)? };
        Ok(Self { process, ends: OpenEnds { ends, is_swept: false }, namespaces, ends_use })
    }

    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// The TCP settings of the link's two ends.
    pub fn ends_use(&self) -> &LinkEnds {
        &self.ends_use
    }

    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    /// A descriptor that is readable once the link has sent a message. Before [`RunningLink::finish`] this means that
    /// the link failed or ended.
    pub fn words(&self) -> BorrowedFd<'_> {
        self.process.channel.carrier().input.as_fd()
    }

    /// Ends the link with all processes in its namespaces, and returns its results. Threads of this process in these
    /// namespaces are not ended.
    pub fn finish(mut self) -> Result<LinkEnd, Failure> {
        self.process.release();
        match self.process.receive()? {
            LinkWord::Done(end) => {
                self.ends.is_swept = true;
                Ok(*end)
            }
            LinkWord::Failed(failure) => Err(failure),
            word @ LinkWord::Ready(..) => Err(unexpected_message(&word)),
        }
    }
}

/// The order for the link's process, and a descriptor that must stay open until the process is started.
fn order_with_log_stream(order: &LinkOrder) -> Result<(LinkOrder, Option<OwnedFd>), Failure> {
    let Some(LogTo::Stream(number) | LogTo::Opened(number, _)) = order.log else { return Ok((order.clone(), None)) };
    let passed_on = stream::duplicate_inheritable(number).map_err(|error| {
        Failure::new(
            FailureKind::Resource,
            format!("cannot give the link descriptor {number} for its log: {error}"),
            "is a limit on open files (ulimit -n) reached?",
        )
    })?;
    let number = passed_on.as_raw_fd();
    let log = Some(match &order.log {
        Some(LogTo::Opened(_, name)) => LogTo::Opened(number, name.clone()),
        _ => LogTo::Stream(number),
    });
    Ok((LinkOrder { log, ..order.clone() }, Some(passed_on)))
}

fn unexpected_message(word: &LinkWord) -> Failure {
    Failure::new(
        FailureKind::Unexpected,
        format!("unexpected message from the link: {word:?}"),
        "this is a defect of Hairpin; please report it with the command line",
    )
}

/// Runs the program as a link: reads its order, carries packets until its parent asks it to end, and reports. `parent`
/// is the id of the process that started this one.
pub fn serve_as_process(parent: u32) -> Result<(), String> {
    process::continue_without_parent();
    process::leave_session();
    process::ignore_interrupts();
    let control = Channel::of_this_process(MAX_BYTES);
    let mut control = control.map_err(|error| format!("cannot use the standard streams: {error}"))?;
    let order = control.receive_any(MESSAGE_TIMEOUT).map_err(|error| format!("cannot read the order: {error}"))?;
    let end = serve(&order, parent, &mut control);
    // The parent process may have exited.
    drop(control.send_any(&end.map_or_else(LinkWord::Failed, |end| LinkWord::Done(Box::new(end)))));
    Ok(())
}

/// Creates the link, carries packets, and removes it.
fn serve(order: &LinkOrder, parent: u32, control: &mut Channel) -> Result<LinkEnd, Failure> {
    let began_ns = order.clock.now_ns();
    let profile: Profile = order.profile.parse().map_err(|error| {
        Failure::new(
            FailureKind::Unsupported,
            format!("cannot read the profile `{}`: {error}", order.profile),
            "`hairpin link list` lists the words of a profile",
        )
    })?;
    if profile.is_loopback() {
        return Err(Failure::new(FailureKind::Unsupported, "the loopback is not a link", "omit --link"));
    }
    let (ends, ends_use) = wiring::through_relay(profile.mtu_bytes, &order.congestion_control)?;
    let [to_near, to_far] = RELAY_INTERFACES;
    let relay = forward::open(order, to_near, to_far)?;
    let setup_ns = order.clock.now_ns().saturating_sub(began_ns);
    let [near, far] = [&ends.near, &ends.far].map(namespace::path_of);
    drop(control.send_any(&LinkWord::Ready(Namespaces { near, far }, ends_use.clone())));
    let carried = relay.carry(io::stdin().as_fd());
    // The process that started this one may be in an end too.
    let spared: &[u32] = if parent_id() == parent { &[parent] } else { &[] };
    sweep([&ends.near, &ends.far], spared)?;
    let mut end = carried?;
    if let Some(report) = &mut end.record.relay {
        report.setup_ns = setup_ns;
    }
    end.record.ends = Some(ends_use);
    end.record.dropped_after = wiring::dropped_after(&ends)?;
    Ok(end)
}
