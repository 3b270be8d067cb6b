//! What a program does for each message in addition to sending or receiving it, to measure what that costs ([`Observer`]).
//!
//! These observers do what programs do: they read CLOCK_MONOTONIC through the C library, not the clock of the recorder,
//! and call the libraries themselves. All memory is reserved before the load, except what a library itself allocates.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hairpin_model::flow::Observer;
use hairpin_model::samples::{MAX_LATENCY_NS, latency_histogram};
use hdrhistogram::Histogram;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{self, exponential_buckets};
use prometheus_client::registry::Registry;
use tracing::subscriber::DefaultGuard;

use crate::linux::system::time::monotonic_ns;
use crate::linux::temporary_file;

pub trait Observe {
    /// Whether messages are observed. If not, the loop is compiled without the calls below.
    const EACH: bool;

    /// Called before a message; returns the time if the observer reads it.
    fn begin(&self) -> u64;

    /// Called after a message that began at `begun_ns`.
    fn end(&mut self, begun_ns: u64);
}

/// The loop of [`Observer::Sampled`] and [`Observer::Recorder`], whose recorder is a part of it.
pub struct Unobserved;

impl Observe for Unobserved {
    const EACH: bool = false;

    fn begin(&self) -> u64 {
        0
    }

    fn end(&mut self, _: u64) {}
}

/// The observers of a program. One type for all, because the loops are compiled once for each type.
pub enum Instrument {
    /// For the program without an observer, so that it has the loop of the others, and for observers of packets.
    None,
    Counter(u64),
    Clock(u64),
    Hdr(Histogram<u64>),
    PrometheusCounter(Counter),
    PrometheusHistogram(histogram::Histogram),
    Tracing {
        lines: Arc<Lines>,
        _guard: DefaultGuard,
    },
}

impl Instrument {
    /// Creates the observer; `None` if the loop itself records.
    pub fn of(observer: Observer) -> io::Result<Option<Self>> {
        Ok(Some(match observer {
            Observer::Sampled | Observer::Recorder => return Ok(None),
            Observer::None | Observer::Timestamps | Observer::Capture => Self::None,
            Observer::Counter => Self::Counter(0),
            Observer::Clock => Self::Clock(0),
            Observer::Hdr => Self::Hdr(latency_histogram()),
            Observer::PrometheusCounter => Self::PrometheusCounter(Counter::default()),
            // From 250 ns to 2 s.
            Observer::PrometheusHistogram => {
                Self::PrometheusHistogram(histogram::Histogram::new(exponential_buckets(250e-9, 2.0, 24)))
            }
            Observer::TracingNull => Self::tracing(None),
            Observer::TracingFile => Self::tracing(Some(temporary_file::create()?)),
        }))
    }

    fn tracing(to: Option<File>) -> Self {
        let lines = Arc::new(Lines { to, written: AtomicU64::new(0), bytes: AtomicU64::new(0) });
        let builder = tracing_subscriber::fmt().with_ansi(false).log_internal_errors(false);
        let guard = tracing::subscriber::set_default(builder.with_writer(Arc::clone(&lines)).finish());
        Self::Tracing { lines, _guard: guard }
    }

    /// Number of messages recorded, as the observer itself reports it; `None` if it records none.
    pub fn recorded(&self) -> Option<u64> {
        Some(match self {
            Self::None => return None,
            Self::Counter(count) | Self::Clock(count) => *count,
            Self::Hdr(times) => times.len(),
            Self::PrometheusCounter(counter) => counter.get(),
            Self::PrometheusHistogram(times) => {
                let (mut registry, mut scraped) = (Registry::default(), String::new());
                registry.register("message_seconds", "Time of a message", times.clone());
                encode(&mut scraped, &registry).ok()?;
                scraped.lines().find_map(|line| line.strip_prefix("message_seconds_count ")?.parse().ok())?
            }
            Self::Tracing { lines, .. } => lines.written.load(Ordering::Relaxed),
        })
    }
}

impl Observe for Instrument {
    const EACH: bool = true;

    #[inline]
    fn begin(&self) -> u64 {
        match self {
            Self::Clock(_) | Self::Hdr(_) | Self::PrometheusHistogram(_) => monotonic_ns(),
            _ => 0,
        }
    }

    #[inline]
    fn end(&mut self, begun_ns: u64) {
        let took_ns = || monotonic_ns().saturating_sub(begun_ns);
        match self {
            Self::None => {}
            Self::Counter(count) => *black_box(count) += 1,
            Self::Clock(count) => {
                black_box(took_ns());
                *count += 1;
            }
            Self::Hdr(times) => times.saturating_record(took_ns().clamp(1, MAX_LATENCY_NS)),
            Self::PrometheusCounter(counter) => {
                counter.inc();
            }
            Self::PrometheusHistogram(times) => times.observe(took_ns() as f64 / 1e9),
            Self::Tracing { lines, .. } => tracing::info!(number = lines.written.load(Ordering::Relaxed), "message"),
        }
    }
}

/// Begins again at the start of a log file of this size, as programs rotate their logs.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Counts log lines, and writes them to a file if there is one.
pub struct Lines {
    to: Option<File>,
    written: AtomicU64,
    bytes: AtomicU64,
}

impl Write for &Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(mut file) = self.to.as_ref() {
            if self.bytes.fetch_add(line.len() as u64, Ordering::Relaxed) > MAX_FILE_BYTES {
                self.bytes.store(0, Ordering::Relaxed);
                file.rewind()?;
            }
            file.write_all(line)?;
        }
        self.written.fetch_add(1, Ordering::Relaxed);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn after(messages: u64, observer: Observer) -> Instrument {
        let mut instrument = Instrument::of(observer).unwrap().unwrap();
        for _ in 0..messages {
            let begun_ns = instrument.begin();
            instrument.end(begun_ns);
        }
        instrument
    }

    #[test]
    fn each_observer_records_every_message() {
        for observer in Observer::ALL {
            match observer {
                Observer::Sampled | Observer::Recorder => assert!(Instrument::of(*observer).unwrap().is_none()),
                Observer::None | Observer::Timestamps | Observer::Capture => {
                    assert_eq!(after(7, *observer).recorded(), None, "{observer}");
                }
                _ => assert_eq!(after(7, *observer).recorded(), Some(7), "{observer}"),
            }
        }
    }

    #[test]
    fn the_log_file_has_a_line_for_each_message_and_no_name() {
        let Instrument::Tracing { lines, _guard } = after(5, Observer::TracingFile) else { panic!("not tracing") };
        let mut file = lines.to.as_ref().unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.lines().all(|line| line.contains(" INFO ")) && text.ends_with("message number=4\n"), "{text}");
        use std::os::unix::fs::MetadataExt;
        assert_eq!(file.metadata().unwrap().nlink(), 0, "the kernel removes the file when the process ends");
    }

    #[test]
    fn a_full_log_file_is_written_again_from_its_start() {
        let Instrument::Tracing { lines, _guard } = after(1, Observer::TracingFile) else { panic!("not tracing") };
        lines.bytes.store(MAX_FILE_BYTES, Ordering::Relaxed);
        (&*lines).write_all(b"last\n").unwrap();
        (&*lines).write_all(b"first\n").unwrap();
        let mut file = lines.to.as_ref().unwrap();
        file.rewind().unwrap();
        let mut start = [0; 6];
        file.read_exact(&mut start).unwrap();
        assert_eq!((&start, lines.written.load(Ordering::Relaxed)), (b"first\n", 3));
    }
}
