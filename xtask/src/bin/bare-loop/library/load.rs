//! What both ends do with a library: round trips, or one-way messages until the server has counted long enough.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};

use super::{Options, Outcome, http};
use crate::clock::ticks;
use crate::system::{kernel_ns, shared_page};

/// Counts of the server, in a page that both processes share.
#[repr(C)]
struct Shared {
    calls: AtomicU64,
    bytes: AtomicU64,
    /// Begin of the current phase: warm-up, then measurement. 0 before the first message.
    since_ns: AtomicU64,
    is_measured: AtomicU64,
    /// Bytes and duration of the measurement, once it is complete.
    measured_bytes: AtomicU64,
    elapsed_ns: AtomicU64,
}

/// Received messages or reads between two readings of the server's clock.
const CALLS_BETWEEN_CLOCK_READS: u64 = 16;

#[derive(Clone, Copy)]
pub(super) struct Load {
    size: usize,
    count: usize,
    warmup: usize,
    warmup_ns: u64,
    duration_ns: u64,
    /// Whether messages are JSON documents (`rest`).
    pub(super) is_json: bool,
    shared: &'static Shared,
}

impl Load {
    pub(super) fn new(asked: &Options) -> Outcome<Self> {
        // SAFETY: the page is zeroed (a valid Shared), aligned, large enough, and never unmapped.
        let shared = unsafe { &*shared_page()?.cast() };
        let ns = |ms| Duration::from_millis(ms).as_nanos() as u64;
        let (warmup_ns, duration_ns) = (ns(asked.warmup_ms), ns(asked.duration_ms));
        let (size, count, warmup, is_json) = (asked.size, asked.count, asked.warmup, asked.transport == "rest");
        Ok(Self { size, count, warmup, warmup_ns, duration_ns, is_json, shared })
    }

    pub(super) fn is_one_way(self) -> bool {
        self.size > 0
    }

    /// The client's loop of round trips. Returns their times in ticks.
    pub(super) async fn round_trips(
        self,
        mut exchange: impl AsyncFnMut([u8; 4]) -> Outcome<[u8; 4]>,
    ) -> Outcome<Vec<u64>> {
        let mut times = Vec::with_capacity(self.warmup + self.count);
        for number in 0..self.warmup + self.count {
            let message = (number as u32).to_le_bytes();
            let sent = ticks();
            let answer = exchange(message).await?;
            times.push(ticks().wrapping_sub(sent));
            assert!(answer == message, "sent {message:?}, received {answer:?}");
        }
        Ok(times.split_off(self.warmup))
    }

    /// The next one-way message; `None` at the end.
    pub(super) fn next(self, buffer: &mut Vec<u8>) -> Option<&[u8]> {
        buffer.resize(self.size, 1);
        (!self.is_complete()).then_some(&buffer[..])
    }

    /// The client's loop of one-way messages, each of which the library can send before the next.
    pub(super) async fn one_way(self, mut send: impl AsyncFnMut(&[u8]) -> Outcome<()>) -> Outcome<Vec<u64>> {
        let mut buffer = Vec::new();
        while let Some(message) = self.next(&mut buffer) {
            send(message).await?;
            yield_now().await;
        }
        Ok(Vec::new())
    }

    /// The one-way messages, each of which the library can send before it asks for the next.
    pub(super) fn messages(self) -> Messages {
        Messages { load: self, buffer: Vec::new(), was_ready: true }
    }

    pub(super) fn count(self, bytes: usize) {
        let shared = self.shared;
        let total = shared.bytes.load(Relaxed) + bytes as u64;
        let calls = shared.calls.load(Relaxed) + 1;
        shared.bytes.store(total, Relaxed);
        shared.calls.store(calls, Relaxed);
        if calls % CALLS_BETWEEN_CLOCK_READS != 1 {
            return;
        }
        let now_ns = kernel_ns(libc::CLOCK_MONOTONIC);
        let (since_ns, is_measured) = (shared.since_ns.load(Relaxed), shared.is_measured.load(Relaxed) == 1);
        let elapsed_ns = now_ns - since_ns;
        if since_ns == 0 {
            shared.since_ns.store(now_ns, Relaxed);
        } else if !is_measured && elapsed_ns >= self.warmup_ns {
            shared.is_measured.store(1, Relaxed);
            shared.since_ns.store(now_ns, Relaxed);
            shared.bytes.store(0, Relaxed);
        } else if is_measured && elapsed_ns >= self.duration_ns && !self.is_complete() {
            shared.measured_bytes.store(total, Relaxed);
            shared.elapsed_ns.store(elapsed_ns, Release);
        }
    }

    pub(super) fn is_complete(self) -> bool {
        self.shared.elapsed_ns.load(Acquire) > 0
    }

    pub(super) fn rates(self) -> Outcome<String> {
        if !self.is_complete() {
            return Err("the server ended before the time was over".into());
        }
        let seconds = self.shared.elapsed_ns.load(Acquire) as f64 / 1e9;
        let bytes_per_s = self.shared.measured_bytes.load(Relaxed) as f64 / seconds;
        let received_per_s = bytes_per_s / self.size as f64;
        Ok(format!(r#"{{"received_per_s": {received_per_s:.1}, "bytes_per_s": {bytes_per_s:.1}}}"#))
    }
}

/// Lets the library's other futures run once: what was given to it is sent.
async fn yield_now() {
    let mut was_polled = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut was_polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub(super) struct Messages {
    load: Load,
    buffer: Vec<u8>,
    was_ready: bool,
}

impl Messages {
    pub(super) fn poll(&mut self, context: &Context<'_>) -> Poll<Option<Bytes>> {
        self.was_ready = !self.was_ready;
        if !self.was_ready {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.load.next(&mut self.buffer).map(|message| http::encode(self.load, message)))
    }
}

impl Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.poll(context).map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}
