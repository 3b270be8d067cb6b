//! One-way traffic between two processes on the requested CPUs: the sender's loop and the receiver's loop.
//!
//! Prints `{"received_per_s", "bytes_per_s", "sent_per_s", "received", "sent", "sender_calls", "receiver_calls"}`. The
//! receiver counts from the first to the last measured arrival.
//!
//! The sender announces the end of the warm-up in shared memory. The measurement begins when the receiver has seen the
//! announcement, which may be later if another process runs on the receiver's CPU. The sender continues until the
//! receiver has seen the end. So both ends run at full rate during the whole measurement, even if datagrams are lost.

use std::hint::black_box;
use std::io::{self, Error, ErrorKind};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use libc::c_int;

use crate::calls::{Call, Many, Read, Receive, ReceiveWithControl, Send, Write};
use crate::options::RateOptions;
use crate::system::{
    bind, close, connect_tcp, fork, kernel_ns, kill, pin, pipe, set, shared_page, socket, udp_pair, unix_pair,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    pub(crate) elapsed_ns: u64,
}

const WARM_UP: u32 = 0;
const MEASURED: u32 = 1;
const OVER: u32 = 2;

const CALLS_BETWEEN_CLOCK_READS: u32 = 32;

/// SIGALRM ends a run that exceeds the requested time by this much.
const GRACE_S: u64 = 10;

/// A separate cache line per writer: the sender writes `phase`, the receiver writes `received`.
#[repr(C, align(64))]
struct CacheLine<T>(T);

struct Shared {
    phase: CacheLine<AtomicU32>,
    received: CacheLine<Received>,
}

struct Received {
    bytes: AtomicU64,
    calls: AtomicU64,
    elapsed_ns: AtomicU64,
    /// 1 after the first measured arrival.
    started: AtomicU32,
    /// 1 after the other fields were written.
    complete: AtomicU32,
}

/// Opens both ends, and measures with the calls that the options select.
pub(crate) fn measure(asked: &RateOptions) -> io::Result<String> {
    let (sender, receiver) = open(asked)?;
    let run = Run { asked, sender, receiver };
    match asked.transport.as_str() {
        "pipe" => run.with(Write::new(sender, asked), Read::new(receiver, asked.read_size)),
        "udp" if asked.gso => run.with(Send::new(sender, asked), ReceiveWithControl::new(receiver, asked)),
        "udp" if asked.batch > 1 => run.with(Many::new(sender, asked, true), Many::new(receiver, asked, false)),
        "udp" => run.with(Send::new(sender, asked), Receive::new(receiver, asked, asked.size)),
        _ => run.with(Send::new(sender, asked), Receive::new(receiver, asked, asked.read_size)),
    }
}

struct Run<'a> {
    asked: &'a RateOptions,
    sender: i32,
    receiver: i32,
}

impl Run<'_> {
    fn with(&self, send: impl Call, receive: impl Call) -> io::Result<String> {
        let size = self.asked.size as u64;
        if self.asked.clock {
            return self.measure(Clocked::new(send, size), Clocked::new(receive, size));
        }
        self.measure(send, receive)
    }

    /// Forks the receiver, runs the sender, and waits for the receiver. Each process closes the end that it does not use, to notice when
    /// the other process has ended.
    fn measure(&self, mut send: impl Call, mut receive: impl Call) -> io::Result<String> {
        let asked = self.asked;
        // SAFETY: the page is zeroed (a valid Shared), aligned, large enough, and never unmapped.
        let shared: &Shared = unsafe { &*shared_page()?.cast() };
        let seconds = (asked.warmup_ms + asked.duration_ms).div_ceil(1000) + GRACE_S;
        // SAFETY: plain integers. `write` then returns EPIPE.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        let child = fork(u32::try_from(seconds).unwrap_or(u32::MAX), || {
            close(self.sender);
            let outcome = pin(asked.cpus.1).and_then(|()| receive_all(&mut receive, shared));
            outcome.map_or_else(|why| why.raw_os_error().unwrap_or(1), |()| 0)
        })?;
        close(self.receiver);
        let sent =
            pin(asked.cpus.0).and_then(|()| send_all(asked, &mut send, shared)).inspect_err(|_| kill(child))?;
        wait_for(child)?;
        let received = &shared.received.0;
        let received = Count {
            bytes: received.bytes.load(Relaxed),
            calls: received.calls.load(Relaxed),
            elapsed_ns: received.elapsed_ns.load(Relaxed),
        };
        Ok(figures(asked.size, sent, received))
    }
}

/// A call with two clock reads for each message of `size` bytes, before and after it.
struct Clocked<C> {
    call: C,
    size: u64,
    /// Bytes of a message that is not complete.
    begun: u64,
}

impl<C> Clocked<C> {
    fn new(call: C, size: u64) -> Self {
        Self { call, size, begun: 0 }
    }
}

impl<C: Call> Call for Clocked<C> {
    #[inline(always)]
    fn call(&mut self) -> io::Result<u64> {
        let mut before_ns = now_ns();
        let bytes = self.call.call()?;
        self.begun += bytes;
        while self.begun >= self.size {
            self.begun -= self.size;
            black_box(now_ns() - before_ns);
            if self.begun >= self.size {
                before_ns = now_ns();
            }
        }
        Ok(bytes)
    }
}

fn figures(size: usize, sent: Count, received: Count) -> String {
    let messages = |count: Count| count.bytes as f64 / size as f64;
    let seconds = |count: Count| count.elapsed_ns.max(1) as f64 / 1e9;
    format!(
        r#"{{"received_per_s": {:.1}, "bytes_per_s": {:.1}, "sent_per_s": {:.1}, "received": {:.0}, "sent": {:.0}, "sender_calls": {}, "receiver_calls": {}}}"#,
        messages(received) / seconds(received),
        received.bytes as f64 / seconds(received),
        messages(sent) / seconds(sent),
        messages(received),
        messages(sent),
        sent.calls,
        received.calls,
    )
}

