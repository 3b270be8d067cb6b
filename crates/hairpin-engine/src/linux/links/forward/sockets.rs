//! The real interfaces: a packet socket on each, with the kernel's timestamps mapped to the link's time.

use std::io;
use std::os::fd::BorrowedFd;
use std::thread;

use hairpin_link::Direction;
use hairpin_model::Failure;

use super::super::wiring::failed;
use super::interfaces::{Arrival, Interfaces};
use super::stamps::Stamps;
use crate::child;
use crate::system::packet_ring::Interface;
use crate::system::packet_socket::{self, PacketSocket};
use hairpin_loops::clock::RealClock;

/// A packet socket towards each end.
///
/// When a ring is created, and twice when a socket is closed, the kernel waits for all its CPUs (`synchronize_net`,
/// net/packet/af_packet.c), about 9 ms each time. The two sockets are therefore opened and closed in parallel.
pub(super) struct Sockets {
    near: PacketSocket,
    far: PacketSocket,
    stamps: Stamps<RealClock>,
}

/// The sockets, and the descriptor that signals the end.
pub(super) struct SocketsUntil<'a> {
    sockets: &'a mut Sockets,
    end: BorrowedFd<'a>,
}

impl Sockets {
    /// Opens both sockets, for frames of up to `frame_bytes`. The link's time starts with this call.
    pub(super) fn open(interfaces: [&str; 2], frame_bytes: usize, clock: RealClock) -> Result<Self, Failure> {
        let socket = |name: &str| {
            let opened = Interface::named(name).and_then(|interface| PacketSocket::open(interface, frame_bytes));
            opened.map_err(|error| failed(&format!("open a packet socket on the interface {name}"), &error))
        };
        let [near, far] = interfaces;
        let (near, far) = side_by_side(|| socket(near), || socket(far)).map_err(|error| no_thread(&error))?;
        Ok(Self { near: near?, far: far?, stamps: Stamps::new(clock) })
    }

    pub(super) fn close(self) {
        let Self { near, far, .. } = self;
        // If no thread can be started, both are still dropped, one after the other.
        drop(side_by_side(|| drop(near), || drop(far)));
    }

    /// When the link started, in ns of the clock.
    pub(super) fn started_ns(&self) -> u64 {
        self.stamps.started_ns()
    }

    /// The interfaces of a loop that ends when `end` is readable.
    pub(super) fn until<'a>(&'a mut self, end: BorrowedFd<'a>) -> SocketsUntil<'a> {
        SocketsUntil { sockets: self, end }
    }

    /// The number of packets for which the rings had no room.
    pub(super) fn overrun(&self) -> Result<u64, Failure> {
        let lost = |socket: &PacketSocket| {
            socket.overrun().map_err(|error| {
                Failure::new(
                    &error,
                    format!("cannot read the number of packets that the relay's packet sockets lost: {error}"),
                    "this is a defect of Hairpin; please report it with the command line",
                )
            })
        };
        Ok(lost(&self.near)? + lost(&self.far)?)
    }
}

/// Runs both functions in parallel, `there` in a temporary thread.
fn side_by_side<T, U: Send>(here: impl FnOnce() -> T, there: impl FnOnce() -> U + Send) -> io::Result<(T, U)> {
    thread::scope(|scope| {
        let there = thread::Builder::new().spawn_scoped(scope, there)?;
        let here = here();
        Ok((here, there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
    })
}

pub(super) fn no_thread(error: &io::Error) -> Failure {
    Failure::new(error, format!("cannot start a thread of the link: {error}"), child::limit(error).to_owned())
}

impl Interfaces for SocketsUntil<'_> {
    fn places(&self) -> usize {
        self.sockets.near.ring.slots.max(self.sockets.far.ring.slots)
    }

    fn now_ns(&self) -> u64 {
        self.sockets.stamps.now_ns()
    }

    fn receive(&mut self, direction: Direction, take: impl FnOnce(&Arrival<'_>)) -> bool {
        let Sockets { near, far, stamps } = &mut *self.sockets;
        let from = match direction {
            Direction::Up => near,
            Direction::Down => far,
        };
        let taken = from.ring.receive(|frame| {
            let now_ns = stamps.now_ns();
            stamps.refresh(now_ns);
            take(&Arrival {
                arrived_ns: stamps.arrived_ns(frame.realtime_ns, now_ns),
                bytes: frame.bytes,
                length_bytes: frame.length_bytes as usize,
                had_tag: frame.had_tag,
            });
        });
        taken.is_some()
    }

    fn send(&mut self, direction: Direction, frames: &[&[u8]]) -> usize {
        match direction {
            Direction::Up => self.sockets.far.send(frames),
            Direction::Down => self.sockets.near.send(frames),
        }
    }

    fn spin(&mut self, _until_ns: u64) {
        std::hint::spin_loop();
    }

    fn wait(&mut self, at_most_ns: Option<u64>) -> Result<bool, Failure> {
        packet_socket::wait([&self.sockets.near, &self.sockets.far], self.end, at_most_ns).map_err(|error| {
            Failure::new(
                &error,
                format!("cannot wait for packets: {error}"),
                "was an interface of the link removed from outside?",
            )
        })
    }
}
