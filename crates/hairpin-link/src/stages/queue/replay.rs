//! A trace of opportunities to send, in the format of mahimahi (Netravali et al., USENIX ATC 2015; mm-link(1)).
//!
//! A trace is lines of whole milliseconds, not decreasing. Each line is one opportunity to send 1500 bytes at that time
//! after the start; a time that stands twice is two opportunities. After the last line the trace begins again, that
//! much later. A packet is through at the opportunity that carries its last byte. What an opportunity leaves over goes
//! to the next packet if it waits already, and is lost otherwise.
//!
//! An opportunity carries 1500 bytes of IP packets. mahimahi counts 1504, because its packets have four bytes of TUN
//! header before them.

use std::sync::Arc;

use crate::profile::quantity::BadValue;
use crate::profile::word::Word;
use crate::stages::queue::Service;

/// Its word.
pub(super) const WORD: Word = Word {
    name: "replay",
    example: "up.replay=uplink.trace",
    says: "a file that says when a packet can leave, in mahimahi's format, instead of a rate",
    read: |path, value| {
        if value.is_empty() {
            return Err(BadValue::new("no file is named", "for instance replay=uplink.trace"));
        }
        path.bottleneck.replay = Some(value.to_owned());
        Ok(())
    },
    shown: |path| path.bottleneck.replay.clone(),
    about: None,
};

/// Bytes of an opportunity.
const OPPORTUNITY_BYTES: u32 = 1500;

const NS_PER_MS: u64 = 1_000_000;

/// When packets can leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// In ms, not decreasing; the last is the period and above 0.
    opportunities_ms: Arc<[u64]>,
}

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the trace, `{word}`: {problem} (hint: {hint})")]
pub struct BadTrace {
    /// The line, from 1.
    pub line: usize,
    /// What stands there, shortened.
    pub word: String,
    /// What is wrong with it.
    pub problem: &'static str,
    /// What would be right.
    pub hint: &'static str,
}

impl Trace {
    /// Reads a trace from the text of its file.
    ///
    /// # Errors
    /// [`BadTrace`] with the line and the word.
    pub fn parse(text: &str) -> Result<Self, BadTrace> {
        const HINT: &str = "each line is a whole number of milliseconds, not less than the line before";
        let bad = |line: usize, word: &str, problem| BadTrace {
            line,
            word: word.chars().take(40).collect(),
            problem,
            hint: HINT,
        };
        let mut opportunities_ms: Vec<u64> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let word = line.trim();
            let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            let Some(at_ms) = digits.then(|| word.parse::<u32>().ok()).flatten() else {
                let problem = if digits { "more than 4294967295 ms" } else { "not a whole number" };
                return Err(bad(number, word, problem));
            };
            if opportunities_ms.last().is_some_and(|last| *last > u64::from(at_ms)) {
                return Err(bad(number, word, "earlier than the line before"));
            }
            opportunities_ms.push(u64::from(at_ms));
        }
        match opportunities_ms.last() {
            None => Err(bad(1, "", "there is no line")),
            Some(0) => Err(bad(opportunities_ms.len(), "0", "the trace takes no time, so it cannot repeat")),
            Some(_) => Ok(Self { opportunities_ms: opportunities_ms.into() }),
        }
    }

    /// How long it takes until it begins again, in ms.
    #[must_use]
    pub fn period_ms(&self) -> u64 {
        self.opportunities_ms.last().copied().unwrap_or(1)
    }

    /// Its mean rate in bits a second.
    #[must_use]
    pub fn mean_bits_per_s(&self) -> u64 {
        let bits = self.opportunities_ms.len() as u64 * u64::from(OPPORTUNITY_BYTES) * 8;
        bits.saturating_mul(1000) / self.period_ms()
    }
}

/// A trace being replayed.
#[derive(Clone, Debug)]
pub struct Replay {
    trace: Trace,
    /// How often the trace has begun again.
    repeats: u64,
    /// The opportunity in use.
    at: usize,
    /// What it can still carry.
    left_bytes: u32,
}

impl Replay {
    /// A trace that begins at time 0.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        Self { trace: trace.clone(), repeats: 0, at: 0, left_bytes: OPPORTUNITY_BYTES }
    }

    fn at_ns(&self) -> u64 {
        let ms =
            self.repeats.saturating_mul(self.trace.period_ms()).saturating_add(self.trace.opportunities_ms[self.at]);
        ms.saturating_mul(NS_PER_MS)
    }

    fn next(&mut self) {
        self.left_bytes = OPPORTUNITY_BYTES;
        self.at += 1;
        if self.at == self.trace.opportunities_ms.len() {
            self.at = 0;
            self.repeats += 1;
        }
    }

    /// Goes to the first opportunity at `now_ns` or later.
    fn skip_to(&mut self, now_ns: u64) {
        let now_ms = now_ns.div_ceil(NS_PER_MS);
        let period_ms = self.trace.period_ms();
        self.repeats = now_ms.div_ceil(period_ms).saturating_sub(1);
        let in_period_ms = now_ms - self.repeats * period_ms;
        self.at = self.trace.opportunities_ms.partition_point(|at_ms| *at_ms < in_period_ms);
        self.left_bytes = OPPORTUNITY_BYTES;
    }
}

impl Service for Replay {
    fn send(&mut self, size_bytes: u32, now_ns: u64) -> u64 {
        if self.at_ns() < now_ns {
            self.skip_to(now_ns);
        }
        let mut unsent = size_bytes;
        loop {
            if self.left_bytes == 0 {
                self.next();
            }
            let sent = unsent.min(self.left_bytes);
            self.left_bytes -= sent;
            unsent -= sent;
            if unsent == 0 {
                return self.at_ns();
            }
        }
    }
}
