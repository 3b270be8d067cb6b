//! Memory for receiving several messages in one call.

use std::fmt;

#[cfg(target_os = "linux")]
use crate::system::messages::Messages;

/// Memory for [`crate::Wire::receive_batch`], allocated once and divided into slots of equal size. Each system call
/// that returns one piece (a message, or bytes of a stream) fills one slot.
pub struct Batch {
    pub(crate) area: Box<[u8]>,
    pub(crate) slots: usize,
    pub(crate) size: usize,
    pub(crate) runs: Box<[Run]>,
    /// Number of runs that the last call filled.
    pub(crate) filled: usize,
    #[cfg(target_os = "linux")]
    pub(crate) messages: Messages,
}

/// The result of one receive: a range of the area with one or more pieces of equal size (the last may be shorter).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    pub(crate) start: usize,
    pub(crate) length: usize,
    /// Size of a piece; at least 1.
    pub(crate) piece: usize,
    /// If the run is one piece: the length before truncation to the slot.
    #[cfg(target_os = "linux")]
    pub(crate) full_length: usize,
}

impl Run {
    pub(crate) fn one(start: usize, length: usize) -> Self {
        Self {
            start,
            length,
            piece: length.max(1),
            #[cfg(target_os = "linux")]
            full_length: length,
        }
    }
}

impl Batch {
    /// Maximum messages that one call receives or sends (`UIO_MAXIOV`, linux/uio.h).
    pub const MAX_MESSAGES: usize = 1024;
    /// Minimum size of a slot for messages of a transport with boundaries: the hello of a datagram flow must fit too.
    pub const MIN_MESSAGE_SLOT_BYTES: usize = 48;
    /// Minimum size of the area: the largest packet into which the kernel joins datagrams (udp(7), `UDP_GRO`).
    const MIN_AREA_BYTES: usize = 64 * 1024;

    /// Allocates `slots` slots, 1 to [`Batch::MAX_MESSAGES`], of `size` bytes each. A byte stream needs one slot: the
    /// received bytes are one piece. UDP with the option `gso` also needs one slot: a receive returns all messages
    /// that the kernel joined, each as a piece.
    pub fn new(slots: usize, size: usize) -> Self {
        let (slots, size) = (slots.clamp(1, Self::MAX_MESSAGES), size.max(1));
        Self {
            area: vec![0; (slots * size).max(Self::MIN_AREA_BYTES)].into(),
            slots,
            size,
            runs: vec![Run::default(); slots].into(),
            filled: 0,
            #[cfg(target_os = "linux")]
            messages: Messages::default(),
        }
    }

    /// Returns the pieces that the last call received, in order of arrival.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.runs[..self.filled].iter().flat_map(|run| self.area[run.start..][..run.length].chunks(run.piece))
    }

    /// Calls `receive` for each slot until `receive` returns `None` or fails. Fails only if no piece was received.
    pub(crate) fn fill<E>(
        &mut self,
        mut receive: impl FnMut(&mut [u8]) -> Result<Option<usize>, E>,
    ) -> Result<usize, E> {
        self.filled = 0;
        while self.filled < self.slots {
            let start = self.filled * self.size;
            match receive(&mut self.area[start..start + self.size]) {
                Ok(Some(bytes)) => self.runs[self.filled] = Run::one(start, bytes.min(self.size)),
                Ok(None) => break,
                Err(error) if self.filled == 0 => return Err(error),
                Err(_) => break,
            }
            self.filled += 1;
        }
        Ok(self.filled)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.pieces()).finish()
    }
}

/// Sends messages one by one until a message is not sent completely. Returns the number of bytes sent.
pub(crate) fn send_each<E>(
    messages: &[u8],
    size: usize,
    mut send: impl FnMut(&[u8]) -> Result<usize, E>,
) -> Result<usize, E> {
    let mut sent = 0;
    for message in messages.chunks(size.max(1)) {
        match send(message) {
            Ok(bytes) if bytes == message.len() => sent += bytes,
            Ok(bytes) => return Ok(sent + bytes),
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(sent)
}
