//! Writes a request or an answer as the remedy prescribes.

use std::io::IoSlice;

use hairpin_model::options::OptionName;
use hairpin_model::{Remedy, Writes};
use hairpin_transports::{Stream, Wire, WireError};

pub(crate) struct Writer {
    remedy: Remedy,
    /// Sizes of the program's writes, in bytes.
    sizes: Vec<usize>,
    /// Number of writes per call.
    together: usize,
    /// Buffer in which writes are combined for one call.
    copied: Vec<u8>,
    /// Memory for the parts of a `writev`.
    parts: Vec<IoSlice<'static>>,
}

impl Writer {
    pub(crate) fn new(writes: &Writes, remedy: Remedy) -> Self {
        let size = |bytes: &u64| usize::try_from(*bytes).expect("requests and answers are at most 64 MiB");
        let sizes: Vec<usize> = writes.sizes().iter().map(size).collect();
        let together = match remedy {
            Remedy::OneWrite | Remedy::Writev => sizes.len(),
            Remedy::Batch(together) => usize::try_from(together).unwrap_or(usize::MAX).max(1),
            _ => 1,
        };
        let longest = sizes.chunks(together).map(|some| some.iter().sum()).max().unwrap_or(0);
        let parts = if remedy == Remedy::Writev { sizes.len() } else { 0 };
        Self { remedy, sizes, together, copied: vec![0; longest], parts: Vec::with_capacity(parts) }
    }

    /// Number of calls that [`Writer::write`] makes, without those that set an option.
    pub(crate) fn calls(&self) -> u64 {
        u64::try_from(self.sizes.len().div_ceil(self.together)).expect("a length")
    }

    /// The parts for the `writev` of these bytes, prepared before timing begins; empty unless the remedy uses `writev`.
    #[inline]
    pub(crate) fn parts_of<'b>(&mut self, bytes: &'b [u8]) -> Vec<IoSlice<'b>> {
        let mut parts = reuse_allocation(std::mem::take(&mut self.parts));
        if self.remedy == Remedy::Writev {
            let mut rest = bytes;
            parts.extend(self.sizes.iter().map(|size| IoSlice::new(split(&mut rest, *size))));
        }
        parts
    }

    /// Takes the memory of [`Writer::parts_of`] back.
    #[inline]
    pub(crate) fn keep(&mut self, parts: Vec<IoSlice<'_>>) {
        self.parts = reuse_allocation(parts);
    }

    /// Writes the bytes, with a pause between two calls. Returns false if a pause returned false, which ends the call
    /// before all is written.
    #[inline]
    pub(crate) fn write<W: Wire + ?Sized>(
        &mut self,
        wire: &mut W,
        bytes: &[u8],
        parts: &[IoSlice<'_>],
        pause: impl Fn() -> bool,
    ) -> Result<bool, WireError> {
        match self.remedy {
            Remedy::Writev => return stream(wire).send_vectored(parts).map(|()| true),
            Remedy::Cork => stream(wire).set(OptionName::Cork, true)?,
            _ => {}
        }
        let mut rest = bytes;
        for (place, sizes) in self.sizes.chunks(self.together).enumerate() {
            if place > 0 && !pause() {
                return Ok(false);
            }
            let bytes = split(&mut rest, sizes.iter().sum());
            match self.remedy {
                Remedy::More if !rest.is_empty() => stream(wire).send_more(bytes)?,
                Remedy::OneWrite | Remedy::Batch(_) => wire.send(copy_together(sizes, bytes, &mut self.copied))?,
                _ => wire.send(bytes)?,
            }
        }
        if self.remedy == Remedy::Cork {
            stream(wire).set(OptionName::Cork, false)?;
        }
        Ok(true)
    }
}

#[inline]
fn split<'a>(rest: &mut &'a [u8], bytes: usize) -> &'a [u8] {
    let (front, after) = rest.split_at(bytes);
    *rest = after;
    front
}

/// Copies the writes one by one into `copied`, like a program that buffers its writes.
#[inline]
fn copy_together<'a>(sizes: &[usize], bytes: &[u8], copied: &'a mut [u8]) -> &'a [u8] {
    let mut end = 0;
    for size in sizes {
        copied[end..end + size].copy_from_slice(&bytes[end..end + size]);
        end += size;
    }
    &copied[..end]
}

/// Changes the slices' lifetime and keeps the vector's memory: `collect` reuses the allocation of `into_iter`.
fn reuse_allocation<'a>(mut parts: Vec<IoSlice<'_>>) -> Vec<IoSlice<'a>> {
    parts.clear();
    parts.into_iter().map(|_| IoSlice::new(&[])).collect()
}

fn stream<W: Wire + ?Sized>(wire: &mut W) -> &mut dyn Stream {
    wire.stream().expect("a wire that carried a stream before the loop still does")
}
