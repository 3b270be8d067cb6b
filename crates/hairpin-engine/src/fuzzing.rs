//! Reads the input of this crate's fuzz targets.

/// The unread part of an input. Reads past the end return zeros or no bytes, so every input is valid.
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next bytes, at most `length`.
    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(self.0.len().min(length));
        self.0 = rest;
        bytes
    }

    /// The next little-endian number of `bytes` bytes.
    pub(crate) fn number(&mut self, bytes: usize) -> u64 {
        let mut whole = [0; 8];
        let bytes = self.bytes(bytes);
        whole[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(whole)
    }

    /// Bytes preceded by their length as a four-byte number. libFuzzer discovers a length by comparison only if the
    /// length has at least four bytes.
    pub(crate) fn prefixed_bytes(&mut self) -> &'a [u8] {
        let length = self.number(4);
        self.bytes(usize::try_from(length).expect("four bytes"))
    }
}
