//! The machine-state probe: a fixed piece of work, timed before and after each round on the CPU of each end.
//!
//! A shared core has states that last for seconds to minutes: another tenant of the core's caches slows down the same
//! code, although the guest sees neither stolen time nor load. The work is sending 4-byte datagrams from a socket to
//! itself over the loopback, which wakes no process and exercises a large part of the kernel. Medians over windows of
//! 20 readings (one every 50 ms for 5 minutes) correlated with the round trips of a pipe and of UDP on the same CPU
//! by 0.98. 1 000 `getppid` calls correlated by 0.89 and 0.85, a Unix socket pair by 0.74 and 0.71.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use hairpin_model::Probe;

use crate::observer::{Context, Mark, Observations, Observer};
use hairpin_loops::clock::Clock;

/// Number of datagrams before the timed datagrams, to refill the caches.
const WARM_UP: u32 = 10;
/// Number of timed parts. The median part counts, so an interrupt or preemption during one part has no effect.
const PARTS: usize = 9;
const DATAGRAMS: u32 = 10;
/// A reading is scaled to this number of parts, i.e. to 100 datagrams.
const READING_PARTS: u64 = 10;
/// This time-out expires only in a hang: a datagram to the same socket never takes this long.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Probes before and after a round, on the CPU of an end.
pub(crate) struct Probing {
    clock: Box<dyn Clock>,
    /// `None` if the socket could not be created.
    socket: Option<UdpSocket>,
    /// The readings before and after the round in ns; `None` if the reading failed.
    before: Option<u64>,
    after: Option<u64>,
}

impl Probing {
    fn read(&self) -> Option<u64> {
        let socket = self.socket.as_ref()?;
        read(&*self.clock, &mut || exchange(socket)).ok()
    }
}

impl Observer for Probing {
    fn begin(context: Context<'_>) -> Option<Self> {
        Some(Self { clock: Box::new(context.clock), socket: None, before: None, after: None })
    }

    fn mark(&mut self, mark: Mark<'_>) {
        if let Mark::Opening { .. } = mark {
            self.socket = to_itself().ok();
            self.before = self.read();
        }
    }

    fn end(&mut self) {
        self.after = self.read();
    }

    fn report(self: Box<Self>, to: &mut Observations) {
        to.report.probe_ns = self.before.zip(self.after).map(|(before, after)| Probe { before, after });
    }
}

fn to_itself() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    Ok(socket)
}

fn exchange(socket: &UdpSocket) -> io::Result<()> {
    let mut bytes = [0; 4];
    socket.send(&bytes)?;
    socket.recv(&mut bytes).map(drop)
}

/// Returns the time for 100 datagrams in ns, from the median part.
fn read(clock: &dyn Clock, exchange: &mut impl FnMut() -> io::Result<()>) -> io::Result<u64> {
    let mut exchanges = |count: u32| (0..count).try_for_each(|_| exchange());
    exchanges(WARM_UP)?;
    let mut parts = [0; PARTS];
    for part in &mut parts {
        let began_ns = clock.now_ns();
        exchanges(DATAGRAMS)?;
        *part = clock.now_ns().saturating_sub(began_ns);
    }
    parts.sort_unstable();
    Ok(parts[PARTS / 2] * READING_PARTS)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Advances 1 us per reading, except that the third part takes a hundred times as long.
    struct Uneven(AtomicU64);

    impl Clock for Uneven {
        fn now_ns(&self) -> u64 {
            let look = self.0.fetch_add(1, Ordering::Relaxed);
            look * 1_000 + if look >= 5 { 100_000 } else { 0 }
        }

        fn sleep_until(&self, _: u64) {}
    }

    #[test]
    fn an_interrupt_in_one_part_does_not_change_the_reading() {
        let mut datagrams = 0;
        let reading = read(&Uneven(AtomicU64::new(0)), &mut || {
            datagrams += 1;
            Ok(())
        });
        assert_eq!((reading.unwrap(), datagrams), (10_000, 100));
    }

    #[test]
    fn the_loopback_carries_a_datagram_to_itself_and_a_failure_is_no_reading() {
        let clock = Box::new(Uneven(AtomicU64::new(0)));
        let mut probing = Probing { clock, socket: None, before: None, after: None };
        probing.mark(Mark::Opening { pinned: None, address: None, server_namespace: None });
        probing.end();
        let mut seen = Observations::default();
        Box::new(probing).report(&mut seen);
        assert_eq!(seen.report.probe_ns, Some(Probe { before: 10_000, after: 10_000 }));
        let lost = read(&Uneven(AtomicU64::new(0)), &mut || Err(io::ErrorKind::TimedOut.into()));
        assert_eq!(lost.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