fn open(asked: &RateOptions) -> io::Result<(c_int, c_int)> {
    match asked.transport.as_str() {
        "tcp" => tcp(asked),
        "udp" => udp(asked),
        "unix-stream" => unix_pair(),
        _ => pipe().map(|(read, write)| (write, read)),
    }
}

fn tcp(asked: &RateOptions) -> io::Result<(c_int, c_int)> {
    let (listener, address) = bind(libc::SOCK_STREAM, Ipv4Addr::LOCALHOST)?;
    let sender = socket(libc::SOCK_STREAM)?;
    if !asked.congestion.is_empty() {
        // The accepted socket inherits the congestion control from the listener.
        for socket in [listener, sender] {
            set(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, asked.congestion.as_bytes())?;
        }
    }
    if asked.nodelay {
        set(sender, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32.to_ne_bytes())?;
    }
    Ok((sender, connect_tcp(sender, (listener, address))?))
}

fn udp(asked: &RateOptions) -> io::Result<(c_int, c_int)> {
    let (sender, receiver) = udp_pair(bind(libc::SOCK_DGRAM, Ipv4Addr::LOCALHOST)?)?;
    if asked.gso {
        let size = c_int::try_from(asked.size).unwrap_or(c_int::MAX);
        set(sender, libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes())?;
        set(receiver, libc::SOL_UDP, libc::UDP_GRO, &1_i32.to_ne_bytes())?;
    }
    Ok((sender, receiver))
}

/// Sends until the receiver has seen the end. Returns the counts of the measured time.
fn send_all(asked: &RateOptions, sender: &mut impl Call, shared: &Shared) -> io::Result<Count> {
    let (mut count, mut started_ns) = (Count::default(), now_ns());
    let received = &shared.received.0;
    let (mut counts, mut measured) = (false, None);
    while received.complete.load(Acquire) == 0 {
        for _ in 0..CALLS_BETWEEN_CLOCK_READS {
            match sender.call() {
                Ok(bytes) => count.bytes += bytes,
                // The receiver has seen the end and has exited.
                Err(_) if received.complete.load(Acquire) == 1 => break,
                Err(why) => return Err(why),
            }
            count.calls += 1;
        }
        let elapsed_ns = now_ns() - started_ns;
        match shared.phase.0.load(Relaxed) {
            WARM_UP if elapsed_ns >= asked.warmup_ms * 1_000_000 => {
                shared.phase.0.store(MEASURED, Release);
            }
            MEASURED if !counts && received.started.load(Acquire) == 1 => {
                (counts, count, started_ns) = (true, Count::default(), now_ns());
            }
            MEASURED if counts && elapsed_ns >= asked.duration_ms * 1_000_000 => {
                shared.phase.0.store(OVER, Release);
                measured = Some(Count { elapsed_ns, ..count });
            }
            _ => {}
        }
    }
    measured.ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, "the receiver ended before the time was over"))
}

/// Receives until the measured time is over. Stores the counts from the first to the last arrival in the measured time.
fn receive_all(receiver: &mut impl Call, shared: &Shared) -> io::Result<()> {
    let mut receive_once = || match receiver.call() {
        Ok(0) => Err(Error::from_raw_os_error(libc::ECONNRESET)),
        Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    };
    while shared.phase.0.load(Relaxed) == WARM_UP {
        receive_once()?;
    }
    // The arrival that starts the measured time is not counted.
    while receive_once()? == 0 {}
    let (mut count, started_ns) = (Count::default(), now_ns());
    let received = &shared.received.0;
    received.started.store(1, Release);
    while shared.phase.0.load(Relaxed) != OVER {
        count.bytes += receive_once()?;
        count.calls += 1;
    }
    received.elapsed_ns.store(now_ns() - started_ns, Relaxed);
    received.bytes.store(count.bytes, Relaxed);
    received.calls.store(count.calls, Relaxed);
    received.complete.store(1, Release);
    Ok(())
}

fn wait_for(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the pointer is to a live integer.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        code if libc::WIFEXITED(status) => Err(Error::from_raw_os_error(code)),
        _ => Err(Error::other("a signal ended the receiver")),
    }
}

fn now_ns() -> u64 {
    kernel_ns(libc::CLOCK_MONOTONIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_reads_change_no_bytes_and_a_message_may_come_in_parts() {
        struct Parts(Vec<u64>);
        impl Call for Parts {
            fn call(&mut self) -> io::Result<u64> {
                self.0.pop().ok_or_else(|| ErrorKind::UnexpectedEof.into())
            }
        }
        let mut clocked = Clocked::new(Parts(vec![200, 3, 61]), 64);
        let moved = [61, 3, 200].map(|bytes| (clocked.call().unwrap(), bytes, clocked.begun));
        assert_eq!(moved, [(61, 61, 61), (3, 3, 0), (200, 200, 8)]);
        assert!(clocked.call().is_err());
    }

    #[test]
    fn each_rate_uses_the_time_of_its_end() {
        let sent = Count { bytes: 640, calls: 10, elapsed_ns: 500_000_000 };
        let received = Count { bytes: 320, calls: 2, elapsed_ns: 1_000_000_000 };
        assert_eq!(
            figures(64, sent, received),
            r#"{"received_per_s": 5.0, "bytes_per_s": 320.0, "sent_per_s": 20.0, "received": 5, "sent": 10, "sender_calls": 10, "receiver_calls": 2}"#
        );
    }
}
