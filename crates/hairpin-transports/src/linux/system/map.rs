//! Memory shared by two processes, with bounds-checked access.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
// The loom test replaces `fence` together with the atomics.
pub(crate) use std::sync::atomic::fence;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A shared mapping of a whole memory file.
///
/// The other process may change the bytes at any time. Therefore words are only accessed as atomics, and other bytes
/// are only copied; the words determine when each end may copy.
pub(crate) struct Map {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is not tied to a thread; all accesses are atomics, or copies that the rings' words order.
unsafe impl Send for Map {}

impl Map {
    /// Maps `length` bytes of `file` and populates all pages: later page faults would be measured as latency.
    pub(crate) fn new(file: BorrowedFd<'_>, length: usize) -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping at an address chosen by the kernel, which overlaps no other mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { start, length })
    }

    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        let start = self.checked(offset, 4, 4);
        // SAFETY: inside the mapping and aligned (both checked), and only accessed as an atomic.
        unsafe { AtomicU32::from_ptr(start.cast()) }
    }

    #[inline]
    pub(crate) fn long_word(&self, offset: usize) -> &AtomicU64 {
        let start = self.checked(offset, 8, 8);
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(start.cast()) }
    }

    #[inline]
    pub(crate) fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let start = self.checked(offset, bytes.len(), 1);
        // SAFETY: inside the mapping (checked); a mapping and a Rust slice never overlap.
        unsafe { copy(bytes.as_ptr(), start, bytes.len()) }
    }

    #[inline]
    pub(crate) fn copy_out(&self, offset: usize, into: &mut [u8]) {
        let start = self.checked(offset, into.len(), 1);
        // SAFETY: as in `copy_in`.
        unsafe { copy(start, into.as_mut_ptr(), into.len()) }
    }

    #[inline]
    fn checked(&self, offset: usize, bytes: usize, align: usize) -> *mut u8 {
        assert!(offset.is_multiple_of(align), "the rings' layout keeps words aligned");
        assert!(bytes <= self.length && offset <= self.length - bytes, "the rings' layout stays inside the mapping");
        // SAFETY: inside the mapping, as checked above.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

/// Copies bytes. For 4 and 8 bytes this avoids a call to `memcpy`, which would cost more than the copy itself.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`].
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: guaranteed by the caller; all arms copy the same bytes.
    unsafe {
        match bytes {
            4 => std::ptr::copy_nonoverlapping(from, to, 4),
            8 => std::ptr::copy_nonoverlapping(from, to, 8),
            _ => std::ptr::copy_nonoverlapping(from, to, bytes),
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `new` mapped; no reference into the range outlives `self`.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.length);
        }
    }
}
