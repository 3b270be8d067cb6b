//! The error queue of one TCP socket, on request: time stamps and completions of zero-copy sends.

use std::io;
use std::os::fd::BorrowedFd;

use crate::system::timestamping::{self, ErrorQueueEntry};
use crate::wire::RawStamp;

/// State between calls.
#[derive(Debug, Default)]
pub(crate) struct Stamping {
    begun: bool,
    /// Acknowledgments are stamped too.
    acknowledged: bool,
    /// End of the bytes covered by the last stamp: the kernel reports only the lower 32 bits.
    end_byte: u64,
    /// Stamps taken to clear the queue, and not requested yet.
    kept: Vec<RawStamp>,
    received_ns: Option<u64>,
    completions: Option<Completions>,
    /// System calls that read the error queue.
    looks: u64,
}

/// Counts of `MSG_ZEROCOPY` sends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Completions {
    /// Sends of which the kernel took bytes.
    pub(crate) begun: u64,
    /// Sends whose memory it no longer needs.
    pub(crate) completed: u64,
    /// Completed sends that it copied after all.
    pub(crate) copied: u64,
}

impl Completions {
    /// Sends whose memory the kernel may still read.
    pub(crate) fn in_flight(self) -> u64 {
        self.begun.saturating_sub(self.completed)
    }
}

impl Stamping {
    /// `zero_copy`: whether the socket makes zero-copy sends.
    pub(crate) fn new(zero_copy: bool) -> Self {
        Self { completions: zero_copy.then(Completions::default), ..Self::default() }
    }

    /// Counts of zero-copy sends; `None` if the socket makes none.
    pub(crate) fn completions(&mut self) -> Option<&mut Completions> {
        self.completions.as_mut()
    }

    /// System calls that read the error queue.
    pub(crate) fn looks(&self) -> u64 {
        self.looks
    }

    /// Whether anything can be in the error queue.
    pub(crate) fn may_have_news(&self) -> bool {
        self.begun || self.completions.is_some_and(|known| known.in_flight() > 0)
    }

    /// Requests stamps from the kernel. It counts bytes from the first request, so an earlier request is ended.
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

    /// Whether stamps may arrive at any time, with what the other end sends; otherwise only when this end sends.
    pub(crate) fn come_at_any_time(&self) -> bool {
        self.acknowledged
    }

    /// Appends the stamps since the last call, in order of arrival.
    pub(crate) fn take(&mut self, of: BorrowedFd<'_>, into: &mut Vec<RawStamp>) -> io::Result<()> {
        into.append(&mut self.kept);
        self.read_error_queue(of, into).map(|_| ())
    }

    /// Empties the queue before the next call, and keeps the stamps for later. Returns whether there was anything.
    pub(crate) fn keep(&mut self, of: BorrowedFd<'_>) -> io::Result<bool> {
        let mut kept = std::mem::take(&mut self.kept);
        let heard = self.read_error_queue(of, &mut kept);
        self.kept = kept;
        heard
    }

    /// Empties the error queue. Returns whether there was anything that was requested.
    fn read_error_queue(&mut self, of: BorrowedFd<'_>, into: &mut Vec<RawStamp>) -> io::Result<bool> {
        let mut has_come = false;
        loop {
            self.looks += 1;
            match timestamping::next_entry(of)? {
                None => return Ok(has_come),
                Some(ErrorQueueEntry::Stamp(sent)) => {
                    self.end_byte = nearest(self.end_byte, sent.last_byte.wrapping_add(1));
                    into.push(RawStamp { kind: sent.kind, realtime_ns: sent.realtime_ns, end_byte: self.end_byte });
                    has_come = true;
                }
                Some(ErrorQueueEntry::Completed { sends, copied }) => {
                    if let Some(known) = &mut self.completions {
                        known.completed += u64::from(sends);
                        known.copied += if copied { u64::from(sends) } else { 0 };
                        has_come = true;
                    }
                }
                Some(ErrorQueueEntry::Other) => {}
            }
        }
    }

    /// Receives, and stores the arrival of the last segment.
    #[cold]
    pub(crate) fn receive(&mut self, from: BorrowedFd<'_>, into: &mut [u8], may_block: bool) -> io::Result<usize> {
        let (bytes, received_ns) = timestamping::receive(from, into, may_block)?;
        self.received_ns = received_ns;
        Ok(bytes)
    }

    /// Arrival of the last segment of the last receive.
    pub(crate) fn received_ns(&self) -> Option<u64> {
        self.received_ns
    }
}

/// The number nearest to `close_to` whose lower 32 bits are `low`: stamps arrive nearly in order, and much less than 2
/// GiB is in flight.
fn nearest(close_to: u64, low: u32) -> u64 {
    // Only the lower bits are needed.
    let distance = low.wrapping_sub(close_to as u32).cast_signed();
    close_to.checked_add_signed(distance.into()).unwrap_or(low.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn byte_numbers_continue_when_32_bits_wrap() {
        assert_eq!(nearest(0, 2), 2);
        assert_eq!(nearest(0xffff_fffe, 4), 0x1_0000_0004);
        assert_eq!(nearest(0x1_0000_0004, 0xffff_ffff), 0xffff_ffff, "an earlier one arrives late");
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
