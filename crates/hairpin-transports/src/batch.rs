//! Several messages in one call.

use std::fmt;

/// Room for what one [`crate::Wire::receive_batch`] takes, allocated once: slots of one size, each for a piece.
pub struct Batch {
    bytes: Box<[u8]>,
    size: usize,
    /// The length of the piece in each slot; 0 for one that holds nothing, as no piece is empty.
    lengths: Box<[usize]>,
}

impl Batch {
    /// The most messages that one call takes or sends: few enough that what the kernel is told of them stays small.
    pub const MOST: usize = 64;

    /// Room for `slots` pieces, 1 to [`Batch::MOST`], of at most `size` bytes each. A byte stream needs one slot: what it
    /// has is one piece.
    #[must_use]
    pub fn new(slots: usize, size: usize) -> Self {
        let (slots, size) = (slots.clamp(1, Self::MOST), size.max(1));
        Self { bytes: vec![0; slots * size].into(), size, lengths: vec![0; slots].into() }
    }

    /// The pieces that the last call took, in the order in which they came.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let slots = self.bytes.chunks_exact(self.size).zip(&self.lengths);
        slots.filter(|(_, length)| **length > 0).map(|(slot, length)| &slot[..*length])
    }

    /// Takes pieces one after another until there is none, or an error, or no slot is left.
    ///
    /// # Errors
    /// The error, where it came before the first piece.
    pub(crate) fn fill<E>(
        &mut self,
        mut take: impl FnMut(&mut [u8]) -> Result<Option<usize>, E>,
    ) -> Result<usize, E> {
        self.lengths.fill(0);
        let mut count = 0;
        for (slot, length) in self.bytes.chunks_exact_mut(self.size).zip(&mut self.lengths) {
            match take(slot) {
                Ok(Some(bytes)) => *length = bytes.min(self.size),
                Ok(None) => break,
                Err(error) if count == 0 => return Err(error),
                Err(_) => break,
            }
            count += 1;
        }
        Ok(count)
    }

    /// Takes one piece.
    ///
    /// # Errors
    /// The error.
    #[cfg(target_os = "linux")]
    pub(crate) fn first<E>(&mut self, take: impl FnOnce(&mut [u8]) -> Result<Option<usize>, E>) -> Result<usize, E> {
        let (slots, size, lengths) = self.emptied();
        let taken = take(&mut slots[..size])?;
        lengths[0] = taken.unwrap_or(0).min(size);
        Ok(usize::from(taken.is_some()))
    }

    /// The slots in one piece, the size of each, and their lengths, all 0.
    #[cfg(target_os = "linux")]
    pub(crate) fn emptied(&mut self) -> (&mut [u8], usize, &mut [usize]) {
        self.lengths.fill(0);
        (&mut self.bytes, self.size, &mut self.lengths)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.pieces()).finish()
    }
}

/// Sends messages one by one until one is not taken whole; answers how many bytes were taken.
///
/// # Errors
/// The error, where it came before anything was taken.
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
