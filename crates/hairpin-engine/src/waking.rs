//! The time of a round trip that wakes another CPU in each direction, used only to plan rounds on two CPUs. It
//! differs between machines by a factor of five, so a fixed value would plan too few rounds or announce too short a
//! run.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use crate::placement::{Cpus, place};

/// Assumed round-trip time in ns if it cannot be measured.
const UNKNOWN_NS: u64 = 60_000;
/// Number of timed round trips, and of untimed round trips before them.
const TIMED_TRIPS: usize = 60;
const WARM_UP_TRIPS: usize = 20;

/// The median round trip of a byte through two pipes between threads on two CPUs, in ns. Measured at the first call,
/// which takes a few ms; the second thread has ended when the call returns.
pub(crate) fn round_trip_ns() -> u64 {
    static MEASURED: OnceLock<u64> = OnceLock::new();
    *MEASURED.get_or_init(|| measure().unwrap_or(UNKNOWN_NS))
}

/// Assumed time to start a process in ns if it cannot be measured.
const UNKNOWN_START_NS: u64 = 500_000;
/// Number of timed starts of a process.
const STARTS: usize = 7;

/// The shortest of some times to start a small program and wait for its end, in ns, used only to estimate the overhead of
/// a round; waits for the CPU are estimated separately. Measured at the first call, which takes a few ms.
pub(crate) fn process_start_ns() -> u64 {
    static MEASURED: OnceLock<u64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        let start_ns = |_| -> std::io::Result<u64> {
            let began = Instant::now();
            Command::new("true").stdin(Stdio::null()).status()?;
            Ok(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
        };
        (0..STARTS).filter_map(|start| start_ns(start).ok()).min().unwrap_or(UNKNOWN_START_NS)
    })
}

fn measure() -> std::io::Result<u64> {
    let cpus = Cpus::choose()?;
    let (mut there, to_server) = std::io::pipe()?;
    let (to_client, mut back) = std::io::pipe()?;
    let server_cpu = cpus.server;
    let server = std::thread::spawn(move || {
        let mut byte = [0];
        if place(server_cpu, &[]).is_ok() {
            while there.read_exact(&mut byte).and_then(|()| back.write_all(&byte)).is_ok() {}
        }
    });
    place(Some(cpus.client), &cpus.allowed)?;
    let timed = timed(to_server, to_client);
    place(None, &cpus.allowed)?;
    drop(server.join());
    timed
}

fn timed(mut to_server: PipeWriter, mut to_client: PipeReader) -> std::io::Result<u64> {
    let mut took_ns = Vec::with_capacity(WARM_UP_TRIPS + TIMED_TRIPS);
    let mut byte = [1];
    for _ in 0..WARM_UP_TRIPS + TIMED_TRIPS {
        let began = Instant::now();
        to_server.write_all(&byte)?;
        to_client.read_exact(&mut byte)?;
        took_ns.push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    let timed = &mut took_ns[WARM_UP_TRIPS..];
    timed.sort_unstable();
    Ok(timed[TIMED_TRIPS / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_measured_once_and_the_thread_is_unpinned_afterwards() {
        let allowed = crate::system::cpu::allowed().unwrap();
        let first = round_trip_ns();
        assert!(first > 0);
        assert_eq!(round_trip_ns(), first);
        assert_eq!(crate::system::cpu::allowed().unwrap(), allowed);
    }
}
