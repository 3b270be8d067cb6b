//! Reads the error queue of a TCP or UDP socket: requested time stamps and completions of zero-copy sends.

use std::io;
use std::os::fd::BorrowedFd;

use crate::system::timestamping::{self, ErrorQueueEntry};
use crate::wire::RawStamp;

/// State between reads of the error queue.
#[derive(Debug, Default)]
pub(crate) struct Stamping {
    has_begun: bool,
    /// Whether receive calls read the stamps of received data.
    pub(crate) reads_received: bool,
    pub(crate) is_by_message: bool,
    acknowledged: bool,
    /// End of the bytes covered by the last stamp, in 64 bits. The kernel reports only the lower 32 bits.
    end_byte: u64,
    /// Stamps already read from the queue that `take` has not returned yet.
    stored: Vec<RawStamp>,
    received_ns: Option<u64>,
    /// Number of received stamps, if only those of arrivals were requested.
    arrivals: Option<u64>,
    completions: Option<Completions>,
    /// Number of system calls that read the error queue.
    reads: u64,
}

/// Counts of `MSG_ZEROCOPY` sends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Completions {
    /// Sends of which the kernel accepted bytes.
    pub(crate) started: u64,
    /// Sends whose memory the kernel no longer needs.
    pub(crate) completed: u64,
    /// Completed sends that the kernel copied after all.
    pub(crate) copied: u64,
}

impl Completions {
    /// Sends whose memory the kernel may still read.
    pub(crate) fn in_flight(self) -> u64 {
        self.started.saturating_sub(self.completed)
    }
}

impl Stamping {
    /// `zero_copy`: whether the socket makes zero-copy sends.
    pub(crate) fn new(zero_copy: bool) -> Self {
        Self { completions: zero_copy.then(Completions::default), ..Self::default() }
    }

    /// Returns the counts of zero-copy sends; `None` if the socket makes none.
    pub(crate) fn completions(&mut self) -> Option<&mut Completions> {
        self.completions.as_mut()
    }

    /// Number of system calls that read the error queue.
    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Whether the error queue can have entries.
    pub(crate) fn may_have_entries(&self) -> bool {
        self.has_begun || self.completions.is_some_and(|known| known.in_flight() > 0)
    }

    /// Requests stamps from the kernel. Ends an earlier request first, so that the kernel counts bytes from 0 again.
    pub(crate) fn begin(&mut self, on: BorrowedFd<'_>, acknowledged: bool) -> io::Result<()> {
        self.restart(on)?;
        timestamping::begin(on, acknowledged)?;
        (self.has_begun, self.reads_received, self.acknowledged) = (true, true, acknowledged);
        Ok(())
    }

    /// Like [`Stamping::begin`], for single messages.
    pub(crate) fn begin_for_messages(&mut self, on: BorrowedFd<'_>) -> io::Result<()> {
        self.restart(on)?;
        timestamping::begin_for_messages(on)?;
        (self.has_begun, self.is_by_message) = (true, true);
        Ok(())
    }

    fn restart(&mut self, on: BorrowedFd<'_>) -> io::Result<()> {
        timestamping::end(on)?;
        self.take(on, &mut Vec::new())?;
        let Self { completions, reads, .. } = *self;
        *self = Self { completions, reads, ..Self::default() };
        Ok(())
    }

    /// Requests stamps of received data only.
    pub(crate) fn begin_arrivals(&mut self, on: BorrowedFd<'_>) -> io::Result<()> {
        timestamping::begin_arrivals(on)?;
        (self.reads_received, self.arrivals) = (true, Some(0));
        Ok(())
    }

    /// Number of stamps received since [`Stamping::begin_arrivals`], if called.
    pub(crate) fn arrivals(&self) -> Option<u64> {
        self.arrivals
    }

    /// Whether stamps may also arrive when this end does not send.
    pub(crate) fn may_arrive_any_time(&self) -> bool {
        self.acknowledged
    }

    /// Appends the stamps since the last call, in order of arrival.
    pub(crate) fn take(&mut self, of: BorrowedFd<'_>, into: &mut Vec<RawStamp>) -> io::Result<()> {
        into.append(&mut self.stored);
        self.read_error_queue(of, into).map(|_| ())
    }

    /// Empties the error queue, and stores the stamps for [`Stamping::take`]. Returns as `read_error_queue`.
    pub(crate) fn store(&mut self, of: BorrowedFd<'_>) -> io::Result<bool> {
        let mut stored = std::mem::take(&mut self.stored);
        let result = self.read_error_queue(of, &mut stored);
        self.stored = stored;
        result
    }

    /// Empties the error queue. Returns whether the queue had stamps or completions.
    fn read_error_queue(&mut self, of: BorrowedFd<'_>, into: &mut Vec<RawStamp>) -> io::Result<bool> {
        let mut has_entries = false;
        loop {
            self.reads += 1;
            match timestamping::next_entry(of)? {
                None => return Ok(has_entries),
                Some(ErrorQueueEntry::Stamp(sent)) => {
                    self.end_byte = nearest(self.end_byte, sent.last_byte.wrapping_add(1));
                    into.push(RawStamp { kind: sent.kind, realtime_ns: sent.realtime_ns, end_byte: self.end_byte });
                    has_entries = true;
                }
                Some(ErrorQueueEntry::Completed { sends, copied }) => {
                    if let Some(known) = &mut self.completions {
                        known.completed += u64::from(sends);
                        known.copied += if copied { u64::from(sends) } else { 0 };
                        has_entries = true;
                    }
                }
                Some(ErrorQueueEntry::Other) => {}
            }
        }
    }

    /// Receives data, and stores the arrival time of the last segment.
    #[cold]
    pub(crate) fn receive(
        &mut self,
        from: BorrowedFd<'_>,
        into: &mut [u8],
        may_block: bool,
        true_length: bool,
    ) -> io::Result<usize> {
        let (bytes, received_ns) = timestamping::receive(from, into, may_block, true_length)?;
        self.received_ns = received_ns;
        if let Some(arrivals) = &mut self.arrivals {
            *arrivals += u64::from(received_ns.is_some());
        }
        Ok(bytes)
    }

    /// Arrival time of the last segment of the last receive (CLOCK_REALTIME, in ns).
    pub(crate) fn received_ns(&self) -> Option<u64> {
        self.received_ns
    }
}

/// Returns the number nearest to `close_to` whose lower 32 bits are `low`. Less than 2 GiB is in flight.
fn nearest(close_to: u64, low: u32) -> u64 {
    // Only the lower 32 bits are needed.
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
        assert_eq!(nearest(0x1_0000_0004, 0xffff_ffff), 0xffff_ffff, "an earlier stamp arrives late");
        assert_eq!(nearest(0, u32::MAX), 0xffff_ffff, "no bytes precede the first byte");
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
