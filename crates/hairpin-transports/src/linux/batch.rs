//! Fills a [`Batch`] with one system call.

use std::io;
use std::os::fd::BorrowedFd;

use crate::batch::{Batch, Run};
use crate::system::messages::receive_joined;

impl Batch {
    /// Receives one piece. Returns the number of pieces, 0 or 1.
    pub(crate) fn fill_one<E>(
        &mut self,
        receive: impl FnOnce(&mut [u8]) -> Result<Option<usize>, E>,
    ) -> Result<usize, E> {
        self.filled = 0;
        if let Some(bytes) = receive(&mut self.area[..self.size])? {
            self.runs[0] = Run::one(0, bytes.min(self.size));
            self.filled = 1;
        }
        Ok(self.filled)
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Receives one message per slot with one system call, see [`Messages::receive`]. The caller filters them by
    /// [`Batch::keep`].
    pub(crate) fn receive_messages(
        &mut self,
        from: BorrowedFd<'_>,
        may_block: bool,
        true_length: bool,
    ) -> io::Result<()> {
        self.filled = 0;
        let slots = &mut self.area[..self.slots * self.size];
        self.filled = self.messages.receive(from, slots, self.size, may_block, true_length)?;
        for (index, run) in self.runs[..self.filled].iter_mut().enumerate() {
            let full_length = self.messages.length(index);
            *run = Run { full_length, ..Run::one(index * self.size, full_length.min(self.size)) };
        }
        Ok(())
    }

    /// Receives a packet of one or more messages, see [`receive_joined`]. The caller then filters them with
    /// [`Batch::keep`].
    pub(crate) fn receive_joined(&mut self, from: BorrowedFd<'_>, may_block: bool) -> io::Result<()> {
        self.filled = 0;
        let (length, piece) = receive_joined(from, &mut self.area, may_block)?;
        self.runs[0] = Run { piece, ..Run::one(0, length) };
        self.filled = 1;
        Ok(())
    }

    /// Removes the pieces that are not messages. `is_message` gets the received part of a piece, and the piece's full
    /// length, which may be larger. Returns the number of pieces kept.
    pub(crate) fn keep(&mut self, mut is_message: impl FnMut(&mut [u8], usize) -> bool) -> usize {
        let mut kept = 0;
        for run in &mut self.runs[..self.filled] {
            let Run { start, length, piece, full_length } = *run;
            let several = length > piece;
            // Moves each kept piece to the end of the previous kept piece. An empty datagram is a piece too.
            let mut end = start;
            for from in (start..start + length.max(1)).step_by(piece) {
                let to = (from + piece).min(start + length);
                if is_message(&mut self.area[from..to], if several { to - from } else { full_length }) {
                    if end != from {
                        self.area.copy_within(from..to, end);
                    }
                    end += to - from;
                    kept += 1;
                }
            }
            run.length = end - start;
        }
        kept
    }
}
