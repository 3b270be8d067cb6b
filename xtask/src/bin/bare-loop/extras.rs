//! Work that Hairpin does in addition to the loop's system calls. `--add` adds parts of this work to show their cost.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::clock::ticks;
use crate::wires::End;

/// The additional work. Each end does the parts that apply to its loop.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    /// Calls through a vtable, as over `dyn Wire`.
    pub(crate) dynamic: bool,
    /// Converts ticks to nanoseconds at each time stamp.
    pub(crate) scaled: bool,
    /// Records each message in a row of five words instead of two.
    pub(crate) rows: bool,
    /// Compares answers as byte slices after the time stamp.
    pub(crate) verify: bool,
    /// A timer that interrupts calls every 500 ms.
    pub(crate) alarm: bool,
    /// The echo counts its service times by powers of two.
    pub(crate) histogram: bool,
    /// Number of extra memory pages touched after each receive.
    pub(crate) pages: usize,
    /// Number of memory fences after each receive.
    pub(crate) fences: usize,
    /// Number of small functions called through pointers after each receive, at most 16.
    pub(crate) calls: usize,
    /// Time in ticks during which the client reads the clock between an answer and the next message.
    pub(crate) pause_ticks: u64,
}

impl Extras {
    pub(crate) fn parse(words: &str) -> Result<Self, String> {
        let mut extras = Self::default();
        for word in words.split_terminator(',') {
            let number = || {
                let value = word.split_once('=').and_then(|(_, value)| value.parse::<u32>().ok());
                value.ok_or_else(|| format!("--add needs a number after `{word}`"))
            };
            match word.split('=').next().unwrap_or_default() {
                "dynamic" => extras.dynamic = true,
                "scaled" => extras.scaled = true,
                "rows" => extras.rows = true,
                "verify" => extras.verify = true,
                "alarm" => extras.alarm = true,
                "histogram" => extras.histogram = true,
                "pages" => extras.pages = number()? as usize,
                "fences" => extras.fences = number()? as usize,
                "calls" => extras.calls = number()? as usize,
                "pause" => extras.pause_ticks = u64::from(number()?),
                _ => return Err(format!("--add has no part `{word}`")),
            }
        }
        Ok(extras)
    }
}

impl End for Box<dyn End> {
    fn send(&mut self, message: u32) {
        (**self).send(message);
    }

    fn receive(&mut self) -> u32 {
        (**self).receive()
    }
}

/// State of one end's additional work.
pub(crate) struct ExtraWork {
    extras: Extras,
    origin_ticks: u64,
    pages: Vec<u8>,
    sent: Vec<u8>,
    answer: Vec<u8>,
    counts: [u64; 64],
    rows: Vec<[u64; 5]>,
}

const PAGE: usize = 4096;

const STEPS: [fn(u64) -> u64; 16] = [
    step::<0>, step::<1>, step::<2>, step::<3>, step::<4>, step::<5>, step::<6>, step::<7>, step::<8>, step::<9>,
    step::<10>, step::<11>, step::<12>, step::<13>, step::<14>, step::<15>,
];

#[inline(never)]
fn step<const NUMBER: u64>(before: u64) -> u64 {
    black_box(before ^ NUMBER)
}

impl ExtraWork {
    /// Allocates room for `count` rows and populates the pages.
    pub(crate) fn new(extras: &Extras, count: usize) -> io::Result<Self> {
        if extras.alarm {
            start_alarm()?;
        }
        let mut rows = vec![[1; 5]; if extras.rows { count } else { 0 }];
        rows.clear();
        Ok(Self {
            extras: extras.clone(),
            origin_ticks: ticks(),
            pages: vec![1; extras.pages * PAGE],
            sent: vec![7; 4],
            answer: vec![7; 5],
            counts: [0; 64],
            rows,
        })
    }

    /// Returns a time stamp; with `scaled`, also does Hairpin's conversion.
    #[inline(always)]
    pub(crate) fn stamp(&self) -> u64 {
        let now = ticks();
        if self.extras.scaled {
            let elapsed = now.saturating_sub(self.origin_ticks);
            black_box(((u128::from(elapsed) * (1_u128 << 31)) >> 32) as u64);
        }
        now
    }

    /// Runs after a receive, within the timed part.
    #[inline(always)]
    pub(crate) fn received(&self) {
        let mut sum = 0_u8;
        for place in 0..self.extras.pages {
            // Touches a different cache line in each page, to use different cache sets.
            sum = sum.wrapping_add(black_box(self.pages[place * PAGE + (place * 64) % PAGE]));
        }
        black_box(sum);
        for _ in 0..self.extras.fences {
            fence(Ordering::SeqCst);
        }
        let mut steps = u64::from(sum);
        for step in STEPS.iter().take(self.extras.calls) {
            steps = black_box(*step)(steps);
        }
        black_box(steps);
    }

    #[inline(always)]
    pub(crate) fn count_held(&mut self, held: u64) {
        if self.extras.histogram {
            self.counts[held.max(1).ilog2() as usize] += 1;
            black_box(&self.counts);
        }
    }

    /// Runs after an answer was stamped, outside the timed part.
    #[inline(always)]
    pub(crate) fn answered(&mut self, message: u32, sent: u64, received: u64) {
        if self.extras.verify {
            self.sent.copy_from_slice(&message.to_le_bytes());
            self.answer[..4].copy_from_slice(&message.to_le_bytes());
            assert!(black_box(&self.answer)[..4] == *black_box(&self.sent).as_slice(), "the answer");
        }
        if self.extras.rows {
            self.rows.push([u64::from(message), sent, sent, received, 0]);
        }
        if self.extras.pause_ticks > 0 {
            let since = ticks();
            while ticks().wrapping_sub(since) < self.extras.pause_ticks {}
        }
    }
}

/// Number of signals, so that the handler has an effect.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_signal(_: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Starts a timer for this process whose signal interrupts blocking calls every 500 ms.
fn start_alarm() -> io::Result<()> {
    let half_a_second = libc::timespec { tv_sec: 0, tv_nsec: 500_000_000 };
    let times = libc::itimerspec { it_interval: half_a_second, it_value: half_a_second };
    // SAFETY: all-zero structures are valid; the handler only counts; every pointer is to a live value.
    let answer = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count_signal as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGUSR1;
        let mut timer: libc::timer_t = std::mem::zeroed();
        match libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) {
            0 => libc::timer_settime(timer, 0, &raw const times, std::ptr::null_mut()),
            failed => failed,
        }
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn additional_work_is_parsed() {
        let extras = Extras::parse("dynamic,pages=4,pause=100").unwrap();
        assert_eq!(extras, Extras { dynamic: true, pages: 4, pause_ticks: 100, ..Extras::default() });
        assert_eq!(Extras::parse("pagse=4").unwrap_err(), "--add has no part `pagse=4`");
        assert_eq!(Extras::parse("pages").unwrap_err(), "--add needs a number after `pages`");
    }
}
