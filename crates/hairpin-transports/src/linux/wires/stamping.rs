//! What the kernel tells of one TCP socket in its error queue, once it is asked for: time stamps, and which sends without a copy
//! are complete.

use std::io;
use std::os::fd::BorrowedFd;

use crate::system::timestamping::{self, News};
use crate::wire::RawStamp;

/// What has to be remembered between the calls.
#[derive(Debug, Default)]
pub(crate) struct Stamping {
    begun: bool,
    /// Acknowledgments are stamped too.
    acknowledged: bool,
    /// End of the bytes that the last stamp covered: the kernel gives the lower 32 bits of the next.
    end_byte: u64,
    /// Taken because it was in the way, and not yet asked for.
    kept: Vec<RawStamp>,
    received_ns: Option<u64>,
    completions: Option<Completions>,
    /// System calls that looked into the error queue.
    looks: u64,
}

/// What is known of sends with `MSG_ZEROCOPY`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Completions {
    /// Those that the kernel took bytes of.
    pub(crate) begun: u64,
    /// Those whose memory it needs no longer.
    pub(crate) completed: u64,
    /// Those of them that it copied after all.
    pub(crate) copied: u64,
}

impl Completions {
    /// Sends whose memory the kernel may still read.
    pub(crate) fn in_flight(self) -> u64 {
        self.begun.saturating_sub(self.completed)
    }
}

impl Stamping {
    /// For a socket that sends without a copy where `zero_copy` says so.
    pub(crate) fn new(zero_copy: bool) -> Self {
        Self { completions: zero_copy.then(Completions::default), ..Self::default() }
    }

    /// What is known of sends without a copy; `None` where the socket makes none.
    pub(crate) fn completions(&mut self) -> Option<&mut Completions> {
        self.completions.as_mut()
    }

    /// System calls that looked into the error queue.
    pub(crate) fn looks(&self) -> u64 {
        self.looks
    }

    /// Whether anything can be in the error queue.
    pub(crate) fn may_have_news(&self) -> bool {
        self.begun || self.completions.is_some_and(|known| known.in_flight() > 0)
    }

    /// Asks the kernel for stamps. It counts bytes from when it is first asked, so whatever was asked before is ended.
    pub(crate) fn begin(&mut self, on: BorrowedFd<'_>, acknowledged: bool) -> io::Result<()> {
        timestamping::end(on)?;
        self.take(on, &mut Vec::new())?;
        timestamping::begin(on, acknowledged)?;
        let Self { completions, looks, .. } = *self;
        *self = Self { begun: true, acknowledged, completions, looks, ..Self::default() };
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether stamps may come at any time, with what the other end sends; else only when this end sends.
    pub(crate) fn come_at_any_time(&self) -> bool {
        self.acknowledged
    }

    /// Adds the stamps that have come since the last time, in the order in which they came.
    pub(crate) fn take(&mut self, of: BorrowedFd<'_>, into: &mut Vec<RawStamp>) -> io::Result<()> {
        into.append(&mut self.kept);
        self.hear(of, into).map(|_| ())
    }

    /// Keeps what has come for later, so that it is not in the way of the next call; whether there was anything.
    pub(crate) fn keep(&mut self, of: BorrowedFd<'_>) -> io::Result<bool> {
        let mut kept = std::mem::take(&mut self.kept);
        let heard = self.hear(of, &mut kept);
        self.kept = kept;
        heard
    }

    /// Empties the error queue; whether there was anything that was asked for.
    fn hear(&mut self, of: BorrowedFd<'_>, into: &mut Vec<RawStamp>) -> io::Result<bool> {
        let mut has_come = false;
        loop {
            self.looks += 1;
            match timestamping::next_news(of)? {
                None => return Ok(has_come),
                Some(News::Stamp(sent)) => {
                    self.end_byte = nearest(self.end_byte, sent.last_byte.wrapping_add(1));
                    into.push(RawStamp { kind: sent.kind, realtime_ns: sent.realtime_ns, end_byte: self.end_byte });
                    has_come = true;
                }
                Some(News::Completed { sends, copied }) => {
                    if let Some(known) = &mut self.completions {
                        known.completed += u64::from(sends);
                        known.copied += if copied { u64::from(sends) } else { 0 };
                        has_come = true;
                    }
                }
                Some(News::Other) => {}
            }
        }
    }

    /// Receives, and remembers when the last segment of it came.
    #[cold]
    pub(crate) fn receive(&mut self, from: BorrowedFd<'_>, into: &mut [u8], may_block: bool) -> io::Result<usize> {
        let (bytes, received_ns) = timestamping::receive(from, into, may_block)?;
        self.received_ns = received_ns;
        Ok(bytes)
    }

    /// When the last segment of the last receive came.
    pub(crate) fn received_ns(&self) -> Option<u64> {
        self.received_ns
    }
}

/// The number nearest to `close_to` whose lower 32 bits are `low`: stamps come nearly in order, and much less than
/// 2 GiB are in flight.
fn nearest(close_to: u64, low: u32) -> u64 {
    // Only the lower bits are wanted.
    let distance = low.wrapping_sub(close_to as u32).cast_signed();
    close_to.checked_add_signed(distance.into()).unwrap_or(low.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn byte_numbers_go_on_where_the_kernels_32_bits_begin_again() {
        assert_eq!(nearest(0, 2), 2);
        assert_eq!(nearest(0xffff_fffe, 4), 0x1_0000_0004);
        assert_eq!(nearest(0x1_0000_0004, 0xffff_ffff), 0xffff_ffff, "an earlier one comes late");
        assert_eq!(nearest(0, u32::MAX), 0xffff_ffff, "there is nothing before the first byte");
    }

    proptest! {
        #[test]
        fn no_byte_number_is_lost(close_to in 0_u64..1 << 40, ahead in -0x7fff_ffff_i64..0x7fff_ffff) {
            if let Some(number) = close_to.checked_add_signed(ahead) {
                prop_assert_eq!(nearest(close_to, number as u32), number);
            }
        }
    }
}
